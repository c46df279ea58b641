"""What a decoded frame says its samples mean, under FFmpeg's names."""

from __future__ import annotations

from typing import Literal

import av

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


def colours_of(frame: av.VideoFrame) -> tuple[str, str, str]:
    """(matrix, primaries, transfer); `unknown` where it does not say."""
    return (
        _MATRIX.get(int(frame.colorspace), "unknown"),
        _PRIMARIES.get(int(frame.color_primaries), "unknown"),
        _TRANSFER.get(int(frame.color_trc), "unknown"),
    )


def range_of(frame: av.VideoFrame) -> Literal["unknown", "tv", "pc"]:
    """By its tag; the names of pixel formats are not looked at."""
    value = int(frame.color_range)
    return "tv" if value == 1 else "pc" if value == 2 else "unknown"
