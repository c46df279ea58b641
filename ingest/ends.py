"""Whether a file ends before it should by its own structure: a recording or a copy that was cut off.

FFmpeg reads such a file to its end and says nothing. What may end anywhere (ts, mpg, raw) does not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

MOST_PARTS = 1_000_000
"""Parts that are looked at; of a longer file nothing is said."""
_SLACK = 8
"""Bytes that writers of RIFF forget to leave out of its size."""
_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"moof"}
_SEGMENT, _CLUSTER = b"\x18\x53\x80\x67", b"\x1f\x43\xb6\x75"
_JPEG_SCAN, _JPEG_END = 0xDA, b"\xff\xd9"


def ends_early(path: str) -> bool:
    """Whether a local file is shorter than it says. False where that cannot be told, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            check = _check_of(_read(file, 0, 12))
            return check is not None and check(file, size)
    except OSError:
        return False


def _check_of(head: bytes) -> Callable[[BinaryIO, int], bool] | None:
    if head[:4] == b"RIFF":
        return _riff
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return _matroska
    if head[4:8] in _BOXES:
        return _boxes
    if head[:4] == b"GIF8":
        return _gif
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return _png
    return _jpeg if head[:3] == b"\xff\xd8\xff" else None


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _riff(file: BinaryIO, size: int) -> bool:
    """AVI, which may be several such lists, and WebP."""
    at = 0
    while (head := _read(file, at, 8))[:4] == b"RIFF" and len(head) == 8:
        length = int.from_bytes(head[4:], "little")
        if length in (0, 0xFFFFFFFF):
            return False  # never filled in
        at += 8 + length + length % 2
    return at > size + _SLACK


def _boxes(file: BinaryIO, size: int) -> bool:
    """MP4 and QuickTime (ISO/IEC 14496-12, 4.2)."""
    at = 0
    for _ in range(MOST_PARTS):
        head = _read(file, at, 16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8 or not (kind.isascii() and kind.decode().isprintable()):
            return False  # up to the end, or nothing that belongs to it
        at += length
        if at >= size:
            return at > size
    return False


def _matroska(file: BinaryIO, size: int) -> bool:
    """By the size of the segment or, where a recording left that open, of its parts (RFC 8794, 4 to 6)."""
    at = 0
    for _ in range(MOST_PARTS):
        if at >= size:
            return at > size
        head = _read(file, at, 12)
        name = _vint_length(head[0])
        if name > 4 or len(head) <= name:
            return name <= 4  # damaged, or cut in the middle of a name
        width = _vint_length(head[name])
        if width > 8:
            return False
        open_end = (1 << 7 * width) - 1
        length = int.from_bytes(head[name : name + width], "big") & open_end
        kind, at = head[:name], at + name + width
        if length == open_end:
            if kind not in (_SEGMENT, _CLUSTER):
                return False
        elif kind == _SEGMENT:
            return at + length > size
        else:
            at += length
    return False


def _vint_length(first: int) -> int:
    return 9 - first.bit_length()


def _gif(file: BinaryIO, size: int) -> bool:
    """By its trailer (GIF89a, 27)."""
    flags = _read(file, 0, 13)[10:11]
    if not flags:
        return True
    at = 13 + _color_table(flags[0])
    for _ in range(MOST_PARTS):
        head = _read(file, at, 10)
        kind = head[:1]
        if kind == b"\x21":
            at = _after_blocks(file, at + 2)
        elif kind == b"\x2c" and len(head) == 10:
            at = _after_blocks(file, at + 11 + _color_table(head[9]))
        else:
            return kind in (b"", b"\x2c")
    return False


def _color_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(file: BinaryIO, at: int) -> int:
    file.seek(at)
    while (length := file.read(1)) not in (b"", b"\0"):
        file.seek(length[0], 1)
    return file.tell()


def _png(file: BinaryIO, size: int) -> bool:
    """By its last chunk."""
    at = 8
    for _ in range(MOST_PARTS):
        head = _read(file, at, 8)
        at += 12 + int.from_bytes(head[:4], "big")
        if len(head) < 8 or at > size:
            return True
        if head[4:] == b"IEND":
            return False
    return False


def _jpeg(file: BinaryIO, size: int) -> bool:
    """By the mark of its end, after the first scan: before that, there may be other pictures in it."""
    at = 2
    for _ in range(MOST_PARTS):
        head = _read(file, at, 4)
        if len(head) < 4:
            return True
        if head[0] != 0xFF:
            return False
        if head[1] == _JPEG_SCAN:
            return _JPEG_END not in file.read()
        at += 2 + int.from_bytes(head[2:], "big") if head[1] != 0xFF else 1
    return False
