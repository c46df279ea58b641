"""Share groups: which records are run alone, and how often each took its worker down.

A record that was delivered SUSPECT_AT_DELIVERY times is run with nothing else in the process, after it
was named: its count, kept where the next worker finds it, is raised. An answer clears it; DEATHS counts
without an answer make it a failure. Whatever was merely in the same process when that died is innocent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from confluent_kafka import OFFSET_INVALID, ConsumerGroupTopicPartitions, TopicPartition

from runtime.cluster import broker_configuration
from runtime.kafka import admin, translated
from runtime.settings import Settings
from schemas.errors import BrokerError

_log = structlog.get_logger("swapper")
SUSPECT_AT_DELIVERY = 3
DEATHS = 2
_BROKERS_LIMIT = 5
"""Deliveries after which a broker drops a record, unless it says otherwise."""


class SuspectBook:
    """Counts of records in Kafka itself: the committed offset of a group for each record *is* its count.
    A record belongs to one worker at a time, so nobody else writes it. From any thread."""

    def __init__(self, settings: Settings, group: str, topic: str) -> None:
        self._settings, self._group, self._topic = settings, group, topic
        self._admin = admin(settings.kafka, "swapper")
        self._seconds = settings.kafka.request_seconds

    def delivery_limit(self) -> int:
        """After so many deliveries the broker drops a record without a word."""
        try:
            found = broker_configuration(self._settings).get("group.share.delivery.count.limit")
        except BrokerError as error:  # a right that not everybody has
            _log.warning("delivery_limit_unknown", reason=str(error))
            found = None
        return int(found or _BROKERS_LIMIT)

    def count(self, partition: int, offset: int) -> int:
        """How often a record was named and not cleared."""
        asked = ConsumerGroupTopicPartitions(self._name(partition, offset), [self._place(partition)])
        with translated("reading a suspect's count"):
            (future,) = self._admin.list_consumer_group_offsets([asked]).values()
            (found,) = future.result(self._seconds).topic_partitions
        count: int = found.offset
        return max(count, 0)

    def write(self, partition: int, offset: int, count: int) -> None:
        asked = ConsumerGroupTopicPartitions(self._name(partition, offset), [self._place(partition, count)])
        with translated("naming a suspect"):
            (future,) = self._admin.alter_consumer_group_offsets([asked]).values()
            future.result(self._seconds)

    def clear(self, partition: int, offset: int) -> None:
        with translated("clearing a suspect"):
            (future,) = self._admin.delete_consumer_groups([self._name(partition, offset)]).values()
            future.result(self._seconds)

    def _name(self, partition: int, offset: int) -> str:
        return f"{self._group}.{partition}.{offset}"

    def _place(self, partition: int, count: int = OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(self._topic, partition, count)


class Turnstile:
    """Lets ordinary records of several threads through side by side, or one suspect alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False

    @contextmanager
    def together(self, check: Callable[[], None]) -> Iterator[None]:
        """Inside, no suspect runs. `check` is called while waiting, and may raise."""
        with self._changed:
            while self._alone:
                self._changed.wait(0.2)
                check()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self, check: Callable[[], None]) -> Iterator[None]:
        """Inside, nothing else runs. `check` is called while waiting, and may raise."""
        with self._changed:
            while self._alone:
                self._changed.wait(0.2)
                check()
            self._alone = True  # nobody new comes in
        try:
            with self._changed:
                while self._inside:
                    self._changed.wait(0.2)
                    check()
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
