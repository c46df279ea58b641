"""The scheduler: decides which orders are released when and where. Pure state; no I/O.

Each method takes something that happened and returns the records to write. The caller writes them in
one Kafka transaction, so that what the scheduler believes and what the topics say never part.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.checkpoint import Checkpoint
from schemas.events import Failed, Finished, Planned, Warned
from schemas.frames import StreamAbort
from schemas.job import JobRecord, JobState, stream_id
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder, SegmentRelease
from schemas.plan import Plan
from schemas.record import Record
from schemas.segments import SegmentRecord, SegmentState
from schemas.topics import TopicSet


@dataclass(frozen=True, slots=True)
class Write:
    """A record to put on a topic; `record` None is a tombstone, `partition` -1 leaves it to the key."""

    topic: str
    key: str
    record: Record | None
    partition: int = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be in flight: released and not yet checkpointed, over all jobs."""

    segments: int = 16
    bytes: int = 4 << 30


@dataclass(slots=True)
class _Run:
    """A job that has not ended."""

    record: JobRecord
    plan: Plan | None = None
    waiting: deque[int] = field(default_factory=deque)
    """Orders not released yet."""
    released: dict[int, SegmentRecord] = field(default_factory=dict)
    """Segments in flight."""
    done: dict[int, Checkpoint] = field(default_factory=dict)


class Scheduler:
    """State of all jobs that have not ended. One instance owns it; it can be rebuilt by `restore`."""

    def __init__(self, topics: TopicSet, partitions: int, limits: Limits) -> None:
        self._topics = topics
        self.limits = limits
        """What may be in flight; follows the number of live workers."""
        self._runs: dict[str, _Run] = {}
        self._ended: set[str] = set()
        """Jobs known to have ended: a submission that is read again does not start them anew."""
        self._load: dict[int, int] = dict.fromkeys(range(partitions), 0)
        self._turn = 0

    # -- what happened ---------------------------------------------------------------------------

    def submitted(self, record: JobRecord) -> list[Write]:
        """A new job: have it planned. A job already known, or ended, is left as it is."""
        known = record.job in self._runs or record.job in self._ended
        if known or record.state is not JobState.QUEUED:
            return []
        run = self._runs[record.job] = _Run(record)
        return [
            self._set_state(run, JobState.PLANNING),
            Write(self._topics.orders_ingest, record.job, PlanOrder(job=record.job, spec=record.spec)),
        ]

    def planned(self, event: Planned, plan: Plan) -> list[Write]:
        """Its plan is stored: its segments wait for release."""
        run = self._runs.get(event.job)
        if run is None or run.plan is not None:
            return []
        run.plan = plan
        run.waiting.extend(range(len(plan.orders)))
        run.record = run.record.model_copy(update={"plan": event.plan, "warnings": dict(plan.warnings)})
        writes = [self._set_state(run, JobState.RUNNING)]
        for order, segments in enumerate(plan.orders):
            writes += [self._segment(run, s, order, SegmentState.PLANNED) for s in segments]
        return writes

    def checkpointed(self, checkpoint: Checkpoint) -> list[Write]:
        """A segment is real. After the last one the job is finished off."""
        run = self._runs.get(checkpoint.job)
        if run is None or run.plan is None or checkpoint.segment in run.done:
            return []
        run.done[checkpoint.segment] = checkpoint
        released = run.released.pop(checkpoint.segment, None)
        if released is None:
            return []
        self._load[released.partition] -= released.bytes
        done = released.model_copy(update={"state": SegmentState.DONE})
        writes = [Write(self._topics.segments, done.stream, done)]
        if len(run.done) == len(run.plan.segments):
            writes += self._finish(run)
        return writes

    def failed(self, event: Failed) -> list[Write]:
        """A service cannot do its part: the job fails, and what is in flight is given up."""
        run = self._runs.get(event.job)
        return [] if run is None else self._end(run, JobState.FAILED, event.reason)

    def cancelled(self, job: str) -> list[Write]:
        """The user wants no more of it."""
        run = self._runs.get(job)
        return [] if run is None else self._end(run, JobState.CANCELLED, "cancelled")

    def warned(self, event: Warned) -> list[Write]:
        """Something was not as it should be: counted in the job, told with its next change of state."""
        run = self._runs.get(event.job)
        if run is not None:
            warnings = Counter(run.record.warnings) + Counter({event.name: event.count})
            run.record = run.record.model_copy(update={"warnings": dict(warnings)})
        return []

    def finished(self, event: Finished) -> list[Write]:
        """The result is in place."""
        run = self._runs.get(event.job)
        if run is None:
            return []
        warnings = Counter(run.record.warnings) + Counter(event.warnings)
        run.record = run.record.model_copy(update={"warnings": dict(warnings)})
        return self._end(run, JobState.DONE, "")

    def release(self) -> list[Write]:
        """Release as many orders as the limits allow: by priority, then the job with least in flight."""
        writes: list[Write] = []
        while (run := self._next()) is not None:
            writes += self._release_order(run, run.waiting.popleft())
        return writes

    # -- what is known ---------------------------------------------------------------------------

    def restore(
        self,
        jobs: Iterable[JobRecord],
        plans: Mapping[str, Plan],
        segments: Iterable[SegmentRecord],
        checkpoints: Iterable[Checkpoint],
    ) -> list[Write]:
        """Rebuild from the topics. Returns what has to be written again for jobs that got stuck."""
        records = list(jobs)
        self._runs = {r.job: _Run(r) for r in records if not r.state.ended}
        self._ended = {r.job for r in records if r.state.ended}
        self._load = dict.fromkeys(self._load, 0)
        for job, run in self._runs.items():
            run.plan = plans.get(job)
        for checkpoint in checkpoints:
            if (owner := self._runs.get(checkpoint.job)) is not None:
                owner.done[checkpoint.segment] = checkpoint
        seen: dict[str, set[int]] = {}
        for segment in segments:
            if (owner := self._runs.get(segment.job)) is None:
                continue
            if segment.state is not SegmentState.PLANNED:
                seen.setdefault(segment.job, set()).add(segment.order)
            if segment.state is SegmentState.RELEASED:
                owner.released[segment.segment] = segment
                self._load[segment.partition] += segment.bytes
        writes: list[Write] = []
        for job, run in list(self._runs.items()):
            if run.plan is None:
                writes += self._resubmit(run)
                continue
            run.waiting.extend(i for i in range(len(run.plan.orders)) if i not in seen.get(job, set()))
            unseen = [run.done.pop(index) for index in list(run.done) if index in run.released]
            for checkpoint in unseen:
                writes += self.checkpointed(checkpoint)
        return writes

    @property
    def jobs(self) -> dict[str, JobState]:
        """Jobs that have not ended."""
        return {job: run.record.state for job, run in self._runs.items()}

    @property
    def in_flight(self) -> tuple[int, int]:
        """(segments, bytes) released and not yet checkpointed."""
        segments = sum(len(run.released) for run in self._runs.values())
        return segments, sum(self._load.values())

    # -- how -------------------------------------------------------------------------------------

    def _resubmit(self, run: _Run) -> list[Write]:
        """Its plan was never seen: plan it again (a plan that arrives twice is ignored)."""
        record = run.record.model_copy(update={"state": JobState.QUEUED})
        del self._runs[record.job]
        return self.submitted(record)

    def _next(self) -> _Run | None:
        segments, in_bytes = self.in_flight
        waiting = [run for run in self._runs.values() if run.waiting]
        if not waiting:
            return None
        run = min(waiting, key=lambda r: (-r.record.spec.priority, len(r.released)))
        count, size = self._size(run, run.waiting[0])
        fits = segments + count <= self.limits.segments and in_bytes + size <= self.limits.bytes
        return run if fits or segments == 0 else None

    def _size(self, run: _Run, order: int) -> tuple[int, int]:
        assert run.plan is not None
        indices = run.plan.orders[order]
        return len(indices), sum(run.plan.segments[i].bytes for i in indices)

    def _release_order(self, run: _Run, order: int) -> list[Write]:
        assert run.plan is not None
        writes: list[Write] = []
        releases: list[SegmentRelease] = []
        for index in run.plan.orders[order]:
            size = run.plan.segments[index].bytes
            partition = self._least_loaded()
            self._load[partition] += size
            write = self._segment(
                run, index, order, SegmentState.RELEASED, epoch=1, partition=partition, size=size
            )
            assert isinstance(write.record, SegmentRecord)
            run.released[index] = write.record
            writes.append(write)
            releases.append(SegmentRelease(segment=index, partition=partition))
        spec = run.record.spec
        decode = DecodeOrder(job=spec.job, epoch=1, spec=spec, plan=run.record.plan, releases=releases)
        writes.append(Write(self._topics.orders_ingest, f"{spec.job}/{order}", decode))
        return writes

    def _least_loaded(self) -> int:
        """The partition with the fewest bytes in flight; equal ones in turn."""
        n = len(self._load)
        self._turn = min(((self._turn + 1 + i) % n for i in range(n)), key=lambda p: self._load[p])
        return self._turn

    def _finish(self, run: _Run) -> list[Write]:
        spec = run.record.spec
        order = FinishOrder(
            job=spec.job,
            spec=spec,
            plan=run.record.plan,
            segments=[run.done[i] for i in sorted(run.done)],
        )
        return [
            self._set_state(run, JobState.FINISHING),
            Write(self._topics.orders_finish, spec.job, order),
        ]

    def _end(self, run: _Run, state: JobState, reason: str) -> list[Write]:
        """Close a job: its state, aborts for what is in flight, tombstones for its segments."""
        job, lane = run.record.job, run.record.spec.lane
        run.record = run.record.model_copy(update={"reason": reason})
        writes = [self._set_state(run, state)]
        for segment in run.released.values():
            self._load[segment.partition] -= segment.bytes
            abort = StreamAbort(
                job=job, stream=segment.stream, epoch=segment.epoch, reason=reason or state.value
            )
            writes += [
                Write(topic, segment.stream, abort, segment.partition)
                for topic in (self._topics.frames(lane), self._topics.swaps(lane))
            ]
        for index in range(len(run.plan.segments) if run.plan else 0):
            stream = stream_id(job, index)
            writes.append(Write(self._topics.segments, stream, None))
            if index in run.done:
                writes.append(Write(self._topics.checkpoints, stream, None))
        del self._runs[job]
        self._ended.add(job)
        return writes

    def _set_state(self, run: _Run, state: JobState) -> Write:
        run.record = run.record.model_copy(update={"state": state})
        return Write(self._topics.jobs, run.record.job, run.record)

    def _segment(
        self,
        run: _Run,
        index: int,
        order: int,
        state: SegmentState,
        *,
        epoch: int = 0,
        partition: int = -1,
        size: int = 0,
    ) -> Write:
        stream = stream_id(run.record.job, index)
        record = SegmentRecord(
            job=run.record.job,
            stream=stream,
            epoch=epoch,
            segment=index,
            order=order,
            state=state,
            partition=partition,
            bytes=size,
        )
        return Write(self._topics.segments, stream, record)
