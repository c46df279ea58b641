"""Encoded segments, sound and plans made from numbers, for tests of the assembler."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from assembler.encode import SegmentEncoder
from assembler.encoders import PLAIN, Target
from assembler.mux import Part
from runtime.sides import SidesWriter
from schemas.checkpoint import Checkpoint
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec
from schemas.plan import Plan, Segment, SideTrack

Planes = list[np.ndarray[Any, Any]]


def moving_picture(video: VideoFormat, number: int) -> Planes:
    """A gradient that moves with the frame number, with noise: B-frames pay off, lossless is not trivial."""
    dtype = np.uint8 if video.pixels.sample_bytes == 1 else np.dtype("<u2")
    top = 1 << video.pixels.depth
    rng = np.random.default_rng(number)
    planes = []
    for plane in range(video.pixels.planes):
        width, height = video.pixels.plane_size(plane, video.width, video.height)
        ramp = (np.arange(width) * 3 + np.arange(height)[:, None] * 2 + number * 4) % (top * 3 // 4)
        planes.append((ramp + rng.integers(0, top // 32, (height, width))).astype(dtype))
    return planes


def encode_parts(
    folder: Path,
    video: VideoFormat,
    time_base: Rational,
    pts: Sequence[int],
    cuts: Sequence[int],
    spec: EncodeSpec,
    end: int,
    target: Target = PLAIN,
) -> list[Part]:
    """Encode frames at `pts`, cut into segments before the frames of numbers `cuts`."""
    parts = []
    for index, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(pts)], strict=True)):
        path = folder / f"segment-{index}"
        with SegmentEncoder(path, video, time_base, (0, 1), spec, target) as encoder:
            for number in range(first, last):
                picture = encoder.picture()
                for plane, source in zip(picture.planes, moving_picture(video, number), strict=True):
                    plane[:] = source
                encoder.encode(picture, pts[number])
            done = encoder.finish()
        checkpoint = Checkpoint(
            job="j", stream=f"j/{index}", segment=index, object="", time_base=time_base, pts=done.pts,
            end=pts[last] if last < len(pts) else end, reorder=done.reorder, bytes=done.bytes,
            encoder=done.encoder,
        )  # fmt: skip
        parts.append(Part(checkpoint, path))
    return parts


def plan_of(video: VideoFormat, time_base: Rational, pts: Sequence[int], end: int, **more: Any) -> Plan:
    """A plan of one segment over these frames."""
    segment = Segment(index=0, first=0, frames=len(pts), context=0, start=pts[0], end=end, bytes=0)
    lengths = [b - a for a, b in zip(pts, [*pts[1:], end], strict=True)]
    return Plan(
        job="j", format=video, time_base=time_base, seekable=True, pts=list(pts), duration=lengths, keys=[0],
        segments=[segment], orders=[[0]], **more,
    )  # fmt: skip


def make_sound(path: Path, codec: str = "aac", packets: int = 60) -> None:
    """A file with one track of noise; AAC gets its priming packet and edit list."""
    rate = 48_000
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=rate)
        rng = np.random.default_rng(3)
        for number in range(packets):
            noise = rng.uniform(-0.2, 0.2, (1, 1024))
            if codec == "aac":
                frame = av.AudioFrame.from_ndarray(noise.astype(np.float32), format="fltp", layout="mono")
            else:
                frame = av.AudioFrame.from_ndarray(
                    (noise * 3e4).astype(np.int16), format="s16", layout="mono"
                )
            frame.sample_rate, frame.pts, frame.time_base = rate, number * 1024, Fraction(1, rate)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def store_sides(source: Path, target: Path) -> list[SideTrack]:
    """The sides object of a file, without its pictures."""
    with av.open(str(source)) as container, target.open("wb") as file:
        streams = [stream for stream in container.streams if stream.type != "video"]
        writer = SidesWriter(file, streams)
        for packet in container.demux(streams):
            writer.write(packet)
        return writer.close().tracks


def packets_of(path: Path, kind: str) -> list[tuple[Fraction | None, bytes]]:
    """(pts in seconds, payload) of all packets of the first track of a kind."""
    with av.open(str(path)) as container:
        stream = next(stream for stream in container.streams if stream.type == kind)
        return [
            (None if p.pts is None else p.pts * p.time_base, bytes(p))
            for p in container.demux(stream)
            if p.size
        ]
