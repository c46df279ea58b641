"""What is asked of the cluster itself: topics and the settings of groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from runtime import kafka
from runtime.kafka import broker_error, translated
from runtime.settings import Settings
from schemas.errors import AssignmentError, BrokerError
from schemas.job import Lane
from schemas.topics import Topic

_log = structlog.get_logger("cluster")


def ensure_topics(settings: Settings, topics: Sequence[Topic] | None = None) -> None:
    """Create the topics that are missing and wait until all are visible.

    Without `topics`: all of `TopicSet`, and frames and swaps of each lane must then have equal
    partition counts. Existing topics are left as they are. Raises BrokerError, or AssignmentError
    for unequal counts.
    """
    wanted = settings.topic_set.definitions(settings.topic_sizes) if topics is None else topics
    client = kafka.admin(settings.kafka)
    seconds = settings.kafka.request_seconds
    present = partitions(client, seconds)
    missing = [topic for topic in wanted if topic.name not in present]
    if missing:
        _create(client, missing, settings.topics.replication, seconds)
        present = _await_topics(client, [topic.name for topic in missing], seconds)
    if topics is None:
        _check_pairs(settings, present)


def await_topics(settings: Settings, seconds: float = 60.0) -> None:
    """Wait until all topics are there: control makes them. Raises BrokerError naming one that is not."""
    names = [topic.name for topic in settings.topic_set.definitions(settings.topic_sizes)]
    _await_topics(kafka.admin(settings.kafka), names, seconds)


def partitions(client: AdminClient, seconds: float = 30.0) -> dict[str, int]:
    """Partition count of each topic that is ready: every partition has a leader."""
    with translated("reading the cluster's topics"):
        found = client.list_topics(timeout=seconds).topics
    return {
        name: len(topic.partitions)
        for name, topic in found.items()
        if topic.error is None and all(p.leader >= 0 for p in topic.partitions.values())
    }


def configure_group(settings: Settings, group: str) -> None:
    """Give a KIP-848 group our session time-out. A broker with a higher floor refuses: BrokerError."""
    configure(settings, group, group_values(settings))


def configure_share_group(settings: Settings, group: str) -> None:
    """Set up a share group before its first member: from the earliest record, our lock."""
    configure(settings, group, share_group_values(settings))


def group_values(settings: Settings) -> dict[str, str | int]:
    """Configuration of a KIP-848 group."""
    timeout = settings.kafka.session_timeout_ms
    return {
        "consumer.session.timeout.ms": timeout,
        "consumer.heartbeat.interval.ms": max(timeout // 5, 1000),
    }


def share_group_values(settings: Settings) -> dict[str, str | int]:
    """Configuration of a share group."""
    timeout = settings.kafka.session_timeout_ms
    return {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.record.lock.duration.ms": settings.swapper.share_lock_ms,
        "share.session.timeout.ms": timeout,
        "share.heartbeat.interval.ms": max(timeout // 5, 1000),
    }


def configure(settings: Settings, group: str, values: Mapping[str, str | int]) -> None:
    """Set group configurations on the broker, unless the operator does that (kafka.configure_groups)."""
    if not settings.kafka.configure_groups:
        return
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    client = kafka.admin(settings.kafka)
    seconds = settings.kafka.request_seconds
    futures = client.incremental_alter_configs([resource], request_timeout=seconds)
    with translated(f"configuring group {group}"):
        for future in futures.values():
            future.result(seconds)


def broker_configuration(settings: Settings) -> dict[str, str]:
    """Effective configuration of one broker, e.g. to tell the session floor."""
    client = kafka.admin(settings.kafka)
    with translated("reading the cluster's brokers"):
        brokers = client.list_topics(timeout=settings.kafka.request_seconds).brokers
    return _configuration(settings, client, ResourceType.BROKER, str(next(iter(brokers))))


def topic_configuration(settings: Settings, topic: str) -> dict[str, str]:
    """Effective configuration of a topic."""
    return _configuration(settings, kafka.admin(settings.kafka), ResourceType.TOPIC, topic)


def _configuration(settings: Settings, client: AdminClient, kind: Any, name: str) -> dict[str, str]:
    seconds = settings.kafka.request_seconds
    with translated(f"reading the configuration of {name}"):
        resource = ConfigResource(kind, name)
        described = client.describe_configs([resource], request_timeout=seconds)
        entries: dict[str, Any] = next(iter(described.values())).result(seconds)
    return {entry.name: str(entry.value) for entry in entries.values()}


def _create(client: AdminClient, topics: Sequence[Topic], replication: int, seconds: float) -> None:
    """Waits while all brokers are fenced, as they are after a pause until they meet the controller again."""
    deadline = time.monotonic() + seconds
    left = list(topics)
    while left:
        new = [
            NewTopic(t.name, num_partitions=t.partitions, replication_factor=replication, config=t.config)
            for t in left
        ]
        futures = client.create_topics(new, operation_timeout=seconds, request_timeout=seconds)
        patient = time.monotonic() < deadline
        left = [topic for topic in left if not _created(topic.name, futures[topic.name], seconds, patient)]
        if left:
            time.sleep(0.2)


def _created(name: str, future: Future[None], seconds: float, patient: bool) -> bool:
    """Whether the topic is there now; False if it is worth asking again, never unless `patient`."""
    try:
        future.result(seconds)
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another service was faster
            return True
        if patient and cause.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in cause.str():
            return False
        raise broker_error(f"creating topic {name}", error) from error
    _log.info("topic_created", topic=name)
    return True


def _await_topics(client: AdminClient, names: Sequence[str], seconds: float) -> dict[str, int]:
    deadline = time.monotonic() + seconds
    while True:
        present = partitions(client, seconds)
        absent = [name for name in names if name not in present]
        if not absent:
            return present
        if time.monotonic() > deadline:
            raise BrokerError(f"topic {absent[0]} did not appear within {seconds:g} s")
        time.sleep(0.05)


def _check_pairs(settings: Settings, present: Mapping[str, int]) -> None:
    for lane in Lane:
        frames, swaps = settings.topic_set.frames(lane), settings.topic_set.swaps(lane)
        if present[frames] != present[swaps]:
            raise AssignmentError(
                f"{frames} has {present[frames]} partitions and {swaps} has {present[swaps]}; "
                "they must be equal"
            )
