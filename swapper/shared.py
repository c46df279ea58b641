"""Reading frames as a share group: batches of one stream spread over all workers, without state.

The client allows no poll while records are unacknowledged, so each share consumer is a thread with a
poll → run → acknowledge cycle of its own; a few of them feed one pipeline. A record is acknowledged only
after the broker has its result. What was delivered often without an answer is run alone
(`swapper.suspects`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import structlog
from confluent_kafka import AcknowledgeType, KafkaError, ShareConsumer
from confluent_kafka import Message as KafkaMessage

from runtime.jobs import JobBoard
from runtime.kafka import share_consumer, translated
from runtime.ranges import RangeReader
from runtime.settings import Settings
from schemas.errors import FramesLostError, RecordError
from schemas.frames import FrameBatch, RangeRef
from schemas.record import Message, decode
from swapper.pipeline import Pipeline, Read, Tell
from swapper.results import frames_lost
from swapper.suspects import DEATHS, SUSPECT_AT_DELIVERY, Place, SuspectBook, Turnstile

_log = structlog.get_logger("swapper")


class _Stopping(Exception):
    """The reader was told to stop; what it holds is released by leaving."""


@dataclass(slots=True)
class _Taken:
    """A record that is to be run."""

    raw: KafkaMessage
    message: Message[FrameBatch] | Message[RangeRef]
    deaths: int = 0

    @property
    def partition(self) -> int:
        return cast(int, self.raw.partition())

    @property
    def offset(self) -> int:
        return cast(int, self.raw.offset())

    @property
    def deliveries(self) -> int:
        return self.raw.delivery_count() or 1

    def place(self, seq: int) -> Place:
        return self.partition, self.offset, seq


class Containment:
    """What the readers of one process share to find out which record takes it down."""

    def __init__(self, settings: Settings, group: str, topic: str) -> None:
        self.turnstile = Turnstile()
        self.book = SuspectBook(settings, group, topic)
        self.limit = self.book.delivery_limit()


class ShareReader:
    """One share consumer and its thread."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        topic: str,
        pipeline: Pipeline,
        board: JobBoard,
        containment: Containment,
    ) -> None:
        self._kafka = settings.kafka
        self._pipeline = pipeline
        self._topic = topic
        self._board = board
        self._turnstile, self._book = containment.turnstile, containment.book
        self._limit = containment.limit
        self._consumer: ShareConsumer = share_consumer(settings.kafka, group, "swapper")
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guard, name="share", daemon=True)

    def start(self) -> None:
        with translated("joining the swappers' share group"):
            self._consumer.subscribe([self._topic])
        self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the thread, if one did."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Finish the records at hand and leave the group; the others are released by leaving."""
        self._stop.set()
        self._thread.join(timeout=30)

    def _guard(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        except _Stopping:
            pass
        except BaseException as error:  # handed to the main thread, which raises it
            self._error = error
            return
        try:
            self._consumer.close()
        except BaseException as error:
            self._error = error

    def _turn(self) -> None:
        """One cycle: poll, run everything that came, acknowledge each with the broker holding its result.
        Suspects come last, those least suspected first: all others are safe by then."""
        messages = self._consumer.poll(0.5)
        ordinary: list[_Taken] = []
        suspects: list[_Taken] = []
        for raw in messages:
            if raw.error() is not None:
                _log.warning("consumer_error", error=cast(KafkaError, raw.error()).str())
            elif (taken := self._take(raw)) is None:
                self._accept(raw)
            elif taken.deliveries < SUSPECT_AT_DELIVERY:
                ordinary.append(taken)
            else:
                suspects.append(taken)
        if ordinary:
            with self._turnstile.together(self._check):
                self._run(ordinary)
        if messages:
            self._commit()
        for suspect in suspects:
            if isinstance(suspect.message.record, FrameBatch):
                suspect.deaths = self._book.count(suspect.place(suspect.message.record.seq))
        for suspect in sorted(suspects, key=lambda s: s.deaths):
            for message in self._batches(suspect):
                self._run_suspect(suspect, message)
            self._accept(suspect.raw)
            self._commit()

    def _take(self, raw: KafkaMessage) -> _Taken | None:
        """What is to be run; None for records that need no work."""
        try:
            message = decode(cast(bytes, raw.value()))
        except RecordError as error:
            partition, offset = raw.partition(), raw.offset()
            _log.error("bad_record", topic=self._topic, partition=partition, offset=offset, reason=str(error))
            return None
        record = message.record
        if not isinstance(record, (FrameBatch, RangeRef)) or self._board.ended(record.job, record.epoch):
            return None
        return _Taken(raw, cast(Message[FrameBatch], message))

    def _batches(self, taken: _Taken) -> Iterator[Message[FrameBatch]]:
        """The batch of a record, or all those that it names."""
        ref = taken.message.record
        if isinstance(ref, FrameBatch):
            yield cast(Message[FrameBatch], taken.message)
            return
        with RangeReader(self._kafka, "swapper", ref) as reader:
            try:
                while not reader.done:
                    if (message := reader.poll(0.2)) is not None:
                        yield message
                    self._check()
            except (FramesLostError, RecordError) as error:
                self._pipeline.put(Tell(frames_lost(ref, str(error))))

    def _run(self, records: list[_Taken]) -> None:
        """Have records answered, all at once, and accept them."""
        waiting = [
            (taken, self._put(taken, message)) for taken in records for message in self._batches(taken)
        ]
        for _, answered in waiting:
            self._await(answered)
        for taken in records:
            self._accept(taken.raw)

    def _run_suspect(self, taken: _Taken, message: Message[FrameBatch]) -> None:
        place = taken.place(message.record.seq)
        deaths = self._book.count(place)
        if deaths >= DEATHS:
            self._await(self._put(taken, message, "it took the worker process down each time it was run"))
        elif taken.deliveries >= self._limit:
            reason = f"delivery {taken.deliveries} is the last, and no earlier one was answered"
            self._await(self._put(taken, message, reason))
        else:
            with self._turnstile.alone(self._check):
                _log.warning("run_alone", place=place, deliveries=taken.deliveries, deaths=deaths)
                self._book.write(place, deaths + 1)
                try:
                    self._await(self._put(taken, message))
                except _Stopping:
                    self._book.write(place, deaths)
                    raise
        self._book.clear(place)

    def _put(self, taken: _Taken, message: Message[FrameBatch], refuse: str = "") -> threading.Event:
        """Hand a batch on; the event says that it is answered."""
        answered = threading.Event()
        self._pipeline.put(
            Read(message, taken.partition, taken.offset, None, lambda _: answered.set(), refuse)
        )
        return answered

    def _await(self, answered: threading.Event) -> None:
        while not answered.wait(0.2):
            self._check()

    def _check(self) -> None:
        self._pipeline.check()
        if self._stop.is_set():
            raise _Stopping

    def _accept(self, raw: KafkaMessage) -> None:
        self._consumer.acknowledge(raw, AcknowledgeType.ACCEPT)

    def _commit(self) -> None:
        with translated("acknowledging frames"):
            self._consumer.commit_sync()
