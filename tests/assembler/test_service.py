from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from confluent_kafka import TopicPartition

from assembler.service import AssemblerService
from runtime.kafka import reader, transactional_producer
from runtime.payload import frame_planes
from runtime.settings import MIB, Settings
from runtime.store import Store
from schemas.errors import AssignmentError
from schemas.frames import StreamAbort
from schemas.job import EncodeSpec, JobSpec, Lane
from schemas.orders import FinishOrder
from schemas.record import encode
from schemas.swaps import Failure, FailurePolicy, Patch
from tests.support.feed import (
    STEP,
    TICK,
    VIDEO,
    Feed,
    Log,
    assembling,
    await_records,
    make_stream,
    patched,
    records_on,
)
from tests.support.processes import eventually
from tests.support.segments import moving_picture, plan_of

pytestmark = pytest.mark.broker

LOSSLESS = EncodeSpec(quality=0, preset="ultrafast", threads=1)


@pytest.fixture
def feed(kafka: Settings) -> Iterator[Feed]:
    feed = Feed(kafka)
    yield feed
    feed.close()


def spec_of(job: str, folder: Path, **more: Any) -> JobSpec:
    return JobSpec(
        job=job,
        input="in.mp4",
        output=str(folder / f"{job}.mp4"),
        encode=more.pop("encode", LOSSLESS),
        **more,
    )


def pictures(path: Path) -> list[list[np.ndarray]]:
    with av.open(str(path)) as container:
        return [
            [np.array(plane) for plane in frame_planes(frame, VIDEO)] for frame in container.decode(video=0)
        ]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def committed(settings: Settings) -> dict[tuple[str, int], int]:
    """Committed offsets of the assemblers' group."""
    topics = settings.topic_set
    places = [
        TopicPartition(topic, p)
        for topic in (topics.frames(Lane.BATCH), topics.swaps(Lane.BATCH))
        for p in range(settings.topics.frame_partitions)
    ]
    consumer = reader(
        settings.kafka, "test", overrides={"group.id": f"{settings.topic_prefix}assembler.batch"}
    )
    try:
        return {(p.topic, p.partition): p.offset for p in consumer.committed(places, timeout=10)}
    finally:
        consumer.close()


def segment_pictures(settings: Settings, name: str) -> list[list[np.ndarray]]:
    with Store.of(settings).local(name) as path:
        return pictures(path)


def test_streams_become_segments_and_an_order_makes_them_a_file(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    spec = spec_of("film", tmp_path)
    feed.job(spec)
    for segment in range(3):
        log = make_stream("film", segment, first=12 * segment, context=3 if segment else 0)
        feed.write(log, partition=segment)
    topics = kafka.topic_set
    with assembling(kafka, "one"):
        checkpoints = await_records(kafka, topics.checkpoints, "checkpoint", 3)
        checkpoints = sorted(checkpoints, key=lambda c: c.segment)
        assert [c.pts for c in checkpoints] == [
            [n * STEP for n in range(12 * s, 12 * s + 12)] for s in range(3)
        ]
        assert [c.swapped for c in checkpoints] == [12] * 3
        pts = [n * STEP for n in range(36)]
        plan = plan_of(VIDEO, TICK, pts, 36 * STEP)
        Store.of(kafka).put("jobs/film/plan", bytes(encode(plan)))
        order = FinishOrder(job="film", spec=spec, plan="jobs/film/plan", segments=list(checkpoints))
        feed.send(topics.orders_finish, order, "film")
        (finished,) = await_records(kafka, topics.events, "event.finished", 1)
        feed.send(topics.orders_finish, order, "film")  # harmless
        await_records(kafka, topics.events, "event.finished", 2)
    output = tmp_path / "film.mp4"
    assert (finished.output, finished.frames) == (str(output), 36)
    assert finished.bytes == output.stat().st_size
    result = pictures(output)
    assert len(result) == 36
    assert all(same(shown, patched(number)) for number, shown in enumerate(result))
    progress = [e for e in records_on(kafka, topics.events) if e.KIND == "event.progress"]
    assert sum(e.frames for e in progress) == 36
    assert [p.name for p in tmp_path.iterdir() if "film" in p.name] == ["film.mp4"]


def test_duplicates_and_lower_epochs_change_nothing(kafka: Settings, feed: Feed, tmp_path: Path) -> None:
    feed.job(spec_of("twice", tmp_path))
    new = make_stream("twice", 0, epoch=1, value=99)
    new.frames[2:2] = [new.frames[1], new.frames[1]]
    new.swaps[2:2] = [new.swaps[1]]
    new.swaps[1], new.swaps[4] = new.swaps[4], new.swaps[1]  # patches out of order
    old = make_stream("twice", 0, epoch=0, value=10)
    del old.frames[-1], old.frames[-1]
    feed.write(old, 1)
    feed.write(new, 1)
    feed.write(make_stream("twice", 0, epoch=0, value=10), 1)  # a worker that woke up late
    feed.write(make_stream("twice", 0, epoch=1, value=11), 1)  # the order was redelivered
    feed.write(make_stream("twice", 1, first=12), 1)
    with assembling(kafka, "one"):
        found = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 2)
        end = {(kafka.topic_set.frames(Lane.BATCH), 1), (kafka.topic_set.swaps(Lane.BATCH), 1)}
        eventually("offsets at the end", lambda: min(committed(kafka)[place] for place in end) >= 20)
    assert [(c.stream, c.epoch) for c in found] == [("twice/0", 1), ("twice/1", 0)]
    shown = segment_pictures(kafka, found[0].object)
    assert [same(picture, patched(n, 99)) for n, picture in enumerate(shown)] == [True] * 12


def test_assemblers_that_come_and_go_finish_every_stream_once(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    feed.job(spec_of("many", tmp_path))

    def release(segments: range) -> None:
        for segment in segments:
            feed.write(make_stream("many", segment, first=12 * segment), partition=segment % 4)

    topic = kafka.topic_set.checkpoints
    release(range(8))
    with assembling(kafka, "a", finish=False) as a:
        await_records(kafka, topic, "checkpoint", 4)
        with assembling(kafka, "b", finish=False) as b:
            with assembling(kafka, "c", finish=False) as c, assembling(kafka, "d", finish=False) as d:
                four = (a, b, c, d)
                release(range(8, 16))
                eventually("a pair each", lambda: [len(s.partitions) for s in four] == [1, 1, 1, 1])
                release(range(16, 24))
                await_records(kafka, topic, "checkpoint", 20)
                release(range(24, 32))
            eventually("two pairs each", lambda: [len(s.partitions) for s in (a, b)] == [2, 2])
            release(range(32, 40))
            found = await_records(kafka, topic, "checkpoint", 40)
    assert Counter(c.stream for c in found) == {f"many/{n}": 1 for n in range(40)}
    assert all(len(c.pts) == 12 for c in found)
    assert not [e for e in records_on(kafka, kafka.topic_set.events) if e.KIND == "event.failed"]


def test_a_finished_stream_behind_an_unfinished_one_is_not_made_again(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    feed.job(spec_of("late", tmp_path))
    open_log = make_stream("late", 0)
    rest = open_log.swaps[2:]
    del open_log.swaps[2:]
    feed.write(open_log, 2)
    feed.write(make_stream("late", 1, first=12), 2)
    topic = kafka.topic_set.checkpoints
    with assembling(kafka, "first"):
        await_records(kafka, topic, "checkpoint", 1)
    place = kafka.topic_set.frames(Lane.BATCH), 2
    assert committed(kafka)[place] == 0
    open_log.swaps[:] = rest
    with assembling(kafka, "second"):
        feed.write(open_log, 2, "s")
        found = await_records(kafka, topic, "checkpoint", 2)
        eventually("the offset moves on", lambda: committed(kafka)[place] == 10)
    assert [c.stream for c in found] == ["late/1", "late/0"]


def test_what_fails_is_told_and_the_others_go_on(kafka: Settings, feed: Feed, tmp_path: Path) -> None:
    feed.job(spec_of("good", tmp_path))
    feed.job(spec_of("bad", tmp_path))
    deep = VIDEO.model_copy(update={"pixel_format": "yuv420p12le"})
    feed.write(make_stream("bad", 0, failed={5: Failure(reason="the engine gave up")}), 0)
    feed.write(make_stream("bad", 1, video=deep), 0)
    broken = make_stream("bad", 2)
    record, body = broken.swaps[1]
    outside = Patch(x=60, y=0, width=8, height=2, offset=0)
    broken.swaps[1] = record.model_copy(update={"patches": [[outside]] * 5}), body
    feed.write(broken, 0)
    short = make_stream("bad", 3)
    record, body = short.swaps[1]
    short.swaps[1] = record.model_copy(update={"count": 4, "patches": [[]] * 4, "flags": [0] * 4}), body
    feed.write(short, 0)
    feed.write(make_stream("good", 0), 0)
    with assembling(kafka, "one"):
        (checkpoint,) = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 1)
        failures = await_records(kafka, kafka.topic_set.events, "event.failed", 4)
        place = kafka.topic_set.frames(Lane.BATCH), 0
        eventually("offsets past the failed", lambda: committed(kafka)[place] >= 25)
    assert checkpoint.stream == "good/0"
    reasons = {event.stream: event.reason for event in failures}
    assert "the engine gave up" in reasons["bad/0"]
    assert "libx264 does not take yuv420p12le" in reasons["bad/1"]
    assert "leaves the frame" in reasons["bad/2"]
    assert "5 frames, but patches for 4" in reasons["bad/3"]
    assert {event.job for event in failures} == {"bad"}
    assert not list(Path(kafka.scratch_dir).rglob("*-*/*"))


@pytest.mark.parametrize("policy", [FailurePolicy.FREEZE, FailurePolicy.PASS, FailurePolicy.BLUR])
def test_failed_batches_are_replaced_by_the_policy(
    kafka: Settings, feed: Feed, tmp_path: Path, policy: FailurePolicy
) -> None:
    feed.job(spec_of("hide", tmp_path))
    failed = {seq: Failure(reason="no", policy=policy) for seq in (0, 5)}
    feed.write(make_stream("hide", 0, failed={5: failed[5]}), 0)
    feed.write(make_stream("hide", 1, failed={0: failed[0]}), 1)
    with assembling(kafka, "one"):
        found = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 2)
    by_stream = {c.stream: c for c in found}
    assert [by_stream[f"hide/{n}"].replaced for n in range(2)] == [5, 5]
    middle = segment_pictures(kafka, by_stream["hide/0"].object)
    first = segment_pictures(kafka, by_stream["hide/1"].object)
    for shown, numbers in ((middle, range(5, 10)), (first, range(5))):
        for number in numbers:
            original = moving_picture(VIDEO, number)
            if policy is FailurePolicy.PASS:
                assert same(shown[number], original)
            elif policy is FailurePolicy.FREEZE and shown is middle:
                assert same(shown[number], patched(4))
            else:  # also a freeze without a picture before it
                assert shown[number][0].std() < original[0].std()
                assert abs(shown[number][0].astype(int) - original[0]).mean() > 5
    assert same(middle[10], patched(10))


def test_frames_above_the_memory_bound_wait_in_kafka(kafka: Settings, feed: Feed, tmp_path: Path) -> None:
    bound = VIDEO.frame_bytes * 12
    limits = kafka.limits.model_copy(update={"assembler_bytes": bound})
    small = kafka.model_copy(update={"limits": limits})
    feed.job(spec_of("tight", tmp_path))
    logs = {segment: make_stream("tight", segment, first=12 * segment) for segment in range(12)}
    for segment, log in logs.items():
        feed.write(log, segment % 4, "f")
    with assembling(small, "one", finish=False) as service:
        seen: list[int] = []
        eventually("memory is full", lambda: seen.append(service.held) or seen[-1] > bound)
        time.sleep(0.5)  # time to read on, for a wrong one
        seen.append(service.held)
        for segment, log in logs.items():
            feed.write(log, segment % 4, "s")
        eventually("memory is free", lambda: seen.append(service.held) or seen[-1] == 0)
        found = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 12)
    assert max(seen) <= bound + 5 * VIDEO.frame_bytes  # one batch more
    assert len({c.stream for c in found}) == 12


def test_a_stream_without_patches_does_not_hold_up_the_others_of_its_partition(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    bound = VIDEO.frame_bytes * 12
    limits = kafka.limits.model_copy(update={"assembler_bytes": bound})
    small = kafka.model_copy(update={"limits": limits})
    feed.job(spec_of("stuck", tmp_path))
    logs = {segment: make_stream("stuck", segment, first=12 * segment) for segment in range(11)}
    seen: list[int] = []
    with assembling(small, "one", finish=False) as service:
        for log in logs.values():
            feed.write(log, 2, "f")
        for segment in range(1, 11):
            feed.write(logs[segment], 2, "s")
        eventually(
            "the other ten are done",
            lambda: seen.append(service.held) or len(records_on(kafka, kafka.topic_set.checkpoints)) == 10,
        )
        assert service.streams == (1, 0)
        feed.write(logs[0], 2, "s")
        found = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 11)
        seen.append(service.held)
    assert max(seen) <= bound + 5 * VIDEO.frame_bytes  # one batch more
    (last,) = [c for c in found if c.stream == "stuck/0"]
    shown = segment_pictures(kafka, last.object)
    assert all(same(picture, patched(number)) for number, picture in enumerate(shown))


def test_no_more_is_encoded_at_once_than_fits_and_a_stream_held_back_takes_no_room(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    """There is room for one encoder, which the oldest stream would hold while it waits."""
    small = kafka.model_copy(
        update={
            "memory": kafka.memory.model_copy(update={"assembler": 240 * MIB}),
            "limits": kafka.limits.model_copy(update={"batch_bytes": MIB}),
            "kafka": kafka.kafka.model_copy(update={"record_limit": 8 * MIB}),
        }
    )
    feed.job(spec_of("held", tmp_path))
    logs = [make_stream("held", segment, first=12 * segment) for segment in range(8)]
    late = logs[0].swaps[2:]
    del logs[0].swaps[2:]
    for log in logs:
        feed.write(log, 2)
    seen: list[int] = []
    with assembling(small, "one", finish=False) as service:
        eventually(
            "the other seven are done",
            lambda: seen.append(service.encoders) or len(records_on(kafka, kafka.topic_set.checkpoints)) == 7,
        )
        feed.write(Log(swaps=late), 2, "s")
        await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 8)
    assert max(seen) <= 1


def test_a_fenced_assembler_forgets_what_it_held_and_begins_anew(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    feed.job(spec_of("fenced", tmp_path))
    log = make_stream("fenced", 0)
    feed.write(log, 0, "f")
    identity = f"{kafka.topic_prefix}assembler-batch-one"
    with assembling(kafka, "one", finish=False) as service:
        eventually("it is at work", lambda: service.held > 0)
        other = transactional_producer(kafka.kafka, "test", identity)
        other.init_transactions(30)
        feed.write(log, 0, "s")
        (checkpoint,) = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 1)
        eventually("offsets", lambda: committed(kafka)[kafka.topic_set.frames(Lane.BATCH), 0] == 5)
        assert service.rejoined == 1
    assert len(checkpoint.pts) == 12
    assert len(Store.of(kafka).list("segments/fenced")) == 2  # the refused one is nobody's


def test_an_abort_frees_the_stream_and_moves_the_offsets(kafka: Settings, feed: Feed, tmp_path: Path) -> None:
    feed.job(spec_of("gone", tmp_path))
    log = make_stream("gone", 0)
    del log.swaps[2:]
    feed.write(log, 0)
    with assembling(kafka, "one") as service:
        eventually("its frames are held", lambda: service.held > 0)
        abort = StreamAbort(job="gone", stream="gone/0", reason="cancelled")
        log.frames[:] = log.swaps[:] = [(abort, b"")]
        feed.write(log, 0)
        eventually("its frames are freed", lambda: service.held == 0)
        place = kafka.topic_set.frames(Lane.BATCH), 0
        eventually("its offsets are passed", lambda: committed(kafka)[place] == 6)
    assert records_on(kafka, kafka.topic_set.checkpoints) == []


def test_a_stream_of_an_unknown_job_is_passed_over(
    kafka: Settings, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assembler.service.SPEC_SECONDS", 0.5)
    feed.job(spec_of("known", tmp_path))
    feed.write(make_stream("unknown", 0), 0)
    feed.write(make_stream("known", 0), 0)
    with assembling(kafka, "one", finish=False) as service:
        (checkpoint,) = await_records(kafka, kafka.topic_set.checkpoints, "checkpoint", 1)
        place = kafka.topic_set.frames(Lane.BATCH), 0
        eventually("offsets past it", lambda: committed(kafka)[place] == 10)
        assert service.held == 0
    assert checkpoint.stream == "known/0"
    assert not [e for e in records_on(kafka, kafka.topic_set.events) if e.KIND == "event.failed"]


def test_a_drained_assembler_has_finished_what_was_all_there(
    kafka: Settings, feed: Feed, tmp_path: Path
) -> None:
    feed.job(spec_of("stop", tmp_path))
    feed.write(make_stream("stop", 0), 0)
    part = make_stream("stop", 1, first=12)
    del part.swaps[2:]
    feed.write(part, 1)
    service = AssemblerService(kafka, instance="one", finish=False)
    service.start()
    try:
        deadline = time.monotonic() + 60
        while service.streams != (2, 1):
            assert time.monotonic() < deadline
            service.step(0.05)
        service.drain(time.monotonic() + 60)
    finally:
        service.close()
    found = records_on(kafka, kafka.topic_set.checkpoints)
    assert [c.stream for c in found] == ["stop/0"]
    assert not list(Path(kafka.scratch_dir).iterdir())


def test_unequal_partition_counts_are_refused(kafka: Settings) -> None:
    from runtime.cluster import ensure_topics
    from schemas.topics import Topic

    topics = kafka.topic_set
    ensure_topics(kafka, [Topic(topics.frames(Lane.BATCH), 2, {}), Topic(topics.swaps(Lane.BATCH), 3, {})])
    with pytest.raises(AssignmentError, match="must be equal"), assembling(kafka, "one", finish=False):
        pass
