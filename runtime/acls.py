"""What each service may do on a cluster that refuses everything else: the one list, printed by
`facestream acls`, explained in docs/security.md, proven by tests/runtime/test_acls.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from runtime.settings import Settings
from schemas.job import Lane

Kind = Literal["topic", "group", "transactional-id", "cluster"]

READERS_GROUPS = "facestream-"
"""Readers outside any group have a group name all the same, and their client asks who coordinates it."""


class Actor(StrEnum):
    """Whoever has a principal of its own."""

    CONTROL = "control"
    INGEST = "ingest"
    SWAPPER = "swapper"
    ASSEMBLER = "assembler"
    USER = "user"
    """The commands submit, status, cancel, pause, resume, replay, dead, topics and doctor."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Operations on a resource, or on all whose name begins so."""

    kind: Kind
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


def grants(settings: Settings, actor: Actor) -> list[Grant]:
    """All that an actor needs. Names of operations are those of Kafka's tools."""
    prefix = settings.topic_prefix
    seeing = [  # which topics there are, and how many partitions they have
        Grant("topic", prefix, ("Describe",), prefixed=True),
        Grant("group", READERS_GROUPS, ("Describe",), prefixed=True),
    ]
    return seeing + list(_OWN[actor](settings))


def _control(settings: Settings) -> Iterator[Grant]:
    topics = settings.topic_set
    yield Grant("topic", settings.topic_prefix, ("Create",), prefixed=True)
    for name in (topics.jobs, topics.events, topics.segments, topics.checkpoints):
        yield Grant("topic", name, ("Read", "Write"))
    for name in (topics.orders_ingest, topics.orders_finish):
        yield Grant("topic", name, ("Write",))
    for lane in Lane:  # the marks of a replay, and that a stream is given up
        yield Grant("topic", topics.frames(lane), ("Write",))
        yield Grant("topic", topics.swaps(lane), ("Write",))
    yield Grant("group", f"{settings.topic_prefix}control", ("Read",))
    yield Grant("transactional-id", f"{settings.topic_prefix}control", ("Write", "Describe"))


def _ingest(settings: Settings) -> Iterator[Grant]:
    topics = settings.topic_set
    yield Grant("topic", topics.jobs, ("Read",))
    yield Grant("topic", topics.orders_ingest, ("Read",))
    yield Grant("topic", topics.events, ("Write",))
    for lane in Lane:
        yield Grant("topic", topics.frames(lane), ("Write",))
        yield Grant("topic", topics.swaps(lane), ("Write",))  # where a stream begins and ends
    yield Grant("group", f"{settings.topic_prefix}ingest", ("Read", *_configuring(settings)))


def _swapper(settings: Settings) -> Iterator[Grant]:
    topics = settings.topic_set
    yield Grant("topic", topics.jobs, ("Read",))
    yield Grant("topic", topics.events, ("Write",))
    yield Grant("topic", topics.dead, ("Write",))
    for lane in Lane:
        yield Grant("topic", topics.frames(lane), ("Read",))
        yield Grant("topic", topics.swaps(lane), ("Write",))
    # Of the group itself; in share mode also of groups below its name, which hold how often a record
    # took its worker down, and are deleted afterwards.
    share = settings.swapper.group == "share"
    name = f"{settings.topic_prefix}swapper"
    operations = ("Read", *(("Describe", "Delete") if share else ()), *_configuring(settings))
    yield Grant("group", name, operations, prefixed=True)
    if share:  # the delivery limit
        yield Grant("cluster", "kafka-cluster", ("DescribeConfigs",))


def _assembler(settings: Settings) -> Iterator[Grant]:
    topics = settings.topic_set
    yield Grant("topic", topics.jobs, ("Read",))
    yield Grant("topic", topics.segments, ("Read",))
    yield Grant("topic", topics.orders_finish, ("Read",))
    yield Grant("topic", topics.checkpoints, ("Read", "Write"))
    yield Grant("topic", topics.events, ("Write",))
    for lane in Lane:
        yield Grant("topic", topics.frames(lane), ("Read",))
        yield Grant("topic", topics.swaps(lane), ("Read",))
    prefix = settings.topic_prefix
    yield Grant("group", f"{prefix}assembler", ("Read", *_configuring(settings)), prefixed=True)
    yield Grant("group", f"{prefix}finish", ("Read", *_configuring(settings)))
    yield Grant("transactional-id", f"{prefix}assembler-", ("Write", "Describe"), prefixed=True)


def _user(settings: Settings) -> Iterator[Grant]:
    topics = settings.topic_set
    yield Grant("topic", topics.jobs, ("Read", "Write"))
    yield Grant("topic", topics.events, ("Read", "Write"))  # progress; cancel, pause, resume
    yield Grant("topic", topics.dead, ("Read", "Write"))  # dead drop
    for lane in Lane:
        yield Grant("topic", topics.frames(lane), ("Read",))  # dead show
    yield Grant("topic", settings.topic_prefix, ("DescribeConfigs",), prefixed=True)  # until when to replay
    yield Grant("cluster", "kafka-cluster", ("DescribeConfigs",))  # doctor


_OWN = {
    Actor.CONTROL: _control,
    Actor.INGEST: _ingest,
    Actor.SWAPPER: _swapper,
    Actor.ASSEMBLER: _assembler,
    Actor.USER: _user,
}


def _configuring(settings: Settings) -> tuple[str, ...]:
    return ("AlterConfigs",) if settings.kafka.configure_groups else ()
