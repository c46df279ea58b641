"""What stays of jobs that ended, and for how long; on a real store, with topics that were left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.sweep import HOUR, Ages, Stays, Sweeper
from runtime.cluster import ensure_topics
from runtime.kafka import producer
from runtime.outbox import Outbox
from runtime.settings import Settings
from runtime.store import Store
from schemas.job import JobRecord, JobState
from schemas.record import encode
from schemas.segments import SegmentRecord, SegmentState
from tests.support.schedule import checkpoint, job

pytestmark = pytest.mark.broker
NOW = 2_000_000_000.0
FACE = "faces/f1"


def ended(name: str, state: JobState, hours: float, face: str = "") -> JobRecord:
    """A job that ended so many hours ago."""
    record = job(name)
    spec = record.spec.model_copy(update={"swap": record.spec.swap.model_copy(update={"face": face})})
    return record.model_copy(
        update={"spec": spec, "state": state, "ended_ns": int((NOW - hours * HOUR) * 1e9)}
    )


@pytest.mark.parametrize(
    ("state", "hours", "stays"),
    [
        (JobState.RUNNING, 999, Stays(True, True, True)),
        (JobState.DONE, 0, Stays(False, True, True)),
        (JobState.DONE, 13, Stays(False, False, True)),
        (JobState.DONE, 101, Stays(False, False, False)),
        (JobState.FAILED, 23, Stays(True, True, True)),
        (JobState.FAILED, 25, Stays(False, False, True)),
        (JobState.FAILED, 101, Stays(False, False, False)),
        (JobState.CANCELLED, 0, Stays(False, False, True)),
    ],
)
def test_what_stays_of_a_job(state: JobState, hours: float, stays: Stays) -> None:
    ages = Ages(failed=24 * HOUR, replay=12 * HOUR, record=100 * HOUR)
    assert ages.stays(ended("a", state, hours), NOW) == stays


def settings_of(kafka: Settings, **keep: float) -> Settings:
    return kafka.model_copy(update={"keep": kafka.keep.model_copy(update=keep)})


def test_a_sweep_takes_what_nobody_needs_from_store_and_topics(kafka: Settings) -> None:
    ensure_topics(kafka)
    records = {
        "live": job("live").model_copy(update={"state": JobState.RUNNING}),
        "done": ended("done", JobState.DONE, 1, FACE),
        "old": ended("old", JobState.DONE, 30, "faces/f2"),
        "failed": ended("failed", JobState.FAILED, 1),
        "cancelled": ended("cancelled", JobState.CANCELLED, 1),
        "ancient": ended("ancient", JobState.FAILED, 200),
    }
    names = [*records, "unknown"]
    store = Store.of(kafka)
    for name in names:
        store.put(f"segments/{name}/0/1/x.mp4", b"x")
        store.put(f"jobs/{name}/plan", b"x")
    for face in (FACE, "faces/f2"):
        store.put(face, b"x")
    topics = kafka.topic_set
    with Outbox(producer(kafka.kafka, "test")) as outbox:
        for name in names:
            stream = f"{name}/0"
            segment = SegmentRecord(job=name, stream=stream, segment=0, order=0, state=SegmentState.DONE)
            outbox.send(topics.segments, encode(segment), key=stream)
            outbox.send(topics.checkpoints, encode(checkpoint(name, 0)), key=stream)
    swept = Sweeper(kafka, store, now=lambda: NOW).sweep(records)
    assert [path.split("/")[1] for path in store.list("segments")] == ["failed", "live"]
    assert [path.split("/")[1] for path in store.list("jobs")] == ["done", "failed", "live"]
    assert store.list("faces") == [FACE]
    assert swept.jobs == ["ancient"]
    gone = {(w.topic.removeprefix(topics.prefix), w.key) for w in swept.tombstones}
    assert all(w.record is None for w in swept.tombstones)
    assert gone == {
        *(("segments", f"{n}/0") for n in ("done", "old", "cancelled", "ancient", "unknown")),
        *(("checkpoints", f"{n}/0") for n in ("old", "cancelled", "ancient", "unknown")),
    }


def test_what_a_job_leaves_is_cleaned_at_its_end_with_its_folders(kafka: Settings, tmp_path: Path) -> None:
    store = Store.of(kafka)
    names = ("segments/a/3/1/x.mp4", "segments/b/3/1/x.mp4", "jobs/a/plan")
    for name in names:
        store.put(name, b"x")
    sweeper = Sweeper(kafka, store, now=lambda: NOW)
    sweeper.clean(ended("a", JobState.DONE, 0))
    assert store.list() == ["jobs/a/plan", "segments/b/3/1/x.mp4"]
    assert not (kafka.data / "store" / "segments" / "a").exists()
    sweeper.clean(ended("a", JobState.CANCELLED, 0))
    sweeper.clean(ended("b", JobState.FAILED, 0))
    assert store.list() == ["segments/b/3/1/x.mp4"], "redriving a failed job needs it"


def test_a_young_face_and_young_leavings_of_unknown_jobs_stay(kafka: Settings) -> None:
    """A face is put there before its job; objects of unknown jobs may be another installation's."""
    import time

    ensure_topics(kafka)
    store = Store.of(kafka)
    names = ["faces/f1", "jobs/unknown/plan", "segments/unknown/0/1/x.mp4"]
    for name in names:
        store.put(name, b"x")
    Sweeper(kafka, store, now=time.time).sweep({})
    assert store.list() == names
    later = settings_of(kafka, replay_hours=2.0, jobs_hours=4.0)
    Sweeper(later, store, now=lambda: time.time() + 3 * HOUR).sweep({})
    assert store.list() == names[1:]
    Sweeper(later, store, now=lambda: time.time() + 5 * HOUR).sweep({})
    assert store.list() == []
