"""What an input is: opened safely, its video stream chosen, the meaning of its samples read."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.video.stream import VideoStream

from ingest.head import Head, read_head
from ingest.travel import has_alpha, is_full_range, is_rgb, travel_format
from schemas.errors import InputError
from schemas.frames import Rational, VideoFormat

OPEN_SECONDS = 30.0
READ_SECONDS = 30.0
"""Time limits for inputs behind a network."""

_TEXT_FORMATS = {"tty"}
"""FFmpeg draws any .txt as a video of characters; nobody means that."""
_ANIMATIONS = {"gif", "apng", "webp_anim", "webp_pipe"}

_MATRIX = {
    0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc",
    10: "bt2020c", 11: "smpte2085", 12: "chroma-derived-nc", 13: "chroma-derived-c", 14: "ictcp",
}  # fmt: skip
_PRIMARIES = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020",
    10: "smpte428", 11: "smpte431", 12: "smpte432", 22: "ebu3213",
}  # fmt: skip
_TRANSFER = {
    1: "bt709", 4: "gamma22", 5: "gamma28", 6: "smpte170m", 7: "smpte240m", 8: "linear", 9: "log100",
    10: "log316", 11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12",
    16: "smpte2084", 17: "smpte428", 18: "arib-std-b67",
}  # fmt: skip
# Numbers and names of ITU-T H.273 as FFmpeg spells them (libavutil/pixfmt.h, pixdesc.c).
_FIELD_ORDER: dict[int, Literal["progressive", "tt", "bb", "tb", "bt"]] = {2: "tt", 3: "bb", 4: "tb", 5: "bt"}


@dataclass(slots=True)
class Probe:
    """What the beginning of an input tells."""

    format: VideoFormat
    time_base: Fraction
    rate: Rational
    animation: bool
    """Pictures build on one another while every packet says it is a key frame."""
    head: Head
    warnings: Counter[str] = field(default_factory=Counter)


@contextmanager
def open_input(path: str, hwaccel: HWAccel | None = None) -> Iterator[InputContainer]:
    """Open an input for reading. Raises InputError, in one line, for whatever is no video."""
    _check_local(path)
    try:
        container = av.open(
            path, "r", metadata_errors="replace", timeout=(OPEN_SECONDS, READ_SECONDS), hwaccel=hwaccel
        )
    except (av.error.FFmpegError, ValueError, OSError) as error:
        raise InputError(f"input {path}: {reason(error)}") from error
    with container:
        yield container


def _check_local(path: str) -> None:
    if "://" in path and not path.startswith("file:"):
        return
    try:
        found = os.stat(path.removeprefix("file:"))
    except (OSError, ValueError) as error:
        raise InputError(f"input {path}: {reason(error)}") from error
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"input {path}: is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"input {path}: is no regular file; pipes and devices cannot be read twice")
    if found.st_size == 0:
        raise InputError(f"input {path}: is empty")


def reason(error: Exception) -> str:
    """The message of an error in one line."""
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(text.split()) or type(error).__name__


def video_stream(container: InputContainer) -> VideoStream:
    """The picture: the stream FFmpeg would take, never an attached one such as a cover.

    Raises InputError if there is none that can be decoded.
    """
    if container.format.name in _TEXT_FORMATS:
        raise InputError(f"input {container.name}: is text, not a video")
    videos = [s for s in container.streams.video if not _is_still(s)]
    best = container.streams.best("video")
    for stream in ([best] if best in videos else []) + videos:
        if isinstance(stream, VideoStream) and _decodable(stream):
            return stream
    what = "no video stream" if not videos else "no video stream that can be decoded"
    raise InputError(f"input {container.name}: has {what}")


def _is_still(stream: VideoStream) -> bool:
    return bool(stream.disposition & (av.stream.Disposition.attached_pic | av.stream.Disposition.still_image))


def _decodable(stream: VideoStream) -> bool:
    context = _context(stream)
    return context is not None and context.codec is not None and context.codec.is_decoder


def _context(stream: VideoStream) -> av.VideoCodecContext | None:
    return stream.codec_context  # None where FFmpeg has no decoder


def probe(path: str) -> Probe:
    """Read the beginning of an input. Raises InputError."""
    with open_input(path) as container:
        stream = video_stream(container)
        warnings: Counter[str] = Counter()
        head = read_head(container, stream)
        if head.first is None:
            raise InputError(f"input {path}: not one frame of its video stream could be decoded")
        return Probe(
            format=_video_format(stream, head.first, warnings),
            time_base=stream.time_base or Fraction(1, 90_000),
            rate=_rate(stream),
            animation=container.format.name in _ANIMATIONS,
            head=head,
            warnings=warnings,
        )


def _video_format(stream: VideoStream, frame: av.VideoFrame, warnings: Counter[str]) -> VideoFormat:
    name = frame.format.name
    if has_alpha(name):
        warnings["alpha_dropped"] += 1
    rotation = round(frame.rotation / 90) * 90 % 360
    if frame.rotation % 90:
        warnings["rotation_rounded"] += 1
    context = stream.codec_context
    aspect = stream.sample_aspect_ratio or Fraction(1)
    rgb = is_rgb(name)
    return VideoFormat(
        width=frame.width,
        height=frame.height,
        pixel_format=travel_format(name),
        color_range="tv" if rgb else "pc" if is_full_range(name) else _range(int(frame.color_range)),
        matrix="bt709" if rgb else _MATRIX.get(int(frame.colorspace), "unknown"),
        primaries=_PRIMARIES.get(int(frame.color_primaries), "unknown"),
        transfer=_TRANSFER.get(int(frame.color_trc), "unknown"),
        sample_aspect=(aspect.numerator, aspect.denominator) if aspect > 0 else (1, 1),
        rotation=rotation,
        field_order=_FIELD_ORDER.get(context.field_order, "progressive"),
    )


def _range(value: int) -> Literal["unknown", "tv", "pc"]:
    return "tv" if value == 1 else "pc" if value == 2 else "unknown"


def _rate(stream: VideoStream) -> Rational:
    rate = stream.average_rate or stream.guessed_rate
    return (rate.numerator, rate.denominator) if rate and rate > 0 else (0, 1)
