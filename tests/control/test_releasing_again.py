"""What fails for a reason that may pass is released again, in whatever order control hears of it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.scheduler import Limits, Scheduler, Write
from schemas.checkpoint import Checkpoint
from schemas.events import Failed, Finished, Planned, Role, Warned
from schemas.frames import StreamAbort
from schemas.job import JobRecord, JobState
from schemas.orders import FinishOrder
from schemas.plan import Plan
from schemas.record import Record
from schemas.segments import SegmentRecord, SegmentState
from tests.support.schedule import TOPICS, checkpoint, job, orders, plan, segments_of, start

pytestmark = pytest.mark.unit


def failure(segment: int, epoch: int, reason: str = "the store is gone", retryable: bool = True) -> Failed:
    return Failed(
        job="a", stream=f"a/{segment}", epoch=epoch, role=Role.ASSEMBLER, reason=reason, retryable=retryable
    )


def running(segments: int = 4, run: int = 4, limit: int = 99) -> Scheduler:
    scheduler = Scheduler(TOPICS, 4, Limits(segments=limit))
    start(scheduler, job("a"), plan("a", segments, run=run))
    scheduler.release()
    return scheduler


def test_a_failure_that_may_pass_releases_that_segment_alone_under_a_higher_epoch() -> None:
    scheduler = running()
    before = scheduler.in_flight
    writes = scheduler.failed(failure(2, 1))
    aborts = [w for w in writes if isinstance(w.record, StreamAbort)]
    assert {(w.topic, w.record.epoch) for w in aborts if w.record} == {
        ("t.frames.batch", 1),
        ("t.swaps.batch", 1),
    }
    again = scheduler.release()
    (order,) = orders(again)
    assert (order.epoch, segments_of(again)) == (2, [[2]])
    assert order.releases[0].partition == aborts[0].partition, "a stream has one partition for life"
    assert scheduler.in_flight == before


def test_a_failure_of_an_earlier_epoch_or_of_a_segment_that_is_done_is_nothing() -> None:
    scheduler = running()
    scheduler.failed(failure(2, 1))
    scheduler.release()
    assert scheduler.failed(failure(2, 1)) == []
    assert scheduler.failed(failure(2, 1, retryable=False)) == []
    scheduler.checkpointed(checkpoint("a", 2, epoch=2))
    assert scheduler.failed(failure(2, 2, retryable=False)) == []
    assert scheduler.checkpointed(checkpoint("a", 2, epoch=1)) == []


def test_a_segment_that_fails_too_often_fails_its_job_with_the_reasons() -> None:
    scheduler = running()
    for epoch, reason in enumerate(("no store", "no disk"), 1):
        scheduler.failed(failure(0, epoch, reason))
        scheduler.release()
    writes = scheduler.failed(failure(0, 3, "no store"))
    record = writes[0].record
    assert isinstance(record, JobRecord)
    assert record.state is JobState.FAILED
    assert record.reason == "no store; no disk (released 3 times)"
    assert record.failed_by is Role.ASSEMBLER
    assert scheduler.in_flight == (0, 0)


def test_a_failure_for_good_fails_the_job_at_once() -> None:
    scheduler = running()
    record = scheduler.failed(failure(1, 1, "bad frames", retryable=False))[0].record
    assert isinstance(record, JobRecord)
    assert (record.state, record.reason, record.exit_code) == (JobState.FAILED, "bad frames", 1)


def test_planning_that_is_done_again_and_fails_then_is_no_failure() -> None:
    scheduler = running()
    assert scheduler.failed(Failed(job="a", role=Role.INGEST, reason="the input is gone")) == []


def test_a_stream_that_waits_for_too_long_is_released_again() -> None:
    scheduler = running()
    event = Warned(
        job="a", stream="a/3", epoch=1, role=Role.ASSEMBLER, name="stream_waits", detail="swaps at seq 8"
    )
    scheduler.stuck(event)
    again = scheduler.release()
    assert segments_of(again) == [[3]]
    assert scheduler.stuck(event) == [], "of an earlier epoch"
    (record,) = [w.record for w in again if isinstance(w.record, SegmentRecord)]
    assert record.reason == "a/3: waited too long for swaps at seq 8"


def test_a_paused_job_releases_nothing_and_goes_on_where_it_stood() -> None:
    scheduler = running(8, run=1, limit=2)
    (write,) = scheduler.paused("a", True)
    assert isinstance(write.record, JobRecord)
    assert write.record.paused
    scheduler.checkpointed(checkpoint("a", 0))
    scheduler.failed(failure(1, 1))
    assert scheduler.release() == []
    assert scheduler.paused("a", True) == []
    scheduler.paused("a", False)
    assert segments_of(scheduler.release()) == [[1], [2]]


def test_other_jobs_go_on_while_one_is_paused() -> None:
    scheduler = running(8, run=1, limit=2)
    scheduler.paused("a", True)
    start(scheduler, job("b"), plan("b", 2))
    scheduler.checkpointed(checkpoint("a", 0))
    assert [o.job for o in orders(scheduler.release())] == ["b"]


def test_cancelling_gives_up_what_is_in_flight_and_leaves_nothing() -> None:
    scheduler = running(4, run=1, limit=2)
    scheduler.checkpointed(checkpoint("a", 0))
    writes = scheduler.cancelled("a")
    assert scheduler.jobs == {}
    assert scheduler.in_flight == (0, 0)
    gone = [(w.topic, w.key) for w in writes if w.record is None]
    assert gone == [(TOPICS.segments, f"a/{i}") for i in range(4)] + [(TOPICS.checkpoints, "a/0")]
    assert len([w for w in writes if isinstance(w.record, StreamAbort)]) == 2
    late = scheduler.checkpointed(checkpoint("a", 1))
    assert [(w.topic, w.key, w.record) for w in late] == [(TOPICS.checkpoints, "a/1", None)]


def finishing() -> Scheduler:
    scheduler = running(1)
    scheduler.checkpointed(checkpoint("a", 0))
    assert scheduler.jobs == {"a": JobState.FINISHING}
    return scheduler


def test_whoever_finishes_a_job_decides_whether_cancelling_was_in_time() -> None:
    lost, won = finishing(), finishing()
    for scheduler in (lost, won):
        (write,) = scheduler.cancelled("a")
        assert isinstance(write.record, JobRecord)
        assert write.record.cancelling
        assert scheduler.cancelled("a") == []
    done = lost.finished(Finished(job="a", output="out.mp4", frames=1, bytes=1))[0].record
    assert isinstance(done, JobRecord)
    assert done.state is JobState.DONE
    assert not done.cancelling
    cancelled = won.failed(Failed(job="a", role=Role.ASSEMBLER, reason="cancelled"))[0].record
    assert isinstance(cancelled, JobRecord)
    assert cancelled.state is JobState.CANCELLED


def test_a_failed_job_goes_on_where_it_ended_when_a_segment_is_run_again() -> None:
    of = plan("a", 6, run=3)
    scheduler = Scheduler(TOPICS, 4, Limits(segments=3))
    log = start(scheduler, job("a"), of) + scheduler.release()
    made = [checkpoint("a", 0), checkpoint("a", 2)]
    for one in made:
        log += scheduler.checkpointed(one)
    log += scheduler.failed(failure(1, 1, retryable=False))
    table = Tables()
    table.take(log)
    record = table.jobs["a"]
    writes = scheduler.reopened(record, of, table.segments.values(), made, gone={"a/2"})
    assert isinstance(writes[0].record, JobRecord)
    assert (writes[0].record.state, writes[0].record.reason) == (JobState.RUNNING, "")
    again = scheduler.release()
    assert segments_of(again) == [[1], [2]]
    assert [o.epoch for o in orders(again)] == [2, 2]
    for one in (checkpoint("a", 1, 2), checkpoint("a", 2, 2)):
        scheduler.checkpointed(one)
    rest = scheduler.release()
    assert segments_of(rest) == [[3, 4, 5]]
    assert orders(rest)[0].epoch > record.epoch == 1, "who still takes the job for ended knows better"
    assert scheduler.reopened(record, of, [], [], gone=()) == [], "it runs"


def test_a_segment_of_a_running_job_is_run_again() -> None:
    scheduler = running()
    scheduler.checkpointed(checkpoint("a", 1))
    assert scheduler.redriven("a/0") == [], "it is in flight"
    scheduler.redriven("a/1")
    again = scheduler.release()
    assert (segments_of(again), orders(again)[0].epoch) == ([[1]], 2)
    assert scheduler.checkpointed(checkpoint("a", 1)) == [], "the one before"


class Tables:
    """The compacted topics as a rebuilt scheduler finds them."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.segments: dict[str, SegmentRecord] = {}
        self.checkpoints: dict[str, Checkpoint] = {}

    def take(self, writes: list[Write]) -> None:
        for write in writes:
            if write.topic == TOPICS.jobs and isinstance(write.record, JobRecord):
                self.jobs[write.key] = write.record
            elif write.topic == TOPICS.segments:
                self._put(self.segments, write.key, write.record)
            elif write.topic == TOPICS.checkpoints:
                self._put(self.checkpoints, write.key, write.record)

    @staticmethod
    def _put(
        table: dict[str, SegmentRecord] | dict[str, Checkpoint], key: str, record: Record | None
    ) -> None:
        if record is None:
            table.pop(key, None)
        else:
            table[key] = record  # type: ignore[assignment]


def picture(scheduler: Scheduler) -> object:
    """Everything that decides what a scheduler does next."""
    runs = scheduler._runs
    return (
        scheduler.ended.keys(),
        scheduler._load,
        {
            name: (run.record, run.segments, run.flying.keys(), run.done.keys(), run.waiting)
            for name, run in runs.items()
        },
    )


class World:
    """Two schedulers that hear the same news: one calmly; one hears everything again and is rebuilt at any
    moment. `plans` are what the store holds."""

    def __init__(self, plans: dict[str, Plan], limits: Limits) -> None:
        self.plans, self.limits, self.clock = plans, limits, iter(range(1, 10_000_000))
        self.calm, self.disturbed = self._scheduler(), self._scheduler()
        self.tables, self.told, self.log = Tables(), list[Callable[[Scheduler], list[Write]]](), list[Write]()
        self._now = 0

    def _scheduler(self) -> Scheduler:
        return Scheduler(TOPICS, 4, self.limits, now_ns=lambda: self._now)

    def tell(self, news: Callable[[Scheduler], list[Write]], repeatable: bool = True) -> None:
        """Both hear it and must decide the same. Repeating is no news, unless it is a wish of the user's."""
        self._now = next(self.clock)
        one = news(self.calm) + self.calm.release()
        other = news(self.disturbed) + self.disturbed.release()
        assert one == other
        if repeatable:
            self.told.append(news)
        self.tables.take(other)
        self.log += other
        self.check()

    def repeat(self, number: int) -> None:
        if self.told:
            again = self.told[number % len(self.told)](self.disturbed)
            assert [w for w in again if w.topic != TOPICS.checkpoints] == []
            self.check()

    def rebuild(self) -> None:
        self.disturbed = self._scheduler()
        writes = self.disturbed.restore(
            self.tables.jobs.values(),
            {n: p for n, p in self.plans.items() if n in self.tables.jobs and self.tables.jobs[n].plan},
            self.tables.segments.values(),
            self.tables.checkpoints.values(),
        )
        assert [w for w in writes if w.topic != TOPICS.checkpoints] == []
        self.check()

    def check(self) -> None:
        assert picture(self.calm) == picture(self.disturbed)
        flying = [s for run in self.calm._runs.values() for s in run.flying.values()]
        assert self.calm.in_flight == (len(flying), sum(s.bytes for s in flying))
        for partition, load in self.calm._load.items():
            assert load == sum(s.bytes for s in flying if s.partition == partition)

    def flying(self) -> list[SegmentRecord]:
        return [s for run in self.calm._runs.values() for s in run.flying.values()]


ACTIONS = st.tuples(
    st.sampled_from(
        ["done", "done", "done", "fail", "fail", "stuck", "repeat", "rebuild", "pause", "resume", "cancel"]
    ),
    st.integers(0, 999),
)


@settings(max_examples=200)
@given(
    actions=st.lists(ACTIONS, max_size=60),
    run=st.integers(1, 7),
    limit=st.integers(1, 9),
    cancels=st.booleans(),
)
def test_news_heard_again_and_rebuilding_at_any_moment_change_nothing(
    actions: list[tuple[str, int]], run: int, limit: int, cancels: bool
) -> None:
    plans = {name: plan(name, 7, size=100 + i, run=run) for i, name in enumerate(("a", "b"))}
    world = World(plans, Limits(segments=limit, bytes=800))
    for i, (name, of) in enumerate(plans.items()):
        record = job(name).model_copy(update={"created_ns": i})
        planned = Planned(job=name, plan=f"jobs/{name}/plan", frames=1, segments=len(of.segments))
        world.tell(lambda s, r=record: s.submitted(r))  # type: ignore[misc]
        world.tell(lambda s, e=planned, p=of: s.planned(e, p))  # type: ignore[misc]
    for action, number in actions:
        act(world, action, number, cancels)
    for name in plans:
        world.tell(lambda s, n=name: s.paused(n, False), repeatable=False)  # type: ignore[misc]
    while world.flying():
        act(world, "done", 0, cancels)
    assert world.calm.in_flight == (0, 0)
    for name in plans:
        left = world.calm.jobs.get(name)
        finishes = [w for w in world.log if isinstance(w.record, FinishOrder) and w.key == name]
        if left is None:
            assert world.tables.jobs[name].state in (JobState.FAILED, JobState.CANCELLED)
            assert not finishes
        else:
            assert left is JobState.FINISHING
            assert len(finishes) == 1
            states = [s.state for s in world.tables.segments.values() if s.job == name]
            assert states == [SegmentState.DONE] * 7


def act(world: World, action: str, number: int, cancels: bool) -> None:
    flying = world.flying()
    segment = flying[number % len(flying)] if flying else None
    name = "ab"[number % 2]
    if action == "rebuild":
        world.rebuild()
    elif action == "repeat":
        world.repeat(number)
    elif action in ("pause", "resume"):
        world.tell(lambda s: s.paused(name, action == "pause"), repeatable=False)
    elif action == "cancel" and cancels and number % 5 == 0:
        world.tell(lambda s: s.cancelled(name))
    elif segment is not None and action == "done":
        one = checkpoint(segment.job, segment.segment, segment.epoch)
        world.tables.checkpoints[one.stream] = one
        world.tell(lambda s: s.checkpointed(one))
    elif segment is not None and action in ("fail", "stuck"):
        event = Failed(
            job=segment.job, stream=segment.stream, epoch=segment.epoch, role=Role.ASSEMBLER,
            reason=f"reason {number % 3}", retryable=True,
        )  # fmt: skip
        waits = Warned(
            job=segment.job, stream=segment.stream, epoch=segment.epoch, role=Role.ASSEMBLER, name="w"
        )
        world.tell(lambda s: s.failed(event) if action == "fail" else s.stuck(waits))


@given(
    failures=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_the_order_in_which_segments_fail_and_end_does_not_matter(
    failures: list[int], order: random.Random
) -> None:
    scheduler = running(6, run=2)
    todo = [i for i, count in enumerate(failures) for _ in range(count + 1)]
    order.shuffle(todo)
    epochs = dict.fromkeys(range(6), 1)
    log: list[Write] = []
    for index in todo:
        if epochs[index] <= failures[index]:
            log += scheduler.failed(failure(index, epochs[index])) + scheduler.release()
            epochs[index] += 1
        else:
            log += scheduler.checkpointed(checkpoint("a", index, epochs[index]))
    (finish,) = [w.record for w in log if isinstance(w.record, FinishOrder)]
    assert [(c.segment, c.epoch) for c in finish.segments] == [(i, n + 1) for i, n in enumerate(failures)]
    assert scheduler.in_flight == (0, 0)
