"""One pass over all packets of an input: the timeline of its picture, and its other tracks set aside.

The timeline comes from the packets where they tell it (every one has its own pts, dts rise, and the
first group of pictures decodes to exactly what its packets announce); else from decoding everything
once, and the input then counts as not seekable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import BinaryIO

from av.container import InputContainer
from av.video.stream import VideoStream

from ingest.head import Head
from ingest.packets import decoded_frames, packets_of, use_one_thread
from ingest.probe import Probe, open_input, probe, video_stream
from runtime.sides import SidesSummary, SidesWriter
from schemas.errors import InputError
from schemas.frames import Rational, VideoFormat


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames in presentation order: pts rising, durations positive, in ticks; ordinals of key frames."""

    pts: list[int]
    duration: list[int]
    keys: list[int]


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
    warnings: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Packet:
    pts: int | None
    dts: int | None
    duration: int
    key: bool
    discard: bool


def scan(path: str, sides: BinaryIO, alive: Callable[[], None] = lambda: None) -> Scan:
    """Read an input once, writing its other tracks to `sides`. Raises InputError.

    `alive` is called once a packet or frame; what it raises ends the scan.
    """
    head = probe(path)
    warnings = Counter(head.warnings)
    with open_input(path) as container:
        stream = video_stream(container)
        packets, summary = _read(container, stream, sides, warnings, alive)
        metadata = dict(container.metadata)
        chapters = _chapters(container)
    timeline, seekable = _timeline(path, head, packets, warnings, alive)
    if not timeline.pts:
        raise InputError(f"input {path}: has no frame")
    warnings.update(summary.warnings)
    return Scan(
        head.format, head.time_base, head.rate, timeline, seekable, summary, metadata, chapters, +warnings
    )


def _read(
    container: InputContainer,
    stream: VideoStream,
    sides: BinaryIO,
    warnings: Counter[str],
    alive: Callable[[], None],
) -> tuple[list[_Packet], SidesSummary]:
    others = [other for other in container.streams if other.index != stream.index]
    writer = SidesWriter(sides, others)
    packets: list[_Packet] = []
    for packet in packets_of(container):
        alive()
        if packet is None:
            warnings["read_errors"] += 1
        elif packet.size == 0:
            continue
        elif packet.stream_index != stream.index:
            writer.write(packet)
        else:
            warnings["corrupt_packets"] += packet.is_corrupt
            packets.append(
                _Packet(packet.pts, packet.dts, packet.duration or 0, packet.is_keyframe, packet.is_discard)
            )
    return packets, writer.close()


def _chapters(container: InputContainer) -> list[tuple[int, int, int, int, str]]:
    rows: list[tuple[int, int, int, int, str]] = []
    for chapter in container.chapters():
        base = chapter["time_base"] or Fraction(1, 1000)
        title = chapter["metadata"].get("title", "")
        rows.append((chapter["start"], chapter["end"], base.numerator, base.denominator, title))
    return rows


def _timeline(
    path: str, head: Probe, packets: list[_Packet], warnings: Counter[str], alive: Callable[[], None]
) -> tuple[Timeline, bool]:
    undecodable = _undecodable(head.head, packets)
    if undecodable is None or not _told_by_packets(packets):
        return _decoded_timeline(path, head, packets, warnings, alive), False
    warnings["leading_frames_undecodable"] += len(undecodable)
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


def _told_by_packets(packets: list[_Packet]) -> bool:
    pts = {packet.pts for packet in packets}
    dts = [packet.dts for packet in packets if packet.dts is not None]
    rising = all(a < b for a, b in pairwise(dts))
    return None not in pts and len(pts) == len(packets) and rising


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


def durations(pts: list[int], last: int, nominal: int) -> list[int]:
    """Each frame lasts until the next; the last as its packet says, else as the one before it."""
    steps = [b - a for a, b in pairwise(pts)]
    end = last if last > 0 else (steps[-1] if steps else nominal)
    return [*steps, max(end, 1)]


def _nominal(head: Probe) -> int:
    numerator, denominator = head.rate
    return round(Fraction(denominator, numerator) / head.time_base) if numerator else 1


def _decoded_timeline(
    path: str, head: Probe, packets: list[_Packet], warnings: Counter[str], alive: Callable[[], None]
) -> Timeline:
    """Decode everything once.

    Frames come out in the order they are shown; where their pts are in another (AVI knows dts only), the n-th
    frame gets the n-th of them, or of the dts where pts are missing. Ticks that still do not rise are made
    up. Both are counted.
    """
    warnings["timeline_by_decoding"] += 1
    ticks: list[int | None] = []
    keys: list[int] = []
    last = 0
    with open_input(path) as container:
        stream = video_stream(container)
        use_one_thread(stream)
        for frame in decoded_frames(container, stream, warnings):
            alive()
            if frame.key_frame:
                keys.append(len(ticks))
            ticks.append(frame.pts)
            last = frame.duration or 0
    dts = [packet.dts for packet in packets]
    if None in ticks and len(dts) == len(ticks):
        ticks = dts
    known = [tick for tick in ticks if tick is not None]
    step = max(_nominal(head), 1)
    if len(set(known)) == len(ticks):
        pts = sorted(known)
        warnings["timestamps_sorted"] += sum(a != b for a, b in zip(pts, known, strict=True))
    else:
        pts = _rising(ticks, step, warnings)
    return Timeline(pts, durations(pts, last, step), keys)


def _rising(ticks: list[int | None], step: int, warnings: Counter[str]) -> list[int]:
    pts: list[int] = []
    for tick in ticks:
        if tick is None or (pts and tick <= pts[-1]):
            warnings["timestamps_repaired"] += 1
            tick = pts[-1] + step if pts else 0
        pts.append(tick)
    return pts
