"""Configuration of the embedded broker: what a one-node Kafka with records of megabytes needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runtime.settings import MIB

CLUSTER_ID = "facestreamEmbeddedBrok"
"""KRaft wants 22 characters of base64; fixed, so that a kept data folder is always ours."""

LOG4J = """\
Configuration:
  status: error
  Appenders:
    RollingFile:
      name: file
      fileName: ${sys:facestream.log}
      filePattern: ${sys:facestream.log}.%i
      PatternLayout:
        pattern: "%d %p %c: %m%n"
      SizeBasedTriggeringPolicy:
        size: 8 MB
      DefaultRolloverStrategy:
        max: 2
  Loggers:
    Root:
      level: warn
      AppenderRef:
        ref: file
"""


_LISTS = ("listeners", "advertised.listeners", "listener.security.protocol.map")
"""Properties to which further values are added."""


def server_properties(
    data: Path, client: int, controller: int, record_limit: int, further: Mapping[str, object] | None = None
) -> str:
    """`server.properties` of one node that is broker and controller on the given ports.

    `data` is the folder of the logs; `record_limit` is the largest record in bytes; `further` are properties
    that win over ours, or name more listeners.
    """
    batch = record_limit + MIB
    values: dict[str, object] = {
        # KRaft, one node
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"CLIENT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"CLIENT://127.0.0.1:{client}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        # Internal topics: one replica each. Without the last three, share groups silently deliver
        # nothing. Few partitions: the defaults of 50 cost files and start-up.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 4,
        # Sessions: the defaults refuse groups under 45 s, and hand over at the next heartbeat
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 6000,
        "group.consumer.min.session.timeout.ms": 6000,
        "group.consumer.session.timeout.ms": 10_000,
        "group.consumer.min.heartbeat.interval.ms": 1000,
        "group.consumer.heartbeat.interval.ms": 1000,
        "group.share.min.session.timeout.ms": 6000,
        "group.share.session.timeout.ms": 10_000,
        "group.share.min.heartbeat.interval.ms": 1000,
        "group.share.heartbeat.interval.ms": 1000,
        "group.share.delivery.count.limit": 10,
        # How often to look for transactions of the dead, which hold up readers; 10 s by default
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # Records of megabytes
        "message.max.bytes": batch,
        "replica.fetch.max.bytes": batch,
        "socket.request.max.bytes": max(2 * record_limit, 100 * MIB),
        "queued.max.request.bytes": max(2 * record_limit, 100 * MIB),
        "socket.send.buffer.bytes": MIB,
        "socket.receive.buffer.bytes": MIB,
        # A small machine
        "num.network.threads": 2,
        "num.io.threads": 4,
        "num.recovery.threads.per.data.dir": 2,
        "background.threads": 2,
        "log.segment.bytes": 256 * MIB,
        "log.retention.check.interval.ms": 30_000,
        "log.segment.delete.delay.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 8 * MIB,
        "log.cleaner.threads": 1,
        # After a crash the node waits until its former self has timed out (9 s by default)
        "broker.session.timeout.ms": 6000,
        "broker.heartbeat.interval.ms": 1000,
    }
    for name, value in (further or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        values[name] = f"{values[name]},{text}" if name in _LISTS else text.replace("\n", "\\n")
    return "".join(f"{name}={value}\n" for name, value in values.items())


def java_options(heap_mb: int, log4j: Path, log: Path) -> list[str]:
    """Flags of the JVM: a bounded heap and a quick start."""
    return [
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log4j}",
        f"-Dfacestream.log={log}",
    ]
