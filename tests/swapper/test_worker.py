"""A worker on the real broker: every batch ends in one result, wherever it starts and whoever helps."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import TopicPartition

from runtime.kafka import admin, consumer
from runtime.settings import Settings
from schemas.events import Dead, Failed
from schemas.frames import StreamAbort
from schemas.job import JobState, Lane
from schemas.record import Record, encode
from schemas.swaps import SwapBatch
from swapper.containment import Mark
from swapper.service import SwapperService, group_name
from tests.support.processes import eventually
from tests.support.streams import BATCH, Feeder, records, running, wait_for

pytestmark = pytest.mark.broker


def results(found: list[tuple[int, Record]]) -> list[tuple[int, str, int]]:
    return [(p, r.stream, r.seq) for p, r in found if isinstance(r, SwapBatch)]


def expected(stream: str, batches: int, partition: int) -> list[tuple[int, str, int]]:
    return [(partition, stream, n * BATCH) for n in range(batches)]


def settings_of(kafka: Settings, group: str) -> Settings:
    swapper = kafka.swapper.model_copy(update={"engines": ("none",), "group": group})
    return kafka.model_copy(update={"swapper": swapper})


def swaps_topic(settings: Settings) -> str:
    return settings.topic_set.swaps(Lane.BATCH)


def committed(settings: Settings, partition: int) -> TopicPartition:
    client = consumer(settings.kafka, group_name(settings, Lane.BATCH), "test")
    topic = settings.topic_set.frames(Lane.BATCH)
    (found,) = client.committed([TopicPartition(topic, partition)], timeout=10)
    client.close()
    return found


@pytest.mark.parametrize("group", ["consumer", "share"])
def test_every_batch_of_every_stream_ends_in_one_result(kafka: Settings, group: str) -> None:
    settings = settings_of(kafka, group)
    feeder = Feeder(settings)
    feeder.job("j", options={"delay_ms": 20})
    want = []
    for segment in range(6):
        feeder.stream(f"j/{segment}", 5, segment % 4)
        want += expected(f"j/{segment}", 5, segment % 4)
    with running(*(SwapperService(settings) for _ in range(3))):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(set(results(f))) >= len(want))
    assert set(results(found)) == set(want)  # workers join one by one: a partition that moved is run again


def test_one_worker_keeps_the_order_of_a_partition(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j", options={"delay_ms": 10})
    feeder.woven(["j/0", "j/1", "j/2"], 6, 1)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(results(f)) == 18)
    for stream in ("j/0", "j/1", "j/2"):
        assert [r for r in results(found) if r[1] == stream] == expected(stream, 6, 1)


def test_a_worker_started_in_the_middle_reads_streams_from_their_start(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j")
    feeder.stream("j/0", 3, 2)
    feeder.woven(["j/1", "j/2"], 4, 2)
    client = consumer(settings.kafka, group_name(settings, Lane.BATCH), "test")
    topic = settings.topic_set.frames(Lane.BATCH)
    middle = TopicPartition(topic, 2, feeder.offsets["j/1", 2 * BATCH])
    client.commit(offsets=[middle], asynchronous=False)
    client.close()
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(set(results(f))) >= 8)
    assert Counter(results(found)) == Counter(expected("j/1", 4, 2) + expected("j/2", 4, 2))


def test_a_worker_takes_over_at_the_oldest_unfinished_stream(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j")
    feeder.stream("j/0", 3, 0)
    with running(SwapperService(settings)):
        wait_for(settings, swaps_topic(settings), lambda f: len(results(f)) == 3)
        eventually("committed", lambda: committed(settings, 0).offset == 5)
    assert Mark.read(committed(settings, 0).metadata) == Mark(clean=True)
    feeder.stream("j/1", 2, 0)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(results(f)) >= 5)
    assert results(found) == expected("j/0", 3, 0) + expected("j/1", 2, 0)


def test_a_stream_that_comes_twice_is_run_once(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j")
    feeder.stream("j/0", 3, 0)
    feeder.stream("j/0", 3, 0)
    feeder.stream("j/9", 1, 0)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: "j/9" in {r[1] for r in results(f)})
    assert results(found) == expected("j/0", 3, 0) + expected("j/9", 1, 0)


@pytest.mark.parametrize("group", ["consumer", "share"])
def test_a_damaged_batch_fails_alone_and_is_kept_in_dead(kafka: Settings, group: str) -> None:
    settings = settings_of(kafka, group)
    feeder = Feeder(settings)
    feeder.job("j")
    feeder.raw(b"no record of ours", 3)
    feeder.stream("j/0", 3, 3, damage=1)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(results(f)) == 3)
        wait_for(settings, settings.topic_set.dead, lambda f: len(f) == 1)
    failed = {r.seq: r.failed is not None for _, r in found if isinstance(r, SwapBatch)}
    assert failed == {0: False, BATCH: True, 2 * BATCH: False}
    ((_, dead),) = records(settings, settings.topic_set.dead)
    assert isinstance(dead, Dead)
    assert (dead.stream, dead.seq, dead.offset) == ("j/0", BATCH, feeder.offsets["j/0", BATCH])


def test_batches_of_an_unknown_engine_fail_with_its_name(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j", engine="hat")
    feeder.job("k")
    feeder.stream("j/0", 1, 0)
    feeder.stream("k/0", 1, 0)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(results(f)) == 2)
    reasons = {r.stream: r.failed.reason if r.failed else "" for _, r in found if isinstance(r, SwapBatch)}
    assert "no engine 'hat'" in reasons["j/0"]
    assert reasons["k/0"] == ""


@pytest.mark.parametrize("group", ["consumer", "share"])
def test_a_replayed_stream_is_run_from_the_batches_of_another(kafka: Settings, group: str) -> None:
    settings = settings_of(kafka, group)
    feeder = Feeder(settings)
    feeder.job("old")
    feeder.job("new")
    feeder.woven(["old/0", "old/1"], 4, 1)
    feeder.replay("new/0", "old/0", 4, 2)
    feeder.replay("new/1", "old/1", 4, 2)
    feeder.replay("new/2", "old/1", 4, 3, last_offset=feeder.offsets["old/1", 2 * BATCH])
    want = [("new/0", n * BATCH) for n in range(4)] + [("new/1", n * BATCH) for n in range(4)]
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: ("new/1", 3 * BATCH) in answered(f, 2))
        wait_for(settings, settings.topic_set.events, lambda f: bool(lost(f)))
    assert answered(found, 2) == want, "in the partition of the replayed stream, in order, each once"
    assert lost(list(records(settings, settings.topic_set.events))) == {"new/2"}


def test_streams_whose_frames_are_gone_are_told_to_control(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j")
    feeder.stream("j/expired", 3, 0)
    feeder.torn("j/torn", [0, 2], 1)
    for partition in (0, 1):
        feeder.stream(f"j/{partition}", 2, partition)
    expire(settings, 0, feeder.offsets["j/expired", BATCH])
    want = {("j/0", 0), ("j/0", BATCH), ("j/1", 0), ("j/1", BATCH)}
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: want <= set(answered(f)))
        wait_for(settings, settings.topic_set.events, lambda f: len(lost(f)) == 2)
    assert set(answered(found)) - {("j/torn", 0)} == want
    assert lost(list(records(settings, settings.topic_set.events))) == {"j/expired", "j/torn"}


def test_a_stream_given_up_before_its_start_is_not_begun(kafka: Settings) -> None:
    settings = settings_of(kafka, "consumer")
    feeder = Feeder(settings)
    feeder.job("j")
    feeder.raw(bytes(encode(StreamAbort(job="j", stream="j/0", epoch=1, reason="cancelled"))), 0)
    feeder.stream("j/0", 2, 0)
    feeder.stream("j/1", 2, 0)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: ("j/1", BATCH) in answered(f))
    assert {stream for stream, _ in answered(found)} == {"j/1"}


def test_share_members_do_not_run_batches_of_jobs_that_have_ended(kafka: Settings) -> None:
    settings = settings_of(kafka, "share")
    feeder = Feeder(settings)
    feeder.job("ended", JobState.CANCELLED)
    feeder.job("j")
    feeder.stream("ended/0", 3, 0)
    feeder.stream("j/0", 2, 0)
    with running(SwapperService(settings)):
        found = wait_for(settings, swaps_topic(settings), lambda f: len(results(f)) >= 2)
    assert {stream for stream, _ in answered(found)} == {"j/0"}


def answered(found: list[tuple[int, Record]], partition: int | None = None) -> list[tuple[str, int]]:
    """(stream, seq) of all answers, or of those in one partition, in order."""
    return [(stream, seq) for p, stream, seq in results(found) if partition in (None, p)]


def lost(found: list[tuple[int, Record]]) -> set[str]:
    """Streams that control was asked to release again."""
    return {r.stream for _, r in found if isinstance(r, Failed) and r.retryable and r.epoch == 1}


def expire(settings: Settings, partition: int, offset: int) -> None:
    """Have everything before an offset deleted, as retention does."""
    place = TopicPartition(settings.topic_set.frames(Lane.BATCH), partition, offset)
    client = admin(settings.kafka)  # not let go before the answer
    (future,) = client.delete_records([place]).values()
    future.result(10)
