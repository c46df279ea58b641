"""The topics: names, cleanup, and who writes and reads them (docs/architecture.md has the table)."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.job import Lane

RECORD_LIMIT = 64 << 20
"""Default `max.message.bytes` of all topics: one frame of 8K 4:4:4 16 bit does not fit, 8K 4:2:0 does."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is created. `config` holds the broker's per-topic settings."""

    name: str
    partitions: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class TopicSizes:
    """What an operator may choose about the topics."""

    frame_partitions: int = 8
    order_partitions: int = 8
    record_limit: int = RECORD_LIMIT
    retention_hours: int = 24
    retention_bytes: int = 64 << 30
    """Of all frames of a lane together; spread evenly over its partitions."""
    segment_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class TopicSet:
    """All topics under one prefix."""

    prefix: str = "facestream."

    @property
    def jobs(self) -> str:
        return self.prefix + "jobs"

    @property
    def segments(self) -> str:
        return self.prefix + "segments"

    @property
    def orders_ingest(self) -> str:
        return self.prefix + "orders.ingest"

    @property
    def orders_finish(self) -> str:
        return self.prefix + "orders.finish"

    @property
    def checkpoints(self) -> str:
        return self.prefix + "checkpoints"

    @property
    def events(self) -> str:
        return self.prefix + "events"

    @property
    def dead(self) -> str:
        return self.prefix + "dead"

    @property
    def leases(self) -> str:
        return self.prefix + "leases"

    def frames(self, lane: Lane) -> str:
        return f"{self.prefix}frames.{lane}"

    def swaps(self, lane: Lane) -> str:
        return f"{self.prefix}swaps.{lane}"

    def definitions(self, sizes: TopicSizes) -> list[Topic]:
        """Every topic with its partitions and configuration."""
        limit = {"max.message.bytes": str(sizes.record_limit)}
        hours = str(sizes.retention_hours * 3_600_000)
        compact = limit | {"cleanup.policy": "compact"}
        delete = limit | {"cleanup.policy": "delete", "retention.ms": hours}
        window = delete | {
            "compression.type": "producer",
            "segment.bytes": str(sizes.segment_bytes),
            "retention.bytes": str(max(sizes.retention_bytes // sizes.frame_partitions, 1)),
        }
        topics = [
            Topic(self.jobs, 1, compact),
            Topic(self.segments, 1, compact),
            Topic(self.leases, 1, compact),
            Topic(self.checkpoints, 1, compact),
            Topic(self.events, 1, delete),
            Topic(self.dead, 1, delete),
            Topic(self.orders_ingest, sizes.order_partitions, delete),
            Topic(self.orders_finish, sizes.order_partitions, delete),
        ]
        for lane in Lane:
            topics.append(Topic(self.frames(lane), sizes.frame_partitions, window))
            topics.append(Topic(self.swaps(lane), sizes.frame_partitions, window))
        return topics
