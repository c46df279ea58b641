"""Changes the times in finished files, byte by byte, where no muxer would write such."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

TS_PACKET = 188
Times = tuple[int, int] | None
"""(pts, dts) in ticks of 90 kHz; None: the packet has none."""


def rewrite_clock(path: Path, change: Callable[[int, int, int], Times], kind: int = 0xE0) -> None:
    """Give each packet of an MPEG file (ts or ps) the times `change(number, pts, dts)`, in place.

    `number` counts packets of the elementary stream with an id from `kind` (0xE0: video, 0xC0: sound) on. A
    packet without a dts keeps having none, its pts counts as both.
    """
    data = bytearray(path.read_bytes())
    starts = _ts_starts(data) if path.suffix == ".ts" else _ps_starts(data)
    number = 0
    for at in starts:
        if data[at + 3] & 0xF0 != kind or not data[at + 7] >> 6:
            continue
        has_dts = data[at + 7] >> 6 == 3
        pts = _read(data, at + 9)
        times = change(number, pts, _read(data, at + 14) if has_dts else pts)
        number += 1
        if times is None:
            data[at + 7] &= 0x3F  # the bytes become stuffing
            data[at + 9 : at + 9 + data[at + 8]] = b"\xff" * data[at + 8]
            continue
        _write(data, at + 9, times[0])
        if has_dts:
            _write(data, at + 14, times[1])
    assert number, "no packet was found"
    path.write_bytes(data)


def _ts_starts(data: bytearray) -> Iterator[int]:
    for packet in range(0, len(data), TS_PACKET):
        if data[packet + 1] & 0x40:
            payload = packet + 4 + (1 + data[packet + 4] if data[packet + 3] & 0x20 else 0)
            if data[payload : payload + 3] == b"\0\0\1" and data[payload + 3] >= 0xC0:
                yield payload


def _ps_starts(data: bytearray) -> Iterator[int]:
    at = 0
    while (at := data.find(b"\0\0\1", at)) >= 0:
        if 0xC0 <= data[at + 3] < 0xF0 and data[at + 6] & 0xC0 == 0x80:
            yield at
            at += 6 + int.from_bytes(data[at + 4 : at + 6], "big")
        else:
            at += 3


def _read(data: bytearray, at: int) -> int:
    a, b, c = (
        data[at],
        int.from_bytes(data[at + 1 : at + 3], "big"),
        int.from_bytes(data[at + 3 : at + 5], "big"),
    )
    return (a >> 1 & 7) << 30 | b >> 1 << 15 | c >> 1


def _write(data: bytearray, at: int, tick: int) -> None:
    tick %= 1 << 33
    data[at] = data[at] & 0xF1 | (tick >> 30) << 1
    data[at + 1 : at + 3] = ((tick >> 15 & 0x7FFF) << 1 | 1).to_bytes(2, "big")
    data[at + 3 : at + 5] = ((tick & 0x7FFF) << 1 | 1).to_bytes(2, "big")


def with_edits(path: Path, edits: Sequence[tuple[int, int]]) -> None:
    """Give the first track of an mp4 whose index lies at its end these edits, in place: (duration in
    the movie's timescale, time of the media in the track's, or -1 for nothing)."""
    data = path.read_bytes()
    rows = b"".join(struct.pack(">IiI", duration, start, 0x10000) for duration, start in edits)
    elst = _box(b"elst", struct.pack(">II", 0, len(edits)) + rows)
    at, size = _find(data, 0, len(data), b"moov")
    assert at > _find(data, 0, len(data), b"mdat")[0], "its index would have to be moved"
    moov = _replaced(data[at + 8 : at + size], _box(b"edts", elst))
    path.write_bytes(data[:at] + _box(b"moov", moov) + data[at + size :])


def _replaced(moov: bytes, edts: bytes) -> bytes:
    at, size = _find(moov, 0, len(moov), b"trak")
    trak = moov[at + 8 : at + size]
    kept = b"".join(
        trak[a : a + s] for kind, a, s in _boxes(trak, 0, len(trak)) if kind not in (b"edts", b"tkhd")
    )
    head, length = _find(trak, 0, len(trak), b"tkhd")
    return moov[:at] + _box(b"trak", trak[head : head + length] + edts + kept) + moov[at + size :]


def _box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while at + 8 <= end:
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], at, size
        at += max(size, 8)


def _find(data: bytes, at: int, end: int, kind: bytes) -> tuple[int, int]:
    return next((a, s) for k, a, s in _boxes(data, at, end) if k == kind)
