"""What each output container holds: the one table behind refusals, defaults and documentation."""

from __future__ import annotations

from dataclasses import dataclass


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


_X = ("libx264", "libx265")
_NVENC = ("h264_nvenc", "hevc_nvenc")

CONTAINERS: dict[str, Container] = {
    "mp4": Container((*_X, "libsvtav1", "libvpx-vp9", *_NVENC), rotation=True),
    "mov": Container((*_X, "prores_ks", *_NVENC), rotation=True),
    "mkv": Container((*_X, "ffv1", "libsvtav1", "libvpx-vp9", "prores_ks", *_NVENC), rotation=True),
    "webm": Container(("libvpx-vp9", "libsvtav1")),
    "ts": Container((*_X, *_NVENC)),
    "avi": Container(("libx264", "ffv1")),
    "gif": Container(("gif",), sound=False),
    "webp": Container(("libwebp_anim",), sound=False),
    "jpg": Container(("mjpeg",), sound=False, still=True),
    "png": Container(("png",), sound=False, still=True),
}
"""By suffix, lower case. `jpeg` counts as `jpg`."""

ENCODERS: tuple[str, ...] = tuple(dict.fromkeys(e for c in CONTAINERS.values() for e in c.encoders))
"""All encoders, in the table's order."""


def suffix_of(path: str) -> str:
    """Container name of an output path, by its suffix."""
    suffix = path.rsplit(".", 1)[-1].lower()
    return "jpg" if suffix == "jpeg" else suffix
