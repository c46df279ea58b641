"""One pass over all packets of an input: the timeline of its picture, and its other tracks set aside.

The timeline comes from the packets where they tell it (every one has its own pts, dts rise, and the
first group of pictures decodes to exactly what its packets announce); else from decoding everything
once, by the rule of `ingest.timeline`, and the input then counts as not seekable. Where clocks are broken,
the other tracks are read a second time, with their times corrected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import BinaryIO

import av
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from ingest.codecs import CodecWatch
from ingest.edits import misread_edits
from ingest.ends import ends_early
from ingest.head import Head
from ingest.open import local_name, open_input
from ingest.packets import correct, decoded_frames, packets_of, use_one_thread
from ingest.probe import Probe, probe, video_stream
from ingest.timeline import MOST_REORDERED, Clock, Mend, Timeline, durations, in_order, mend_clocks
from runtime.settings import InputSettings
from runtime.sides import SidesSummary, SidesWriter
from schemas.errors import InputError
from schemas.frames import Rational, VideoFormat

DAMAGE = ("truncated", "corrupt_packets", "read_errors", "decode_errors", "leading_frames_undecodable")
"""Warnings that mark an input as degraded."""


@dataclass(slots=True)
class Scan:
    """Everything the plan needs to know about an input."""

    format: VideoFormat
    time_base: Fraction
    rate: Rational
    timeline: Timeline
    seekable: bool
    sides: SidesSummary
    metadata: dict[str, str]
    chapters: list[tuple[int, int, int, int, str]]
    picture: dict[str, str] = field(default_factory=dict)
    """Tags of the picture's own track."""
    bitrate: int = 0
    """Bits a second of the picture's packets, on average over what is presented."""
    mirrored: bool = False
    warnings: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Packet:
    pts: int | None
    dts: int | None
    duration: int
    key: bool
    discard: bool
    size: int


def scan(
    path: str,
    sides: BinaryIO,
    alive: Callable[[], None] = lambda: None,
    limits: InputSettings | None = None,
) -> Scan:
    """Read an input once, writing its other tracks to `sides`. Raises InputError.

    `alive` is called once a packet or frame; what it raises ends the scan.
    """
    return _Scanner(path, sides, alive, limits or InputSettings()).run()


class _Scanner:
    def __init__(self, path: str, sides: BinaryIO, alive: Callable[[], None], limits: InputSettings) -> None:
        self._path, self._sides, self._alive, self._limits = path, sides, alive, limits
        self._head = probe(path, limits)
        self.warnings = Counter(self._head.warnings)
        self._packets: list[_Packet] = []
        self._clocks: dict[int, Clock] = {}

    def run(self) -> Scan:
        head = self._head
        with open_input(self._path, self._limits) as container:
            stream = video_stream(container)
            self._check_edits(container)
            summary = self._read(container, stream)
            metadata = dict(container.metadata)
            if head.loop is not None:
                metadata["loop"] = str(head.loop)
            if timecode := _timecode(container, stream):
                metadata["timecode"] = timecode
            chapters = _chapters(container)
            picture = stream.index  # a stream of a closed container tells nothing
        mends = self._mends(picture)
        if mends:
            summary = self._read_again(mends)
        timeline, seekable = self._timeline(mends.get(picture) if mends else None)
        self._check(timeline)
        self.warnings.update(summary.warnings)
        self.warnings["truncated"] += ends_early(local_name(self._path))
        degraded = sum(self.warnings[name] for name in DAMAGE)
        self.warnings["degraded"] += degraded
        return Scan(
            head.format,
            head.time_base,
            head.rate,
            timeline,
            seekable,
            summary,
            metadata,
            chapters,
            head.tags,
            self._bitrate(timeline),
            head.mirrored,
            +self.warnings,
        )

    def _bitrate(self, timeline: Timeline) -> int:
        ticks = timeline.pts[-1] + timeline.duration[-1] - timeline.pts[0]
        seconds = ticks * self._head.time_base
        return round(8 * sum(packet.size for packet in self._packets) / seconds) if seconds else 0

    def _check(self, timeline: Timeline) -> None:
        if not timeline.pts:
            raise InputError(f"input {self._path}: has no frame")
        lasts = (timeline.pts[-1] + timeline.duration[-1] - timeline.pts[0]) * self._head.time_base
        if lasts > self._limits.seconds:
            raise InputError(
                f"input {self._path}: lasts {float(lasts):.0f} s; "
                f"input.seconds allows {self._limits.seconds:g}"
            )

    def _check_edits(self, container: InputContainer) -> None:
        local = container.name.startswith("file:") and "mov" in container.format.name.split(",")
        if local and (why := misread_edits(container.name.removeprefix("file:"))):
            raise InputError(f"input {self._path}: {why}, which is not supported")

    # Reading

    def _read(self, container: InputContainer, stream: VideoStream) -> SidesSummary:
        writer = SidesWriter(self._sides, _others(container, stream))
        watch = CodecWatch(stream.codec_context.name if self._head.mpeg else "")
        for place, packet in enumerate(packets_of(container)):
            self._alive()
            if packet is None:
                self.warnings["read_errors"] += 1
                continue
            if packet.size == 0:
                continue
            self._note(packet, place)
            if packet.stream_index != stream.index:
                writer.write(packet)
                continue
            self.warnings["corrupt_packets"] += packet.is_corrupt
            if (other := watch.change(memoryview(packet))) is not None:
                raise InputError(
                    f"input {self._path}: its picture changes from {stream.codec_context.name} to {other}; "
                    "one codec is supported"
                )
            self._packets.append(
                _Packet(
                    packet.pts,
                    packet.dts,
                    packet.duration or 0,
                    packet.is_keyframe,
                    packet.is_discard,
                    packet.size,
                )
            )
            if len(self._packets) > self._limits.frames:
                raise InputError(
                    f"input {self._path}: has more frames than the {self._limits.frames} of input.frames"
                )
        return writer.close()

    def _note(self, packet: av.Packet[Stream], place: int) -> None:
        clock = self._clocks.get(packet.stream_index)
        if clock is None:
            base = packet.time_base or Fraction(1, 90_000)
            clock = self._clocks[packet.stream_index] = Clock(base, packet.stream.type)
        if packet.is_discard:  # hidden by an edit list, at a time that another is shown at
            clock.add(None, None, 0, place)
        else:
            clock.add(packet.pts, packet.dts, packet.duration or 0, place)

    def _mends(self, picture: int) -> dict[int, Mend] | None:
        """What is wrong with the clocks, by stream."""
        indices = sorted(self._clocks)
        if picture not in indices:
            return None
        mends = mend_clocks(
            [self._clocks[index] for index in indices], indices.index(picture), self._head.mpeg, self.warnings
        )
        return None if mends is None else dict(zip(indices, mends, strict=True))

    def _read_again(self, mends: dict[int, Mend]) -> SidesSummary:
        """Write the other tracks anew, with corrected times."""
        self._sides.seek(0)
        self._sides.truncate()
        numbers = dict.fromkeys(mends, -1)
        with open_input(self._path, self._limits) as container:
            stream = video_stream(container)
            writer = SidesWriter(self._sides, _others(container, stream))
            for packet in packets_of(container):
                self._alive()
                if packet is None or packet.size == 0 or packet.stream_index == stream.index:
                    continue
                index = packet.stream_index
                numbers[index] += 1
                correct(packet, mends[index], numbers[index])
                writer.write(packet)
            return writer.close()

    # The timeline

    def _timeline(self, mend: Mend | None) -> tuple[Timeline, bool]:
        head, packets = self._head, self._packets
        undecodable = _undecodable(head.head, packets)
        if mend is not None or undecodable is None or not _told_by_packets(packets, head.head):
            return self._decoded_timeline(mend), False
        self.warnings["leading_frames_undecodable"] += len(undecodable)
        shown = {
            packet.pts: packet
            for packet in packets
            if packet.pts is not None and packet.pts not in undecodable and not packet.discard
        }
        pts = sorted(shown)
        keys = [ordinal for ordinal, tick in enumerate(pts) if shown[tick].key]
        if not head.head.clean_keys:
            keys = keys[:1]
        last = shown[pts[-1]].duration if pts else 0
        return Timeline(pts, durations(pts, last, _nominal(head)), keys), not head.animation

    def _decoded_timeline(self, mend: Mend | None) -> Timeline:
        """Decode everything once. Where most pts are missing, the n-th frame gets the n-th dts (AVI)."""
        self.warnings["timeline_by_decoding"] += 1
        ticks: list[int | None] = []
        keys: list[int] = []
        last = 0
        with open_input(self._path, self._limits) as container:
            stream = video_stream(container)
            use_one_thread(stream)
            for frame in decoded_frames(container, stream, self.warnings, mend):
                self._alive()
                if frame.key_frame:
                    keys.append(len(ticks))
                ticks.append(frame.pts)
                last = frame.duration or 0
        dts = [packet.dts for packet in self._packets]
        untimed = max(len(ticks) // 2, dts.count(None))
        if mend is None and len(dts) == len(ticks) and ticks.count(None) > untimed:
            ticks = list(dts)
        if None in ticks:
            last = 0  # guessed from the times that are there
        step = max(_nominal(self._head), 1)
        pts = in_order(ticks, step, self.warnings)
        return Timeline(pts, durations(pts, last, step), keys)


def _others(container: InputContainer, stream: VideoStream) -> list[Stream]:
    return [other for other in container.streams if other.index != stream.index]


def _timecode(container: InputContainer, stream: VideoStream) -> str:
    """Of the first frame: a tag of the file (Matroska), of the picture (DV) or of its own track (mov)."""
    for tags in (container.metadata, stream.metadata, *(other.metadata for other in container.streams)):
        for name, value in tags.items():
            if name.lower() == "timecode":
                return value
    return ""


def _chapters(container: InputContainer) -> list[tuple[int, int, int, int, str]]:
    rows: list[tuple[int, int, int, int, str]] = []
    for chapter in container.chapters():
        base = chapter["time_base"] or Fraction(1, 1000)
        title = chapter["metadata"].get("title", "")
        rows.append((chapter["start"], chapter["end"], base.numerator, base.denominator, title))
    return rows


def _told_by_packets(packets: Sequence[_Packet], head: Head) -> bool:
    """Whether times are complete and in an order that the decoder can have."""
    pts = [packet.pts for packet in packets]
    dts = [packet.dts for packet in packets if packet.dts is not None]
    if None in pts or len(set(pts)) != len(pts) or not all(a < b for a, b in pairwise(dts)):
        return False
    known = [tick for tick in pts if tick is not None]
    most = MOST_REORDERED if head.reorders else 0
    rank = {tick: place for place, tick in enumerate(sorted(known))}
    return all(abs(rank[tick] - place) <= most for place, tick in enumerate(known))


def _undecodable(head: Head, packets: list[_Packet]) -> set[int] | None:
    """Frames before the first decodable one, which lean on pictures that are not there (open GOP);
    None where the first group decodes to something else than its packets say."""
    announced = {packet.pts for packet in packets[: head.packets] if not packet.discard}
    shown = [tick for tick in head.pts if tick is not None]
    missing = {tick for tick in announced.difference(head.pts) if tick is not None}
    as_announced = None not in announced and announced.issuperset(head.pts)
    if not as_announced or shown != sorted(set(shown)) or any(tick > shown[0] for tick in missing):
        return None
    return missing


def _nominal(head: Probe) -> int:
    numerator, denominator = head.rate
    return round(Fraction(denominator, numerator) / head.time_base) if numerator else 1
