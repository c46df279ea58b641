"""Kafka clients with settings fit for records of megabytes.

Names are those of librdkafka's CONFIGURATION.md; values come from it and from measurements on Kafka
4.3.1 with confluent-kafka 2.16. `KafkaSettings.client` wins over everything here, so any librdkafka
setting can be changed without a change of code.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient

from runtime import security
from runtime.client_metrics import ClientMetrics
from runtime.settings import KafkaSettings
from schemas.errors import AssignmentError, BrokerError, SettingsError

_log = structlog.get_logger("kafka")
_LIBRDKAFKA = logging.getLogger("librdkafka")
"""librdkafka's own lines come out with ours instead of going to stderr."""


def _telling(record: logging.LogRecord) -> bool:
    """Not the line that each first producer of a fresh broker causes: it is retried and succeeds."""
    return "Coordinator load in progress: retrying" not in record.getMessage()


_LIBRDKAFKA.addFilter(_telling)

Config = dict[str, Any]
Client = TypeVar("Client")

FRAMING_BYTES = 1 << 20
"""Room above the record limit for what the protocol adds to a record."""

_MOVED = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._FENCED,  # noqa: SLF001 (a constant of the public API)
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
}
"""Errors that say: somebody else owns the work now."""


_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 (constants of the public API)
"""Errors of a broker that does not let us in, or whose certificate we do not accept."""

_NOT_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 (public constant)
    KafkaError._TRANSPORT,  # noqa: SLF001
}
"""Errors of a partition that is being set up, or moves between brokers, and of a lost connection."""


def broker_error(doing: str, error: Exception) -> BrokerError:
    """One clear line for what a client reported. An AssignmentError where the work moved elsewhere."""
    cause = error.args[0] if error.args else error
    if isinstance(cause, KafkaError):
        text = f"{doing}: {cause.str()} ({cause.name()})"
        return AssignmentError(text) if cause.code() in _MOVED else BrokerError(text)
    return BrokerError(f"{doing}: {error}")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn the client's exceptions into BrokerError or AssignmentError."""
    try:
        yield
    except (KafkaException, BufferError) as error:
        raise broker_error(doing, error) from error


def bounds(client: Consumer, topic: str, partition: int, seconds: float = 60.0) -> tuple[int, int]:
    """(first offset, next offset) of a partition; waits while it has no leader or no broker answers.

    Raises BrokerError.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=seconds)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise broker_error(f"asking for the end of {topic}", error) from error
            time.sleep(0.05)
            continue
        if found is None:
            raise BrokerError(f"asking for the end of {topic}: no answer within {seconds:g} s")
        return found


def producer(kafka: KafkaSettings, role: str, overrides: Config | None = None) -> Producer:
    """An idempotent producer: no loss, no duplicate, no reordering by retries."""
    return _producer(kafka, role, overrides or {})


def transactional_producer(
    kafka: KafkaSettings, role: str, transactional_id: str, overrides: Config | None = None
) -> Producer:
    """A producer whose records become visible with its transaction. A second one with the same id
    fences the first. `init_transactions` is the caller's (see `outbox.TransactionalOutbox`)."""
    own = {
        "transactional.id": transactional_id,
        # What a process that died in the middle had written holds up every reader of those partitions,
        # and whoever takes over its offsets, until the broker gives it up: no longer than a session.
        "transaction.timeout.ms": kafka.session_timeout_ms,
        "delivery.timeout.ms": kafka.session_timeout_ms * 9 // 10,  # less, or the client refuses
    }
    return _producer(kafka, role, own | (overrides or {}))


def consumer(
    kafka: KafkaSettings,
    group: str,
    role: str,
    *,
    reset: Literal["earliest", "latest", "error"] = "earliest",
    assignor: Literal["", "uniform", "range"] = "",
    protocol: Literal["consumer", "classic"] | None = None,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    instance_id: str = "",
    overrides: Config | None = None,
) -> Consumer:
    """A member of an ordinary group; offsets are committed only by hand.

    `assignor`: who gets what; `range` keeps equal partition numbers of several topics together.
    `protocol`: `consumer` is KIP-848, its session time-out a setting of the group
    (`cluster.configure_group`); with `classic` it is one of the member.
    """
    config: Config = (
        _reading(kafka)
        | {
            "group.id": group,
            "group.protocol": protocol or kafka.group_protocol,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": reset,
            "isolation.level": isolation,
            "max.poll.interval.ms": kafka.poll_ms,
            "queued.min.messages": 100,
            "fetch.queue.backoff.ms": 10,  # the default stalls for 1 s once the byte queue was full
        }
        | _ahead(kafka)
    )
    if instance_id:
        config["group.instance.id"] = instance_id
    if config["group.protocol"] == "classic":
        config["session.timeout.ms"] = kafka.session_timeout_ms
        config["heartbeat.interval.ms"] = max(kafka.session_timeout_ms // 4, 250)
        config["partition.assignment.strategy"] = "range" if assignor == "range" else "cooperative-sticky"
    elif assignor:
        config["group.remote.assignor"] = assignor
    return _make(Consumer, _merged(kafka, role, config, overrides), role)


def reader(
    kafka: KafkaSettings,
    role: str,
    *,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    overrides: Config | None = None,
) -> Consumer:
    """A consumer outside any group, for `assign` and random reads by offset: fetches little ahead
    (328 against 164 MB/s with the settings of `consumer`, and a tenth of the over-read)."""
    config = _reading(kafka) | {
        "group.id": f"facestream-{role}-reader",  # required by the client, joins nothing
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": 5,  # one record of frames fills the queue below
        "queued.max.messages.kbytes": 1024,
        "max.partition.fetch.bytes": 1 << 20,
    }
    return _make(Consumer, _merged(kafka, role, config, overrides), role)


def share_consumer(
    kafka: KafkaSettings, group: str, role: str, overrides: Config | None = None
) -> ShareConsumer:
    """A member of a share group that acknowledges each record by hand.

    The group's settings (start at the earliest record, lock, delivery limit) belong to the broker:
    call `cluster.configure_share_group` first.
    """
    config = _reading(kafka) | {
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "max.poll.records": 1,
    }
    return _make(ShareConsumer, _merged(kafka, role, config, overrides), role)


def admin(kafka: KafkaSettings, role: str = "admin") -> AdminClient:
    """An admin client."""
    return _make(AdminClient, _merged(kafka, role, {"statistics.interval.ms": 0}, None), role)


def check_access(kafka: KafkaSettings) -> None:
    """See that a broker answers and lets us in. Raises BrokerError with the reason: at once for a wrong
    password or certificate, else after `request_seconds`."""
    refused: list[KafkaError] = []
    lines = _Lines()
    config = _merged(kafka, "access", {"statistics.interval.ms": 0, "log.connection.close": True}, None)

    def on_error(error: KafkaError) -> None:
        if error.code() in _REFUSED:
            refused.append(error)

    try:
        probe = AdminClient(config | {"error_cb": on_error}, logger=lines.logger)
    except (KafkaException, TypeError, ValueError) as error:
        raise _settings_error(error) from None
    name = config["bootstrap.servers"]
    deadline = time.monotonic() + kafka.request_seconds
    while True:
        try:
            probe.list_topics(timeout=0.5)
            return
        except KafkaException as error:
            probe.poll(0)
            if refused:
                raise broker_error(f"reaching {name}", KafkaException(refused[-1])) from None
            if time.monotonic() > deadline:
                reason = lines.telling or broker_error("no answer", error)
                hint = f"; kafka.security is {kafka.security}: does that fit this port?"
                raise BrokerError(f"reaching {name}: {reason}{hint}") from None


class _Lines(logging.Handler):
    """What a client logs, kept: why it was disconnected comes no other way."""

    def __init__(self) -> None:
        super().__init__()
        self.telling = ""
        """The last line."""
        self.logger = logging.Logger("access")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.telling = record.getMessage().rpartition("/bootstrap: ")[2]


def _producer(kafka: KafkaSettings, role: str, overrides: Config) -> Producer:
    config = {
        "enable.idempotence": True,  # implies acks=all and ordered retries
        "message.max.bytes": kafka.record_limit,
        "compression.type": "none",  # pixels are raw or compressed already
        "batch.size": min(4 << 20, kafka.record_limit),
        "linger.ms": 5,
        "queue.buffering.max.kbytes": _kbytes(kafka.producer_queue_bytes),
        "delivery.timeout.ms": 120_000,
    }
    return _make(Producer, _merged(kafka, role, config, overrides), role)


def _reading(kafka: KafkaSettings) -> Config:
    fetch = kafka.record_limit + FRAMING_BYTES
    return {
        "fetch.max.bytes": fetch,
        "receive.message.max.bytes": min(2 * fetch, 2**31 - 1),
        "max.partition.fetch.bytes": min(16 << 20, fetch),
        "fetch.wait.max.ms": 100,
        "message.max.bytes": kafka.record_limit,
    }


def _ahead(kafka: KafkaSettings) -> Config:
    """Half of what may be fetched ahead waits in the queue, half is one answer under way. A record larger
    than an answer may be still comes, alone (KIP-74); the client only wants its settings to agree."""
    half = max(kafka.prefetch_bytes // 2, 1 << 10)
    return {
        "queued.max.messages.kbytes": _kbytes(half),
        "fetch.max.bytes": min(half, kafka.record_limit + FRAMING_BYTES),
        "max.partition.fetch.bytes": min(16 << 20, half, kafka.record_limit + FRAMING_BYTES),
        "message.max.bytes": max(min(kafka.record_limit, half), 1000),
    }


def _merged(kafka: KafkaSettings, role: str, config: Config, overrides: Config | None) -> Config:
    if not kafka.bootstrap:
        raise SettingsError("kafka.bootstrap: no cluster is named")
    base: Config = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": f"facestream-{role}",
        "socket.nagle.disable": True,
        "socket.keepalive.enable": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 2000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "log.connection.close": False,
        "statistics.interval.ms": round(kafka.statistics_seconds * 1000),
    }
    return base | security.client(kafka) | config | (overrides or {}) | dict(kafka.client)


def _make(kind: Callable[..., Client], config: Mapping[str, Any], role: str) -> Client:
    def on_error(error: KafkaError) -> None:
        _log.warning("client_error", role=role, error=error.name(), reason=error.str())

    own: Config = {"error_cb": on_error}
    if config.get("statistics.interval.ms"):
        own["stats_cb"] = ClientMetrics(role)
    try:
        return kind(dict(config) | own, logger=_LIBRDKAFKA)
    except (KafkaException, TypeError, ValueError) as error:
        raise _settings_error(error) from None


def _settings_error(error: Exception) -> SettingsError:
    cause = error.args[0] if error.args else error
    text = cause.str() if isinstance(cause, KafkaError) else str(error)
    return SettingsError(f"kafka.client: {text}")


def _kbytes(size: int) -> int:
    return max(size >> 10, 1)
