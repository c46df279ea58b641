"""Reading frames as an ordinary consumer group: a stream stays with one worker, so state is kept.

Offsets are committed at the start of the oldest unfinished stream, with a mark (`swapper.containment`)
that says so: a worker that takes over runs such streams again from their first frame. A worker that
starts anywhere else (an operator moved the offset) goes back to the StreamStart that each batch names.
The mark also tells which batches took workers down: from the second attempt on, batches are run one by
one, each named in it before.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from runtime.kafka import bounds, consumer, translated
from runtime.offsets import StreamOffsets
from runtime.ranges import RangeReader
from runtime.settings import Settings
from schemas.errors import AssignmentError, FramesLostError, RecordError
from schemas.frames import FrameBatch, RangeRef, StreamAbort, StreamEnd, StreamStart
from schemas.record import Message, Record, decode
from swapper.containment import Containment, Suspect, Verdict
from swapper.pipeline import Drop, End, Fence, Item, Pipeline, Read, Tell, Ticket
from swapper.results import frames_lost

_log = structlog.get_logger("swapper")
_COMMIT_SECONDS = 1.0
_REMEMBERED = 10_000
"""Finished streams remembered, so that a repeated order is not run again."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Batches of a replayed stream, which stand where the record at `offset` names them."""

    reader: RangeReader
    ref: RangeRef
    ticket: Ticket
    offset: int


class GroupReader:
    """Polls, keeps its membership while the pipeline is full, commits. One thread calls it."""

    def __init__(self, settings: Settings, group: str, topic: str, pipeline: Pipeline) -> None:
        self._kafka = settings.kafka
        self._topic = topic
        self._pipeline = pipeline
        self._consumer: Consumer = consumer(settings.kafka, group, "swapper")
        self._offsets = StreamOffsets()
        self._tickets: dict[tuple[str, int], Ticket] = {}
        self._finished: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._ended: set[tuple[str, int]] = set()
        self._acks: queue.SimpleQueue[tuple[Ticket, int | None]] = queue.SimpleQueue()
        """Answered batches by `seq`; None for the stream's end."""
        self._held: deque[Item] = deque()
        """Items for which the pipeline had no room, oldest first."""
        self._ranges: deque[_Range] = deque()
        """Batches that lie elsewhere and come before whatever is polled next."""
        self._polled_at = time.monotonic()
        self._poll_seconds = settings.kafka.poll_ms / 3000
        self._paused = False
        self._containment = Containment()
        self._fence: threading.Event | None = None
        self._quiet = True
        """Nothing is in the pipeline but what engines hold back."""
        self._named: int | None = None
        """Partition with a named batch."""
        self._entered: dict[int, int] = {}
        """First offset read of each partition; batches below it belong to streams that were read back."""
        self._committed_at = time.monotonic()

    def start(self) -> None:
        with translated("joining the swappers' group"):
            self._consumer.subscribe([self._topic], on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def step(self, timeout: float) -> None:
        """One turn: take in acknowledgements, commit, read one record."""
        self._pipeline.check()
        self._settle()
        while self._held:
            item = self._held[0]
            if not self._forward(item, timeout):
                self._keep_membership()
                return
            self._held.popleft()
        if self._named is not None and self._is_quiet(0):
            self._name(self._named, ())
        if self._ranges:
            self._read_range(self._ranges[0], timeout)
            self._keep_membership()
            return
        self._pause(False)
        self._poll(timeout)

    def close(self) -> None:
        """Commit what is finished and leave the group."""
        self._settle()
        self._commit()
        self._consumer.close()
        while self._ranges:
            self._ranges.popleft().reader.close()

    # -- records ---------------------------------------------------------------------------------

    def _handle(self, raw: KafkaMessage) -> None:
        partition, offset = cast(int, raw.partition()), cast(int, raw.offset())
        self._enter(partition, offset)
        try:
            message = decode(cast(bytes, raw.value()))
        except RecordError as error:
            _log.error("bad_record", topic=self._topic, partition=partition, offset=offset, reason=str(error))
            self._offsets.seen(partition, offset)
            return
        if isinstance(message.record, FrameBatch):
            item = self._batch(cast(Message[FrameBatch], message), partition, offset)
        else:
            item = self._mark(message.record, partition, offset)
        if item is not None:
            self._held.append(item)

    def _mark(self, record: Record, partition: int, offset: int) -> Item | None:
        key = (record.stream, record.epoch)
        ticket = self._tickets.get(key)
        item: Item | None = None
        if isinstance(record, StreamStart) and ticket is None and key not in self._finished:
            self._tickets[key] = Ticket(key, partition)
            self._offsets.begin(partition, key, offset)
        elif isinstance(record, StreamEnd) and ticket is not None and key not in self._ended:
            self._ended.add(key)
            item = End(ticket, lambda: self._acks.put((ticket, None)))
        elif isinstance(record, RangeRef) and ticket is not None and key not in self._ended:
            reader = RangeReader(self._kafka, "swapper", record)
            self._ranges.append(_Range(reader, record, ticket, offset))
        elif isinstance(record, StreamAbort):
            if ticket is not None:
                self._finish(ticket)
                item = Drop(ticket)
            else:
                self._remember(key)  # a start that comes late begins nothing
        self._offsets.seen(partition, offset)
        return item

    def _batch(self, message: Message[FrameBatch], partition: int, offset: int) -> Item | None:
        record = message.record
        key = (record.stream, record.epoch)
        ticket = self._tickets.get(key)
        if ticket is None and key not in self._finished and offset >= self._entered[partition]:
            return self._met_inside(record, partition, offset)
        self._offsets.seen(partition, offset)
        return self._next(message, ticket, offset) if ticket is not None else None

    def _next(self, message: Message[FrameBatch], ticket: Ticket, offset: int) -> Item | None:
        """The batch to run, unless it is a repetition. Where one is missing the stream is given up."""
        seq = message.record.seq
        if seq < ticket.next_seq:
            return None
        if seq > ticket.next_seq:
            return self._give_up(ticket, message.record, f"frame {ticket.next_seq} is missing")
        ticket.next_seq = seq + len(message.record)
        ticket.unanswered[seq] = None
        return Read(message, ticket.partition, offset, ticket, lambda _: self._acks.put((ticket, seq)))

    def _read_range(self, part: _Range, timeout: float) -> None:
        """Take the next batch of a replayed stream. A range that is gone is a stream that is lost."""
        item: Item | None = None
        try:
            if part.ticket.live and (message := part.reader.poll(timeout)) is not None:
                item = self._next(message, part.ticket, part.offset)
        except (FramesLostError, RecordError) as error:
            item = self._give_up(part.ticket, part.ref, str(error))
        if item is not None:
            self._held.append(item)
        if part.reader.done or not part.ticket.live:
            part.reader.close()
            self._ranges.popleft()

    def _met_inside(self, record: FrameBatch, partition: int, offset: int) -> Item | None:
        """A batch of a stream whose start was not read: go back to it, if it began before an offset that
        somebody set. If the start has expired, frames are lost."""
        first, _ = bounds(self._consumer, self._topic, partition)
        if 0 <= record.start_offset < first:
            self._offsets.seen(partition, offset)
            return self._lost(record, f"it starts at offset {record.start_offset}, the first is {first}")
        if self._containment.is_clean(partition) or record.start_offset < 0:
            self._offsets.seen(partition, offset)
            return None
        _log.info("reading_back", stream=record.stream, seq=record.seq, to=record.start_offset)
        with translated("reading a stream from its start"):
            self._consumer.seek(TopicPartition(self._topic, partition, record.start_offset))
        return None

    def _give_up(self, ticket: Ticket, record: Record, what: str) -> Tell:
        self._finish(ticket)
        self._held.append(Drop(ticket))
        return self._lost(record, what)

    def _lost(self, record: Record, what: str) -> Tell:
        self._remember((record.stream, record.epoch))
        _log.error("frames_lost", stream=record.stream, epoch=record.epoch, reason=what)
        return Tell(frames_lost(record, what))

    # -- containment -----------------------------------------------------------------------------

    def _enter(self, partition: int, offset: int) -> None:
        """With its first record a partition is taken over: the attempt is written down before any work."""
        if self._containment.entered(partition):
            return
        self._entered[partition] = offset
        _, end = bounds(self._consumer, self._topic, partition)
        with translated("reading committed offsets"):
            (found,) = self._consumer.committed([TopicPartition(self._topic, partition)], timeout=10)
        self._containment.enter(partition, found.metadata, end)
        if self._containment.careful(partition, offset):
            _log.warning("one_by_one", partition=partition, until=end, mark=found.metadata)
        self._write({partition: found.offset if found.offset >= 0 else offset})

    def _forward(self, item: Item, timeout: float) -> bool:
        """Hand an item on; False if that has to wait. Careful ones go one at a time."""
        ticket = item.ticket if isinstance(item, (Read, End)) else None
        if ticket is None or not ticket.live:
            return self._pipeline.offer(item, timeout)
        partition = ticket.partition
        careful = self._containment.careful(partition, self._offsets.position(partition))
        if (careful or self._named is not None) and not self._is_quiet(timeout):
            return False
        if careful:
            suspects = self._suspects(item, ticket)
            if self._named is not None and self._named != partition:
                self._name(self._named, ())
            if not self._name(partition, suspects):
                return False
        elif self._named is not None and not self._name(self._named, ()):
            return False
        self._quiet = False
        return self._pipeline.offer(item, timeout)

    def _suspects(self, item: Item, ticket: Ticket) -> Iterable[Suspect]:
        """Whom to name while an item is in the engine: it, and what the engine holds back of its stream.
        A batch found dead is not run."""
        stream, epoch = ticket.key
        waiting = (seq for seq in ticket.unanswered)
        if not isinstance(item, Read):
            return [(stream, epoch, seq) for seq in waiting]
        suspect = (stream, epoch, item.message.record.seq)
        match self._containment.verdict(ticket.partition, suspect):
            case Verdict.DEAD:
                item.refuse = "it took the worker process down each time it was run"
                return ()
            case Verdict.ALONE:
                item.alone = True
                return (suspect,)
        return [(stream, epoch, seq) for seq in waiting if seq <= suspect[2]]

    def _name(self, partition: int, suspects: Iterable[Suspect]) -> bool:
        """Write down who is in the engine; False if the partition is somebody else's by now."""
        if not self._containment.entered(partition):
            self._named = None
            return False
        self._containment.name(partition, suspects)
        self._named = partition if self._containment.named(partition) else None
        position = self._offsets.position(partition)
        return position is None or self._write({partition: position})

    def _is_quiet(self, timeout: float) -> bool:
        """Whether everything put has gone through; waits for it at most `timeout` seconds."""
        if self._quiet:
            return True
        if self._fence is None:
            fence = threading.Event()
            if not self._pipeline.offer(Fence(fence.set), timeout):
                return False
            self._fence = fence
        if not self._fence.wait(timeout):
            return False
        self._fence, self._quiet = None, True
        self._settle()
        return True

    # -- flow ------------------------------------------------------------------------------------

    def _poll(self, timeout: float) -> None:
        message = self._consumer.poll(timeout)
        self._polled_at = time.monotonic()
        if message is None:
            return
        error = message.error()
        if error is not None:
            _log.warning("consumer_error", error=error.str())
            return
        self._handle(message)

    def _keep_membership(self) -> None:
        """A long batch: poll before the group takes us for dead, with everything paused. Not sooner,
        since pausing throws away what was fetched ahead."""
        if time.monotonic() - self._polled_at > self._poll_seconds:
            self._pause(True)
            self._poll(0)

    def _pause(self, wanted: bool) -> None:
        """Also for partitions that came while paused: those begin unpaused."""
        if not wanted and not self._paused:
            return
        assigned = self._consumer.assignment()
        if assigned:
            (self._consumer.pause if wanted else self._consumer.resume)(assigned)
        self._paused = wanted

    def _settle(self, commit: bool = True) -> None:
        while True:
            try:
                ticket, seq = self._acks.get_nowait()
            except queue.Empty:
                break
            if not ticket.live:
                continue
            if seq is None:
                ticket.passed = True
            else:
                ticket.unanswered.pop(seq, None)
            if ticket.passed and not ticket.unanswered:
                self._finish(ticket)
        if commit and time.monotonic() - self._committed_at >= _COMMIT_SECONDS:
            self._commit()

    def _finish(self, ticket: Ticket) -> None:
        ticket.live = False
        self._tickets.pop(ticket.key, None)
        self._ended.discard(ticket.key)
        self._offsets.finish(ticket.partition, ticket.key)
        self._remember(ticket.key)

    def _remember(self, key: tuple[str, int]) -> None:
        self._finished[key] = None
        while len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        pending = self._offsets.pending()
        if pending:
            self._write(pending)

    def _write(self, positions: Mapping[int, int]) -> bool:
        """Commit positions with their marks. False if that was refused: the partitions have moved."""
        places = [
            TopicPartition(self._topic, p, at, self._containment.text(p, at)) for p, at in positions.items()
        ]
        try:
            with translated("committing offsets of frames"):
                self._consumer.commit(offsets=places, asynchronous=False)
        except AssignmentError as error:
            _log.warning("commit_refused", partitions=sorted(positions), reason=str(error))
            return False
        self._offsets.committed(dict(positions))
        return True

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit what is finished; everything else of these partitions is somebody else's now."""
        lost = {tp.partition for tp in partitions}
        self._give_back(lost)
        for ticket in [t for t in self._tickets.values() if t.partition in lost]:
            ticket.live = False
            self._tickets.pop(ticket.key)
            self._ended.discard(ticket.key)
            self._pipeline.put(Drop(ticket))
        self._held = deque(i for i in self._held if not isinstance(i, Read) or i.partition not in lost)
        for partition in lost:
            self._offsets.forget(partition)
            self._entered.pop(partition, None)

    def _give_back(self, lost: set[int]) -> None:
        """The last commit of partitions that go: the attempt is taken back."""
        self._settle(commit=False)
        places = []
        for partition in lost:
            position = self._offsets.position(partition)
            mark = self._containment.leave(partition, position)
            if position is not None:
                places.append(TopicPartition(self._topic, partition, position, mark))
        if self._named in lost:
            self._named = None
        if not places:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:  # the new owner runs it again
            _log.warning("commit_on_revoke_failed", reason=error.args[0].str())
