"""Animated pictures: WebP, which FFmpeg does not decode, and how often an animation is shown.

An animated WebP becomes a stream that FFmpeg does read: Matroska with the pictures as they are, made while it
is read, so that no more than a picture or two is held. All that follows treats it as any other input.
"""

from __future__ import annotations

import errno
import io
import struct
from collections.abc import Generator, Iterator
from fractions import Fraction
from typing import cast

import av
import numpy as np
from av.container import Flags, OutputContainer

HEAD_BYTES = 1 << 16
"""Of a file, among which its loop count is looked for."""
_TICK = Fraction(1, 1000)
_WITH_ALPHA, _OPAQUE = ("rgba", "rawvideo", "rgba"), ("rgb24", "ffv1", "bgr0")
"""Pillow's format, lossless codec, its format."""
_DAMAGE = (EOFError, OSError, ValueError, SyntaxError)
"""What Pillow raises."""
_LOOPS = b"NETSCAPE2.0\x03\x01"


def is_animated_webp(head: bytes) -> bool:
    """Whether a file that begins so is one: RIFF, WEBP, VP8X with the bit for animation."""
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and len(head) > 20 and bool(head[20] & 2)


def webp_size(head: bytes) -> tuple[int, int]:
    """(width, height) of the canvas of an animated WebP."""
    return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")


def times_shown(head: bytes) -> int | None:
    """How often an animation is shown, 0 for ever, by the first HEAD_BYTES of its file; None for other files.

    A GIF counts the repetitions, and says nothing where there are none; WebP and APNG count all.
    """
    if head[:3] == b"GIF":
        at = head.find(_LOOPS)
        if at < 0:
            return 1
        count = int.from_bytes(head[at + len(_LOOPS) : at + len(_LOOPS) + 2], "little")
        return count + 1 if count else 0
    if is_animated_webp(head):
        at = head.find(b"ANIM")
        return int.from_bytes(head[at + 12 : at + 14], "little") if at > 0 else 0
    if head[:8] == b"\x89PNG\r\n\x1a\n" and (at := head.find(b"acTL", 0, head.find(b"IDAT"))) > 0:
        return int(struct.unpack_from(">I", head, at + 8)[0]) if len(head) >= at + 12 else 0
    return None


def whole_chunks(webp: bytes) -> tuple[bytes, bool]:
    """The file without what is missing the rest of its chunk, for libwebp takes whole files only, and whether
    that was all of it."""
    at = 12
    while at + 8 <= len(webp):
        size = int.from_bytes(webp[at + 4 : at + 8], "little")
        if at + 8 + size > len(webp):
            break
        at += 8 + size + size % 2
    stated = 8 + int.from_bytes(webp[4:8], "little")
    if at >= stated:
        return webp, True
    return webp[:4] + (min(at, len(webp)) - 8).to_bytes(4, "little") + webp[8:at], False


class _Sink:
    """Where the muxer writes."""

    def __init__(self, made: bytearray) -> None:
        self._made = made

    def write(self, data: bytes) -> int:
        self._made += data
        return len(data)


class WebpStream:
    """An animated WebP as a file-like object that can be read once, from the beginning.

    Pictures are RGB or RGBA, pts are milliseconds. Raises OSError, SyntaxError or ValueError for what is no
    animated WebP. Damage further on is FFmpeg's InvalidDataError at that place, once; then the stream ends.
    """

    def __init__(self, path: str) -> None:
        from PIL.WebPImagePlugin import WebPImageFile  # takes a while, and few need it

        with open(path, "rb") as file:
            data, self._whole = whole_chunks(file.read())
        self._image = WebPImageFile(io.BytesIO(data))
        self._made = bytearray()
        self._steps = self._make()

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        while not self._made:
            try:
                next(self._steps)
            except StopIteration:
                return b""
        taken = bytes(self._made[:size])
        del self._made[:size]
        return taken

    def close(self) -> None:
        self._steps.close()
        self._image.close()

    def _make(self) -> Generator[None]:
        image = self._image
        # Matroska takes raw pictures of one kind of RGB only
        given, codec, form = _WITH_ALPHA if image.mode == "RGBA" else _OPAQUE
        output = av.open(_Sink(self._made), "w", format="matroska", container_options={"live": "1"})
        output.flags = int(output.flags) | cast(int, Flags.bitexact.value)  # no tags
        stream = output.add_stream(codec)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = *image.size, form
        stream.codec_context.time_base = _TICK
        trouble = "" if self._whole else "it ends in the middle of a picture"
        try:
            yield from self._encode(output, stream, given, form)
        except _DAMAGE as error:
            trouble = str(error)
        output.close()
        yield  # what was made before
        if trouble:
            raise av.error.InvalidDataError(errno.EINVAL, f"damaged WebP: {trouble}")

    def _encode(
        self, output: OutputContainer, stream: av.VideoStream, given: str, form: str
    ) -> Iterator[None]:
        image, at = self._image, 0
        for number in range(image.n_frames):
            image.seek(number)
            frame = av.VideoFrame.from_ndarray(np.asarray(image), format=given).reformat(format=form)
            frame.pts, frame.time_base = at, _TICK
            for packet in stream.encode(frame):
                packet.duration = image.info["duration"]
                output.mux_one(packet)
            at += image.info["duration"]
            yield
