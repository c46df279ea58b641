"""Copies the sound of a track: payloads bit for bit, times exact, what was hidden stays hidden."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import floor

from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream

from assembler.clock import ResultClock, stamped
from assembler.holds import Holds
from assembler.transcode import JITTER, PATIENCE

PREROLL = Fraction(1, 10)
"""Seconds of hidden sound kept before the first that is heard, so that a decoder is in full swing by then;
Opus asks for 80 ms (RFC 7845, 4.6), others for a packet or two."""
PRIMING = 2112
"""Samples. A decoder's lead-in is no longer (Apple's AAC encoder has the longest); more was cut by hand."""
VORBIS_LATE = Fraction(1, 50)
"""Seconds. Where Vorbis goes from long to short blocks, FFmpeg's Ogg demuxer tells a packet's time late and
its duration short, by up to 448 samples; its end is right."""
_AAC_FRAME = 1024
_SILENCE = {"pcm_u8": b"\x80", "pcm_mulaw": b"\xff", "pcm_alaw": b"\xd5"}
"""The byte of a silent sample; of other PCM it is zero."""


def hidden_samples(first: Packet[Stream]) -> int:
    """Samples at the beginning of a track that its first packet says are not played."""
    if not first.has_sidedata("skip_samples"):
        return 0
    (samples,) = struct.unpack_from("<I", bytes(first.get_sidedata("skip_samples")))
    return int(samples)


class _Run:
    """PCM in mov, which counts its samples and keeps no packet's time: a gap is filled with silence, an
    overlap cut once PATIENCE packets are early in a row."""

    def __init__(self, source: AudioStream, warnings: Counter[str]) -> None:
        context, self._warnings = source.codec_context, warnings
        self._rate = context.sample_rate
        name = context.codec.canonical_name
        bits = int("".join(filter(str.isdigit, name)) or 8)  # pcm_s24le; pcm_mulaw
        self._silent = _SILENCE.get(name, b"\0") * (bits // 8 * context.layout.nb_channels)
        self._end: Fraction | None = None
        self._early = 0

    def laid(self, payload: bytes, start: Fraction) -> Iterator[tuple[Fraction, Fraction, bytes]]:
        """(start, length, samples) of the packets that put `payload` at `start` seconds."""
        size = len(self._silent)
        missing = 0 if self._end is None else round((start - self._end) * self._rate)
        slack = (JITTER if self._early < PATIENCE else JITTER / 3) * self._rate  # a cut may take several
        self._early = self._early + 1 if missing < -slack else 0
        self._warnings["sound_timestamps_repaired"] += self._early > 0
        if abs(missing) <= slack or 0 < self._early < PATIENCE:
            missing = 0
        while missing > 0:
            some = min(missing, self._rate)
            missing -= some
            yield self._next(self._silent * some, start)
        payload = payload[-missing * size :]
        if payload:
            yield self._next(payload, start)

    def _next(self, payload: bytes, start: Fraction) -> tuple[Fraction, Fraction, bytes]:
        at = start if self._end is None else self._end
        length = Fraction(len(payload) // len(self._silent), self._rate)
        self._end = at + length
        return at, length, payload


class CopiedSound:
    """Packets of one track of sound, ready to be muxed.

    `first` is the track's first packet: it tells how much of the beginning is hidden. Containers with edit
    lists hide what lies before zero; others hide one packet at most, so that the cut falls on a packet
    (`sound_cut_at_packets`).
    """

    def __init__(
        self,
        output: OutputContainer,
        source: AudioStream,
        holds: Holds,
        clock: ResultClock,
        first: Packet[Stream],
        warnings: Counter[str],
    ) -> None:
        context = source.codec_context
        self._rate = context.sample_rate
        self._clock, self._warnings, self._exact = clock, warnings, holds.edit_lists
        skipped = hidden_samples(first)
        begin = clock.at(stamped(first) or 0)
        heard = begin + Fraction(skipped, self._rate)
        self._heard = heard if clock.start is None else max(heard, clock.start)
        hidden = self._heard > begin
        primed = hidden and holds.codec_delay and _is_plain_aac(source)
        self._lead = self._hideable(holds, primed, skipped, begin)
        self.stream: Stream = (
            _delayed_aac(output, source) if primed else output.add_stream_from_template(source, opaque=True)
        )
        fine = clock.tick > Fraction(1, self._rate) and not holds.codec_delay
        self._tick = Fraction(1, self._rate) if fine else clock.tick
        self.stream.time_base = self._tick
        self._frame = (context.frame_size or 0) if fine else 0
        self._late = VORBIS_LATE if source.codec_context.name == "vorbis" else Fraction(0)
        counted = holds.edit_lists and context.codec.canonical_name.startswith("pcm_")
        self._run = _Run(source, warnings) if counted else None
        self._end: Fraction | None = None
        self._ideal: Fraction | None = None
        self._last: tuple[int, int] | None = None
        """dts and duration of the last packet, in ticks of the result."""

    def _hideable(self, holds: Holds, primed: bool, skipped: int, begin: Fraction) -> Fraction:
        """Seconds before the first heard sound that are kept."""
        delay = Fraction(skipped, self._rate)
        if holds.edit_lists and self._heard <= self._clock.tick:
            return PREROLL
        if primed:
            return Fraction(_AAC_FRAME, self._rate)
        return delay if skipped <= PRIMING else Fraction(0)

    def feed(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]:
        """The packet with its time in the result, or nothing if it does not belong there."""
        stamp = stamped(packet)
        start = self._after() if stamp is None else self._steady(self._clock.at(stamp))
        length = (
            Fraction(self._frame, self._rate) if self._frame else (packet.duration or 0) * packet.time_base
        )
        if self._end is not None and self._clock.tick < start - self._end <= self._late:
            start, length = self._end, length + start - self._end
        self._end = start + length
        if start < self._heard - self._lead - self._clock.tick:
            return
        if self._last is None and not self._exact and start > self._heard + self._clock.tick + self._lead:
            self._note_cut()
        if self._clock.end is not None:
            if start >= self._clock.end:
                return
            if start + length > self._clock.end:
                length = self._clock.end - start
                self._note_cut()
        if self._run is None:
            yield self._timed(packet, start, length)
            return
        for at, lasting, payload in self._run.laid(bytes(packet), start):
            samples: Packet[Stream] = Packet(payload)
            samples.is_keyframe = True
            yield self._timed(samples, at, lasting)

    def flush(self) -> Iterator[Packet[Stream]]:
        """Nothing is held back."""
        yield from ()

    def _note_cut(self) -> None:
        if not self._exact:
            self._warnings["sound_cut_at_packets"] = 1

    def _after(self) -> Fraction:
        return Fraction(0) if self._last is None else sum(self._last) * self._tick

    def _steady(self, start: Fraction) -> Fraction:
        """Where a coarse clock (Matroska's milliseconds) only rounds, whole frames follow one another."""
        if self._frame:
            if self._ideal is not None and abs(start - self._ideal) <= self._clock.tick:
                start = self._ideal
            self._ideal = start + Fraction(self._frame, self._rate)
        return start

    def _timed(self, packet: Packet[Stream], start: Fraction, length: Fraction) -> Packet[Stream]:
        """Decode times rise strictly: one that does not is set a tick after the packet before it, and the
        next ones keep theirs."""
        tick = self._tick
        pts, duration = floor(start / tick + Fraction(1, 2)), floor(length / tick + Fraction(1, 2))
        if self._last is not None and pts <= self._last[0]:
            pts = self._last[0] + 1
            self._warnings["sound_timestamps_repaired"] += 1
        self._last = pts, duration
        packet.stream, packet.time_base = self.stream, tick
        packet.pts, packet.dts, packet.duration = pts, pts, duration
        return packet


def _is_plain_aac(source: AudioStream) -> bool:
    context = source.codec_context
    return context.codec.canonical_name == "aac" and context.profile == "LC" and bool(context.extradata)


def _delayed_aac(output: OutputContainer, source: AudioStream) -> Stream:
    """A track of AAC whose header states one frame of delay: that is what an encoder's context has, and a
    copied one lacks."""
    context = source.codec_context
    stream = output.add_stream("aac", rate=context.sample_rate)
    stream.codec_context.layout = context.layout.name
    stream.codec_context.time_base = Fraction(1, context.sample_rate)
    stream.codec_context.open()
    stream.codec_context.extradata = context.extradata
    return stream
