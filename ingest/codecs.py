"""What codec the packets of an MPEG stream look like: one stream may go on in another."""

from __future__ import annotations

_START = b"\0\0\1"
_LOOKED_AT = 64
"""Bytes at the beginning of a packet among which its first unit begins."""
_H264 = {0x01, 0x06, 0x09, 0x21, 0x25, 0x27, 0x41, 0x45, 0x47, 0x61, 0x65, 0x67}
"""First bytes of slices, parameter sets, messages and delimiters (ITU-T H.264, 7.3.1)."""
_HEVC = {0x26, 0x28, 0x2A, 0x40, 0x42, 0x46, 0x4E}
"""The same of HEVC (ITU-T H.265, 7.3.1.2), of the base layer; the byte after is 1."""
_MPEG2 = {0x00, 0xB3, 0xB8}
"""Codes of pictures, sequences and groups (ITU-T H.262, 6.2.1)."""
TOLD_APART = {"h264": "h264", "hevc": "hevc", "mpeg2video": "mpeg2video", "mpeg1video": "mpeg2video"}
"""FFmpeg's name of a codec, and that of what its packets look like."""


def looks_like(packet: memoryview) -> str | None:
    """`h264`, `hevc` or `mpeg2video`, by the first unit of a packet; None where that does not tell."""
    head = bytes(packet[:_LOOKED_AT])
    at = head.find(_START) + len(_START)
    if at < len(_START) or at + 1 >= len(head):
        return None
    first, second = head[at], head[at + 1]
    if first in _HEVC and second == 1:
        return "hevc"
    return "h264" if first in _H264 else "mpeg2video" if first in _MPEG2 else None


class CodecWatch:
    """Tells when a stream of `codec`, by FFmpeg's name, goes on in another codec."""

    FEW = 8
    """Packets that may look like something else, since they are damaged."""

    def __init__(self, codec: str) -> None:
        self._own = TOLD_APART.get(codec)
        self._others = 0

    def change(self, packet: memoryview) -> str | None:
        """The codec that the stream has changed to, after FEW packets of it in a row."""
        other = looks_like(packet) if self._own else None
        if other is None or other == self._own:
            self._others *= other is None
            return None
        self._others += 1
        return other if self._others > self.FEW else None
