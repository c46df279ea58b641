"""The ingest service: takes orders from Kafka one by one and carries them out.

An order is committed when the brokers have all its records; one that was under way when its worker
died runs again, under the same epoch, and readers drop what they have seen. A worker thread does the
work, while the thread that owns the consumer keeps its membership by polling on: a few orders are held
in waiting (pausing partitions at each order costs up to a second until they flow again). The next order
is begun while the last records of the one before are still on their way. An order whose job ends is left
in the middle. One that fails for a reason that may pass is told as such: control releases it again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import cast

import structlog
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from ingest.streams import Delivery
from ingest.worker import Worker
from runtime.cluster import configure_group, ensure_topics
from runtime.jobs import JobBoard
from runtime.kafka import consumer, producer, translated
from runtime.memory import fitted
from runtime.outbox import Outbox
from runtime.redact import cleaned
from runtime.settings import Settings
from runtime.store import Store
from schemas.errors import BrokerError, FacestreamError, InputError, RecordError
from schemas.events import Failed, Role
from schemas.job import stream_id
from schemas.orders import DecodeOrder, PlanOrder
from schemas.record import Record, decode, encode

_log = structlog.get_logger("ingest")
_DELIVERY_SECONDS = 0.02
"""How long to look for delivery reports, or for another order, before looking for the other."""
_HELD_ORDERS = 64
PAUSES = (1.0, 5.0)
"""Seconds before an order is tried again here that failed for a reason that may pass, such as an object store
that does not answer."""


class _Abandoned(BaseException):
    """The order under way belongs to somebody else now, or there is no time left for it."""


@dataclass(slots=True)
class _Work:
    """An order under way."""

    at: TopicPartition
    """Where it lies in the topic."""
    job: str = ""
    epoch: int = 0
    cancel: threading.Event = field(default_factory=threading.Event)
    delivery: Delivery = field(default_factory=Delivery)
    future: Future[None] | None = None
    over: bool = False
    """Its job ended: nobody wants the rest."""

    def alive(self) -> None:
        """Called by the worker between pieces of work."""
        if self.cancel.is_set():
            raise _Abandoned


class IngestService:
    """One ingest worker. Driven by `runtime.service.run`. Orders of jobs that have ended are passed over."""

    name = "ingest"

    def __init__(self, settings: Settings, pauses: Sequence[float] = PAUSES) -> None:
        settings = fitted(settings, Role.INGEST)
        self._settings, self._pauses = settings, pauses
        self._events = settings.topic_set.events
        self._orders = settings.topic_set.orders_ingest
        self._work: _Work | None = None
        self._waiting: deque[KafkaMessage] = deque()
        self._paused = False
        self._sent: deque[_Work] = deque()
        """Done but for the brokers' answers, oldest first."""
        self._board: JobBoard | None = None
        self._consumer: Consumer | None = None
        self._outbox: Outbox | None = None
        self._worker: Worker | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ingest")

    def start(self) -> None:
        """Create topics that are missing and join the group."""
        ensure_topics(self._settings)
        group = f"{self._settings.topic_prefix}ingest"
        configure_group(self._settings, group)
        self._board = JobBoard(self._settings, "ingest")
        self._outbox = Outbox(producer(self._settings.kafka, "ingest"))
        self._worker = Worker(self._settings, Store.of(self._settings), self._outbox)
        self._consumer = consumer(self._settings.kafka, group, "ingest")
        with translated("joining the ingest group"):
            self._consumer.subscribe([self._orders], on_revoke=self._on_revoke, on_lost=self._on_revoke)

    @property
    def busy(self) -> bool:
        """Whether an order is under way or not committed yet."""
        return self._work is not None or bool(self._sent)

    def step(self, timeout: float) -> None:
        """Take an order, or look after the one under way, for at most about `timeout` seconds.

        Raises BrokerError; then what was not committed runs again elsewhere.
        """
        if self._work is not None:
            self._leave_if_over(self._work)
            self._await(self._work, timeout)
            self._receive(0)
        elif not self._waiting:
            self._receive(min(timeout, _DELIVERY_SECONDS) if self._sent else timeout)
        self._commit_delivered()
        if self._work is None and self._waiting:
            self._begin(self._waiting.popleft())

    def drain(self, deadline: float) -> None:
        """Finish the order under way if there is time; else it runs again elsewhere."""
        while self.busy and time.monotonic() < deadline:
            if self._work is not None:
                self._await(self._work, min(0.5, max(deadline - time.monotonic(), 0)))
            self._receive(0)
            self._commit_delivered()

    def close(self) -> None:
        if self._work is not None:
            self._work.cancel.set()
        self._executor.shutdown(wait=True)
        if self._worker is not None:
            self._worker.close()
        if self._consumer is not None:
            self._consumer.close()
        if self._outbox is not None:
            self._outbox.close()
        if self._board is not None:
            self._board.close()

    # The consumer's thread

    @property
    def _group(self) -> Consumer:
        assert self._consumer is not None, "start() comes first"
        return self._consumer

    def _receive(self, timeout: float) -> None:
        """Poll, which also keeps the membership, and hold what comes."""
        full = len(self._waiting) >= _HELD_ORDERS
        if full != self._paused:
            with translated("pausing orders"):
                change = self._group.pause if full else self._group.resume
                change(self._group.assignment())
            self._paused = full
        message = self._group.poll(timeout)
        if message is None:
            return
        if (error := message.error()) is not None:
            _log.warning("orders_unreadable", reason=error.str())
        else:
            self._waiting.append(message)

    def _begin(self, message: KafkaMessage) -> None:
        work = _Work(_place(message))
        try:
            order = decode(cast(bytes, message.value())).record
        except RecordError as error:
            _log.error("bad_order", offset=message.offset(), reason=str(error))
            self._commit(work)
            return
        assert self._board is not None
        if self._board.ended(order.job, order.epoch):
            _log.info("order_skipped", job=order.job, kind=order.KIND)
            self._commit(work)
            return
        work.job, work.epoch = order.job, order.epoch
        self._work = work
        work.future = self._executor.submit(self._carry_out, order, work)

    def _leave_if_over(self, work: _Work) -> None:
        """Stop in the middle of an order whose job ended meanwhile: cancelled, or failed elsewhere."""
        assert self._board is not None
        if not work.over and self._board.ended(work.job, work.epoch):
            work.over = True
            work.cancel.set()

    def _await(self, work: _Work, timeout: float) -> None:
        """Wait a while for the order under way."""
        assert work.future is not None
        wait([work.future], timeout)
        if not work.future.done():
            return
        self._work = None
        try:
            work.future.result()
            self._sent.append(work)
        except _Abandoned:
            _log.info("order_abandoned", job=work.job, offset=work.at.offset, over=work.over)
            if work.over:
                self._sent.append(work)

    def _commit_delivered(self) -> None:
        """Commit what the brokers have in full. Delivery reports come to the worker's thread: while it
        decodes, it serves them itself."""
        if self._sent and self._work is None:
            assert self._outbox is not None
            self._executor.submit(self._outbox.poll, _DELIVERY_SECONDS).result()
        while self._sent and self._sent[0].delivery.outstanding == 0:
            self._commit(self._sent.popleft())

    def _commit(self, work: _Work) -> None:
        """An order whose partition has gone elsewhere stays uncommitted: it runs again there."""
        done = TopicPartition(work.at.topic, work.at.partition, work.at.offset + 1)
        try:
            with translated("committing an order"):
                self._group.commit(offsets=[done], asynchronous=False)
        except BrokerError as error:
            _log.warning("order_not_committed", reason=str(error))

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {partition.partition for partition in partitions}
        self._waiting = deque(message for message in self._waiting if message.partition() not in gone)
        if self._work is not None and self._work.at.partition in gone:
            self._work.cancel.set()

    # The worker's thread

    def _carry_out(self, order: Record, work: _Work) -> None:
        """Do an order to its end. A job that cannot be done ends in a Failed event, never in an error of
        the service; only Kafka's own errors come through."""
        assert self._outbox is not None
        try:
            self._attempt(order, work)
        except BrokerError:
            raise
        except FacestreamError as error:
            self._fail(order, work, str(error), error.exit_code, _may_pass(order, error))
        except Exception as error:
            _log.exception("order_failed", job=order.job)
            self._fail(order, work, f"{type(error).__name__}: {error}", 1, _may_pass(order, error))

    def _attempt(self, order: Record, work: _Work) -> None:
        assert self._worker is not None
        for pause in (*self._pauses, None):
            try:
                if isinstance(order, PlanOrder):
                    self._worker.plan(order, work.alive)
                elif isinstance(order, DecodeOrder):
                    self._worker.decode(order, work.alive, work.delivery)
                else:
                    _log.error("bad_order", job=order.job, kind=order.KIND)
                return
            except BrokerError:
                raise
            except Exception as error:
                if pause is None or not _may_pass(order, error):
                    raise
                _log.warning("order_tried_again", job=order.job, reason=str(error))
                work.cancel.wait(pause)
                work.alive()

    def _fail(self, order: Record, work: _Work, reason: str, exit_code: int, may_pass: bool) -> None:
        """Tell control of each segment that was not sent whole, or of the job if it has none yet."""
        assert self._outbox is not None
        streams = [""]
        if isinstance(order, DecodeOrder):
            left = [r.segment for r in order.releases if r.segment not in work.delivery.whole]
            streams = [stream_id(order.job, segment) for segment in left]
        for stream in streams:
            event = Failed(
                job=order.job, stream=stream, epoch=order.epoch, role=Role.INGEST, reason=cleaned(reason),
                exit_code=exit_code, retryable=may_pass,
            )  # fmt: skip
            self._outbox.send(self._events, encode(event), key=order.job)
        self._outbox.flush()


def _may_pass(order: Record, error: Exception) -> bool:
    """Whether the same order may succeed later. An input that could be planned was readable then; a bare
    OSError is of the scratch disk, which may be full for a while."""
    if isinstance(error, FacestreamError) and error.retryable:
        return True
    return isinstance(error, OSError) or (isinstance(order, DecodeOrder) and isinstance(error, InputError))


def _place(message: KafkaMessage) -> TopicPartition:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return TopicPartition(topic, partition, offset)
