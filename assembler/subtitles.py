"""Subtitles of the result: copied, or text converted into the kind of text its container holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Any, cast

import av
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle, SubtitleSet

from assembler.clock import ResultClock, stamped

MILLISECOND = Fraction(1, 1000)
_NEXT_LINE = rb"{\r}\N"
"""In ASS: the style of the beginning, a new line."""


def fine(tick: Fraction, fastest: int) -> Fraction:
    """A part of `tick` that is no longer than a tick of any other track, of which the fastest has `fastest` a
    second. FFmpeg's mov muxer compares ticks of its tracks as if they were all alike: where those of text are
    longer it ends a text too early, and moves each one that follows another at once by a tick."""
    return tick / max(1, ceil(tick * fastest))


class Subtitles:
    """Packets of one track, at their times in the result and cut to its span, counted in `tick` seconds."""

    def __init__(self, stream: Stream, clock: ResultClock, tick: Fraction) -> None:
        self.stream, self._clock = stream, clock
        self._tick = stream.time_base = tick

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
        yield self._placed(made, first, last if length else first)

    def flush(self) -> Iterator[Packet[Stream]]:
        """Nothing is held back."""
        yield from ()

    def _made(self, packet: Packet[Stream]) -> Packet[Stream] | None:
        return packet

    def _placed(self, made: Packet[Stream], first: int, last: int) -> Packet[Stream]:
        made.stream, made.time_base = self.stream, self._tick
        made.pts, made.dts, made.duration = first, first, last - first
        made.is_keyframe = True
        return made


class ConvertedSubtitles(Subtitles):
    """Text of one kind made from text of another; what the new kind does not know, like a font, is lost."""

    def __init__(
        self,
        output: OutputContainer,
        source: SubtitleStream,
        encoder: str,
        clock: ResultClock,
        tick: Fraction,
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
        super().__init__(stream, clock, tick)
        self._texts: list[bytes] = []
        """Of the packet that was decoded last, as lines of ASS."""

    def _made(self, packet: Packet[Stream]) -> Packet[Stream] | None:
        try:
            found = self._decoder.decode2(packet)
            self._texts = [text.ass for text in found or () if isinstance(text, AssSubtitle)]
            return self._encoder.encode_subtitle(found) if found and self._texts else None
        except av.error.FFmpegError:
            self._warnings["subtitles_unreadable"] += 1
            return None


_Cue = tuple[int, int, list[bytes]]
"""First tick, the one after the last, and the texts as lines of ASS."""


class LaidSubtitles(ConvertedSubtitles):
    """Converted text for tracks that show one text at a time (mp4, mov): where cues overlap, each span of
    time holds all that is shown in it. A span is known when the cue after it begins."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cues: list[_Cue] = []
        self._at = 0
        """Tick up to which spans are made."""

    def feed(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]:
        """The spans that end before the packet's cue begins."""
        for cue in super().feed(packet):
            first, last = cast(int, cue.pts), cast(int, cue.pts) + cast(int, cue.duration)
            yield from self._until(first)
            self._cues.append((max(first, self._at), max(last, self._at + 1), self._texts))

    def flush(self) -> Iterator[Packet[Stream]]:
        """The spans that are left."""
        yield from self._until(max((last for _, last, _ in self._cues), default=self._at))

    def _until(self, at: int) -> Iterator[Packet[Stream]]:
        while self._cues and self._at < at:
            stop = min(at, *(last for _, last, _ in self._cues))
            yield self._span(max(self._at, self._cues[0][0]), stop)
            self._at = stop
            self._cues = [cue for cue in self._cues if cue[1] > stop]
        self._at = max(self._at, at)

    def _span(self, first: int, stop: int) -> Packet[Stream]:
        lines = [text for _, _, texts in self._cues for text in texts]
        together = _NEXT_LINE.join([lines[0], *(line.split(b",", 8)[-1] for line in lines[1:])])
        made = self._encoder.encode_subtitle(SubtitleSet.create(together, 0, 1))
        return self._placed(made, first, stop)
