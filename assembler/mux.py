"""Join encoded segments and the input's other tracks into one file, without encoding again.

Times come from the checkpoints, never from the segments' containers: those only say in which order the
encoder wrote the frames.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
from av.container import Flags, InputContainer, OutputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from assembler.display import TELLING, show_at
from assembler.holds import CONTAINERS, AudioMode
from assembler.languages import language_in
from assembler.timecode import advanced, counted_rate
from assembler.timing import decode_times, durations
from assembler.tracks import Timed, Tracks
from runtime.sides import SidesReader
from schemas.checkpoint import Checkpoint
from schemas.errors import EncoderError
from schemas.frames import Rational, VideoFormat
from schemas.plan import Plan

if TYPE_CHECKING:
    from av.container import Chapter  # exists in the stubs only

_MAX_TIMESCALE = 2**31 - 1
BRANDS = {"major_brand", "minor_version", "compatible_brands", "encoder", "timecode", "loop"}
"""Metadata that describes the input's container, or is told in another way."""
_TAGGED_TRACKS = ("mp4", "mov", "mkv", "webm")
"""Containers that give a picture track a language and a title."""
_SHOWN_SIZES = ("mkv", "webm")
"""Containers in which PyAV does not state the shape of a pixel."""
_CODEC_DELAY = Fraction(1, 20)
"""Seconds before zero that a stated codec delay may hide; none is longer."""


@dataclass(frozen=True, slots=True)
class Part:
    """One committed segment and where its file lies."""

    checkpoint: Checkpoint
    path: Path


@dataclass(frozen=True, slots=True)
class Muxed:
    """What the result holds, and by how much it differs from what was asked for."""

    frames: int
    warnings: dict[str, int]


def mux(
    target: Path,
    container: str,
    plan: Plan,
    parts: Sequence[Part],
    sides: SidesReader | None,
    audio: AudioMode = "copy",
) -> Muxed:
    """Write `target` from segments in order of presentation.

    Every pts is exact where the container can hold it (`timestamps_rounded` counts where not); other tracks
    are copied bit for bit, converted or dropped as `assembler.holds` says, each of the latter a warning.
    Raises EncoderError where the segments do not fit together; OSError where the file cannot be written.
    """
    return _Muxer(target, container, plan, parts, sides, audio).run()


class _Muxer:
    def __init__(
        self,
        target: Path,
        container: str,
        plan: Plan,
        parts: Sequence[Part],
        sides: SidesReader | None,
        audio: AudioMode,
    ) -> None:
        self._target, self._container, self._holds = target, container, CONTAINERS[container]
        self._plan, self._parts, self._sides, self._audio = plan, parts, sides, audio
        self._warnings: Counter[str] = Counter()
        self._pts = _joined_pts(parts)
        self._tick = Fraction(*plan.time_base)
        self._end = parts[-1].checkpoint.end
        self._zero = Fraction(0)
        if container == "avi":
            self._count_frames()

    def run(self) -> Muxed:
        with self._open() as output:
            video = self._add_video(output)
            others: Iterator[Timed] = iter(())
            if self._sides is not None:
                tracks = Tracks(
                    output, self._container, self._plan, self._sides, self._audio, self._warnings, self._zero
                )
                others = tracks.packets()
            self._describe(output, video)
            for _, _, packet in heapq.merge(self._video(video), others):
                self._note_shift(packet)
                output.mux_one(packet)
            codec = video.codec_context.name
        self._state_aspect(codec)
        self._note_rounding()
        return Muxed(len(self._pts), dict(+self._warnings))

    def _state_aspect(self, codec: str) -> None:
        aspect = Fraction(*self._plan.format.sample_aspect)
        if aspect != 1 and self._container in _SHOWN_SIZES and codec not in TELLING:
            self._warnings["sample_aspect_dropped"] += not show_at(self._target, aspect)

    # The output and its tracks

    def _count_frames(self) -> None:
        """AVI numbers its frames: the times become numbers on the finest grid they need, from zero."""
        rate = _grid_rate(self._pts, self._tick, self._plan.rate)
        start = self._pts[0]
        on_grid = [floor((pts - start) * self._tick * rate + Fraction(1, 2)) for pts in self._pts]
        off = sum(n / rate != (p - start) * self._tick for n, p in zip(on_grid, self._pts, strict=True))
        self._warnings["timestamps_rounded"] += off
        self._warnings["start_shifted"] += start != 0
        self._zero = start * self._tick
        self._end = max(floor((self._end - start) * self._tick * rate), on_grid[-1] + 1)
        self._pts, self._tick = on_grid, 1 / rate

    def _open(self) -> OutputContainer:
        options = {}
        if self._holds.edit_lists:
            scale = self._tick.denominator
            rates = [track.time_base[1] for track in self._plan.tracks]
            common = lcm(scale, *rates)
            options = {
                "movflags": "+faststart" + "+use_metadata_tags" * self._keyed(),
                "video_track_timescale": str(scale),
                # Edit lists, which hold the tracks' offsets, count in the movie's timescale.
                "movie_timescale": str(common if common <= _MAX_TIMESCALE else scale),
            }
        output = av.open(str(self._target), "w", format=self._holds.muxer, container_options=options)
        output.flags = int(output.flags) | cast(int, Flags.bitexact.value)
        return output

    def _tags(self) -> Iterator[tuple[str, str]]:
        """The input's tags, without what FFmpeg's readers say twice (`title`, `title-eng`)."""
        given = self._plan.metadata
        for name, value in given.items():
            if name.lower() not in BRANDS and given.get(name.rpartition("-")[0]) != value:
                # Matroska writes names in capitals, and mov names as they are given.
                yield name.lower() if name.isupper() else name, value

    def _keyed(self) -> bool:
        plain = self._holds.plain_tags
        return plain is not None and any(name.lower() not in plain for name, _ in self._tags())

    def _add_video(self, output: OutputContainer) -> VideoStream:
        with av.open(str(self._parts[0].path), "r") as first:
            source = first.streams.video[0]
            stream = output.add_stream_from_template(source, opaque=True)
            name, tag = source.codec_context.name, source.codec_context.codec_tag
        if name == "prores" or (tag == "hvc1" and self._container != "ts"):
            stream.codec_context.codec_tag = tag
        if self._plan.rate[0] > 0 and self._plan.rate[1] > 0:
            stream.codec_context.framerate = Fraction(*self._plan.rate)
        stream.time_base = self._tick
        describe_picture(stream, self._plan.format)
        stream.disposition = Disposition.default
        return stream

    def _describe(self, output: OutputContainer, video: VideoStream) -> None:
        kept = self._holds.tags
        for key, value in self._tags():
            if kept is None or key.lower() in kept:
                output.metadata[key] = value
            else:
                self._warnings["tags_dropped"] += 1
        if self._container in _TAGGED_TRACKS:
            video.metadata.update(self._plan.picture)
            if language := self._plan.picture.get("language"):
                video.metadata["language"] = language_in(self._container, language)
        else:
            self._warnings["tags_dropped"] += len(self._plan.picture)
        self._set_timecode(output, video)
        chapters = self._chapters()
        if self._holds.chapters:
            output.set_chapters(chapters)
        elif chapters:
            self._warnings["chapters_dropped"] += len(chapters)

    def _set_timecode(self, output: OutputContainer, video: VideoStream) -> None:
        timecode = self._plan.metadata.get("timecode")
        if not timecode:
            return
        per_second, passed = counted_rate(self._plan.rate), 0
        if per_second and (source := self._plan.source):
            ticks = source.pts[source.picks[0]] - source.pts[0]
            passed = round(ticks * Fraction(*source.time_base) * Fraction(*self._plan.rate))
        shown = advanced(timecode, passed, per_second)
        if shown and self._holds.timecode == "track":
            video.metadata["timecode"] = shown
        elif shown and self._holds.timecode == "tag":
            output.metadata["timecode"] = shown
        else:
            self._warnings["timecode_dropped"] += 1

    def _chapters(self) -> list[Chapter]:
        """Chapters in the result's clock, cut to the job's span."""
        origin = Fraction(*self._plan.origin) + self._zero
        first, last = (None if edge is None else Fraction(*edge) - origin for edge in self._plan.span)
        found: list[Chapter] = []
        for start, end, numerator, denominator, title in self._plan.chapters:
            base = Fraction(numerator, denominator)
            begin, finish = start * base - origin, end * base - origin
            begin = begin if first is None else max(begin, first)
            finish = finish if last is None else min(finish, last)
            if begin >= finish and start < end:
                continue
            base = base if (begin / base).denominator == (finish / base).denominator == 1 else _MICROSECOND
            chapter: Chapter = {
                "id": len(found),
                "start": round(begin / base),
                "end": round(finish / base),
                "time_base": base,
                "metadata": {"title": title} if title else {},
            }
            found.append(chapter)
        return found

    # Packets in order of time

    def _video(self, stream: VideoStream) -> Iterator[Timed]:
        depth = max(part.checkpoint.reorder for part in self._parts)
        dts = iter(decode_times(self._pts, depth))
        length = durations(self._pts, self._end)
        extradata: bytes | None = None
        first = 0
        for number, part in enumerate(self._parts):
            with av.open(str(part.path), "r") as source:
                own = source.streams.video[0].codec_context.extradata
                if number and own != extradata:
                    raise EncoderError(
                        f"segment {part.checkpoint.segment} has other encoder parameters than the first"
                    )
                extradata = own
                for index, packet in _shown(part.checkpoint, source):
                    packet.stream, packet.time_base = stream, self._tick
                    packet.pts, packet.dts = self._pts[first + index], next(dts)
                    packet.duration = length[first + index]
                    yield packet.dts * self._tick, 0, packet
            first += len(part.checkpoint.pts)

    def _note_shift(self, packet: Packet[Stream]) -> None:
        """Containers that hold no time before zero begin later, all tracks together."""
        at = packet.pts if self._holds.codec_delay else packet.dts
        delay = _CODEC_DELAY if self._holds.codec_delay and packet.stream.type == "audio" else 0
        if not self._holds.edit_lists and at is not None and at * packet.time_base < -delay:
            self._warnings["start_shifted"] = 1

    def _note_rounding(self) -> None:
        tick = self._holds.tick
        if tick is not None:
            rounded = sum((pts * self._tick / tick).denominator != 1 for pts in self._pts)
            self._warnings["timestamps_rounded"] += rounded


_MICROSECOND = Fraction(1, 1_000_000)
_FINEST_GRID = 1000
"""Frames a second."""


def _grid_rate(pts: Sequence[int], tick: Fraction, rate: Rational) -> Fraction:
    """Frames a second of a grid on which no two frames fall together: the input's rate or a multiple."""
    step = min((b - a for a, b in itertools.pairwise(pts)), default=0) * tick
    grid = Fraction(*rate) if rate[0] > 0 and rate[1] > 0 else 1 / step if step else Fraction(25)
    while step and grid * step < Fraction(3, 4) and grid < _FINEST_GRID:
        grid *= 2
    return grid


def _joined_pts(parts: Sequence[Part]) -> list[int]:
    pts = [value for part in parts for value in part.checkpoint.pts]
    for before, after in itertools.pairwise(pts):
        if after <= before:
            raise EncoderError(f"segments overlap: pts {after} comes after {before}")
    bases = {part.checkpoint.time_base for part in parts}
    if len(bases) != 1:
        raise EncoderError(f"segments have different time bases: {sorted(bases)}")
    return pts


def _shown(checkpoint: Checkpoint, source: InputContainer) -> Iterator[tuple[int, Packet[Stream]]]:
    """Packets of a segment in decode order, each with its number in the order of presentation."""
    packets = [cast("Packet[Stream]", packet) for packet in source.demux(video=0) if packet.size]
    if len(packets) != len(checkpoint.pts) or any(packet.pts is None for packet in packets):
        raise EncoderError(
            f"segment {checkpoint.segment}: {len(packets)} packets for {len(checkpoint.pts)} frames"
        )
    shown = sorted(range(len(packets)), key=lambda i: cast(int, packets[i].pts))
    place = {decoded: number for number, decoded in enumerate(shown)}
    for index, packet in enumerate(packets):
        yield place[index], packet


def describe_picture(stream: VideoStream, video: VideoFormat) -> None:
    """Shape of a pixel and rotation, as the container states them."""
    if video.sample_aspect[0] > 0 and video.sample_aspect[1] > 0:
        stream.codec_context.sample_aspect_ratio = Fraction(*video.sample_aspect)
    if video.rotation:
        stream.set_display_rotation(video.rotation)
    if video.pixels.alpha and stream.codec_context.name == "vp9":
        stream.metadata["alpha_mode"] = "1"  # alpha lies beside the packets
