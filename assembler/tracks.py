"""The tracks of the result other than its picture: each copied, converted, or dropped and named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

import structlog
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.subtitles.stream import SubtitleStream

from assembler.clock import ResultClock
from assembler.holds import CONTAINERS, AudioMode, Fate, disposition_in, fate_of
from assembler.languages import language_in
from assembler.sound import CopiedSound
from assembler.subtitles import MILLISECOND, ConvertedSubtitles, LaidSubtitles, Subtitles, fine
from assembler.transcode import ConvertedSound
from runtime.sides import SidesReader
from schemas.plan import Plan, SideTrack

_log = structlog.get_logger("tracks")

Timed = tuple[Fraction, int, Packet]  # type: ignore[type-arg]  # generic in the stubs only
"""(time in seconds, tie-break, packet), for interleaving."""
_COVERS = {"mjpeg": ("cover.jpg", "image/jpeg"), "png": ("cover.png", "image/png")}
_STALE = ("duration", "bps", "number_of_", "_statistics_", "encoder", "vendor_id")
"""Beginnings of tags about a track of the input that need not be true for the result's."""
_CONTAINERS_OWN = {"handler_name", "creation_time", "language"}
"""Tags that mp4 and mov give every track; a language is looked at by itself."""


class Line(Protocol):
    """What makes the packets of one track of the result."""

    @property
    def stream(self) -> Stream: ...

    def feed(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]: ...

    def flush(self) -> Iterator[Packet[Stream]]: ...


class _Cover:
    """A picture that belongs to the whole file, such as a poster."""

    def __init__(self, output: OutputContainer, source: Stream) -> None:
        self.stream = output.add_stream_from_template(source, opaque=True)
        self.stream.time_base = Fraction(1, 1000)

    def feed(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]:
        packet.stream, packet.time_base = self.stream, Fraction(1, 1000)
        packet.pts = packet.dts = packet.duration = 0
        yield packet

    def flush(self) -> Iterator[Packet[Stream]]:
        yield from ()


class Tracks:
    """The other tracks of a job in its output.

    `zero`: seconds of the result's clock at which the output's clock begins, where its container has to begin
    with the first picture.
    """

    def __init__(
        self,
        output: OutputContainer,
        container: str,
        plan: Plan,
        sides: SidesReader,
        audio: AudioMode,
        warnings: Counter[str],
        zero: Fraction = Fraction(0),
    ) -> None:
        self._output, self._container, self._holds = output, container, CONTAINERS[container]
        self._plan, self._sides, self._audio, self._zero = plan, sides, audio, zero
        self._warnings = warnings
        self._lines: dict[int, Line] = {}
        wanted = {t.stream for t in plan.tracks if t.kind == "audio" or _is_cover(t)}
        first = self._first_packets(wanted)
        for track in plan.tracks:
            line = self._line(track, first.get(track.stream))
            if line is not None:
                self._lines[track.stream] = line
                self._describe(line.stream, track)
        self._attach()

    def _first_packets(self, wanted: set[int]) -> dict[int, Packet[Stream]]:
        found: dict[int, Packet[Stream]] = {}
        if wanted:
            for number, packet in self._sides.packets():
                if number in wanted:
                    found.setdefault(number, packet)
                    if len(found) == len(wanted):
                        break
        return found

    def _line(self, track: SideTrack, first: Packet[Stream] | None) -> Line | None:
        source = self._sides.template(track.stream)
        codec = self._codec(track, source)
        if _is_cover(track):
            return self._cover(track, source, codec, first)
        fate, encoder = fate_of(self._container, track.kind, codec, self._audio)
        clock = ResultClock.of(self._plan, track)
        if self._zero:
            clock = replace(clock, origin=clock.origin + self._zero)
        if fate is not Fate.DROP and isinstance(source, AudioStream) and first is not None:
            if fate is Fate.COPY:
                return CopiedSound(self._output, source, self._holds, clock, first, self._warnings)
            if self._audio == "encode" or codec != encoder:  # PCM for AVI: the same samples
                self._tell(f"sound_converted_{codec}", track, encoder)
            gaps = self._holds.gaps
            return ConvertedSound(self._output, source, encoder, clock, self._warnings, gaps=gaps)
        if fate is Fate.COPY and track.kind == "data":
            copied = self._output.add_stream_from_template(source, opaque=True)
            return Subtitles(copied, clock, self._text_tick(clock.tick))
        if fate is not Fate.DROP and isinstance(source, SubtitleStream):
            if fate is Fate.COPY:
                copied = self._output.add_stream_from_template(source, opaque=True)
                return Subtitles(copied, clock, self._text_tick(clock.tick))
            self._tell(f"subtitles_converted_{codec}", track, encoder)
            kind = LaidSubtitles if self._holds.edit_lists else ConvertedSubtitles
            tick = self._text_tick(MILLISECOND)
            return kind(self._output, source, encoder, clock, tick, self._warnings)
        if not (track.kind == "audio" and self._audio == "none"):
            self._tell(f"track_dropped_{codec}", track, "")
        return None

    def _codec(self, track: SideTrack, source: Stream) -> str:
        if track.kind != "data":
            return source.codec_context.codec.canonical_name
        camera = "GoPro MET" in self._sides.metadata[track.stream].get("handler_name", "")
        return "gpmd" if camera and track.codec == "bin_data" else track.codec

    def _tell(self, warning: str, track: SideTrack, became: str) -> None:
        """Counted for the job; the log says which track it was, numbered from 0 among the tracks beside the
        picture as the input lists them."""
        self._warnings[warning] += 1
        number = [other.stream for other in self._plan.tracks].index(track.stream)
        title = self._sides.metadata[track.stream].get("title", "")
        _log.warning(
            warning, job=self._plan.job, track=number, kind=track.kind, language=track.language, title=title,
            became=became or "nothing",
        )  # fmt: skip

    def _text_tick(self, tick: Fraction) -> Fraction:
        if not self._holds.edit_lists:
            return tick
        rates = [self._sides.template(t.stream).codec_context for t in self._plan.tracks if t.kind == "audio"]
        return fine(tick, max(self._plan.time_base[1], *(getattr(r, "sample_rate", 0) for r in rates), 0))

    def _cover(
        self, track: SideTrack, source: Stream, codec: str, first: Packet[Stream] | None
    ) -> Line | None:
        if first is not None and codec in _COVERS:
            if self._holds.cover == "stream":
                return _Cover(self._output, source)
            if self._holds.cover == "attachment":
                name, mimetype = _COVERS[codec]
                name = self._sides.metadata[track.stream].get("filename", name)
                self._output.add_attachment(name, mimetype, bytes(first))
                return None
        self._warnings["cover_dropped"] += 1
        return None

    def _describe(self, stream: Stream, track: SideTrack) -> None:
        stream.disposition, whole = disposition_in(self._container, track.kind, track.disposition)
        self._warnings["dispositions_dropped"] += not (whole or _is_cover(track))
        given = self._sides.metadata[track.stream]
        tags = {_named(k): v for k, v in given.items() if not k.lower().startswith(_STALE)}
        stream.metadata.update(tags)
        if track.language:
            stream.metadata["language"] = language_in(self._container, track.language)
        held = self._holds.track_tags
        if held is not None and not _is_cover(track):
            told = {k.lower() for k in tags} - _CONTAINERS_OWN
            told |= {"language"} if track.language not in ("", "und") else set()
            self._warnings["tags_dropped"] += len(told - held)

    def _attach(self) -> None:
        for attachment in self._sides.attachments:
            if self._holds.attachments:
                self._output.add_attachment(attachment.name, attachment.mimetype, attachment.data)
            else:
                self._warnings["attachment_dropped"] += 1

    def packets(self) -> Iterator[Timed]:
        """All packets in about the order they were stored in."""
        if not self._lines:
            return
        count = 0
        for number, packet in self._sides.packets():
            if number in self._lines:
                for made in self._lines[number].feed(packet):
                    count += 1
                    yield _timed(made, count)
        for line in self._lines.values():
            for made in line.flush():
                count += 1
                yield _timed(made, count)


def _timed(packet: Packet[Stream], count: int) -> Timed:
    at = packet.dts if packet.dts is not None else packet.pts
    return (at or 0) * packet.time_base, count, packet


def _named(tag: str) -> str:
    """FFmpeg reads a track's title out of mp4 as its name, and writes its title there."""
    return "title" if tag == "name" else tag


def _is_cover(track: SideTrack) -> bool:
    return track.kind == "video" and bool(track.disposition & Disposition.attached_pic)
