"""Decodes the sound of a track and encodes it anew, sample for sample at its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream

from assembler.clock import ResultClock
from schemas.errors import EncoderError

BIT_RATE = {"aac": 96_000, "libopus": 80_000}
"""Bits a second for each channel; encoders that are not here lose nothing."""
JITTER = Fraction(3, 1000)
"""Seconds by which a frame's time may differ from the end of the one before without a gap or an overlap:
containers round times to 1 ms at worst."""
DOUBT, PATIENCE = Fraction(1, 50), 3
"""A time that is early, or late by less than DOUBT seconds, counts only if the next frames, PATIENCE in all,
are off too. Some files repeat a time; FFmpeg's Ogg demuxer tells times 9 ms late where Vorbis changes its
block, and falls back a packet later."""
_BLOCK = 1024
"""Samples of a packet of encoders that take any number."""
_STANDARD = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}

Samples = npt.NDArray[Any]
"""(channels, samples)."""
_Placed = tuple[int, Samples]
"""Number of the first sample that the frame's time tells, and its samples."""


class ConvertedSound:
    """Packets of one track, encoded with `encoder`.

    Samples are placed by the times of the frames they come from: gaps stay gaps (with `gaps` off: silence),
    overlaps are cut, the job's span is kept to the sample.
    """

    def __init__(
        self,
        output: OutputContainer,
        source: AudioStream,
        encoder: str,
        clock: ResultClock,
        warnings: Counter[str],
        *,
        gaps: bool = True,
    ) -> None:
        self._source, self._clock, self._warnings, self._gaps = source, clock, warnings, gaps
        self._name = f"{encoder} for a track of {source.codec_context.name}"
        self.stream: AudioStream = _add_stream(output, encoder, source)
        context = self.stream.codec_context
        self._rate = context.sample_rate
        self._block = context.frame_size or _BLOCK
        # PyAV reads past the end of planar frames of eight channels and more: ours are packed.
        self._format = context.format.packed.name
        self._laid = AudioResampler(context.format, context.layout, self._rate)
        self._resampler: AudioResampler | None = None
        self._doubtful: list[_Placed] = []
        self._held: Samples | None = None
        self._next = 0
        """Number of the first sample that is not encoded yet, from the result's time zero."""
        self._begun = False

    def feed(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]:
        """Encode what a packet holds."""
        base = cast(Fraction, self._source.time_base)
        packet.stream = self._source
        scale = packet.time_base / base
        packet.pts = None if packet.pts is None else round(packet.pts * scale)
        packet.dts = None if packet.dts is None else round(packet.dts * scale)
        packet.time_base = base
        yield from self._take(packet)

    def flush(self) -> Iterator[Packet[Stream]]:
        """Encode what is left."""
        yield from self._take(None)
        if self._resampler is not None:
            for frame in self._resampler.resample(None):
                yield from self._place(frame)
        yield from self._settle(off=False)
        if self._held is not None and self._held.shape[1]:
            yield from self._encode(self._held)
        if self._begun:
            yield from self._muxable(self.stream.encode(None))
        self._source.codec_context.flush_buffers()

    def _take(self, packet: Packet[Stream] | None) -> Iterator[Packet[Stream]]:
        try:
            frames = self._source.decode(cast(Any, packet))
        except av.error.EOFError:
            return
        except av.error.FFmpegError:
            self._warnings["sound_decode_errors"] += 1
            return
        for frame in frames:
            for piece in self._resampled(frame):
                yield from self._place(piece)

    def _resampled(self, frame: AudioFrame) -> list[AudioFrame]:
        """The frame in the encoder's format; a change within the track begins a new conversion."""
        context = self.stream.codec_context
        if self._resampler is not None:
            try:
                return self._resampler.resample(frame)
            except ValueError:
                self._warnings["sound_changed_format"] += 1
        self._resampler = AudioResampler(self._format, context.layout, self._rate)
        return self._resampler.resample(frame)

    def _place(self, frame: AudioFrame) -> Iterator[Packet[Stream]]:
        """Put a frame at its time, or wait for the next ones to say whether its time is to be believed."""
        samples = frame.to_ndarray().reshape(frame.samples, -1).T
        end = self._end() + sum(doubtful.shape[1] for _, doubtful in self._doubtful)
        at = self._sample(frame, end)
        apart = abs(at - end)
        if not self._begun or at - end > DOUBT * self._rate:
            yield from self._settle(off=True)
            yield from self._lay(at, samples)
            return
        if apart <= JITTER * self._rate:
            yield from self._settle(off=False)
            yield from self._lay(self._end(), samples)
            return
        self._doubtful.append((at, samples))
        if len(self._doubtful) == PATIENCE:
            yield from self._settle(off=True)

    def _settle(self, *, off: bool) -> Iterator[Packet[Stream]]:
        """Put the doubtful frames at the time of the first, or one after another."""
        doubtful, self._doubtful = self._doubtful, []
        after = doubtful[0][0] if off and doubtful else self._end()
        for _, samples in doubtful:
            yield from self._lay(after, samples)
            after += samples.shape[1]

    def _end(self) -> int:
        """Number of the sample after the last one that has its place."""
        return self._next + (0 if self._held is None else self._held.shape[1])

    def _lay(self, at: int, samples: Samples) -> Iterator[Packet[Stream]]:
        samples, at = self._cut(samples, at)
        end = self._end()
        if not self._begun and samples.shape[1]:
            self._begun = True
            self._next = end = at if self._gaps else 0
        if at < end:
            samples, at = samples[:, end - at :], end
        if samples.shape[1] == 0:
            return
        if at > end:
            yield from self._skip(at, samples)
        self._held = samples if self._held is None else np.concatenate([self._held, samples], axis=1)
        while self._held.shape[1] >= self._block:
            block, self._held = self._held[:, : self._block], self._held[:, self._block :]
            yield from self._encode(block)

    def _sample(self, frame: AudioFrame, end: int) -> int:
        """Number of the frame's first sample; `end` where it has no time."""
        if frame.pts is None or frame.time_base is None:
            return end
        clock = self._clock
        seconds = frame.pts * frame.time_base - clock.shift * clock.tick - clock.origin
        return round(seconds * self._rate)

    def _cut(self, samples: Samples, at: int) -> tuple[Samples, int]:
        """What lies within the job's span; without packet times also nothing before zero."""
        clock = self._clock
        first = None if clock.start is None else round(clock.start * self._rate)
        if not self._gaps:
            first = max(first or 0, 0)
        if first is not None and at < first:
            samples, at = samples[:, first - at :], first
        if clock.end is not None:
            samples = samples[:, : max(round(clock.end * self._rate) - at, 0)]
        return samples, at

    def _skip(self, at: int, like: Samples) -> Iterator[Packet[Stream]]:
        """Fill up with silence to `at`; whole packets of it are left out where packets have times."""
        held = np.zeros((like.shape[0], 0), like.dtype) if self._held is None else self._held
        missing = at - self._next - held.shape[1]
        short = -held.shape[1] % self._block
        if self._gaps and missing >= short:
            self._held = np.concatenate([held, np.zeros((held.shape[0], short), held.dtype)], axis=1)
            if self._held.shape[1]:
                yield from self._encode(self._held)
            self._held, self._next = None, at
            return
        while missing:
            some = min(missing, self._block - held.shape[1])
            held = np.concatenate([held, np.zeros((held.shape[0], some), held.dtype)], axis=1)
            missing -= some
            if held.shape[1] == self._block:
                yield from self._encode(held)
                held = held[:, :0]
        self._held = held

    def _encode(self, samples: Samples) -> Iterator[Packet[Stream]]:
        context = self.stream.codec_context
        laid = np.ascontiguousarray(samples.T.reshape(1, -1))
        frame = AudioFrame.from_ndarray(laid, format=self._format, layout=context.layout.name)
        frame.sample_rate, frame.pts, frame.time_base = self._rate, self._next, Fraction(1, self._rate)
        self._next += samples.shape[1]
        for piece in self._laid.resample(frame):
            try:
                packets = self.stream.encode(piece)
            except (av.error.FFmpegError, ValueError) as error:
                raise EncoderError(f"{self._name}: {str(error).splitlines()[0]}") from error
            yield from self._muxable(packets)

    def _muxable(self, packets: list[Packet[AudioStream]]) -> Iterator[Packet[Stream]]:
        for packet in packets:
            if packet.size:
                yield cast("Packet[Stream]", packet)


def _add_stream(output: OutputContainer, encoder: str, source: AudioStream) -> AudioStream:
    """A track with an encoder that is open: in the source's rate and channels, or the nearest it takes."""
    old = source.codec_context
    rates = av.Codec(encoder, "w").audio_rates
    rate = old.sample_rate
    if rates and rate not in rates:
        rate = min((r for r in rates if r > rate), default=max(rates))
    deep = old.format.name in ("s32", "s32p")  # what decoders give for 24 bit
    stream = output.add_stream("pcm_s24le" if deep and encoder == "pcm_s16le" else encoder, rate=rate)
    assert isinstance(stream, AudioStream)
    context = stream.codec_context
    if deep and encoder == "flac":
        context.format = "s32"
    count = old.layout.nb_channels
    context.layout = _layout(encoder, old.layout.name, count)
    context.time_base = Fraction(1, rate)
    if encoder in BIT_RATE:
        context.bit_rate = BIT_RATE[encoder] * count
    context.thread_count = 1
    try:
        context.open()
    except (av.error.FFmpegError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise EncoderError(f"{encoder} does not take {count} channels at {rate} Hz: {reason}") from error
    stream.time_base = Fraction(1, rate)
    return stream


def _layout(encoder: str, name: str, count: int) -> str:
    """The source's layout; the usual one of that many channels where the source names none, or one the
    encoder does not know."""
    known = name in _STANDARD.values() or (encoder != "libopus" and "channels" not in name)
    return name if known else _STANDARD.get(count, name)
