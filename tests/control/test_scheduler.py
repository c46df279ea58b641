"""The scheduler releases within its limits, spreads, is fair, and can be rebuilt from what it wrote."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from control.scheduler import Limits, Scheduler, Write
from schemas.events import Failed, Finished, Role
from schemas.frames import StreamAbort
from schemas.job import JobRecord, JobState
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder
from schemas.segments import SegmentRecord, SegmentState
from tests.support.schedule import TOPICS, checkpoint, job, orders, plan, segments_of, start

pytestmark = pytest.mark.unit


def test_a_new_job_is_planned_first() -> None:
    writes = Scheduler(TOPICS, 4, Limits()).submitted(job("a"))
    assert [type(w.record) for w in writes] == [JobRecord, PlanOrder]
    assert isinstance(writes[0].record, JobRecord)
    assert writes[0].record.state is JobState.PLANNING


def test_a_job_submitted_twice_is_planned_once() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits())
    scheduler.submitted(job("a"))
    assert scheduler.submitted(job("a")) == []


def test_releases_stay_within_the_limit_of_segments() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=3))
    start(scheduler, job("a"), plan("a", 10))
    assert len(orders(scheduler.release())) == 3
    assert scheduler.release() == []
    scheduler.checkpointed(checkpoint("a", 1))
    assert len(orders(scheduler.release())) == 1


def test_releases_stay_within_the_limit_of_bytes() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=99, bytes=250))
    start(scheduler, job("a"), plan("a", 10, size=100))
    assert len(orders(scheduler.release())) == 2


def test_an_order_larger_than_the_limits_is_released_in_parts() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=4))
    start(scheduler, job("a"), plan("a", 9, run=9))
    first = scheduler.release()
    assert segments_of(first) == [[0, 1, 2, 3]]
    scheduler.checkpointed(checkpoint("a", 0))
    scheduler.checkpointed(checkpoint("a", 1))
    second = scheduler.release()
    assert segments_of(second) == [[4, 5]]
    keys = {w.key for w in first + second if isinstance(w.record, DecodeOrder)}
    assert keys == {"a/0"}, "the worker that holds the decoder gets all parts"


def test_an_order_within_the_limits_is_not_split() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=4))
    start(scheduler, job("a"), plan("a", 9, run=3))
    assert segments_of(scheduler.release()) == [[0, 1, 2]]
    scheduler.checkpointed(checkpoint("a", 0))
    assert scheduler.release() == []
    scheduler.checkpointed(checkpoint("a", 1))
    assert segments_of(scheduler.release()) == [[3, 4, 5]]


def test_a_segment_larger_than_the_limit_is_released_when_nothing_else_is_in_flight() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=2, bytes=50))
    start(scheduler, job("a"), plan("a", 9, size=100, run=3))
    assert segments_of(scheduler.release()) == [[0]]
    assert scheduler.release() == []


def test_segments_spread_over_the_least_loaded_partitions() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=8))
    start(scheduler, job("a"), plan("a", 8))
    used = [r.partition for o in orders(scheduler.release()) for r in o.releases]
    assert sorted(used) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_jobs_of_equal_priority_share_and_a_higher_one_goes_first() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=4))
    for name in ("a", "b"):
        start(scheduler, job(name), plan(name, 9))
    assert sorted(o.job for o in orders(scheduler.release())) == ["a", "a", "b", "b"]
    start(scheduler, job("urgent", priority=5), plan("urgent", 2))
    for name in ("a", "b"):
        scheduler.checkpointed(checkpoint(name, 0))
    assert [o.job for o in orders(scheduler.release())] == ["urgent", "urgent"]


def test_the_last_checkpoint_orders_the_finish_with_segments_in_order() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits())
    start(scheduler, job("a"), plan("a", 3))
    scheduler.release()
    scheduler.checkpointed(checkpoint("a", 2))
    scheduler.checkpointed(checkpoint("a", 0))
    writes = scheduler.checkpointed(checkpoint("a", 1))
    finish = [w.record for w in writes if isinstance(w.record, FinishOrder)]
    assert [c.segment for c in finish[0].segments] == [0, 1, 2]
    assert scheduler.checkpointed(checkpoint("a", 1)) == []


def test_a_finished_job_leaves_tombstones_and_its_warnings() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits())
    start(scheduler, job("a"), plan("a", 1))
    scheduler.release()
    scheduler.checkpointed(checkpoint("a", 0))
    done = Finished(job="a", output="out.mp4", frames=1, bytes=1, warnings={"w": 2})
    writes = scheduler.finished(done)
    record = writes[0].record
    assert isinstance(record, JobRecord)
    assert record.state is JobState.DONE
    assert record.warnings == {"w": 2}
    assert record.ended_ns > 0
    gone = {(w.topic, w.key) for w in writes if w.record is None}
    assert gone == {("t.segments", "a/0")}, "a replay needs the checkpoints"
    assert scheduler.jobs == {}


def test_a_failure_aborts_what_is_in_flight_and_frees_its_room() -> None:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=2))
    start(scheduler, job("a"), plan("a", 5))
    start(scheduler, job("b"), plan("b", 5))
    scheduler.release()
    writes = scheduler.failed(Failed(job="a", stream="a/0", epoch=1, role=Role.INGEST, reason="broken"))
    aborts = [w for w in writes if isinstance(w.record, StreamAbort)]
    assert {w.topic for w in aborts} == {"t.frames.batch", "t.swaps.batch"}
    assert all(w.partition >= 0 for w in aborts)
    assert scheduler.in_flight == (1, 100)
    assert [o.job for o in orders(scheduler.release())] == ["b"]


@example(done=set(), extra=set(range(12)), run=1, limit=12)
@given(
    done=st.sets(st.integers(0, 11)),
    extra=st.sets(st.integers(0, 11)),
    run=st.integers(1, 4),
    limit=st.integers(1, 12),
)
def test_a_rebuilt_scheduler_goes_on_where_the_old_one_stood(
    done: set[int], extra: set[int], run: int, limit: int
) -> None:
    """`extra`: checkpoints that were committed but not yet seen when control died."""
    of = plan("a", 12, run=run)
    old = Scheduler(TOPICS, 4, Limits(segments=limit))
    log = start(old, job("a"), of) + old.release()
    checkpoints = {}
    for i in sorted(done):
        if i in {r.segment for o in orders(log) for r in o.releases}:
            checkpoints[i] = checkpoint("a", i)
            log += old.checkpointed(checkpoints[i])
            log += old.release()
    released = {r.segment for o in orders(log) for r in o.releases}
    checkpoints |= {i: checkpoint("a", i) for i in extra & released}
    table: dict[tuple[str, str], Write] = {(w.topic, w.key): w for w in log}
    records = [w.record for w in table.values()]
    new = Scheduler(TOPICS, 4, Limits(segments=limit))
    log += new.restore(
        [r for r in records if isinstance(r, JobRecord)],
        {"a": of},
        [r for r in records if isinstance(r, SegmentRecord)],
        checkpoints.values(),
    )
    for _ in range(50):
        log += new.release()
        flying = {r.segment for o in orders(log) for r in o.releases} - set(checkpoints)
        for i in flying:
            checkpoints[i] = checkpoint("a", i)
            log += new.checkpointed(checkpoints[i])
    assert sorted(r.segment for o in orders(log) for r in o.releases) == list(range(12))
    assert len([w for w in log if isinstance(w.record, FinishOrder)]) == 1
    states = [w.record for w in log if isinstance(w.record, SegmentRecord)]
    assert sum(s.state is SegmentState.DONE for s in states) == 12
