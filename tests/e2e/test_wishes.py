"""Cancel, pause and resume: what a user wants of a job that runs."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assembler.publish import hidden_name
from control import admission
from control.failures import FILE
from control.watch import Watcher
from runtime.jobs import JobBoard
from runtime.settings import Settings
from runtime.store import Store
from runtime.tables import read_table
from schemas.checkpoint import Checkpoint
from schemas.events import Redrive, Role
from schemas.job import JobRecord, JobSpec, JobState
from schemas.objects import finish_object
from schemas.segments import SegmentRecord, SegmentState
from tests.support.cluster import Cluster, times
from tests.support.command import Command
from tests.support.media import make_clip
from tests.support.processes import eventually

pytestmark = pytest.mark.broker
FRAMES = 500
SLOW = {"options": {"delay_ms": 600}}
"""Twelve seconds of work, so that it still runs when the command comes."""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip of twenty segments."""
    return make_clip(tmp_path_factory.mktemp("long") / "long.mp4", FRAMES, options={"g": "25"})


def started(cluster: Cluster, spec: JobSpec) -> Watcher:
    """Submit a job and wait until its first frames are encoded."""
    (watcher,) = cluster.submit(spec)
    eventually("the first frames", lambda: watcher.poll(0.05).done[Role.ASSEMBLER] > 0)
    return watcher


def record_of(settings: Settings, job: str) -> JobRecord:
    with JobBoard(settings, "test") as board:
        record = board.record(job)
    assert record is not None
    return record


def segments_of(settings: Settings, job: str) -> list[SegmentState]:
    table = read_table(settings, settings.topic_set.segments, "test").values()
    return [r.state for r in table if isinstance(r, SegmentRecord) and r.job == job]


def test_a_cancelled_job_stops_everywhere_and_leaves_nothing(
    cluster: Cluster, long: Path, tmp_path: Path
) -> None:
    settings, facestream = cluster.settings, Command(cluster.settings)
    spec = cluster.spec(long, tmp_path / "out.mp4", swap=SLOW)
    started(cluster, spec).close()
    assert facestream("cancel", spec.job, "--wait")[:2] == (0, f"{spec.job} is cancelled\n")
    assert record_of(settings, spec.job).state is JobState.CANCELLED
    assert segments_of(settings, spec.job) == []
    assert list(tmp_path.iterdir()) == []
    store = Store.of(settings)
    for folder in ("segments", "jobs"):
        eventually(f"no {folder}", lambda f=folder: not store.list(f"{f}/{spec.job}"))  # type: ignore[misc]
    eventually("no scratch files", lambda: not [p for p in settings.scratch_dir.rglob("*") if p.is_file()])
    good = make_clip(tmp_path / "good.mp4", 25)
    cluster.done(cluster.spec(good, tmp_path / "good-out.mp4"))
    assert (
        read_table(settings, settings.topic_set.checkpoints, "test")
        .keys()
        .isdisjoint(f"{spec.job}/{i}" for i in range(20))
    )
    code, _, last = facestream("cancel", spec.job)
    assert code == 0
    code, _, last = facestream("pause", spec.job)
    assert (code, last) == (1, f"facestream: job {spec.job} has ended: cancelled: cancelled")


@pytest.mark.parametrize("wish", ["cancel", "pause", "resume"])
def test_an_unknown_job_is_said_to_be_unknown(cluster: Cluster, wish: str) -> None:
    assert Command(cluster.settings)(wish, "nothing") == (2, "", "facestream: there is no job nothing")


def test_a_paused_job_finishes_what_is_in_flight_and_goes_on_when_resumed(
    cluster: Cluster, long: Path, tmp_path: Path
) -> None:
    settings, facestream = cluster.settings, Command(cluster.settings)
    output = tmp_path / "out.mp4"
    spec = cluster.spec(long, output, swap=SLOW)
    watcher = started(cluster, spec)
    assert facestream("pause", spec.job, "--wait")[:2] == (0, f"{spec.job} is paused\n")
    eventually("nothing is in flight", lambda: SegmentState.RELEASED not in segments_of(settings, spec.job))
    before = segments_of(settings, spec.job)
    assert SegmentState.PLANNED in before
    assert "running (paused)" in facestream("status", spec.job)[1]
    other = make_clip(tmp_path / "other.mp4", 25)
    cluster.done(cluster.spec(other, tmp_path / "other-out.mp4"))
    assert segments_of(settings, spec.job) == before, "nothing of it was released"
    assert facestream("resume", spec.job, "--wait")[:2] == (0, f"{spec.job} is not paused\n")
    (status,) = cluster.wait(watcher)
    assert status.state is JobState.DONE
    assert times(output) == times(long)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """As if another process were just writing the hidden file of an output."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink()


@pytest.mark.parametrize("in_place", [False, True], ids=["in time", "too late"])
def test_cancelling_during_the_finish_wins_without_output_or_loses_with_all_of_it(
    cluster: Cluster, tmp_path: Path, in_place: bool
) -> None:
    settings, facestream = cluster.settings, Command(cluster.settings)
    clip, output = make_clip(tmp_path / "clip.mp4", 50), tmp_path / "out" / "out.mp4"
    output.parent.mkdir()
    spec = cluster.spec(clip, output)
    with held(hidden_name(output, spec.job)):
        (watcher,) = cluster.submit(spec)
        eventually("the finish", lambda: watcher.poll(0.05).state is JobState.FINISHING)
        assert facestream("cancel", spec.job)[0] == 0
        eventually("the wish is known", lambda: record_of(settings, spec.job).cancelling)
        assert "finishing (cancelling)" in facestream("status", spec.job)[1]
        if in_place:  # an assembler died after it had begun to put the result in place
            Store.of(settings).put(finish_object(spec.job), b"")
    (status,) = cluster.wait(watcher)
    assert status.state is (JobState.DONE if in_place else JobState.CANCELLED)
    assert [path.name for path in output.parent.iterdir()] == (["out.mp4"] if in_place else [])
    code, _, last = facestream("cancel", spec.job)
    assert code == (1 if in_place else 0), last


def test_a_failed_job_goes_on_where_it_ended_when_a_segment_is_run_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Its output folder was missing; once it is there, only the segment that was named is done again."""
    settings = cluster.settings
    clip, output = make_clip(tmp_path / "clip.mp4", 75), tmp_path / "missing" / "out.mp4"
    spec = cluster.spec(clip, output)
    (status,) = cluster.run(spec)
    assert status.state is JobState.FAILED
    said = [json.loads(text) for text in (settings.data / FILE).read_text().splitlines()]
    (entry,) = [e for e in said if e["job"] == spec.job]
    assert (entry["role"], entry["exit_code"], entry["output"]) == ("assembler", 1, str(output))
    assert "does not exist" in entry["reason"]
    listed = Command(settings)("status", "--failed", "--json")[1].splitlines()
    assert entry in [json.loads(text) for text in listed]
    output.parent.mkdir()
    assert epochs(again(cluster, spec, 1), spec.job) == {0: 1, 1: 2, 2: 1}
    assert times(output) == times(clip)
    assert Command(settings)("status", spec.job, "--failed")[1].count(spec.job) == 0


def test_a_job_that_is_done_is_made_again_with_the_same_bytes(cluster: Cluster, tmp_path: Path) -> None:
    """Its encoded segments are gone, so all of it is done again."""
    clip, output = make_clip(tmp_path / "clip.mp4", 50), tmp_path / "out.mp4"
    spec = cluster.spec(clip, output)
    cluster.done(spec)
    before = output.read_bytes()
    output.unlink()
    store = Store.of(cluster.settings)
    eventually("no segments", lambda: not store.list(f"segments/{spec.job}"))
    assert epochs(again(cluster, spec, 0), spec.job) == {0: 2, 1: 2}
    assert output.read_bytes() == before


def again(cluster: Cluster, spec: JobSpec, segment: int) -> Settings:
    """Have a segment of a job that ended run again, and wait for the job's end."""
    before = record_of(cluster.settings, spec.job).ended_ns
    admission.tell(cluster.settings, Redrive(job=spec.job, stream=f"{spec.job}/{segment}"))
    eventually("its new end", lambda: record_of(cluster.settings, spec.job).ended_ns > before)
    assert record_of(cluster.settings, spec.job).state is JobState.DONE
    return cluster.settings


def epochs(settings: Settings, job: str) -> dict[int, int]:
    """Under which release each segment was made."""
    table = read_table(settings, settings.topic_set.checkpoints, "test").values()
    return {r.segment: r.epoch for r in table if isinstance(r, Checkpoint) and r.job == job}
