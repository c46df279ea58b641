"""What an input is: opened safely, its video stream chosen, the meaning of its samples read."""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice

import av
from av.container import InputContainer
from av.sidedata.sidedata import Type
from av.video.stream import VideoStream

from ingest.animations import is_animated_webp, times_shown
from ingest.colours import colours_of, range_of
from ingest.fields import field_order
from ingest.framedata import side_data
from ingest.head import Head, read_head
from ingest.open import check_size, open_input, read_start
from ingest.packets import decoded_frames
from ingest.travel import cover_of, is_full_range, is_gray_with_alpha, is_rgb, travels_as
from runtime.settings import InputSettings
from schemas.errors import InputError
from schemas.frames import Rational, VideoFormat
from schemas.pixels import opaque

_ANIMATIONS = {"gif", "apng", "jpegxl_anim"}
_MPEG = {"mpegts", "mpeg"}

_SRGB = (b"sRGB", "sRGB".encode("utf-16-be"))
"""In the description of a colour profile (ICC)."""


@dataclass(slots=True)
class Probe:
    """What the beginning of an input tells."""

    format: VideoFormat
    time_base: Fraction
    rate: Rational
    animation: bool
    """Pictures build on one another while every packet says it is a key frame."""
    head: Head
    mirrored: bool
    """Whether the picture, turned upright, is to be mirrored left to right."""
    tags: dict[str, str]
    """The picture track's own: `language`, `title`."""
    loop: int | None
    """How often an animation is shown, 0 for ever; None for anything else."""
    mpeg: bool
    """Whether the container has MPEG's clock of 33 bits, which restarts and wraps."""
    warnings: Counter[str] = field(default_factory=Counter)


def video_stream(container: InputContainer) -> VideoStream:
    """The picture: the stream FFmpeg would take, never an attached one such as a cover.

    Raises InputError if there is none that can be decoded.
    """
    videos = [s for s in container.streams.video if not _is_still(s)]
    best = container.streams.best("video")
    for stream in ([best] if best in videos else []) + videos:
        if isinstance(stream, VideoStream) and _decodable(stream):
            return stream
    what = "no video stream" if not videos else "no video stream that can be decoded"
    raise InputError(f"input {container.name.removeprefix('file:')}: has {what}")


def _is_still(stream: VideoStream) -> bool:
    return bool(stream.disposition & (av.stream.Disposition.attached_pic | av.stream.Disposition.still_image))


def _decodable(stream: VideoStream) -> bool:
    context = _context(stream)
    return context is not None and context.codec is not None and context.codec.is_decoder


def _context(stream: VideoStream) -> av.VideoCodecContext | None:
    return stream.codec_context  # None where FFmpeg has no decoder


def probe(path: str, limits: InputSettings | None = None) -> Probe:
    """Read the beginning of an input. Raises InputError."""
    limits = limits or InputSettings()
    with open_input(path, limits) as container:
        start = read_start(path)
        stream = video_stream(container)
        check_size(path, stream.codec_context.width, stream.codec_context.height, limits)
        warnings: Counter[str] = Counter()
        head = read_head(container, stream)
        if head.first is None:
            raise InputError(f"input {path}: not one frame of its video stream could be decoded")
        check_size(path, head.first.width, head.first.height, limits)
        rotation, mirrored = _orientation(head.first, warnings)
        profile = side_data(head.first, Type.ICC_PROFILE)
        if profile and not any(name in profile for name in _SRGB):
            warnings["colour_profile_dropped"] += 1
        video = _video_format(stream, head.first, rotation)
        animated = container.format.name in _ANIMATIONS or is_animated_webp(start)
        if animated and video.pixels.alpha and _opaque_throughout(path, limits):
            video = video.model_copy(update={"pixel_format": opaque(video.pixel_format)})
        return Probe(
            format=video,
            time_base=stream.time_base or Fraction(1, 90_000),
            rate=_rate(stream),
            animation=animated,
            tags=_tags(stream),
            loop=times_shown(start) if animated else None,
            head=head,
            mirrored=mirrored,
            mpeg=container.format.name in _MPEG,
            warnings=warnings,
        )


def _video_format(stream: VideoStream, frame: av.VideoFrame, rotation: int) -> VideoFormat:
    name = frame.format.name
    aspect = stream.sample_aspect_ratio or Fraction(1)
    rgb = is_rgb(name)
    span, (matrix, primaries, transfer) = range_of(frame), colours_of(frame)
    gray = len(frame.format.components) == 1 and not rgb
    full = (
        is_full_range(name) or is_gray_with_alpha(name) or (gray and span == "unknown")
    )  # as FFmpeg takes it
    return VideoFormat(
        width=frame.width,
        height=frame.height,
        pixel_format=travels_as(frame),
        color_range="tv" if rgb else "pc" if full else span,
        matrix="bt709" if rgb else matrix,
        primaries=primaries,
        transfer=transfer,
        sample_aspect=(aspect.numerator, aspect.denominator) if aspect > 0 else (1, 1),
        rotation=rotation,
        field_order=field_order(stream, frame),
        mastering_display=_mastering_display(frame),
        light_level=_light_level(frame),
    )


def _opaque_throughout(path: str, limits: InputSettings) -> bool:
    """Whether no picture of an animation lets anything through: its decoder gives all of them alpha."""
    with open_input(path, limits) as container:
        frames = decoded_frames(container, video_stream(container), Counter())
        return all(cover_of(frame) is None for frame in islice(frames, limits.frames))


def _tags(stream: VideoStream) -> dict[str, str]:
    tags = {name.lower(): value for name, value in stream.metadata.items()}
    tags.setdefault("title", tags.get("name", ""))  # as mp4 and mov call it
    return {name: tags[name] for name in ("language", "title") if tags.get(name, "und") not in ("", "und")}


def _orientation(frame: av.VideoFrame, warnings: Counter[str]) -> tuple[int, bool]:
    """(rotation, mirrored): how the picture is turned, then mirrored left to right, to be seen upright.

    From the display matrix (libavutil/display.h): nine numbers (a b u, c d v, x y w), of which a, b, c and d
    turn and stretch. EXIF orientations are such matrices too.
    """
    data = side_data(frame, Type.DISPLAYMATRIX)
    if len(data) < 36:
        return 0, False
    a, b, _, c, d = struct.unpack_from("=5i", data)
    mirrored = a * d - b * c < 0
    if mirrored:
        a, c = -a, -c
    degrees = math.degrees(math.atan2(c - b, a + d))
    rotation = round(degrees / 90) * 90 % 360
    if abs(degrees - round(degrees / 90) * 90) > 0.5:
        warnings["rotation_rounded"] += 1
    return rotation, mirrored


def _mastering_display(frame: av.VideoFrame) -> str:
    """From AVMasteringDisplayMetadata: twenty numbers of ten fractions, then two flags."""
    data = side_data(frame, Type.MASTERING_DISPLAY_METADATA)
    if len(data) < 88:
        return ""
    *numbers, has_primaries, has_luminance = struct.unpack_from("=22i", data)
    if not (has_primaries and has_luminance) or not all(numbers[1::2]):
        return ""
    values = [Fraction(n, d) for n, d in zip(numbers[::2], numbers[1::2], strict=True)]
    red, green, blue, white = (
        f"({_fine(x)},{_fine(y)})" for x, y in zip(values[:8:2], values[1:8:2], strict=True)
    )
    low, high = (round(value * 10_000) for value in values[8:])
    return f"G{green}B{blue}R{red}WP{white}L({high},{low})"


def _fine(value: Fraction) -> int:
    return round(value * 50_000)


def _light_level(frame: av.VideoFrame) -> tuple[int, int]:
    data = side_data(frame, Type.CONTENT_LIGHT_LEVEL)
    if len(data) < 8:
        return 0, 0
    most, average = struct.unpack_from("=2I", data)
    return most, average


def _rate(stream: VideoStream) -> Rational:
    rate = stream.average_rate or stream.guessed_rate
    return (rate.numerator, rate.denominator) if rate and rate > 0 else (0, 1)
