"""Join encoded segments and the input's other tracks into one file, without encoding again.

Times come from the checkpoints, never from the segments' containers: those only say in which order the
encoder wrote the frames.
"""

from __future__ import annotations

import heapq
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
from av.container import Flags, InputContainer, OutputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from assembler.timing import decode_times, durations
from runtime.sides import SidesReader
from schemas.checkpoint import Checkpoint
from schemas.errors import EncoderError
from schemas.frames import VideoFormat
from schemas.plan import Plan, SideTrack

if TYPE_CHECKING:
    from av.container import Chapter  # exists in the stubs only

FORMATS = {"mp4": "mp4", "mov": "mov", "mkv": "matroska"}
"""FFmpeg's muxer for each output container."""
MATROSKA_TICK = Fraction(1, 1000)
_MAX_TIMESCALE = 2**31 - 1
_BRANDS = {"major_brand", "minor_version", "compatible_brands", "encoder"}
"""Metadata that describes the input's container, not its content."""

Timed = tuple[Fraction, int, Packet]  # type: ignore[type-arg]  # generic in the stubs only
"""(time in seconds, tie-break, packet), for interleaving."""


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


def mux(target: Path, container: str, plan: Plan, parts: Sequence[Part], sides: SidesReader | None) -> Muxed:
    """Write `target` from segments in order of presentation.

    Every pts is exact where the container can hold it; sound and other packets are copied bit for bit.
    A track that the container cannot hold becomes a warning `track_dropped_<codec>`. Raises
    EncoderError where the segments do not fit together; OSError where the file cannot be written.
    """
    return _Muxer(target, container, plan, parts, sides).run()


class _Muxer:
    def __init__(
        self, target: Path, container: str, plan: Plan, parts: Sequence[Part], sides: SidesReader | None
    ) -> None:
        self._target, self._container = target, container
        self._plan, self._parts, self._sides = plan, parts, sides
        self._warnings: Counter[str] = Counter()
        self._pts = _joined_pts(parts)
        self._tick = Fraction(*plan.time_base)

    def run(self) -> Muxed:
        with self._open() as output:
            video = self._add_video(output)
            tracks = self._add_sides(output) if self._sides else {}
            self._describe(output)
            for _, _, packet in heapq.merge(self._video(video), self._others(tracks)):
                output.mux_one(packet)
        self._note_limits()
        return Muxed(len(self._pts), dict(self._warnings))

    # The output and its tracks

    def _open(self) -> OutputContainer:
        options = {}
        if self._container != "mkv":
            scale = self._tick.denominator
            common = lcm(scale, *(track.time_base[1] for track in self._plan.tracks))
            options = {
                "movflags": "+faststart",
                "video_track_timescale": str(scale),
                # Edit lists, which hold the tracks' offsets, count in the movie's timescale.
                "movie_timescale": str(common if common <= _MAX_TIMESCALE else scale),
            }
        output = av.open(str(self._target), "w", format=FORMATS[self._container], container_options=options)
        output.flags = int(output.flags) | cast(int, Flags.bitexact.value)
        return output

    def _add_video(self, output: OutputContainer) -> VideoStream:
        with av.open(str(self._parts[0].path), "r") as first:
            stream = output.add_stream_from_template(first.streams.video[0], opaque=True)
            tag = first.streams.video[0].codec_context.codec_tag
        if tag == "hvc1":
            stream.codec_context.codec_tag = tag
        stream.time_base = self._tick
        describe_picture(stream, self._plan.format)
        stream.disposition = Disposition.default
        return stream

    def _add_sides(self, output: OutputContainer) -> dict[int, tuple[SideTrack, Stream]]:
        """Tracks of the sides object that the output holds, by their number in it."""
        assert self._sides is not None
        added: dict[int, tuple[SideTrack, Stream]] = {}
        for track in self._plan.tracks:
            source = self._sides.template(track.stream)
            if not holds(self._container, source):
                self._warnings[f"track_dropped_{track.codec or track.kind}"] += 1
                continue
            stream = output.add_stream_from_template(source, opaque=True)
            stream.time_base = Fraction(*track.time_base)
            stream.disposition = Disposition(track.disposition)
            stream.metadata.update(self._sides.metadata[track.stream])
            if track.language:
                stream.metadata["language"] = track.language
            added[track.stream] = track, stream
        for attachment in self._sides.attachments:
            if self._container == "mkv":
                output.add_attachment(attachment.name, attachment.mimetype, attachment.data)
            else:
                self._warnings["attachment_dropped"] += 1
        return added

    def _describe(self, output: OutputContainer) -> None:
        output.metadata.update({k: v for k, v in self._plan.metadata.items() if k not in _BRANDS})
        chapters: list[Chapter] = [
            {
                "id": index,
                "start": start,
                "end": end,
                "time_base": Fraction(numerator, denominator),
                "metadata": {"title": title} if title else {},
            }
            for index, (start, end, numerator, denominator, title) in enumerate(self._plan.chapters)
        ]
        output.set_chapters(chapters)

    # Packets in order of time

    def _video(self, stream: VideoStream) -> Iterator[Timed]:
        depth = max(part.checkpoint.reorder for part in self._parts)
        dts = iter(decode_times(self._pts, depth))
        length = dict(zip(self._pts, durations(self._pts, self._parts[-1].checkpoint.end), strict=True))
        extradata: bytes | None = None
        for number, part in enumerate(self._parts):
            with av.open(str(part.path), "r") as source:
                own = source.streams.video[0].codec_context.extradata
                if number and own != extradata:
                    raise EncoderError(
                        f"segment {part.checkpoint.segment} has other encoder parameters than the first"
                    )
                extradata = own
                for pts, packet in _timed(part.checkpoint, source):
                    packet.stream, packet.time_base = stream, self._tick
                    packet.pts, packet.dts, packet.duration = pts, next(dts), length[pts]
                    yield packet.dts * self._tick, 0, packet

    def _others(self, tracks: dict[int, tuple[SideTrack, Stream]]) -> Iterator[Timed]:
        if self._sides is None or not tracks:
            return
        for count, (number, packet) in enumerate(self._sides.packets(), 1):
            if number not in tracks:
                continue
            track, stream = tracks[number]
            packet.stream = stream
            packet.pts = None if packet.pts is None else packet.pts - track.shift
            packet.dts = None if packet.dts is None else packet.dts - track.shift
            at = packet.dts if packet.dts is not None else packet.pts
            if self._container == "mkv" and at is not None and at < 0:
                self._warnings["start_shifted"] = 1
            yield (at or 0) * packet.time_base, count, packet

    def _note_limits(self) -> None:
        if self._container == "mkv":
            rounded = sum(1 for pts in self._pts if (pts * self._tick / MATROSKA_TICK).denominator != 1)
            if rounded:
                self._warnings["timestamps_rounded"] = rounded


def _joined_pts(parts: Sequence[Part]) -> list[int]:
    pts = [value for part in parts for value in part.checkpoint.pts]
    for before, after in itertools.pairwise(pts):
        if after <= before:
            raise EncoderError(f"segments overlap: pts {after} comes after {before}")
    bases = {part.checkpoint.time_base for part in parts}
    if len(bases) != 1:
        raise EncoderError(f"segments have different time bases: {sorted(bases)}")
    return pts


def _timed(checkpoint: Checkpoint, source: InputContainer) -> Iterator[tuple[int, Packet[Stream]]]:
    """Packets of a segment in decode order, each with its exact pts from the checkpoint."""
    packets = [cast("Packet[Stream]", packet) for packet in source.demux(video=0) if packet.size]
    if len(packets) != len(checkpoint.pts) or any(packet.pts is None for packet in packets):
        raise EncoderError(
            f"segment {checkpoint.segment}: {len(packets)} packets for {len(checkpoint.pts)} frames"
        )
    shown = sorted(range(len(packets)), key=lambda i: cast(int, packets[i].pts))
    pts = dict(zip(shown, checkpoint.pts, strict=True))
    for index, packet in enumerate(packets):
        yield pts[index], packet


def describe_picture(stream: VideoStream, video: VideoFormat) -> None:
    """Shape of a pixel and rotation, as the container states them."""
    if video.sample_aspect[0] > 0 and video.sample_aspect[1] > 0:
        stream.codec_context.sample_aspect_ratio = Fraction(*video.sample_aspect)
    if video.rotation:
        stream.set_display_rotation(video.rotation)


def holds(container: str, source: Stream) -> bool:
    """Whether a container takes a track: tried by writing the header of a file with it alone."""
    try:
        with av.open(io.BytesIO(), "w", format=FORMATS[container]) as trial:
            trial.add_stream_from_template(source, opaque=True)
            trial.start_encoding()
    except (ValueError, OSError):
        return False
    return True
