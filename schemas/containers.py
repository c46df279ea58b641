"""What each output container and each encoder holds: the one table behind refusals, defaults and docs.

The rule for pixel formats: frames are encoded in the format they travel in. An encoder that does not take
it gets the nearest richer one, with more chroma or more bits (4:2:0 in 8 bit becomes 4:2:2 in 10 bit for
ProRes); a poorer one is never chosen, such a combination is refused. Three exceptions, each a warning: still
pictures, GIF and WebP are 8 bit by nature; ProRes 4444, which FFmpeg decodes to 12 bit, is encoded from 10;
and alpha is kept with coarser chroma rather than laid on black, where VP9 holds it beside 4:2:0 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.errors import InputError
from schemas.pixels import PIXEL_FORMATS, opaque

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
    tags: bool = True
    """Says what colours mean."""
    beside: bool = False
    """Holds data beside a packet, where VP9 keeps its alpha."""
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
    most pixels of a side. `capped`: whether a bit rate can be put on top of the quality. `rounds`: formats
    that it stores with fewer bits, and those. `alpha`: whether encoders without `takes` keep it.
    """

    takes: tuple[str, ...] = ()
    worst: int = 63
    presets: tuple[str, ...] = _NAMES
    side: int = 16384
    capped: bool = False
    hdr: bool = True
    rounds: Mapping[str, str] = field(default_factory=dict)
    alpha: bool = False


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
        (*_YUV, "yuv440p", "yuva420p"), presets=(*_NAMES, *map(str, range(6))), side=65535, capped=True,
        hdr=False
    ),
    "prores_ks": Encoder(
        ("yuv422p10le", "yuv444p10le", "yuva444p10le"),
        rounds={"yuv444p12le": "yuv444p10le", "yuva444p12le": "yuva444p10le"},
    ),
    "ffv1": Encoder(
        (*_YUV, "yuv440p", "yuv411p", "yuv410p", "gray", *_deep(9, 10, 12, 14, 16),
         *(name for name, form in PIXEL_FORMATS.items() if form.alpha)), side=65535
    ),
    "h264_nvenc": Encoder(("yuv420p", "yuv444p"), worst=51, presets=_NVENC_PRESETS, capped=True),
    "hevc_nvenc": Encoder(
        ("yuv420p", "yuv444p", "yuv420p10le"), worst=51, presets=_NVENC_PRESETS, capped=True
    ),
    "gif": Encoder(hdr=False, side=65535, alpha=True),
    "libwebp_anim": Encoder(hdr=False, side=16383, alpha=True),
    "mjpeg": Encoder(_YUV, hdr=False, side=65500),
    "png": Encoder(hdr=False, side=65535, alpha=True),
}  # fmt: skip
"""`presets` names x264's scale for all CPU encoders; where there is a number for it, that too. Encoders
without presets take the names and do nothing with them. libvpx is built without high bit depth."""

CONTAINERS: dict[str, Container] = {
    "mp4": Container((*_X, "libsvtav1", "libvpx-vp9", *_NVENC), rotation=True),
    "mov": Container((*_X, "prores_ks", *_NVENC), rotation=True),
    "mkv": Container(
        (*_X, "ffv1", "libsvtav1", "libvpx-vp9", "prores_ks", *_NVENC), rotation=True, beside=True
    ),
    "webm": Container(("libvpx-vp9", "libsvtav1"), beside=True),
    "ts": Container((*_X, *_NVENC)),
    "avi": Container(("mjpeg", "ffv1"), tags=False),
    "gif": Container(("gif",), sound=False, pictures=True),
    "webp": Container(("libwebp_anim",), sound=False, pictures=True),
    "jpg": Container(("mjpeg",), sound=False, still=True, pictures=True),
    "png": Container(("png",), sound=False, still=True, pictures=True),
}
"""By suffix, lower case. `jpeg` counts as `jpg`. AVI has no times of presentation, and FFmpeg's readers show
H.264 in it a frame late: it gets pictures that stand each for itself."""

ENCODERS: tuple[str, ...] = tuple(dict.fromkeys(e for c in CONTAINERS.values() for e in c.encoders))
"""All encoders, in the table's order."""

HDR_TRANSFERS = frozenset({"smpte2084", "arib-std-b67"})
"""PQ and HLG."""


def suffix_of(path: str) -> str:
    """Container name of an output path, by its suffix."""
    suffix = path.rsplit(".", 1)[-1].lower()
    return "jpg" if suffix == "jpeg" else suffix


def is_picture(encoder: str, container: str = "") -> bool:
    """Whether an encoder works in the finish step, out of segments stored by ffv1."""
    return not ENCODER_TABLE[encoder].takes or (container in CONTAINERS and CONTAINERS[container].pictures)


def stored_as(encoder: str, name: str, container: str = "") -> str | None:
    """The format in which an encoder stores frames of a format: itself, or the nearest richer one; None if
    it has neither. Encoders of pictures store anything."""
    takes = ENCODER_TABLE["ffv1" if is_picture(encoder, container) else encoder].takes
    if name in takes:
        return name
    if name in ENCODER_TABLE[encoder].rounds:
        return ENCODER_TABLE[encoder].rounds[name]
    own = PIXEL_FORMATS[name]
    richer = [
        other
        for other in map(PIXEL_FORMATS.__getitem__, takes)
        if other.depth >= own.depth
        and other.colours >= own.colours
        and other.alpha == own.alpha
        and (own.planes == 1 or (other.chroma_x <= own.chroma_x and other.chroma_y <= own.chroma_y))
    ]
    best = min(richer, key=lambda other: (other.depth, other.frame_bytes(64, 64)), default=None)
    return best.name if best else None


def alpha_format(spec: JobSpec, name: str) -> str:
    """The format in which frames of a format travel by a spec: itself, but without alpha where the payload,
    the encoder or the container has no place for it, or with coarser chroma where alpha needs that."""
    if not PIXEL_FORMATS[name].alpha:
        return name
    entry, container = ENCODER_TABLE[spec.encode.encoder], CONTAINERS[spec.container]
    takes = [other for other in map(PIXEL_FORMATS.__getitem__, entry.takes) if other.alpha]
    if spec.plan.payload == "jpeg" or not (takes or entry.alpha):
        return opaque(name)
    if spec.encode.encoder == "libvpx-vp9" and not container.beside:
        return opaque(name)
    if stored_as(spec.encode.encoder, name):
        return name
    able = [other.name for other in takes if other.depth == PIXEL_FORMATS[name].depth]
    return able[0] if able else opaque(name)


def refusal(encoder: str, video: VideoFormat, container: str = "") -> str:
    """Why an encoder cannot hold frames of a format, and what can; empty if it can."""
    entry = ENCODER_TABLE[encoder]
    if stored_as(encoder, video.pixel_format, container) is None:
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
    if video.transfer in HDR_TRANSFERS and not CONTAINERS[spec.container].tags:
        able = ", ".join(f".{name}" for name, c in CONTAINERS.items() if c.tags and not c.pictures)
        raise InputError(
            f".{spec.container} does not hold HDR ({video.transfer}); tone-map it, or use {able}"
        )
    if reason := refusal(spec.encode.encoder, video, spec.container):
        raise InputError(reason)
