"""Sending records: back-pressure with a bound, and delivery errors that nobody can overlook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from runtime.kafka import broker_error, translated
from schemas.errors import BrokerError

Value = bytes | npt.NDArray[Any] | None
"""A record; a contiguous array is handed over without a copy of ours. None is a tombstone."""

OnDelivery = Callable[[Message], None]
"""Called from `send`, `poll` or `flush` once the brokers have the record."""

UNASSIGNED = -1
"""No partition named: the key decides."""


class Outbox:
    """Sends through one producer; owned by one thread.

    Sending is asynchronous. A record that could not be delivered raises BrokerError from the next
    call of `send`, `poll` or `flush`.
    """

    def __init__(self, producer: Producer, *, patience: float = 60.0) -> None:
        """`patience`: seconds for which `send` waits for room in a full queue."""
        self._producer = producer
        self._patience = patience
        self._failures: list[tuple[str, KafkaError]] = []

    def send(
        self,
        topic: str,
        value: Value,
        key: str | bytes = b"",
        partition: int = UNASSIGNED,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Queue one record. Waits while the queue is full, at most `patience` seconds."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failures.append((topic, error))
            elif on_delivery is not None:
                on_delivery(message)

        self.poll()
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._producer.produce(
                    topic,
                    value=value,  # type: ignore[arg-type] # any contiguous buffer
                    key=key or None,
                    partition=partition,
                    on_delivery=delivered,
                )
                return
            except BufferError:
                if time.monotonic() >= deadline:
                    raise BrokerError(
                        f"sending to {topic}: the queue stayed full for {self._patience:g} s"
                    ) from None
                self.poll(0.1)
            except KafkaException as error:
                raise broker_error(f"sending to {topic}", error) from error

    def poll(self, timeout: float = 0.0) -> None:
        """Serve delivery reports, waiting up to `timeout` seconds for the first."""
        with self._guarded("delivering records"):
            self._producer.poll(timeout)
        self._raise_failures()

    def flush(self, timeout: float = 60.0) -> None:
        """Wait until all records are delivered. Raises BrokerError if that takes too long."""
        with self._guarded("delivering records"):
            left = self._producer.flush(timeout)
        self._raise_failures()
        if left:
            raise BrokerError(f"{left} records were not delivered within {timeout:g} s")

    def close(self, timeout: float = 10.0) -> None:
        """Deliver what is queued, then let go of the connection."""
        try:
            self.flush(timeout)
        finally:
            self._producer.purge()
            self._producer.close()

    def __len__(self) -> int:
        """Records sent and not yet delivered."""
        return len(self._producer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._producer.purge()
            self._producer.close()

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        try:
            with translated(doing):
                yield
        except SystemError as error:
            # The client raises its fatal errors from inside a callback; where another callback
            # runs before that one is seen, the interpreter only knows that something was raised.
            raise self._fatal_error(doing) from error

    def _fatal_error(self, doing: str) -> BrokerError:
        return BrokerError(f"{doing}: the client failed for good")

    def _raise_failures(self) -> None:
        if not self._failures:
            return
        (topic, error), count = self._failures[0], len(self._failures)
        self._failures.clear()
        raise broker_error(
            f"{count} record{'s' if count > 1 else ''} to {topic} not delivered",
            KafkaException(error),
        )


class TransactionalOutbox(Outbox):
    """An outbox whose records and consumed offsets become visible together, or not at all.

    Made of a `transactional_producer`. Raises AssignmentError where the broker refuses because the
    partition or the transactional id belongs to somebody else now.
    """

    def __init__(self, producer: Producer, *, patience: float = 60.0, timeout: float = 30.0) -> None:
        super().__init__(producer, patience=patience)
        self._timeout = timeout
        with translated("opening the transactional id"):
            producer.init_transactions(timeout)

    @contextmanager
    def transaction(self, offsets: Sequence[TopicPartition] = (), group: Any = None) -> Iterator[None]:
        """What is sent inside is committed at the end, together with `offsets` (the next to read)
        of the consumer whose `consumer_group_metadata()` is `group`. An exception aborts."""
        with translated("beginning a transaction"):
            self._producer.begin_transaction()
        try:
            yield
            self.flush(self._timeout)
            with self._guarded("committing a transaction"):
                if offsets:
                    self._producer.send_offsets_to_transaction(list(offsets), group, self._timeout)
                self._producer.commit_transaction(self._timeout)
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> None:
        """Abort; where even that fails the producer is fenced and the caller's error says why."""
        with suppress(BrokerError), self._guarded("aborting a transaction"):
            self._producer.abort_transaction(self._timeout)
            self._producer.poll(0)  # the reports of what was purged
        self._failures.clear()

    def _fatal_error(self, doing: str) -> BrokerError:
        """Ask for the reason: a transactional client that died repeats it when told to begin."""
        try:
            with translated(doing):
                self._producer.begin_transaction()
        except BrokerError as error:
            return error
        return super()._fatal_error(doing)
