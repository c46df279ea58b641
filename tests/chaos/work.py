"""The jobs of a run: short clips of several kinds, and what they must become."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from control import admission, local
from runtime.settings import Settings
from schemas.job import JobSpec
from tests.support.assets import astronaut, carphone
from tests.support.cluster import Cluster
from tests.support.media import RATE, picture

BITS, SQUARE = 10, 8
"""A frame's number is written in so many squares of so many pixels along its upper edge."""
IRREGULAR = (40, 33, 50, 20, 60, 45)
"""Milliseconds between frames of the clip with a variable rate."""


@dataclass(frozen=True, slots=True)
class Order:
    """One kind of job."""

    name: str
    clip: Path
    suffix: str
    fields: dict[str, Any] = field(default_factory=dict)
    face: bool = False
    exact: bool = True
    """Its encoder is one of those that give the same bytes again; else frames and times are compared."""


class Work:
    """Makes clips and specs, and knows the results."""

    def __init__(self, settings: Settings, folder: Path, few: bool) -> None:
        self._cluster = Cluster(local.Local(settings, None))
        self._folder = folder
        self.orders = self._orders(few)
        self._specs: dict[str, JobSpec] = {}

    def specs(self, folder: Path) -> dict[str, JobSpec]:
        """A job of each kind, by its name; results go to `folder`."""
        folder.mkdir(parents=True)
        return {o.name: self._spec(o, folder / f"{o.name}.{o.suffix}") for o in self.orders}

    def exact(self, result: Path) -> bool:
        """Whether a result is to be the same to the byte."""
        return next(o.exact for o in self.orders if o.name == result.stem)

    def _spec(self, order: Order, output: Path) -> JobSpec:
        """The same each time but for its name and where the result goes."""
        if order.name not in self._specs:
            face = astronaut() if order.face else None
            self._specs[order.name] = self._cluster.spec(order.clip, output, face, **_copy(order.fields))
        fresh = {"job": admission.job_id("chaos"), "output": str(output)}
        return self._specs[order.name].model_copy(update=fresh)

    def _orders(self, few: bool) -> list[Order]:
        clips = self._folder / "clips"
        clips.mkdir(parents=True)
        slow = {"swap": {"options": {"delay_ms": 250}}}
        quick = {"preset": "ultrafast"}
        a = make_clip(clips / "a.mp4", 50 if few else 100, options={"g": "25"})
        face = make_face(clips / "face.mp4", 60 if few else 120)
        orders = [
            Order("a-mp4", a, "mp4", slow | {"encode": quick}),
            Order("face-mp4", face, "mp4", {"encode": quick}, face=True),
        ]
        if few:
            return [*orders, Order("a-ffv1", a, "mkv", slow | {"encode": {"encoder": "ffv1"}})]
        b = make_clip(clips / "b.ts", 75, codec="mpeg2video", size=(128, 96), options={"g": "12", "bf": "2"})
        c = make_clip(clips / "c.mkv", 75, size=(102, 66), irregular=True, options={"g": "20"})
        d = make_clip(clips / "d.mkv", 60, codec="libx265", options={"x265-params": "log-level=none"})
        e = make_clip(clips / "e.mp4", 120, size=(160, 120), options={"g": "250"}, sound="")
        x265 = {"encoder": "libx265", "preset": "ultrafast"}
        outs = [("mp4", quick), ("mkv", {"encoder": "ffv1"}), ("mkv", x265), ("mov", quick | {"threads": 2})]
        for clip, kinds in ((a, outs[1:]), (b, outs), (c, outs[:3]), (d, outs[:2]), (e, outs)):
            for suffix, encode in kinds:
                name = f"{clip.stem}-{suffix}-{encode.get('encoder', 'x264')}"
                orders.append(Order(name, clip, suffix, slow | {"encode": encode}))
        for clip, suffix, encoder in ((b, "mkv", "libvpx-vp9"), (c, "mov", "prores_ks")):
            name = f"{clip.stem}-{suffix}-{encoder}"
            orders.append(Order(name, clip, suffix, slow | {"encode": {"encoder": encoder}}, exact=False))
        orders += [
            Order("face-ffv1", face, "mkv", {"encode": {"encoder": "ffv1"}}, face=True),
            Order("face-short", face, "mov", {"encode": quick, "plan": {"segment_seconds": 0.5}}, face=True),
        ]
        return orders


def _copy(fields: dict[str, Any]) -> dict[str, Any]:
    """`Cluster.spec` takes what it is given apart."""
    return {name: dict(value) for name, value in fields.items()}


def make_clip(
    path: Path,
    frames: int,
    *,
    codec: str = "libx264",
    size: tuple[int, int] = (96, 64),
    options: dict[str, str] | None = None,
    irregular: bool = False,
    sound: str = "aac",
) -> Path:
    """Numbered stripes, with a tone."""
    ticks = [
        sum(IRREGULAR[i % len(IRREGULAR)] for i in range(n)) if irregular else n * 40 for n in range(frames)
    ]
    images = (numbered(picture(n, *size), n) for n in range(frames))
    return _encode(path, images, ticks, codec, options or {}, sound)


def make_face(path: Path, frames: int) -> Path:
    """The first frames of the clip with a face, numbered, with a tone."""
    images = []
    with av.open(str(carphone())) as given:
        for number, frame in enumerate(given.decode(video=0)):
            if number < frames:
                large = frame.reformat(264, 216, "rgb24")
                images.append(numbered(large.to_ndarray(), number))
    return _encode(
        path, images, [n * 40 for n in range(len(images))], "libx264", {"crf": "14", "g": "25"}, "aac"
    )


def _encode(
    path: Path, images: Any, ticks: list[int], codec: str, options: dict[str, str], sound: str
) -> Path:
    """Encode RGB pictures at times in milliseconds."""
    base = Fraction(1, 1000)
    with av.open(str(path), "w") as output:
        video: av.VideoStream | None = None
        audio: av.AudioStream | None = None
        for image, tick in zip(images, ticks, strict=True):
            if video is None:
                video = output.add_stream(codec, rate=25, options=options)
                video.height, video.width = image.shape[:2]
                video.pix_fmt = "yuv420p"
                if codec != "mpeg2video":
                    video.codec_context.time_base = base
                audio = output.add_stream(sound, rate=RATE, layout="mono") if sound else None
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")
            if codec == "mpeg2video":
                frame.pts, frame.time_base = tick // 40, Fraction(1, 25)
            else:
                frame.pts, frame.time_base = tick, base
            output.mux(video.encode(frame))
        assert video is not None
        output.mux(video.encode(None))
        if audio is not None:
            for block in range(int((ticks[-1] + 40) * RATE // 1000) // 1024):
                wave = np.sin(np.arange(block * 1024, (block + 1) * 1024) * 0.05).astype(np.float32) / 4
                sample = av.AudioFrame.from_ndarray(wave[None], format="fltp", layout="mono")
                sample.sample_rate, sample.pts, sample.time_base = RATE, block * 1024, Fraction(1, RATE)
                output.mux(audio.encode(sample))
            output.mux(audio.encode(None))
    return path


def numbered(image: npt.NDArray[np.uint8], number: int) -> npt.NDArray[np.uint8]:
    """Write a frame's number on it."""
    for bit in range(BITS):
        image[:SQUARE, bit * SQUARE : (bit + 1) * SQUARE] = 255 * (number >> bit & 1)
    return image


def numbers(path: Path) -> list[tuple[Fraction, int]]:
    """(time in seconds, number) of each frame as it is shown."""
    found = []
    with av.open(str(path)) as clip:
        for frame in clip.decode(video=0):
            luma = frame.to_ndarray(format="gray")[2 : SQUARE - 2]
            squares = [luma[:, b * SQUARE + 2 : (b + 1) * SQUARE - 2].mean() > 128 for b in range(BITS)]
            assert frame.pts is not None
            found.append((frame.pts * frame.time_base, sum(1 << b for b, on in enumerate(squares) if on)))
    return found


def wrong_with(order: Order, result: Path) -> str:
    """What is wrong with a result that nothing disturbed: frames, their times and order, the sound."""
    given, made = numbers(order.clip), numbers(result)
    if [n for _, n in given] != list(range(len(given))):
        return f"the clip itself shows {[n for _, n in given]}"
    if [n for _, n in made] != [n for _, n in given]:
        return f"frames {[n for _, n in made]}"
    shift = made[0][0] - given[0][0]
    off = max(abs(b - a - shift) for (a, _), (b, _) in zip(given, made, strict=True))
    if off > (Fraction(1, 1000) if "mkv" in (order.suffix, order.clip.suffix[1:]) else 0):
        return f"frames are shown up to {float(off):.4f} s off"
    if _sound(order.clip) != _sound(result):
        return f"{_sound(result)} packets of sound instead of {_sound(order.clip)}"
    return ""


def _sound(path: Path) -> int:
    with av.open(str(path)) as clip:
        return sum(1 for packet in clip.demux(audio=0) if packet.size) if clip.streams.audio else 0
