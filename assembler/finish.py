"""The finish step: join a job's committed segments and put the result in place."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import structlog
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from assembler import holds
from assembler.animate import encode_pictures
from assembler.mux import BRANDS, Muxed, Part, mux
from assembler.publish import hidden_name, published
from runtime.cluster import configure_group
from runtime.jobs import JobBoard
from runtime.kafka import consumer, producer, translated
from runtime.outbox import Outbox
from runtime.redact import cleaned
from runtime.settings import Settings
from runtime.sides import SidesReader
from runtime.store import Store
from schemas.errors import (
    BrokerError,
    FacestreamError,
    InputError,
    MalformedRecordError,
    OutputError,
    RecordError,
)
from schemas.events import Failed, Finished, Role
from schemas.objects import finish_object
from schemas.orders import FinishOrder
from schemas.plan import Plan
from schemas.record import decode, encode

_log = structlog.get_logger("finish")
POLL_SECONDS = 0.2
JOIN_SECONDS = 60.0
TRIES = 3
TRY_SECONDS = 2.0
"""Pause before a finish that failed is tried again, where that may help: the store does not answer."""


class _Cancelled(Exception):
    """The user no longer wants the result, and it is not in place."""


def finish(order: FinishOrder, store: Store, wanted: Callable[[], bool] = lambda: True) -> Finished:
    """Carry out an order; doing it again gives the same file. `wanted` is asked before the result is put in
    place; it says whether it shall be.

    Raises OutputError where the result cannot be written, EncoderError where the segments do not fit
    together, StoreError where one is missing.
    """
    plan = load_plan(store, order.plan)
    target = Path(order.spec.output)
    with ExitStack() as stack:
        parts = [Part(c, stack.enter_context(store.local(c.object))) for c in order.segments if c.pts]
        if not parts:
            raise InputError(f"input {order.spec.input}: not one of its frames could be decoded")
        sides = None
        if plan.sides:
            file = stack.enter_context(stack.enter_context(store.local(plan.sides)).open("rb"))
            sides = stack.enter_context(SidesReader(file))
        hidden = stack.enter_context(published(target, order.job, order.spec.overwrite))
        result = _join(hidden, order, plan, parts, sides)
        if not wanted():
            raise _Cancelled
    warnings = Counter(result.warnings)
    for checkpoint in order.segments:
        warnings.update(checkpoint.warnings)
    if replaced := sum(checkpoint.replaced for checkpoint in order.segments):
        warnings["frames_replaced"] += replaced
    return Finished(
        job=order.job,
        output=str(target),
        frames=result.frames,
        bytes=_size(target),
        warnings=dict(warnings),
    )


def _join(
    hidden: Path, order: FinishOrder, plan: Plan, parts: list[Part], sides: SidesReader | None
) -> Muxed:
    spec = order.spec
    if spec.container in holds.CONTAINERS:
        return mux(hidden, spec.container, plan, parts, sides, spec.audio)
    result = encode_pictures(hidden, spec, plan, parts)
    warnings = Counter(result.warnings)
    for track in plan.tracks:
        if not (track.kind == "audio" and spec.audio == "none"):
            warnings[f"track_dropped_{track.codec or track.kind}"] += 1
    warnings["attachment_dropped"] += len(sides.attachments) if sides else 0
    warnings["chapters_dropped"] += len(plan.chapters)
    warnings["timecode_dropped"] += "timecode" in plan.metadata
    warnings["tags_dropped"] += sum(name.lower() not in BRANDS for name in plan.metadata)
    return Muxed(result.frames, dict(+warnings))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise OutputError(f"output {path}: {error.strerror}") from error


def load_plan(store: Store, name: str) -> Plan:
    """Read a plan object. Raises StoreError or RecordError."""
    record = decode(store.get(name)).record
    if not isinstance(record, Plan):
        raise MalformedRecordError(f"object {name} is a {record.KIND} record, not a plan")
    return record


class FinishService:
    """Reads finish orders in a thread of its own, one at a time.

    The join runs in a second thread, so that membership is kept however long it takes; an order is
    committed after its event was delivered.
    """

    name = "finish"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="finish", daemon=True)

    def start(self) -> None:
        """Connect and join the group; the thread goes on from there."""
        settings, topics = self._settings, self._settings.topic_set
        group = f"{settings.topic_prefix}finish"
        if settings.kafka.group_protocol == "consumer":
            configure_group(settings, group)
        self._store = Store.of(settings)
        self._board = JobBoard(settings, "finish")
        self._outbox = Outbox(producer(settings.kafka, "finish"))
        self._consumer: Consumer = consumer(settings.kafka, group, "finish")
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="join")
        with translated("joining the group of finishers"):
            self._consumer.subscribe([topics.orders_finish])
        self._thread.start()

    def check(self) -> None:
        """Raises what ended the thread."""
        if self._error is not None:
            raise self._error

    def drain(self, deadline: float) -> None:
        """Let the join in progress end."""
        self._stop.set()
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        if not self._thread.ident:
            return
        self._stop.set()
        self._thread.join(JOIN_SECONDS)
        self._pool.shutdown(wait=True)
        self._consumer.close()
        self._outbox.close()
        self._board.close()

    # -- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                message = self._consumer.poll(POLL_SECONDS)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    _log.warning("consumer_error", error=error.str())
                    continue
                self._handle(message)
        except BaseException as error:  # told by `check` in the main thread
            self._error = error

    def _handle(self, message: KafkaMessage) -> None:
        try:
            record = decode(cast(bytes, message.value())).record
            if not isinstance(record, FinishOrder):
                raise MalformedRecordError(f"a {record.KIND} record is no finish order")
        except RecordError as error:
            _log.error("bad_record", topic=message.topic(), offset=message.offset(), reason=str(error))
        else:
            self._carry_out(record)
        self._commit(message)

    def _carry_out(self, order: FinishOrder) -> None:
        if self._board.ended(order.job, order.epoch):
            _log.info("order_of_ended_job", job=order.job)
            with suppress(OSError):
                hidden_name(Path(order.spec.output), order.job).unlink(missing_ok=True)
            return
        event = self._wait(self._pool.submit(self._attempt, order))
        self._outbox.send(self._settings.topic_set.events, encode(event), key=order.job)
        self._outbox.flush()

    def _attempt(self, order: FinishOrder) -> Finished | Failed:
        for left in reversed(range(TRIES)):
            try:
                event = finish(order, self._store, lambda: self._wanted(order))
            except _Cancelled:
                _log.info("finish_cancelled", job=order.job)
                reason, code = "cancelled", 1
            except FacestreamError as error:
                _log.error("finish_failed", job=order.job, reason=str(error))
                reason, code = str(error), error.exit_code
                if error.retryable and left and not self._stop.wait(TRY_SECONDS):
                    continue
            except Exception as error:
                _log.exception("finish_crashed", job=order.job)
                reason, code = f"finish: {type(error).__name__}: {error}", 1
            else:
                _log.info("finished", job=order.job, output=event.output, frames=event.frames)
                return event
            break
        return Failed(job=order.job, role=Role.ASSEMBLER, reason=cleaned(reason), exit_code=code)

    def _wanted(self, order: FinishOrder) -> bool:
        """The last word on a job that is being cancelled. Once this said yes it always does: the result may
        be in place already when the order is carried out again."""
        name = finish_object(order.job)
        if self._store.exists(name):
            return True
        record = self._board.record(order.job)
        if (record is not None and record.cancelling) or self._board.ended(order.job, order.epoch):
            return False
        self._store.put(name, encode(order).tobytes())
        return True

    def _wait(self, future: Future[Finished | Failed]) -> Finished | Failed:
        """Go on polling, with all partitions paused, until the join is done."""
        while not futures.wait([future], POLL_SECONDS).done:
            self._consumer.pause(self._consumer.assignment())
            extra = self._consumer.poll(0)
            if extra is not None and extra.error() is None:  # of a partition that has just come
                self._consumer.seek(
                    TopicPartition(
                        cast(str, extra.topic()), cast(int, extra.partition()), cast(int, extra.offset())
                    )
                )
        self._consumer.resume(self._consumer.assignment())
        return future.result()

    def _commit(self, message: KafkaMessage) -> None:
        try:
            with translated("committing a finish order"):
                self._consumer.commit(message=message, asynchronous=False)
        except BrokerError as error:  # it moved: another repeats it, which is harmless
            _log.warning("commit_failed", reason=str(error))
