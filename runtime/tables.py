"""A compacted topic read once from its beginning to its present end."""

from __future__ import annotations

import time

import structlog
from confluent_kafka import KafkaError, TopicPartition

from runtime.kafka import reader, translated
from runtime.settings import Settings
from schemas.errors import BrokerError, RecordError
from schemas.record import Record, decode

_log = structlog.get_logger("tables")


def read_table(settings: Settings, topic: str, role: str, timeout: float = 60.0) -> dict[str, Record]:
    """Latest committed record of each key; tombstones are taken off. Raises BrokerError on time-out."""
    consumer = reader(settings.kafka, role)
    table: dict[str, Record] = {}
    deadline = time.monotonic() + timeout
    try:
        with translated(f"reading {topic}"):
            partitions = consumer.list_topics(topic, timeout=timeout).topics[topic].partitions
            open_ends = set(partitions)
            consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        while open_ends:
            message = consumer.poll(0.2)
            if message is None:
                if time.monotonic() > deadline:
                    raise BrokerError(f"{topic} was not read to its end within {timeout:g} s")
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (public constant)
                    open_ends.discard(message.partition())
                continue
            _apply(table, topic, message.key(), message.value())
    finally:
        consumer.close()
    return table


def _apply(table: dict[str, Record], topic: str, key: bytes | str | None, value: bytes | None) -> None:
    name = key.decode() if isinstance(key, bytes) else str(key)
    if value is None:
        table.pop(name, None)
        return
    try:
        table[name] = decode(value).record
    except RecordError as error:
        _log.error("bad_record", topic=topic, key=name, reason=str(error))
