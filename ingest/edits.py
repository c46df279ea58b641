"""Edit lists of MP4 and QuickTime that FFmpeg reads as something else than they say.

It honours cuts, repetitions and an empty edit at the beginning. An empty edit further on is passed over, with
other frames than wanted, and so is another speed than 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

_NESTED = {b"moov", b"trak", b"edts"}
_MOST_BOXES = 10_000
_MOST_EDITS = 100_000
_NORMAL_SPEED = 1 << 16


def misread_edits(path: str) -> str:
    """Why the edit lists of a file cannot be honoured, in words; empty where they can, or there are none.

    Layout: ISO/IEC 14496-12, 8.6.6.
    """
    with open(path, "rb") as file:
        file.seek(0, 2)
        for edits in _edit_lists(file, 0, file.tell()):
            for place, (media_time, speed) in enumerate(edits):
                if media_time == -1 and place:
                    return "an edit list pauses in the middle"
                if media_time != -1 and speed != _NORMAL_SPEED:
                    return "an edit list changes the speed"
    return ""


def _edit_lists(file: BinaryIO, at: int, end: int) -> Iterator[list[tuple[int, int]]]:
    """(media time, speed as 16.16) of all edits of each list between two places of a file."""
    for _ in range(_MOST_BOXES):
        if at + 8 > end:
            return
        file.seek(at)
        head = file.read(16)
        size, kind, content = int.from_bytes(head[:4], "big"), head[4:8], at + 8
        if size == 1:
            size, content = int.from_bytes(head[8:16], "big"), at + 16
        size = end - at if size == 0 else size
        if size < 8:
            return  # damaged: FFmpeg tells what it is worth
        if kind in _NESTED:
            yield from _edit_lists(file, content, min(at + size, end))
        elif kind == b"elst":
            file.seek(content)
            yield _edits(file.read(min(size, 8 + _MOST_EDITS * 20)))
        if kind == b"moov":
            return  # there is one; a long file of fragments follows
        at += size


def _edits(content: bytes) -> list[tuple[int, int]]:
    row = struct.Struct(">Qqi" if content[:1] == b"\1" else ">Iii")
    count = min(int.from_bytes(content[4:8], "big"), (len(content) - 8) // row.size)
    rows = [row.unpack_from(content, 8 + n * row.size) for n in range(max(count, 0))]
    return [(media_time, speed) for _, media_time, speed in rows]
