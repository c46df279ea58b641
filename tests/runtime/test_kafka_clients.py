"""Kafka clients on the real broker: sizes, transactions, groups."""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from runtime import cluster
from runtime.kafka import (
    consumer,
    producer,
    share_consumer,
    transactional_producer,
)
from runtime.metrics import REGISTRY
from runtime.outbox import Outbox, TransactionalOutbox
from runtime.settings import Settings
from schemas.errors import AssignmentError, BrokerError
from schemas.topics import Topic
from tests.support.broker import read_all
from tests.support.processes import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(kafka: Settings) -> str:
    """A topic of two partitions that takes records up to the limit."""
    name = kafka.topic_prefix + "frames"
    limit = {"max.message.bytes": str(kafka.kafka.record_limit)}
    cluster.ensure_topics(kafka, [Topic(name, 2, limit)])
    return name


def take(client: Any, count: int, seconds: float = 30.0) -> list[Message]:
    """The next `count` messages."""
    taken: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(taken) < count:
        assert time.monotonic() < deadline, f"{len(taken)} of {count} records arrived"
        message = client.poll(0.5)
        if message is not None and message.error() is None:
            taken.append(message)
    return taken


def test_record_of_25_megabytes_arrives_unchanged(kafka: Settings, topic: str) -> None:
    record = np.random.default_rng(1).integers(0, 256, 25_000_000, np.uint8)
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        outbox.send(topic, record, "stream", partition=1)
    assert read_all(kafka, topic, 1) == [record.tobytes()]
    client = consumer(kafka.kafka, kafka.topic_prefix + "g", "test")
    client.subscribe([topic])
    (message,) = take(client, 1)
    assert message.value() == record.tobytes()
    assert message.key() == b"stream"
    client.close()


def test_transaction_commits_records_and_offsets_together(kafka: Settings, topic: str) -> None:
    group = kafka.topic_prefix + "g"
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        outbox.send(topic, b"in", partition=0)
    client = consumer(kafka.kafka, group, "test", assignor="range")
    client.subscribe([topic])
    (message,) = take(client, 1)
    position = TopicPartition(topic, 0, (message.offset() or 0) + 1)
    outbox = TransactionalOutbox(transactional_producer(kafka.kafka, "test", group))

    def give_up() -> None:
        with outbox.transaction([position], client.consumer_group_metadata()):
            outbox.send(topic, b"given up", partition=1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        give_up()
    assert read_all(kafka, topic, 1) == []
    assert committed(client, topic) < 0

    with outbox.transaction([position], client.consumer_group_metadata()):
        outbox.send(topic, b"out", partition=1)
    assert read_all(kafka, topic, 1) == [b"out"]
    assert committed(client, topic) == position.offset
    outbox.close()
    client.close()


def committed(client: Consumer, topic: str) -> int:
    return client.committed([TopicPartition(topic, 0)], timeout=10)[0].offset


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_member_that_lost_its_partitions_cannot_commit_nor_publish(
    kafka: Settings, topic: str, protocol: Literal["consumer", "classic"]
) -> None:
    group = kafka.topic_prefix + "g"
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        outbox.send(topic, b"in", partition=0)
    first = consumer(kafka.kafka, group, "test", protocol=protocol)
    first.subscribe([topic])
    take(first, 1)
    stale = first.consumer_group_metadata()
    first.close()
    second = consumer(kafka.kafka, group, "test", protocol=protocol)
    second.subscribe([topic])
    take(second, 1)

    outbox = TransactionalOutbox(transactional_producer(kafka.kafka, "test", group))
    position = [TopicPartition(topic, 0, 1)]
    with pytest.raises(AssignmentError), outbox.transaction(position, stale):
        outbox.send(topic, b"checkpoint", partition=1)
    assert read_all(kafka, topic, 1) == []
    assert committed(second, topic) < 0

    with outbox.transaction(position, second.consumer_group_metadata()):
        outbox.send(topic, b"of the second", partition=1)
    assert read_all(kafka, topic, 1) == [b"of the second"]
    outbox.close()
    second.close()


def test_second_producer_with_the_same_transactional_id_fences_the_first(kafka: Settings, topic: str) -> None:
    name = kafka.topic_prefix + "scheduler"
    first = TransactionalOutbox(transactional_producer(kafka.kafka, "test", name))
    with first.transaction():
        first.send(topic, b"1", partition=0)
    second = TransactionalOutbox(transactional_producer(kafka.kafka, "test", name))
    with pytest.raises(AssignmentError), first.transaction():
        first.send(topic, b"2", partition=0)
    with second.transaction():
        second.send(topic, b"3", partition=0)
    assert read_all(kafka, topic) == [b"1", b"3"]
    second.close()


def test_a_transaction_that_died_half_way_soon_holds_up_nobody(kafka: Settings, topic: str) -> None:
    died = TransactionalOutbox(transactional_producer(kafka.kafka, "test", kafka.topic_prefix + "died"))
    half_way = died.transaction()
    half_way.__enter__()
    died.send(topic, b"half", partition=0)
    died.flush()
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        outbox.send(topic, b"next", partition=0)
    client = consumer(kafka.kafka, kafka.topic_prefix + "g", "test")
    client.subscribe([topic])
    (message,) = take(client, 1)  # it waits 30 s; a transaction may last 60 s by default
    assert message.value() == b"next"
    client.close()
    with pytest.raises(BrokerError):
        half_way.__exit__(None, None, None)


def test_share_group_delivers_what_was_there_before_its_first_member(kafka: Settings, topic: str) -> None:
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        for number in range(3):
            outbox.send(topic, bytes([number]), partition=0)
            outbox.flush()
    group = kafka.topic_prefix + "share"
    cluster.configure_share_group(kafka, group)
    client = share_consumer(kafka.kafka, group, "test")
    client.subscribe([topic])
    taken: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(taken) < 3 and time.monotonic() < deadline:
        for message in client.poll(1.0):
            client.acknowledge(message)
            taken.append(message.value())
    client.commit_sync()
    client.close()
    assert taken == [b"\0", b"\1", b"\2"]


def test_group_may_ask_for_a_session_of_six_seconds(kafka: Settings) -> None:
    cluster.configure_group(kafka, kafka.topic_prefix + "g")
    with pytest.raises(BrokerError, match="configuring group"):
        cluster.configure(kafka, "g", {"consumer.session.timeout.ms": 5000})


def test_sending_to_a_missing_topic_raises_at_the_flush(kafka: Settings) -> None:
    config = {"message.timeout.ms": 2000, "topic.metadata.propagation.max.ms": 500}
    outbox = Outbox(producer(kafka.kafka, "test", config))
    outbox.send(kafka.topic_prefix + "missing", b"x")
    with pytest.raises(BrokerError, match=r"1 record to .*missing not delivered"):
        outbox.flush(20)
    outbox.close()


def test_record_over_the_limit_is_refused_at_once(kafka: Settings, topic: str) -> None:
    outbox = Outbox(producer(kafka.kafka, "test", {"message.max.bytes": 100_000}))
    with pytest.raises(BrokerError, match="MSG_SIZE_TOO_LARGE"):
        outbox.send(topic, bytes(200_000))
    outbox.close()


def test_full_queue_is_an_error_after_the_patience_is_over(kafka: Settings, topic: str) -> None:
    config = {"queue.buffering.max.messages": 1, "linger.ms": 60_000}
    outbox = Outbox(producer(kafka.kafka, "test", config), patience=0.2)
    outbox.send(topic, b"1")
    with pytest.raises(BrokerError, match="the queue stayed full"):
        outbox.send(topic, b"2")
    outbox.close()


def test_delivery_is_reported_with_partition_and_offset(kafka: Settings, topic: str) -> None:
    seen: list[tuple[int | None, int | None]] = []
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        for _ in range(2):
            outbox.send(
                topic, b"x", partition=1, on_delivery=lambda m: seen.append((m.partition(), m.offset()))
            )
    assert seen == [(1, 0), (1, 1)]


def test_lag_queues_and_round_trips_are_measured(kafka: Settings, topic: str) -> None:
    often = kafka.kafka.model_copy(update={"statistics_seconds": 0.2})
    outbox = Outbox(producer(often, "sender"))
    for _ in range(3):
        outbox.send(topic, b"x", partition=0)
    outbox.flush()
    client = consumer(often, kafka.topic_prefix + "g", "taker")
    client.subscribe([topic])
    first, *_ = take(client, 3)
    client.commit(offsets=[TopicPartition(topic, 0, (first.offset() or 0) + 1)], asynchronous=False)

    def measured(name: str, **labels: str) -> float | None:
        client.poll(0.05)
        outbox.poll(0.05)
        return REGISTRY.get_sample_value(f"facestream_kafka_{name}", labels)

    place = {"role": "taker", "topic": topic, "partition": "0"}
    eventually("the lag", lambda: measured("consumer_lag", **place) == 2)
    eventually("round trips", lambda: (measured("round_trip_seconds", role="sender") or 0) > 0)
    eventually("the producer's queue", lambda: measured("unsent_records", role="sender") == 0)
    client.commit(offsets=[TopicPartition(topic, 0, (first.offset() or 0) + 3)], asynchronous=False)
    eventually("no lag", lambda: measured("consumer_lag", **place) == 0)
    client.unsubscribe()
    eventually("no series of what was given away", lambda: measured("consumer_lag", **place) is None)
    client.close()
    outbox.close()
