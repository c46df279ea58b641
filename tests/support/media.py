"""Makes test clips with PyAV, and decodes them in the plainest way for comparison."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from assembler.scheduling import make_ordinary
from ingest.travel import Traveller
from runtime.payload import Planes, frame_planes
from schemas.frames import VideoFormat

RATE = 48_000


def picture(number: int, width: int, height: int) -> npt.NDArray[np.uint8]:
    """RGB picture of moving stripes and a block whose place tells the number."""
    y, x = np.mgrid[:height, :width]
    image = np.stack([x * 2 + number * 3, y * 3 - number * 2, x + y + number], axis=2) % 256
    left = number * 5 % max(width - 8, 1)
    image[: height // 2, left : left + 8] = (number * 37 % 256, 255 - number % 256, 128)
    return image.astype(np.uint8)


def make_clip(
    path: Path,
    frames: int = 50,
    *,
    width: int = 96,
    height: int = 64,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    options: dict[str, str] | None = None,
    pts: Sequence[int] | None = None,
    time_base: Fraction = Fraction(1, 25),
    sound: str = "",
    rotation: int = 0,
    container_format: str | None = None,
) -> Path:
    """Encode a clip; `pts` in `time_base` (default: 0, 1, 2, ...); `sound` names an audio codec."""
    container_options = {"video_track_timescale": "90000"} if path.suffix == ".mp4" else {}
    with av.open(str(path), "w", format=container_format, options=container_options) as output:
        video = output.add_stream(codec, rate=25, options=options or {})
        assert isinstance(video, av.VideoStream)
        video.width, video.height, video.pix_fmt = width, height, pixel_format
        video.codec_context.time_base = time_base
        if rotation:
            video.set_display_rotation(rotation)
        audio = output.add_stream(sound, rate=RATE) if sound else None
        ticks = list(pts) if pts is not None else list(range(frames))
        for number, tick in enumerate(ticks):
            image = av.VideoFrame.from_ndarray(picture(number, width, height), format="rgb24")
            frame = image.reformat(format=pixel_format)
            frame.pts, frame.time_base = tick, time_base
            output.mux(video.encode(frame))
            if number == 0:
                make_ordinary()
        output.mux(video.encode(None))
        if audio is not None:
            assert isinstance(audio, av.AudioStream)
            seconds = ticks[-1] * time_base + Fraction(1, 25)
            for block in range(int(seconds * RATE) // 1024):
                wave = np.sin(np.arange(block * 1024, (block + 1) * 1024) * 0.05).astype(np.float32) / 4
                sample = av.AudioFrame.from_ndarray(wave[None], format="fltp", layout="mono")
                sample.sample_rate, sample.pts, sample.time_base = RATE, block * 1024, Fraction(1, RATE)
                output.mux(audio.encode(sample))
            output.mux(audio.encode(None))
    return path


def digest(planes: Planes) -> str:
    """A name for exactly these samples."""
    found = hashlib.blake2b(digest_size=16)
    for plane in planes:
        found.update(np.ascontiguousarray(plane).data)
    return found.hexdigest()


def decode_whole(path: Path, video: VideoFormat) -> list[tuple[int | None, str]]:
    """(pts, digest) of every frame, decoded from the beginning to the end in one pass."""
    traveller = Traveller(video, Counter())
    with av.open(str(path)) as container:
        stream = container.streams.best("video")
        assert stream is not None
        return [
            (frame.pts, digest(frame_planes(traveller.normalise(frame), video)))
            for frame in container.decode(stream)
            if isinstance(frame, av.VideoFrame)
        ]


def make_scenes(path: Path, frames: int, cuts: Sequence[int]) -> Path:
    """A clip of one group of pictures in which the scene changes with each frame of `cuts`."""
    shades = [0, *cuts]
    with av.open(str(path), "w") as output:
        video = output.add_stream("libx264", rate=25, options={"g": "1000", "sc_threshold": "0"})
        assert isinstance(video, av.VideoStream)
        video.width, video.height, video.pix_fmt = 96, 64, "yuv420p"
        for number in range(frames):
            scene = sum(number >= first for first in shades)
            image = picture(number, 96, 64) // 4 + np.uint8(90 * (scene % 3))
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            output.mux(video.encode(frame))
        output.mux(video.encode(None))
    return path
