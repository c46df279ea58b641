"""Join of the frames and swaps of each stream, in order, each frame exactly once.

Pure logic: records go in as they arrive, pairs of (frame batch, swap batch) come out in the order of
their sequence numbers. Both sides of a stream have the same batch boundaries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from schemas.checkpoint import FrameRange
from schemas.errors import FramesLostError, MalformedRecordError
from schemas.frames import FrameBatch, RangeRef, StreamAbort, StreamEnd, StreamStart
from schemas.record import Message, Record
from schemas.swaps import SwapBatch

REMEMBERED = 100_000
"""Finished streams kept in memory, so that late duplicates of them are recognised."""


EVER = (-(1 << 62), 1 << 62)
"""A span that leaves nothing out."""


class Side(StrEnum):
    """The two topics that are joined."""

    FRAMES = "frames"
    SWAPS = "swaps"


@dataclass(frozen=True, slots=True)
class StreamKey:
    """One release of one stream."""

    stream: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A frame batch with the swap batch made from it."""

    frames: Message[FrameBatch]
    swaps: Message[SwapBatch]


@dataclass(slots=True)
class StreamState:
    """What is known of one unfinished stream."""

    key: StreamKey
    job: str
    partition: int
    start: StreamStart | None = None
    end: StreamEnd | None = None
    closing: bool = False
    """The end was handed out, too."""
    encoding: bool = False
    """Somebody takes its pairs as they come."""
    next_seq: int = 0
    """Sequence number of the first frame that was not handed out yet."""
    frames: dict[int, Message[FrameBatch]] = field(default_factory=dict)
    swaps: dict[int, Message[SwapBatch]] = field(default_factory=dict)
    first: dict[Side, int] = field(default_factory=dict)
    """Smallest offset of the stream's records on each side."""
    range: RangeRef | None = None
    """Where its frames are read from, by who owns the join, once their patches are here: another stream's
    in a replay, its own if they were let go. None: they come along with the topic."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Of its frame batches not handed out yet, by sequence number."""
    batches: tuple[int, int] | None = None
    """Smallest and largest offset of its frame batches."""
    written_ms: int = 0
    """Kafka's time of the first of them."""
    reached: int = -1
    """Frames that were read one after the other from the topic; -1 until the stream's start was."""

    @property
    def complete(self) -> bool:
        """Every frame was handed out."""
        return self.end is not None and self.next_seq == self.end.count

    @property
    def held(self) -> int:
        """Bytes of frames that wait for their patches or for room in the encoder."""
        return sum(len(batch.body) for batch in self.frames.values())

    @property
    def ready(self) -> bool:
        return self.next_seq in self.frames and self.next_seq in self.swaps

    @property
    def answered(self) -> bool:
        """All patches that are still to come are here: nothing can hold it up."""
        if self.end is None:
            return False
        seq = self.next_seq
        while (swaps := self.swaps.get(seq)) is not None:
            seq += swaps.record.count
        return seq >= self.end.count

    @property
    def wanting(self) -> bool:
        """The patches that come next are here, their frames are not."""
        return self.next_seq in self.swaps and self.next_seq not in self.frames

    @property
    def patches(self) -> int:
        """Bytes of patches that wait for their frames or for room in the encoder."""
        return sum(len(batch.body) for batch in self.swaps.values())

    @property
    def known(self) -> bool:
        """The frames that come next do not come along with the topic, and where they lie is known."""
        return self.range is not None and (self.replayed or self.next_seq in self.offsets)

    def accept(self, batch: Message[FrameBatch]) -> None:
        """Take in a batch of frames; the first of its number is kept."""
        if batch.record.seq >= self.next_seq:
            self.frames.setdefault(batch.record.seq, batch)

    @property
    def replayed(self) -> bool:
        """Whether its frames are another stream's."""
        return self.range is not None and self.range.source != self.key.stream

    @property
    def all_read(self) -> bool:
        """Nothing of it has to be read any more."""
        if self.end is None or self.start is None:
            return False
        swapped = max({seq + m.record.count for seq, m in self.swaps.items()} | {self.next_seq})
        return min(swapped, self.end.count if self.replayed else self.reached) >= self.end.count

    @property
    def overtaken(self) -> bool:
        """Later patches are here, those that come next are not: they do not just take long."""
        return self.next_seq not in self.swaps and any(seq > self.next_seq for seq in self.swaps)

    def follow(self, record: Record) -> None:
        """A record of the stream was read from the frames topic, where each run of it lies from start to end.
        Raises FramesLostError if frames before it were not there."""
        begin, end = self.reached, self.reached
        if isinstance(record, StreamStart):
            end = max(end, 0)
        elif isinstance(record, FrameBatch):
            begin, end = record.seq, max(end, record.seq + len(record))
        elif isinstance(record, StreamEnd) and not self.replayed:
            begin = record.count
        if begin > self.reached:
            raise FramesLostError(
                f"{self.key.stream}: frames {max(self.reached, 0)} to {begin} are no longer in Kafka"
            )
        self.reached = end

    def note(self, seq: int, offset: int, written_ms: int) -> None:
        """A batch of frames lies at `offset` of the topic."""
        if seq >= self.next_seq:
            self.offsets.setdefault(seq, offset)
        low, high = self.batches or (offset, offset)
        if self.batches is None:
            self.written_ms = written_ms
        self.batches = min(low, offset), max(high, offset)

    def let_go(self, topic: str) -> None:
        """Drop the frames in memory; they are read again from `topic` when their patches are here."""
        self.frames.clear()
        self.range = RangeRef(
            job=self.job,
            stream=self.key.stream,
            epoch=self.key.epoch,
            topic=topic,
            partition=self.partition,
            first_offset=self.first.get(Side.FRAMES, 0),
            last_offset=-1,
            source=self.key.stream,
            source_epoch=self.key.epoch,
            start=EVER[0],
            end=EVER[1],
            count=EVER[1],
            context=0,
        )

    def frame_range(self, topic: str) -> FrameRange | None:
        """Where its batches lie, once it has ended; None for a replay, which has none of its own."""
        if self.batches is None or self.end is None:
            return None
        return FrameRange(
            topic=topic,
            partition=self.partition,
            first_offset=self.batches[0],
            last_offset=self.batches[1],
            count=self.end.count,
            context=self.end.context,
            written_ms=self.written_ms,
        )

    def missing(self) -> str:
        """What the stream waits for, in words."""
        if self.end is not None and self.next_seq >= self.end.count:
            return "nothing"
        sides = {Side.FRAMES: self.next_seq in self.frames, Side.SWAPS: self.next_seq in self.swaps}
        absent = " and ".join(str(side) for side, there in sides.items() if not there)
        return f"{absent or 'the encoder'} at seq {self.next_seq}"

    def take(self) -> Pair | None:
        """The next pair in order, or None while a side of it is missing.

        Raises MalformedRecordError when the two sides contradict each other or the stream's end.
        """
        if not self.ready:
            return None
        pair = Pair(self.frames.pop(self.next_seq), self.swaps.pop(self.next_seq))
        count = len(pair.frames.record)
        if pair.swaps.record.count != count:
            raise MalformedRecordError(
                f"stream {self.key.stream} seq {self.next_seq}: {count} frames, "
                f"but patches for {pair.swaps.record.count}"
            )
        self.next_seq += count
        if self.end is not None and self.next_seq > self.end.count:
            raise MalformedRecordError(
                f"stream {self.key.stream} has frames up to {self.next_seq}, its end says {self.end.count}"
            )
        self._forget_passed()
        return pair

    def _forget_passed(self) -> None:
        for seq in [s for s in self.frames if s < self.next_seq]:
            del self.frames[seq]
        for seq in [s for s in self.swaps if s < self.next_seq]:
            del self.swaps[seq]
        for seq in [s for s in self.offsets if s < self.next_seq]:
            del self.offsets[seq]


class Join:
    """All unfinished streams of the assigned partitions.

    The first record of each (stream, epoch, seq) is kept, later ones are dropped; a higher epoch
    discards everything of the lower one. Records of a finished stream, of the same or a lower epoch,
    are dropped.
    """

    def __init__(self) -> None:
        self._streams: dict[str, StreamState] = {}
        self._closed: OrderedDict[str, int] = OrderedDict()
        self._position: dict[tuple[Side, int], int] = {}
        self._discarded: list[StreamKey] = []

    def __iter__(self) -> Iterator[StreamState]:
        """Unfinished streams, oldest first."""
        return iter(list(self._streams.values()))

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, key: StreamKey) -> StreamState | None:
        """The stream if it is unfinished and still of that epoch."""
        state = self._streams.get(key.stream)
        return state if state is not None and state.key == key else None

    @property
    def held(self) -> int:
        """Bytes of frames held."""
        return sum(state.held for state in self._streams.values())

    def let_go(self, topic: str, most: int) -> None:
        """Drop frames that wait for patches or for an encoder, of the largest streams first, until at most
        `most` bytes are held or all that is held can be encoded now."""
        idle = [s for s in self._streams.values() if s.frames and not (s.ready and s.encoding)]
        for state in sorted(idle, key=lambda s: -s.held):
            if self.held <= most:
                return
            state.let_go(topic)

    @property
    def starving(self) -> bool:
        """Patches wait for frames that have not been read yet."""
        return any(state.wanting and not state.known for state in self._streams.values())

    @property
    def answered(self) -> bool:
        """All patches of some stream are here."""
        return any(state.answered for state in self._streams.values())

    @property
    def patches(self) -> int:
        """Bytes of patches held."""
        return sum(state.patches for state in self._streams.values())

    def add(
        self, side: Side, partition: int, offset: int, message: Message[Record], written_ms: int = 0
    ) -> None:
        """Take in one record, written at that time (ms since 1970). Raises MalformedRecordError for a kind
        that has no place here."""
        self._position[side, partition] = offset + 1
        record = message.record
        state = self._state(StreamKey(record.stream, record.epoch), record.job, partition)
        if state is None:
            return
        state.first.setdefault(side, offset)
        if isinstance(record, FrameBatch):
            state.note(record.seq, offset, written_ms)
            if state.range is None:
                state.accept(Message(record, message.body))
        elif isinstance(record, SwapBatch):
            if record.seq >= state.next_seq:
                state.swaps.setdefault(record.seq, Message(record, message.body))
        elif isinstance(record, StreamStart):
            state.start = state.start or record
        elif isinstance(record, StreamEnd):
            state.end = state.end or record
        elif isinstance(record, RangeRef):
            state.range = state.range or record
        elif isinstance(record, StreamAbort):
            self._discarded.append(state.key)
            self.close(state.key)
        else:
            raise MalformedRecordError(f"a {record.KIND} record does not belong on {side}")

    def _state(self, key: StreamKey, job: str, partition: int) -> StreamState | None:
        """The stream's state, made anew for a new stream or epoch; None if the record is too late."""
        if key.epoch <= self._closed.get(key.stream, -1):
            return None
        state = self._streams.get(key.stream)
        if state is not None and state.key.epoch > key.epoch:
            return None
        if state is None or state.key.epoch < key.epoch:
            if state is not None:
                self._discarded.append(state.key)
                del self._streams[key.stream]
            state = self._streams[key.stream] = StreamState(key, job, partition)
        return state

    def skip(self, side: Side, partition: int, offset: int) -> None:
        """A record that cannot be read was passed over."""
        self._position[side, partition] = offset + 1

    def close(self, key: StreamKey) -> None:
        """The stream is done, failed or given up: drop what it holds and everything that still comes."""
        state = self._streams.get(key.stream)
        if state is not None and state.key.epoch <= key.epoch:
            if state.key.epoch < key.epoch:
                self._discarded.append(state.key)
            del self._streams[key.stream]
        self._closed[key.stream] = max(key.epoch, self._closed.pop(key.stream, -1))
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)

    def closed(self, key: StreamKey) -> bool:
        """Whether the stream is done with in this epoch or a later one."""
        return key.epoch <= self._closed.get(key.stream, -1)

    @property
    def positions(self) -> dict[tuple[Side, int], int]:
        """The next offset to read of each partition that was read from."""
        return dict(self._position)

    def discarded(self) -> list[StreamKey]:
        """Streams that were aborted or replaced by a higher epoch since the last call."""
        taken, self._discarded = self._discarded, []
        return taken

    def revoke(self, partitions: Iterable[int]) -> list[StreamKey]:
        """Forget all streams of these partitions and where reading stood; returns the dropped streams."""
        lost = set(partitions)
        keys = [state.key for state in self._streams.values() if state.partition in lost]
        for key in keys:
            del self._streams[key.stream]
        for place in [place for place in self._position if place[1] in lost]:
            del self._position[place]
        return keys

    def committable(self) -> dict[tuple[Side, int], int]:
        """For each partition the offset to go on from: the start of its oldest unfinished stream, else
        the next record."""
        offsets = dict(self._position)
        for state in self._streams.values():
            for side, first in state.first.items():
                place = side, state.partition
                offsets[place] = min(offsets[place], first)
        return offsets
