"""The shape of a pixel in Matroska and WebM, which PyAV cannot state for an output.

It is written into the finished file as the size at which pictures are shown (RFC 9559, 5.1.4.1.28). Only the
header changes: what is added comes out of the empty space that FFmpeg leaves after the seek head, so that
clusters, and the positions of them in the index, stay where they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

TELLING = frozenset({"h264", "hevc"})
"""Codecs that state the shape themselves."""

_HEADER = 1 << 20
"""Bytes in which all that is changed lies."""
_SEGMENT, _VOID, _CRC = b"\x18\x53\x80\x67", b"\xec", b"\xbf"
_SEEK_HEAD, _SEEK, _SEEK_POSITION = b"\x11\x4d\x9b\x74", b"\x4d\xbb", b"\x53\xac"
_TRACKS, _ENTRY, _VIDEO = b"\x16\x54\xae\x6b", b"\xae", b"\xe0"
_WIDTH, _HEIGHT = b"\xb0", b"\xba"
_SHOWN_WIDTH, _SHOWN_HEIGHT, _SHOWN_UNIT = b"\x54\xb0", b"\x54\xba", b"\x54\xb2"
_LONG = 8
"""Bytes of the sizes that are written: what is changed only grows."""


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of EBML (RFC 8794): its id, and where it, its data and what follows begin."""

    id: bytes
    start: int
    body: int
    end: int


def show_at(path: Path, aspect: Fraction) -> bool:
    """State the sample aspect of the picture tracks of a Matroska file; whether there was room for it. Raises
    OSError."""
    with path.open("r+b") as file:
        data = file.read(_HEADER)
        segment = next((one for one in _elements(data, 0, len(data)) if one.id == _SEGMENT), None)
        if segment is None:
            return False
        found: dict[bytes, _Element] = {}
        for one in _elements(data, segment.body, len(data)):
            found.setdefault(one.id, one)
            if one.id == _TRACKS:
                break
        if not {_SEEK_HEAD, _VOID, _TRACKS} <= found.keys() or found[_TRACKS].end > len(data):
            return False
        seek, void, tracks = found[_SEEK_HEAD], found[_VOID], found[_TRACKS]
        new = _long(_TRACKS, _checked(_tracks(data, tracks, aspect)))
        more = len(new) - (tracks.end - tracks.start)
        room = void.end - void.start - more - len(_VOID) - _LONG
        if void.start != seek.end or room < 0:
            return False
        moved = range(void.end - segment.body, tracks.end - segment.body)
        head = data[seek.start : seek.body] + _checked(_moved(data, seek, moved, more))
        file.seek(seek.start)
        file.write(head + _long(_VOID, bytes(room)) + data[void.end : tracks.start] + new)
    return True


def _tracks(data: bytes, tracks: _Element, aspect: Fraction) -> bytes:
    body = b""
    for entry in _elements(data, tracks.body, tracks.end):
        inner = list(_elements(data, entry.body, entry.end)) if entry.id == _ENTRY else []
        if any(one.id == _VIDEO for one in inner):
            body += _long(_ENTRY, b"".join(_shown(data, one, aspect) for one in inner))
        else:
            body += _raw(data, entry)
    return body


def _shown(data: bytes, one: _Element, aspect: Fraction) -> bytes:
    return _long(_VIDEO, _video(data, one, aspect)) if one.id == _VIDEO else _raw(data, one)


def _video(data: bytes, video: _Element, aspect: Fraction) -> bytes:
    parts = list(_elements(data, video.body, video.end))
    width, height = (
        next(int.from_bytes(data[one.body : one.end], "big") for one in parts if one.id == name)
        for name in (_WIDTH, _HEIGHT)
    )
    stated = (_SHOWN_WIDTH, _SHOWN_HEIGHT, _SHOWN_UNIT)
    body = b"".join(_raw(data, one) for one in parts if one.id not in stated)
    shown = max(round(width * aspect), 1)
    return body + _number(_SHOWN_WIDTH, shown) + _number(_SHOWN_HEIGHT, height)


def _moved(data: bytes, seek: _Element, moved: range, by: int) -> bytes:
    """The seek head's data, for elements in `moved` that lie `by` bytes further ahead."""
    body = bytearray(data[seek.body : seek.end])
    for one in _elements(data, seek.body, seek.end):
        for part in _elements(data, one.body, one.end) if one.id == _SEEK else ():
            place = int.from_bytes(data[part.body : part.end], "big")
            if part.id == _SEEK_POSITION and place in moved:
                where = slice(part.body - seek.body, part.end - seek.body)
                body[where] = (place - by).to_bytes(part.end - part.body, "big")
    return bytes(body)


def _checked(body: bytes) -> bytes:
    """With the checksum that it begins with, where it does, made anew."""
    first = next(_elements(body, 0, len(body)), None)
    if first is None or first.id != _CRC:
        return body
    return body[: first.body] + zlib.crc32(body[first.end :]).to_bytes(4, "little") + body[first.end :]


def _elements(data: bytes, at: int, end: int) -> Iterator[_Element]:
    while at < end:
        name = at + _length(data[at])
        if name >= end:
            return
        width = _length(data[name])
        size = int.from_bytes(data[name : name + width], "big") & ((1 << 7 * width) - 1)
        body = name + width
        yield _Element(data[at:name], at, body, body + size)
        at = body + size


def _length(first: int) -> int:
    """Bytes of a number of variable length, by its first byte."""
    return 9 - first.bit_length()


def _raw(data: bytes, one: _Element) -> bytes:
    return data[one.start : one.end]


def _long(name: bytes, body: bytes) -> bytes:
    return name + (1 << 7 * _LONG | len(body)).to_bytes(_LONG, "big") + body


def _number(name: bytes, value: int) -> bytes:
    body = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return name + bytes([0x80 | len(body)]) + body
