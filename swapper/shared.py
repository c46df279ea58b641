"""Reading frames as a share group: batches of one stream spread over all workers, without state.

The client allows no poll while records are unacknowledged, so each share consumer is a thread with a
poll → run → acknowledge cycle of its own; a few of them feed one pipeline. A record is acknowledged only
after the broker has its result.
"""

from __future__ import annotations

import threading
from typing import cast

import structlog
from confluent_kafka import AcknowledgeType, KafkaError, ShareConsumer
from confluent_kafka import Message as KafkaMessage

from runtime.kafka import share_consumer, translated
from runtime.settings import Settings
from schemas.errors import RecordError
from schemas.frames import FrameBatch
from schemas.record import Message, decode
from swapper.pipeline import Pipeline, Read

_log = structlog.get_logger("swapper")
FAIL_AT_DELIVERY = 5
"""A record that is delivered for this time has taken its workers with it: it becomes a failure, before
the broker drops it without a word (its limit is 10)."""


class ShareReader:
    """One share consumer and its thread."""

    def __init__(self, settings: Settings, group: str, topic: str, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._topic = topic
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
            self._consumer.close()
        except BaseException as error:  # handed to the main thread, which raises it
            self._error = error

    def _turn(self) -> None:
        """One cycle: poll, run everything that came, acknowledge each with the broker holding its result."""
        messages = self._consumer.poll(0.5)
        waiting: list[tuple[KafkaMessage, threading.Event]] = []
        for raw in messages:
            if raw.error() is not None:
                _log.warning("consumer_error", error=cast(KafkaError, raw.error()).str())
                continue
            event = threading.Event()
            if not self._submit(raw, event):
                event.set()
            waiting.append((raw, event))
        for raw, event in waiting:
            while not event.wait(0.2):
                self._pipeline.check()
                if self._stop.is_set():
                    return
            self._consumer.acknowledge(raw, AcknowledgeType.ACCEPT)
        if waiting:
            with translated("acknowledging frames"):
                self._consumer.commit_sync()

    def _submit(self, raw: KafkaMessage, event: threading.Event) -> bool:
        """Put a frame batch into the pipeline; False for records that need no work."""
        partition, offset = cast(int, raw.partition()), cast(int, raw.offset())
        try:
            message = decode(cast(bytes, raw.value()))
        except RecordError as error:
            _log.error("bad_record", topic=self._topic, partition=partition, offset=offset, reason=str(error))
            return False
        if not isinstance(message.record, FrameBatch):
            return False
        deliveries = raw.delivery_count() or 1
        refuse = ""
        if deliveries >= FAIL_AT_DELIVERY:
            refuse = f"given up after {deliveries - 1} deliveries that were not acknowledged"
        self._pipeline.put(
            Read(cast(Message[FrameBatch], message), partition, offset, None, lambda _: event.set(), refuse)
        )
        return True
