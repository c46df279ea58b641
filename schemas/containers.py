"""What each output container and each encoder holds: the one table behind refusals, defaults and docs.

The rule for pixel formats: frames are encoded in the format they travel in. An encoder that does not take
it gets the nearest richer one, with more chroma or more bits (4:2:0 in 8 bit becomes 4:2:2 in 10 bit for
ProRes); a poorer one is never chosen, such a combination is refused. Still pictures, GIF and WebP alone
are 8 bit by nature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.errors import InputError
from schemas.pixels import PIXEL_FORMATS

if TYPE_CHECKING:  # both import this module
    from schemas.frames import VideoFormat
    from schemas.job import JobSpec


@dataclass(frozen=True, slots=True)
class Container:
    """An output container, chosen by the file's suffix.

    `encoders` are those it can hold, the first is the default. `rotation` tells whether it carries a display
    matrix; where not, frames are turned upright before they travel.
    """

    encoders: tuple[str, ...]
    rotation: bool = False
    sound: bool = True
    still: bool = False
    """Holds exactly one picture."""
    pictures: bool = False
    """Made in one go by the finish step out of losslessly stored segments, without other tracks."""


_YUV = ("yuv420p", "yuv422p", "yuv444p")
_NAMES = (
    "ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow", "placebo",
)  # fmt: skip


def _deep(*depths: int) -> tuple[str, ...]:
    return tuple(f"{name}{depth}le" for depth in depths for name in (*_YUV, "gray"))


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder under FFmpeg's name.

    `takes`: formats of `schemas.pixels` that it stores without loss of chroma or bits; empty for those that
    turn any picture into 8-bit RGB or JPEG. `worst`: the largest number of its quality scale. `side`: the
    most pixels of a side. `capped`: whether a bit rate can be put on top of the quality.
    """

    takes: tuple[str, ...] = ()
    worst: int = 63
    presets: tuple[str, ...] = _NAMES
    side: int = 16384
    capped: bool = False
    hdr: bool = True


_X = ("libx264", "libx265")
_NVENC = ("h264_nvenc", "hevc_nvenc")
_NVENC_PRESETS = ("fast", "medium", "slow", "p1", "p2", "p3", "p4", "p5", "p6", "p7")

ENCODER_TABLE: dict[str, Encoder] = {
    "libx264": Encoder((*_YUV, "gray", *_deep(10)), worst=51, capped=True),
    "libx265": Encoder((*_YUV, "gray", *_deep(10, 12)), worst=51, capped=True),
    "libsvtav1": Encoder(
        ("yuv420p", "yuv420p10le"), presets=(*_NAMES, *map(str, range(14))), capped=True
    ),
    "libvpx-vp9": Encoder(
        (*_YUV, "yuv440p"), presets=(*_NAMES, *map(str, range(6))), side=65535, capped=True, hdr=False
    ),
    "prores_ks": Encoder(("yuv422p10le", "yuv444p10le")),
    "ffv1": Encoder(
        (*_YUV, "yuv440p", "yuv411p", "yuv410p", "gray", *_deep(9, 10, 12, 14, 16)), side=65535
    ),
    "h264_nvenc": Encoder(("yuv420p", "yuv444p"), worst=51, presets=_NVENC_PRESETS, capped=True),
    "hevc_nvenc": Encoder(
        ("yuv420p", "yuv444p", "yuv420p10le"), worst=51, presets=_NVENC_PRESETS, capped=True
    ),
    "gif": Encoder(hdr=False, side=65535),
    "libwebp_anim": Encoder(hdr=False, side=16383),
    "mjpeg": Encoder(hdr=False, side=65500),
    "png": Encoder(hdr=False, side=65535),
}  # fmt: skip
"""`presets` names x264's scale for all CPU encoders; where there is a number for it, that too. Encoders
without presets take the names and do nothing with them. libvpx is built without high bit depth."""

CONTAINERS: dict[str, Container] = {
    "mp4": Container((*_X, "libsvtav1", "libvpx-vp9", *_NVENC), rotation=True),
    "mov": Container((*_X, "prores_ks", *_NVENC), rotation=True),
    "mkv": Container((*_X, "ffv1", "libsvtav1", "libvpx-vp9", "prores_ks", *_NVENC), rotation=True),
    "webm": Container(("libvpx-vp9", "libsvtav1")),
    "ts": Container((*_X, *_NVENC)),
    "avi": Container(("libx264", "ffv1")),
    "gif": Container(("gif",), sound=False, pictures=True),
    "webp": Container(("libwebp_anim",), sound=False, pictures=True),
    "jpg": Container(("mjpeg",), sound=False, still=True, pictures=True),
    "png": Container(("png",), sound=False, still=True, pictures=True),
}
"""By suffix, lower case. `jpeg` counts as `jpg`."""

ENCODERS: tuple[str, ...] = tuple(dict.fromkeys(e for c in CONTAINERS.values() for e in c.encoders))
"""All encoders, in the table's order."""

HDR_TRANSFERS = frozenset({"smpte2084", "arib-std-b67"})
"""PQ and HLG."""


def suffix_of(path: str) -> str:
    """Container name of an output path, by its suffix."""
    suffix = path.rsplit(".", 1)[-1].lower()
    return "jpg" if suffix == "jpeg" else suffix


def stored_as(encoder: str, name: str) -> str | None:
    """The format in which an encoder stores frames of a format: itself, or the nearest richer one; None if
    it has neither. Encoders of pictures store anything (as ffv1, until the finish step)."""
    takes = ENCODER_TABLE[encoder].takes or ENCODER_TABLE["ffv1"].takes
    if name in takes:
        return name
    own = PIXEL_FORMATS[name]
    richer = [
        other
        for other in map(PIXEL_FORMATS.__getitem__, takes)
        if other.depth >= own.depth
        and other.planes >= own.planes
        and (own.planes == 1 or (other.chroma_x <= own.chroma_x and other.chroma_y <= own.chroma_y))
    ]
    best = min(richer, key=lambda other: (other.depth, other.frame_bytes(64, 64)), default=None)
    return best.name if best else None


def refusal(encoder: str, video: VideoFormat) -> str:
    """Why an encoder cannot hold frames of a format, and what can; empty if it can."""
    entry = ENCODER_TABLE[encoder]
    if stored_as(encoder, video.pixel_format) is None:
        able = [e for e in ENCODERS if ENCODER_TABLE[e].takes and stored_as(e, video.pixel_format)]
        return (
            f"{encoder} does not take {video.pixel_format}; it takes {', '.join(entry.takes)}. "
            f"Encoders that take it: {', '.join(able)}"
        )
    if video.transfer in HDR_TRANSFERS and not entry.hdr:
        able = [e for e in ENCODERS if ENCODER_TABLE[e].hdr and stored_as(e, video.pixel_format)]
        return f"{encoder} does not hold HDR ({video.transfer}); tone-map it, or use one of {', '.join(able)}"
    if max(video.width, video.height) > entry.side:
        return f"{encoder} holds {entry.side} pixels a side at most, not {video.width}x{video.height}"
    return ""


def check_picture(spec: JobSpec, video: VideoFormat, frames: int) -> None:
    """Raises InputError if what was planned does not fit what was asked for, with what is possible."""
    if CONTAINERS[spec.container].still and frames > 1:
        moving = ", ".join(f".{name}" for name, c in CONTAINERS.items() if not c.still)
        raise InputError(f".{spec.container} holds one picture, the input has {frames}: use {moving}")
    if reason := refusal(spec.encode.encoder, video):
        raise InputError(reason)
