"""One embedded broker for a whole test run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import TopicPartition

from runtime.broker.embedded import EmbeddedBroker
from runtime.kafka import reader
from runtime.settings import Settings, load

_numbers = itertools.count()


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Start a broker with its data in `folder`; yields host:port."""
    with EmbeddedBroker(folder, load()) as broker:
        yield broker.bootstrap


def isolated_settings(bootstrap: str, folder: Path) -> Settings:
    """Settings of one test: topics of its own, data in its folder, few partitions, short sessions."""
    return load(
        {
            "topic_prefix": f"t{os.getpid()}-{next(_numbers)}.",
            "data": folder,
            "kafka": {"bootstrap": bootstrap, "session_timeout_ms": 6000},
            "topics": {"frame_partitions": 4, "order_partitions": 4},
        }
    )


def read_all(settings: Settings, topic: str, partition: int = 0) -> list[bytes | None]:
    """All committed values of a partition."""
    client = reader(settings.kafka, "test")
    client.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes | None] = []
    while True:
        message = client.poll(10)
        assert message is not None, "no end of partition"
        if message.error() is not None:
            client.close()
            return values
        values.append(message.value())
