"""A range of batches in a frames topic is read again as another stream's own."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from runtime.kafka import admin
from runtime.ranges import RangeReader
from runtime.settings import Settings
from schemas.errors import FramesLostError
from schemas.frames import FrameBatch, FrameFlag, RangeRef
from schemas.job import Lane
from schemas.record import Message
from tests.support.streams import BATCH, Feeder

pytestmark = pytest.mark.broker
BATCHES = 5


def ref(settings: Settings, feeder: Feeder, stream: str, **fields: Any) -> RangeRef:
    """Of a whole stream in partition 1, for stream new/0."""
    known: dict[str, Any] = {
        "job": "new",
        "stream": "new/0",
        "epoch": 1,
        "topic": settings.topic_set.frames(Lane.BATCH),
        "partition": 1,
        "first_offset": feeder.offsets[stream, 0],
        "last_offset": feeder.offsets[stream, (BATCHES - 1) * BATCH],
        "source": stream,
        "source_epoch": 1,
        "start": 0,
        "end": 1000,
        "count": BATCHES * BATCH,
        "context": 0,
    }
    return RangeRef(**(known | fields))


def read(settings: Settings, wanted: RangeRef) -> list[Message[FrameBatch]]:
    found: list[Message[FrameBatch]] = []
    with RangeReader(settings.kafka, "test", wanted) as reader:
        while not reader.done:
            if (message := reader.poll(5)) is not None:
                found.append(message)
    return found


def test_a_stream_is_read_as_another_though_others_lie_between(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    feeder.woven(["old/0", "other/0"], BATCHES, 1)
    found = read(kafka, ref(kafka, feeder, "old/0"))
    records = [message.record for message in found]
    assert [record.seq for record in records] == [BATCH * n for n in range(BATCHES)]
    assert {(r.job, r.stream, r.epoch, r.start_offset) for r in records} == {("new", "new/0", 1, -1)}
    assert all(len(message.body) == BATCH * 16 * 16 for message in found)


def test_a_stream_that_was_sent_twice_is_read_once(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    feeder.stream("old/0", BATCHES, 1)
    first = feeder.offsets["old/0", 0]
    feeder.stream("old/0", BATCHES, 1)
    found = read(kafka, ref(kafka, feeder, "old/0", first_offset=first))
    assert [message.record.seq for message in found] == [BATCH * n for n in range(BATCHES)]


def test_frames_outside_the_span_become_context_or_are_left_out(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    feeder.stream("old/0", BATCHES, 1)
    whole = read(kafka, ref(kafka, feeder, "old/0"))
    pts = [tick for message in whole for tick in message.record.pts]
    part = read(
        kafka,
        ref(kafka, feeder, "old/0", start=pts[6], end=pts[13], count=13, context=6, shift=-pts[6]),
    )
    assert [tick for m in part for tick in m.record.pts] == [tick - pts[6] for tick in pts[:13]]
    context = [bool(flag & FrameFlag.CONTEXT) for m in part for flag in m.record.flags]
    assert context == [True] * 6 + [False] * 7
    for before, after in zip(whole, part, strict=False):
        assert after.record.spans == before.record.spans[: len(after.record)]


def test_what_has_left_the_topic_is_said(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    feeder.stream("old/0", BATCHES, 1)
    wanted = ref(kafka, feeder, "old/0")
    gone = TopicPartition(wanted.topic, 1, wanted.first_offset + 1)
    client = admin(kafka.kafka)
    for future in client.delete_records([gone]).values():
        future.result(10)
    with pytest.raises(FramesLostError, match="has left the topic"):
        read(kafka, wanted)


def test_batches_that_are_not_there_are_missed(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    feeder.stream("old/0", BATCHES, 1)
    wanted = ref(kafka, feeder, "old/0")
    with pytest.raises(FramesLostError, match="after 20 of 24 frames"):
        read(kafka, wanted.model_copy(update={"count": 24}))
    with pytest.raises(FramesLostError, match="lacks frames 0 to 3"):
        read(kafka, wanted.model_copy(update={"first_offset": wanted.first_offset + 1}))
    with pytest.raises(FramesLostError, match="past the end"):
        read(kafka, wanted.model_copy(update={"last_offset": wanted.last_offset + 9, "count": 24}))
