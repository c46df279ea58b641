"""Share groups: which records are run alone, and how often each took its worker down.

A record that was delivered SUSPECT_AT_DELIVERY times is run with nothing else in the process, after it
was named: its count, kept where the next worker finds it, is raised. An answer clears it; DEATHS counts
without an answer make it a failure, at its fifth delivery. Whatever was merely in the same process when
that died is innocent.
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
SUSPECT_AT_DELIVERY = 2
DEATHS = 3
Place = tuple[int, int, int]
"""Partition, offset, and `seq` of a batch: a record may stand for many."""
_BROKERS_LIMIT = 5
"""Deliveries after which a broker drops a record, unless it says otherwise."""


class SuspectBook:
    """Counts of batches in Kafka itself: the committed offset of a group for each batch *is* its count.
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

    def count(self, place: Place) -> int:
        """How often a batch was named and not cleared."""
        asked = ConsumerGroupTopicPartitions(self._name(place), [self._at(place)])
        with translated("reading a suspect's count"):
            (future,) = self._admin.list_consumer_group_offsets([asked]).values()
            (found,) = future.result(self._seconds).topic_partitions
        count: int = found.offset
        return max(count, 0)

    def write(self, place: Place, count: int) -> None:
        asked = ConsumerGroupTopicPartitions(self._name(place), [self._at(place, count)])
        with translated("naming a suspect"):
            (future,) = self._admin.alter_consumer_group_offsets([asked]).values()
            future.result(self._seconds)

    def clear(self, place: Place) -> None:
        with translated("clearing a suspect"):
            (future,) = self._admin.delete_consumer_groups([self._name(place)]).values()
            future.result(self._seconds)

    def _name(self, place: Place) -> str:
        return ".".join([self._group, *map(str, place)])

    def _at(self, place: Place, count: int = OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(self._topic, place[0], count)


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
            self._wait(lambda: not self._alone, check)
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
            self._wait(lambda: not self._alone, check)
            self._alone = True  # nobody new comes in
        try:
            with self._changed:
                self._wait(lambda: not self._inside, check)
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], check: Callable[[], None]) -> None:
        while not condition():
            self._changed.wait(0.2)
            check()
