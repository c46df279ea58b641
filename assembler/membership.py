"""One consumer on frames and swaps whose partitions always come in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import structlog
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from assembler.join import Side
from runtime import kafka
from runtime.cluster import configure_group, partitions
from runtime.kafka import translated
from runtime.settings import Settings
from schemas.errors import AssignmentError
from schemas.job import Lane

_log = structlog.get_logger("assembler")


ASK_SECONDS = 3.0
"""How long to wait for an answer about offsets."""


class PairedConsumer:
    """Member of the assemblers' group of one lane.

    `on_revoke` is told, inside a poll, which partitions went away. The range assignor gives both topics
    the same partition numbers; an assignment in which they differ raises AssignmentError from `poll`.
    """

    def __init__(self, settings: Settings, lane: Lane, on_revoke: Callable[[set[int]], None]) -> None:
        topics = settings.topic_set
        self.topics = {Side.FRAMES: topics.frames(lane), Side.SWAPS: topics.swaps(lane)}
        self._sides = {name: side for side, name in self.topics.items()}
        self._check_counts(settings)
        group = f"{settings.topic_prefix}assembler.{lane}"
        if settings.kafka.group_protocol == "consumer":
            configure_group(settings, group)
        self._incremental = settings.kafka.group_protocol == "consumer"
        self._on_revoke = on_revoke
        self._assigned: dict[Side, set[int]] = {side: set() for side in Side}
        self._paused: set[Side] = set()
        self.gained = False
        """Partitions came since this was last cleared."""
        self._trouble: AssignmentError | None = None
        self._consumer: Consumer = kafka.consumer(settings.kafka, group, "assembler", assignor="range")
        with translated("joining the assemblers' group"):
            self._consumer.subscribe(
                list(self.topics.values()),
                on_assign=self._assign,
                on_revoke=self._revoke,
                on_lost=self._revoke,
            )

    def _check_counts(self, settings: Settings) -> None:
        present = partitions(kafka.admin(settings.kafka), settings.kafka.request_seconds)
        counts = {name: present.get(name, 0) for name in self.topics.values()}
        if len(set(counts.values())) != 1:
            raise AssignmentError(f"partition counts must be equal: {counts}")

    @property
    def assigned(self) -> set[int]:
        """Partitions held, of both topics."""
        return self._assigned[Side.FRAMES]

    def poll(self, timeout: float) -> KafkaMessage | None:
        """The next record, or None. Raises AssignmentError, or BrokerError for a fatal error."""
        message = self._consumer.poll(timeout)
        if self._trouble is not None:
            raise self._trouble
        if message is None:
            return None
        if (error := message.error()) is not None:
            if error.fatal():
                raise kafka.broker_error("reading frames and swaps", Exception(error))
            _log.warning("consumer_error", error=error.str())
            return None
        return message

    def side(self, message: KafkaMessage) -> Side:
        return self._sides[str(message.topic())]

    def pause(self, side: Side, paused: bool) -> None:
        """Stop or go on fetching one side."""
        if paused == (side in self._paused):
            return
        (self._paused.add if paused else self._paused.discard)(side)
        self._apply_pause(side, self.assigned)

    def _apply_pause(self, side: Side, numbers: Iterable[int]) -> None:
        places = [TopicPartition(self.topics[side], number) for number in numbers]
        if places:
            with translated(f"pausing {side}"):
                (self._consumer.pause if side in self._paused else self._consumer.resume)(places)

    @property
    def paused(self) -> frozenset[Side]:
        """The sides that are not fetched now."""
        return frozenset(self._paused)

    def first_offsets(self) -> dict[tuple[Side, int], int]:
        """The first offset that is left of each partition held. Raises BrokerError."""
        return {
            (side, number): kafka.bounds(self._consumer, topic, number, ASK_SECONDS)[0]
            for side, topic in self.topics.items()
            for number in sorted(self._assigned[side])
        }

    def committed(self) -> dict[tuple[Side, int], int]:
        """The group's committed offset of each partition held; 0 where there is none. Raises BrokerError."""
        places = [TopicPartition(t, n) for side, t in self.topics.items() for n in self._assigned[side]]
        with translated("reading committed offsets"):
            found = self._consumer.committed(places, timeout=ASK_SECONDS) if places else []
        return {(self._sides[p.topic], p.partition): max(p.offset, 0) for p in found}

    def offsets(self, committable: dict[tuple[Side, int], int]) -> list[TopicPartition]:
        """Offsets of the partitions held, for a commit."""
        return [
            TopicPartition(self.topics[side], number, offset)
            for (side, number), offset in sorted(committable.items())
            if number in self._assigned[side]
        ]

    def group(self) -> Any:
        """What `send_offsets_to_transaction` wants to know of this member."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()

    def _assign(self, consumer: Consumer, gained: list[TopicPartition]) -> None:
        if self._incremental:
            consumer.incremental_assign(gained)
        else:
            consumer.assign(gained)
        for place in gained:
            self._assigned[self._sides[place.topic]].add(place.partition)
        self._check_pairs()
        self.gained = self.gained or bool(gained)
        for side in self._paused:
            self._apply_pause(side, {place.partition for place in gained if self._sides[place.topic] is side})

    def _revoke(self, _: Consumer, lost: list[TopicPartition]) -> None:
        for place in lost:
            self._assigned[self._sides[place.topic]].discard(place.partition)
        self._on_revoke({place.partition for place in lost})

    def _check_pairs(self) -> None:
        frames, swaps = self._assigned[Side.FRAMES], self._assigned[Side.SWAPS]
        if frames != swaps:
            self._trouble = AssignmentError(
                f"frames partitions {sorted(frames)} and swaps partitions {sorted(swaps)} differ: "
                "is the group's assignor `range`?"
            )
