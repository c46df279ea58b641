"""Subtitles of the result: copied, or text converted into the kind of text its container holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import floor

import av
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream
from av.subtitles.stream import SubtitleStream

from assembler.clock import ResultClock, stamped

MILLISECOND = Fraction(1, 1000)


class Subtitles:
    """Packets of one track, at their times in the result and cut to its span."""

    def __init__(self, stream: Stream, clock: ResultClock) -> None:
        self.stream, self._clock = stream, clock
        self._tick = clock.tick
        stream.time_base = clock.tick

    def feed(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]:
        """The packet, or nothing if it does not belong into the result."""
        stamp = stamped(packet)
        if stamp is None:
            return
        start, length = self._clock.at(stamp), (packet.duration or 0) * packet.time_base
        shown = self._clock.clip(start, start + max(length, self._clock.tick))
        if shown is None:
            return
        made = self._made(packet)
        if made is None:
            return
        first, last = (floor(time / self._tick + Fraction(1, 2)) for time in shown)
        made.stream, made.time_base = self.stream, self._tick
        made.pts, made.dts, made.duration = first, first, last - first if length else 0
        made.is_keyframe = True
        yield made

    def flush(self) -> Iterator[Packet[Stream]]:
        """Nothing is held back."""
        yield from ()

    def _made(self, packet: Packet[Stream]) -> Packet[Stream] | None:
        return packet


class ConvertedSubtitles(Subtitles):
    """Text of one kind made from text of another; what the new kind does not know, like a font, is lost."""

    def __init__(
        self,
        output: OutputContainer,
        source: SubtitleStream,
        encoder: str,
        clock: ResultClock,
        warnings: Counter[str],
    ) -> None:
        self._decoder, self._warnings = source.codec_context, warnings
        self._decoder.open(strict=False)
        stream = output.add_stream(encoder)
        assert isinstance(stream, SubtitleStream)
        self._encoder = stream.codec_context
        self._encoder.subtitle_header = self._decoder.subtitle_header
        self._encoder.time_base = MILLISECOND
        self._encoder.open(strict=False)
        super().__init__(stream, clock)
        self._tick = stream.time_base = MILLISECOND

    def _made(self, packet: Packet[Stream]) -> Packet[Stream] | None:
        try:
            found = self._decoder.decode2(packet)
            return None if found is None or not len(found) else self._encoder.encode_subtitle(found)
        except av.error.FFmpegError:
            self._warnings["subtitles_unreadable"] += 1
            return None
