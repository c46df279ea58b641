"""Reading frames as an ordinary consumer group: a stream stays with one worker, so state is kept.

Offsets are committed at the start of the oldest unfinished stream, marked with CLEAN: a worker that
takes over runs such streams again from their first frame. A worker that starts anywhere else (an
operator moved the offset) goes back to the StreamStart that each batch names.
"""

from __future__ import annotations

import queue
import time
from collections import OrderedDict, deque
from typing import cast

import structlog
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from runtime.kafka import consumer, translated
from runtime.offsets import StreamOffsets
from runtime.settings import Settings
from schemas.errors import RecordError
from schemas.frames import FrameBatch, StreamAbort, StreamEnd, StreamStart
from schemas.record import Message, Record, decode
from swapper.pipeline import Drop, End, Item, Pipeline, Read, Ticket

_log = structlog.get_logger("swapper")
CLEAN = "facestream-stream-start"
"""Commit metadata: every stream that is not finished starts at or after this offset."""
_COMMIT_SECONDS = 1.0
_REMEMBERED = 10_000
"""Finished streams remembered, so that a repeated order is not run again."""


class GroupReader:
    """Polls, keeps its membership while the pipeline is full, commits. One thread calls it."""

    def __init__(self, settings: Settings, group: str, topic: str, pipeline: Pipeline) -> None:
        self._topic = topic
        self._pipeline = pipeline
        self._consumer: Consumer = consumer(settings.kafka, group, "swapper")
        self._offsets = StreamOffsets()
        self._tickets: dict[tuple[str, int], Ticket] = {}
        self._finished: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._counts: dict[tuple[str, int], list[int]] = {}
        """Per stream: results sent, results acknowledged."""
        self._ended: set[tuple[str, int]] = set()
        self._acks: queue.SimpleQueue[tuple[Ticket, bool]] = queue.SimpleQueue()
        self._held: deque[Item] = deque()
        """Items for which the pipeline had no room, oldest first."""
        self._polled_at = time.monotonic()
        self._poll_seconds = settings.kafka.max_poll_ms / 3000
        self._paused = False
        self._clean: dict[int, bool] = {}
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
            if not self._pipeline.offer(self._held[0], timeout):
                self._keep_membership()
                return
            self._held.popleft()
        self._pause(False)
        self._poll(timeout)

    def close(self) -> None:
        """Commit what is finished and leave the group."""
        self._settle()
        self._commit()
        self._consumer.close()

    # -- records ---------------------------------------------------------------------------------

    def _handle(self, raw: KafkaMessage) -> None:
        partition, offset = cast(int, raw.partition()), cast(int, raw.offset())
        self._entered.setdefault(partition, offset)
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
            self._counts[key] = [0, 0]
            self._offsets.begin(partition, key, offset)
        elif isinstance(record, StreamEnd) and ticket is not None and key not in self._ended:
            self._ended.add(key)
            item = End(ticket, lambda: self._acks.put((ticket, True)))
        elif isinstance(record, StreamAbort) and ticket is not None:
            self._finish(ticket)
            item = Drop(ticket)
        self._offsets.seen(partition, offset)
        return item

    def _batch(self, message: Message[FrameBatch], partition: int, offset: int) -> Item | None:
        record = message.record
        key = (record.stream, record.epoch)
        ticket = self._tickets.get(key)
        if ticket is None and key not in self._finished and self._read_back(record, partition, offset):
            return None
        self._offsets.seen(partition, offset)
        if ticket is None or record.seq < ticket.next_seq:
            return None
        ticket.next_seq = record.seq + len(record)
        self._counts[key][0] += 1
        return Read(message, partition, offset, ticket, lambda _: self._acks.put((ticket, False)))

    def _read_back(self, record: FrameBatch, partition: int, offset: int) -> bool:
        """Go back to the start of a stream met in the middle, unless it is known to be finished."""
        if self._is_clean(partition) or offset < self._entered[partition] or record.start_offset < 0:
            return False
        _log.info("reading_back", stream=record.stream, seq=record.seq, to=record.start_offset)
        with translated("reading a stream from its start"):
            self._consumer.seek(TopicPartition(self._topic, partition, record.start_offset))
        return True

    def _is_clean(self, partition: int) -> bool:
        if partition not in self._clean:
            with translated("reading committed offsets"):
                (at,) = self._consumer.committed([TopicPartition(self._topic, partition)], timeout=10)
            self._clean[partition] = at.metadata == CLEAN
        return self._clean[partition]

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

    def _settle(self) -> None:
        while True:
            try:
                ticket, end = self._acks.get_nowait()
            except queue.Empty:
                break
            counts = self._counts.get(ticket.key)
            if not ticket.live or counts is None:
                continue
            if end:
                ticket.passed = True
            else:
                counts[1] += 1
            if ticket.passed and counts[0] == counts[1]:
                self._finish(ticket)
        if time.monotonic() - self._committed_at >= _COMMIT_SECONDS:
            self._commit()

    def _finish(self, ticket: Ticket) -> None:
        ticket.live = False
        self._tickets.pop(ticket.key, None)
        self._counts.pop(ticket.key, None)
        self._ended.discard(ticket.key)
        self._offsets.finish(ticket.partition, ticket.key)
        self._finished[ticket.key] = None
        while len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        pending = self._offsets.pending()
        if not pending:
            return
        offsets = [TopicPartition(self._topic, p, at, CLEAN) for p, at in pending.items()]
        with translated("committing offsets of frames"):
            self._consumer.commit(offsets=offsets, asynchronous=False)
        self._offsets.committed(pending)
        self._clean.update(dict.fromkeys(pending, True))

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit what is finished; everything else of these partitions is somebody else's now."""
        try:
            self._commit()
        except Exception as error:  # the new owner runs it again
            _log.warning("commit_on_revoke_failed", reason=str(error))
        lost = {tp.partition for tp in partitions}
        for ticket in [t for t in self._tickets.values() if t.partition in lost]:
            ticket.live = False
            self._tickets.pop(ticket.key)
            self._counts.pop(ticket.key, None)
            self._ended.discard(ticket.key)
            self._pipeline.put(Drop(ticket))
        self._held = deque(i for i in self._held if not isinstance(i, Read) or i.partition not in lost)
        for partition in lost:
            self._offsets.forget(partition)
            self._clean.pop(partition, None)
            self._entered.pop(partition, None)
