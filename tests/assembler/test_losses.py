"""Records that were deleted before they were read: no broken segment, no stream that waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from assembler.service import AssemblerService
from runtime.kafka import admin
from runtime.settings import Settings
from schemas.events import STREAM_WAITS, Warned
from schemas.job import JobRecord, JobSpec, JobState, Lane
from schemas.segments import SegmentRecord, SegmentState
from tests.support.feed import Feed, assembling, await_records, make_stream, records_on
from tests.support.processes import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def feed(kafka: Settings) -> Iterator[Feed]:
    feed = Feed(kafka)
    yield feed
    feed.close()


def spec_of(job: str, folder: Path) -> JobSpec:
    return JobSpec(job=job, input="in.mp4", output=str(folder / f"{job}.mp4"), encode={"preset": "ultrafast"})


def delete_before(settings: Settings, topic: str, partition: int, offset: int) -> None:
    """As retention does, at once."""
    client = admin(settings.kafka)
    for future in client.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result(30)


def released(job: str, segment: int, partition: int) -> SegmentRecord:
    return SegmentRecord(
        job=job, stream=f"{job}/{segment}", epoch=1, segment=segment, order=0, state=SegmentState.RELEASED,
        partition=partition, bytes=1, tries=1,
    )  # fmt: skip


def test_streams_that_lost_frames_are_told_and_the_others_are_made(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    """Partition 0 is deleted up to the middle of the second stream, partition 1 altogether."""
    feed.job(spec_of("clip", tmp_path))
    places = {0: 0, 1: 0, 2: 1, 3: 2}
    for segment, partition in places.items():
        feed.send(kafka.topic_set.segments, released("clip", segment, partition), f"clip/{segment}")
        feed.write(make_stream("clip", segment, epoch=1), partition)
    frames = kafka.topic_set.frames(Lane.BATCH)
    delete_before(kafka, frames, 0, 7)
    delete_before(kafka, frames, 1, 5)
    with assembling(kafka, "one", finish=False):
        made = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 1)
        failed = await_records(kafka, kafka.topic_set.events, "event.failed", 3)
    assert [record.stream for record in made] == ["clip/3"], "nothing of its partition was lost"
    assert {event.stream for event in failed} == {"clip/0", "clip/1", "clip/2"}
    assert all(event.retryable and event.epoch == 1 for event in failed)
    assert "offset 0 to 5" in next(e.reason for e in failed if e.stream == "clip/2")


def test_frames_deleted_while_they_wait_are_told(kafka: Settings, feed: Feed, tmp_path: Path) -> None:
    """The assembler holds as much as it may when the rest goes."""
    limits = kafka.limits.model_copy(update={"assembler_bytes": 20_000})
    feed.job(spec_of("clip", tmp_path))
    log = make_stream("clip", 0, epoch=1, count=200)
    feed.send(kafka.topic_set.segments, released("clip", 0, 0), "clip/0")
    feed.write(log, 0, "f")
    with assembling(kafka.model_copy(update={"limits": limits}), "one", finish=False) as service:
        eventually("frames are held", lambda: service.held > 0)
        delete_before(kafka, kafka.topic_set.frames(Lane.BATCH), 0, len(log.frames))
        feed.write(log, 0, "s")
        (failed,) = await_records(kafka, kafka.topic_set.events, "event.failed", 1)
        eventually("nothing is held", lambda: service.held == 0)
    assert (failed.stream, failed.retryable) == ("clip/0", True)
    assert records_on(kafka, kafka.topic_set.checkpoints) == []


def test_a_stream_whose_patches_do_not_come_is_told_again_and_again(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    limits = kafka.limits.model_copy(update={"stuck_seconds": 300.0})
    feed.job(spec_of("clip", tmp_path))
    log = make_stream("clip", 0, epoch=2)
    missing = log.swaps.pop(2)
    feed.write(log, 0)
    now = [1000.0]

    def told() -> list[Warned]:
        now[0] += 20.0
        return [e for e in records_on(kafka, kafka.topic_set.events) if isinstance(e, Warned)]

    patient = kafka.model_copy(update={"limits": limits})
    with assembling(patient, "one", finish=False, clock=lambda: now[0]) as service:
        eventually("the stream is there", lambda: service.streams == (1, 0) and service.held > 0)
        eventually("it is told", lambda: len(told()) >= 2)
        assert {(e.name, e.stream, e.epoch, e.detail) for e in told()} == {
            (STREAM_WAITS, "clip/0", 2, "swaps at seq 5")
        }
        log.frames.clear()
        log.swaps[:] = [missing]
        feed.write(log, 0)
        await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 1)


def test_a_stream_of_a_job_that_ended_is_let_go_when_nothing_more_comes_of_it(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    """An ingest worker that did not know yet may decode an order once more, after control gave it up."""
    ended = JobRecord(job="clip", spec=spec_of("clip", tmp_path), state=JobState.FAILED)
    feed.send(kafka.topic_set.jobs, ended, "clip")
    log = make_stream("clip", 0)
    feed.write(log, 0, "f")
    now = [1000.0]

    def let_go(service: AssemblerService) -> bool:
        now[0] += 20.0
        return service.streams == (0, 0)

    with assembling(kafka, "one", finish=False, clock=lambda: now[0]) as service:
        eventually("the stream is there", lambda: service.streams == (1, 0) and service.held > 0)
        eventually("it is let go", lambda: let_go(service))
        group, frames = f"{kafka.topic_prefix}assembler.batch", kafka.topic_set.frames(Lane.BATCH)
        client = admin(kafka.kafka)
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(frames, 0)])

        def passed() -> bool:
            now[0] += 20.0
            (future,) = client.list_consumer_group_offsets([asked]).values()
            (place,) = future.result(30).topic_partitions
            return bool(place.offset == len(log.frames))

        eventually("its offsets are committed", passed)
    assert records_on(kafka, kafka.topic_set.checkpoints) == []


def test_a_stream_of_which_nothing_could_be_decoded_is_done_with(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    """It has a start and an end, and no frame: its job must not wait for ever."""
    feed.job(spec_of("clip", tmp_path))
    log = make_stream("clip", 0, epoch=1)
    for side in (log.frames, log.swaps):
        (start, _), (end, _) = side[0], side[-1]
        side[:] = [(start, b""), (end.model_copy(update={"count": 0}), b"")]
    feed.write(log, 0)
    with assembling(kafka, "one", finish=False):
        (made,) = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 1)
    assert (made.stream, made.pts) == ("clip/0", [])
