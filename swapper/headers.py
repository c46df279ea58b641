"""Width and height of an encoded picture from its first bytes: nothing is decoded, so that a picture
that claims to be huge costs nothing."""

from __future__ import annotations

import struct
from struct import unpack_from

Size = tuple[int, int]

_NO_FRAME = {0xC4, 0xC8, 0xCC}
"""JPEG markers among those of frames that are none: Huffman tables, reserved, arithmetic tables."""
_OS2 = 12
"""Length of the oldest header of a BMP."""


def size_of(data: bytes) -> Size | None:
    """(width, height) of a JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF; None for anything else."""
    try:
        return _size_of(data)
    except (struct.error, IndexError, KeyError):
        return None


def _size_of(data: bytes) -> Size | None:
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return unpack_from(">II", data, 16)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return unpack_from("<HH", data, 6)
    if data.startswith(b"BM"):
        width, height = unpack_from("<HH" if data[14] == _OS2 else "<ii", data, 18)
        return abs(width), abs(height)
    if data.startswith((b"II*\0", b"MM\0*")):
        return _tiff(data, "<" if data.startswith(b"II") else ">")
    if data[4:8] == b"ftyp" and b"avi" in data[8:64]:
        return _avif(data)
    return None


def _jpeg(data: bytes) -> Size | None:
    """The first start of frame (ITU-T T.81, table B.1)."""
    at = 2
    while at < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> Size | None:
    """RFC 9649; sizes are 14 bits, or 24 in the extended header, in two of the kinds less one."""
    kind = data[12:16]
    if kind == b"VP8X":
        low, high = unpack_from("<I", data, 24)[0], unpack_from("<I", data, 26)[0]
        return (low & 0xFFFFFF) + 1, (high >> 8) + 1
    if kind == b"VP8L":
        bits = unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _tiff(data: bytes, order: str) -> Size:
    """Tags 256 and 257 of the first directory, short or long."""
    at = unpack_from(order + "I", data, 4)[0]
    found = {}
    for i in range(unpack_from(order + "H", data, at)[0]):
        tag, kind = unpack_from(order + "HH", data, at + 2 + 12 * i)
        if tag in (256, 257):
            found[tag] = unpack_from(order + ("H" if kind == 3 else "I"), data, at + 10 + 12 * i)[0]
    return found[256], found[257]


def _avif(data: bytes) -> Size | None:
    """The largest image spatial extents property: of the picture itself, not of its tiles."""
    sizes, at = [], data.find(b"ispe")
    while at >= 0:
        sizes.append(unpack_from(">II", data, at + 8))
        at = data.find(b"ispe", at + 4)
    return max(sizes, key=lambda size: size[0] * size[1], default=None)
