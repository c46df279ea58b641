"""Slow, stopped and restarted workers of an ordinary group: nothing is lost, and nobody stays out."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from confluent_kafka import TopicPartition

from runtime.kafka import consumer
from runtime.settings import Settings
from schemas.job import Lane
from schemas.record import Record
from schemas.swaps import SwapBatch
from swapper.containment import Mark
from swapper.engines import registry
from swapper.service import SwapperService, group_name
from tests.support.grenade import crew
from tests.support.processes import eventually
from tests.support.streams import BATCH, Feeder, records, running, wait_for

pytestmark = pytest.mark.broker


def answers(found: list[tuple[int, Record]]) -> Counter[tuple[str, int]]:
    return Counter((r.stream, r.seq) for _, r in found if isinstance(r, SwapBatch) and r.failed is None)


def committed(settings: Settings, partition: int) -> TopicPartition:
    client = consumer(settings.kafka, group_name(settings, Lane.BATCH), "test")
    topic = settings.topic_set.frames(Lane.BATCH)
    (found,) = client.committed([TopicPartition(topic, partition)], timeout=10)
    client.close()
    return found


def test_k02_a_batch_longer_than_the_poll_interval_is_run_once(
    kafka: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "ENGINES", {"grenade": ("tests.support.grenade", "Grenade")})
    settings = kafka.model_copy(
        update={
            "kafka": kafka.kafka.model_copy(update={"max_poll_ms": 10_000}),
            "swapper": kafka.swapper.model_copy(update={"engines": ("grenade",)}),
            "limits": kafka.limits.model_copy(update={"queue_batches": 1}),
        }
    )
    feeder = Feeder(settings)
    feeder.job("slow", engine="grenade", options={"ms": 11_000})
    feeder.job("j", engine="grenade")
    feeder.stream("slow/0", 1, 0)
    feeder.stream("j/0", 8, 0)
    want = {("slow/0", 0): 1} | {("j/0", n * BATCH): 1 for n in range(8)}
    with running(SwapperService(settings)):
        topic = settings.topic_set.swaps(Lane.BATCH)
        found = wait_for(settings, topic, lambda f: len(answers(f)) == len(want))
        eventually("all committed", lambda: committed(settings, 0).offset == 13)
    assert answers(found) == want


def test_k07_workers_restarted_all_the_time_answer_every_batch_alike(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    feeder.job("j", engine="grenade", options={"ms": 50})
    for number in range(6):
        feeder.stream(f"j/{number}", 5, 0)
    topic = kafka.topic_set.swaps(Lane.BATCH)
    want = {(f"j/{number}", n * BATCH) for number in range(6) for n in range(5)}
    for part in (8, 16, 24):
        with crew(kafka):
            wait_for(kafka, topic, lambda f, part=part: len(answers(f)) >= part)  # type: ignore[misc]
    with crew(kafka) as workers:
        found = wait_for(kafka, topic, lambda f: set(answers(f)) == want)
        eventually("all committed", lambda: committed(kafka, 0).offset == 6 * 7)
    assert workers.deaths == []
    assert same(found)
    assert Mark.read(committed(kafka, 0).metadata) == Mark(clean=True), "no restart counts as a death"


def test_a_worker_that_wakes_after_its_partition_moved_does_no_harm(kafka: Settings) -> None:
    feeder = Feeder(kafka)
    trace = kafka.data / "trace"
    feeder.job("j", engine="grenade", options={"ms": 400, "trace": str(trace)})
    feeder.stream("j/0", 6, 0)
    topic = kafka.topic_set.swaps(Lane.BATCH)
    want = {("j/0", n * BATCH) for n in range(6)}
    with crew(kafka) as workers:
        eventually("an engine at work", trace.exists)
        asleep = workers.workers[0]
        asleep.send_signal(signal.SIGSTOP)
        try:
            workers.start(1)
            wait_for(kafka, topic, lambda f: set(answers(f)) == want)
            eventually("all committed", lambda: committed(kafka, 0).offset == 8)
            before = len(list(records(kafka, topic)))
        finally:
            asleep.send_signal(signal.SIGCONT)
        found = wait_for(kafka, topic, lambda f: len(f) > before)
        feeder.stream("j/1", 2, 0)
        found = wait_for(kafka, topic, lambda f: {("j/1", 0), ("j/1", BATCH)} <= set(answers(f)))
        eventually("moved on", lambda: committed(kafka, 0).offset == 12)
    assert max(answers(found).values()) > 1, "it sent what it held"
    assert "Unknown member" in workers.log.read_text(), "its commit was refused"
    assert same(found)
    assert set(answers(found)) == want | {("j/1", 0), ("j/1", BATCH)}


def same(found: list[tuple[int, Record]]) -> bool:
    """Whether answers that came twice are equal, but for when and how long they were made."""
    first: dict[tuple[str, int], SwapBatch] = {}
    for _, record in found:
        if isinstance(record, SwapBatch):
            bare = record.model_copy(update={"stamps": {}, "timings": {}})
            if first.setdefault((record.stream, record.seq), bare) != bare:
                return False
    return True
