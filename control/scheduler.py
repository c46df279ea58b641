"""The scheduler: decides which orders are released when and where. Pure state; no I/O.

Each method takes something that happened and returns the records to write. The caller writes them in
one Kafka transaction, so that what the scheduler believes and what the topics say never part. Everything
may be told again and late: what is not about the present epoch of a segment changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from zlib import crc32

from control.ranges import stands_in, stream_of
from control.runs import Run, Swept, Write, failed_again
from schemas.checkpoint import Checkpoint
from schemas.events import Failed, Finished, Planned, Role, Warned
from schemas.frames import StreamAbort
from schemas.job import JobRecord, JobState, split_stream, stream_id
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder, SegmentRelease
from schemas.plan import Plan
from schemas.record import Record
from schemas.segments import SegmentRecord, SegmentState
from schemas.topics import TopicSet

__all__ = ["Limits", "Scheduler", "Write"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be in flight, released and not yet checkpointed, over all jobs; and how often a segment is
    released at most."""

    segments: int = 16
    bytes: int = 4 << 30
    releases: int = 3


class Scheduler:
    """State of all jobs that have not ended. One instance owns it; it can be rebuilt by `restore`.

    `now_ns`: wall-clock time, for the records only; nothing is decided by it.
    """

    def __init__(
        self, topics: TopicSet, partitions: int, limits: Limits, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._topics, self._now_ns = topics, now_ns
        self.limits = limits
        """What may be in flight; follows the number of live workers."""
        self._runs: dict[str, Run] = {}
        self.ended: dict[str, JobRecord] = {}
        """Jobs known to have ended: a submission that is read again does not start them anew."""
        self._load: dict[int, int] = dict.fromkeys(range(partitions), 0)

    # -- what happened ---------------------------------------------------------------------------

    def submitted(self, record: JobRecord) -> list[Write]:
        """A new job: have it planned. A job already known, or ended, is left as it is."""
        known = record.job in self._runs or record.job in self.ended
        if known or record.state is not JobState.QUEUED:
            return []
        return self._plan(record)

    def planned(self, event: Planned, plan: Plan) -> list[Write]:
        """Its plan is stored: its segments wait for release."""
        run = self._runs.get(event.job)
        if run is None or run.plan is not None:
            return []
        run.plan = plan
        run.change(plan=event.plan)
        run.count(plan.warnings)
        run.rebuild(())
        writes = [self._set_state(run, JobState.RUNNING)]
        return writes + [self._segment(run.segments[i]) for i in sorted(run.segments)]

    def checkpointed(self, checkpoint: Checkpoint) -> list[Write]:
        """A segment is real. After the last one the job is finished off."""
        run = self._runs.get(checkpoint.job)
        if run is None:
            return self._orphan(checkpoint)
        segment = run.current(checkpoint.stream, checkpoint.epoch)
        if segment is None:
            return []
        run.done[checkpoint.segment] = checkpoint
        self._load[segment.partition] -= segment.bytes
        done = run.put(segment.model_copy(update={"state": SegmentState.DONE}))
        return [self._segment(done), *(self._finish(run) if run.complete else [])]

    def failed(self, event: Failed) -> list[Write]:
        """A service cannot do its part. A segment is released again where that may help; else its job fails,
        and what is in flight is given up."""
        run = self._runs.get(event.job)
        if run is None:
            return []
        if event.stream:
            segment = run.current(event.stream, event.epoch)
            if segment is None:
                return []
            if event.retryable and segment.tries < self.limits.releases:
                return self._again(run, segment, event.reason)
            if event.retryable:
                reasons = failed_again(segment, event.reason).reason
                event = event.model_copy(update={"reason": f"{reasons} (released {segment.tries} times)"})
        elif not self._concerns(run, event.role):
            return []
        if run.record.cancelling:
            return self._end(run, JobState.CANCELLED, "cancelled")
        run.change(failed_by=event.role, exit_code=event.exit_code)
        return self._end(run, JobState.FAILED, event.reason)

    def stuck(self, event: Warned) -> list[Write]:
        """A stream does not go on though workers live: release it again."""
        run = self._runs.get(event.job)
        if run is None or run.current(event.stream, event.epoch) is None:
            return []
        reason = f"{event.stream}: waited too long for {event.detail or 'its records'}"
        return self.failed(
            Failed(
                job=event.job, stream=event.stream, epoch=event.epoch, role=event.role, reason=reason,
                retryable=True,
            )
        )  # fmt: skip

    def cancelled(self, job: str) -> list[Write]:
        """The user wants no more of it. Who finishes it off already has the last word: it answers whether it
        was in time."""
        run = self._runs.get(job)
        if run is None or run.record.cancelling:
            return []
        if run.record.state is JobState.FINISHING:
            return [self._job(run, cancelling=True)]
        return self._end(run, JobState.CANCELLED, "cancelled")

    def paused(self, job: str, paused: bool) -> list[Write]:
        """The user wants nothing more of it released, or wants it to go on."""
        run = self._runs.get(job)
        if run is None or run.record.paused == paused:
            return []
        return [self._job(run, paused=paused)]

    def warned(self, event: Warned) -> list[Write]:
        """Something was not as it should be: counted in the job."""
        run = self._runs.get(event.job)
        if run is None:
            return []
        run.count({event.name: event.count})
        return [self._job(run)]

    def finished(self, event: Finished) -> list[Write]:
        """The result is in place."""
        run = self._runs.get(event.job)
        if run is None or run.record.state is not JobState.FINISHING:
            return []
        run.count(event.warnings)
        return self._end(run, JobState.DONE, "")

    def redriven(self, stream: str) -> list[Write]:
        """The user wants a segment of a job that runs once more."""
        job, index = split_stream(stream)
        run = self._runs.get(job)
        if run is None or index not in run.done or run.record.state is not JobState.RUNNING:
            return []
        return [self._redo(run, index)]

    def reopened(
        self,
        record: JobRecord,
        plan: Plan,
        segments: Iterable[SegmentRecord],
        checkpoints: Iterable[Checkpoint],
        gone: Container[str],
    ) -> list[Write]:
        """The user wants a segment of a job that ended once more: the job goes on. `checkpoints`: of all its
        segments; those in `gone` have lost their objects and are released again, as is what was in flight."""
        if record.job not in self.ended:
            return []
        del self.ended[record.job]
        run = self._runs[record.job] = Run(record, plan)
        kept = {s.segment: s for s in segments}
        top = record.epoch  # above it, whoever still takes the job for ended knows better
        found = list(checkpoints)
        run.done = {c.segment: c for c in found if c.stream not in gone}
        lost = {c.segment: c.epoch for c in found if c.stream in gone}
        for number, indices in enumerate(plan.orders):
            for index in indices:
                known = kept.get(index) or run.planned(index, number)
                if index in run.done:
                    known = known.model_copy(
                        update={"state": SegmentState.DONE, "epoch": run.done[index].epoch}
                    )
                else:
                    fresh = known.state is SegmentState.PLANNED and index not in lost
                    state = SegmentState.PLANNED if fresh else SegmentState.FAILED
                    epoch = max(top, known.epoch, lost.get(index, 0))
                    known = known.model_copy(update={"state": state, "epoch": epoch})
                kept[index] = known.model_copy(update={"tries": 0, "reason": ""})
        run.rebuild(kept.values())
        run.change(failed_by=None, exit_code=0, ended_ns=0, reason="", cancelling=False, paused=False)
        writes = [self._set_state(run, JobState.RUNNING)]
        writes += [self._segment(run.segments[i]) for i in sorted(run.segments)]
        return writes + (self._finish(run) if run.complete else [])

    def release(self) -> list[Write]:
        """Release as much as the limits allow: by priority, then the job with least in flight."""
        writes: list[Write] = []
        while (choice := self._next()) is not None:
            writes += self._release_order(*choice)
        return writes

    def forget(self, swept: Swept) -> list[Write]:
        """Jobs that ended long ago, and streams that nobody needs, go from the topics."""
        gone = [job for job in swept.jobs if self.ended.pop(job, None) is not None]
        idle = [w for w in swept.tombstones if split_stream(w.key)[0] not in self._runs]
        return idle + [Write(self._topics.jobs, job, None) for job in gone]

    # -- what is known ---------------------------------------------------------------------------

    def restore(
        self,
        jobs: Iterable[JobRecord],
        plans: Mapping[str, Plan],
        segments: Iterable[SegmentRecord],
        checkpoints: Iterable[Checkpoint],
    ) -> list[Write]:
        """Rebuild from the topics. Returns what has to be written for what nobody has decided yet."""
        records = sorted(jobs, key=lambda r: (r.created_ns, r.job))
        self._runs = {r.job: Run(r, plans.get(r.job)) for r in records if not r.state.ended}
        self.ended = {r.job: r for r in records if r.state.ended}
        self._load = dict.fromkeys(self._load, 0)
        of: dict[str, list[SegmentRecord]] = {}
        for segment in segments:
            of.setdefault(segment.job, []).append(segment)
        found = list(checkpoints)
        for checkpoint in found:
            run = self._runs.get(checkpoint.job)
            if run is not None:
                run.done[checkpoint.segment] = checkpoint
        writes: list[Write] = []
        for job, run in list(self._runs.items()):
            if run.plan is None:
                run.done.clear()
                if run.record.state is JobState.QUEUED:
                    del self._runs[job]
                    writes += self._plan(run.record)
                continue
            run.rebuild(of.get(job, ()))
            run.done = {i: c for i, c in run.done.items() if run.segments[i].state is SegmentState.DONE}
            for segment in run.flying.values():
                self._load[segment.partition] += segment.bytes
        for checkpoint in found:
            writes += self.checkpointed(checkpoint)
        return writes

    @property
    def records(self) -> dict[str, JobRecord]:
        """Of all jobs, also those that ended."""
        return self.ended | {job: run.record for job, run in self._runs.items()}

    @property
    def jobs(self) -> dict[str, JobState]:
        """Jobs that have not ended."""
        return {job: run.record.state for job, run in self._runs.items()}

    @property
    def in_flight(self) -> tuple[int, int]:
        """(segments, bytes) released and not yet checkpointed."""
        segments = sum(len(run.flying) for run in self._runs.values())
        return segments, sum(self._load.values())

    def needs(self) -> dict[Role, list[str]]:
        """Jobs that wait for work of each role."""
        flying = [job for job, run in self._runs.items() if run.flying]
        planning = [job for job, state in self.jobs.items() if state is JobState.PLANNING]
        finishing = [job for job, state in self.jobs.items() if state is JobState.FINISHING]
        return {
            Role.INGEST: planning + flying,
            Role.SWAPPER: flying,
            Role.ASSEMBLER: flying + finishing,
        }

    # -- how -------------------------------------------------------------------------------------

    def _plan(self, record: JobRecord) -> list[Write]:
        run = self._runs[record.job] = Run(record)
        return [
            self._set_state(run, JobState.PLANNING),
            Write(self._topics.orders_ingest, record.job, PlanOrder(job=record.job, spec=record.spec)),
        ]

    @staticmethod
    def _concerns(run: Run, role: Role) -> bool:
        """Whether a failure of a whole job is about what it is doing now, not about something done before."""
        if role is Role.INGEST:
            return run.plan is None
        return role is Role.CONTROL or run.record.state is JobState.FINISHING

    def _next(self) -> tuple[Run, list[int]] | None:
        """What is released next: (job, segments of one order); None if there is no room."""
        waiting = [run for run in self._runs.values() if run.waiting and not run.record.paused]
        if not waiting:
            return None
        run = min(waiting, key=lambda r: (-r.record.spec.priority, len(r.flying), r.record.created_ns))
        part = self._fitting(run, run.waiting[0])
        return (run, part) if part else None

    def _fitting(self, run: Run, order: list[int]) -> list[int]:
        """What there is room for: all of an order or nothing; of an order above the limits its first
        segments; at least one where nothing is in flight."""
        segments, size = self.in_flight
        count, total = len(order), sum(self._size(run, index) for index in order)
        if segments + count <= self.limits.segments and size + total <= self.limits.bytes:
            return order
        if count <= self.limits.segments and total <= self.limits.bytes:
            return []
        part: list[int] = []
        for index in order:
            size += self._size(run, index)
            segments += 1
            if segments > self.limits.segments or size > self.limits.bytes:
                break
            part.append(index)
        return part or (order[:1] if self.in_flight[0] == 0 else [])

    @staticmethod
    def _size(run: Run, index: int) -> int:
        assert run.plan is not None
        return run.plan.segments[index].bytes

    def _release_order(self, run: Run, indices: list[int]) -> list[Write]:
        """Release the first segments of the order that waits longest; they share an epoch."""
        order = run.waiting.pop(0)
        if rest := order[len(indices) :]:
            run.waiting.insert(0, rest)
        plan, spec = run.plan, run.record.spec
        assert plan is not None
        epoch = 1 + max(run.segments[index].epoch for index in indices)
        writes: list[Write] = []
        releases: list[SegmentRelease] = []
        for index in indices:
            segment, size = run.segments[index], self._size(run, index)
            partition = segment.partition if segment.partition >= 0 else self._least_loaded(segment.stream)
            self._load[partition] += size
            released = {
                "state": SegmentState.RELEASED, "epoch": epoch, "partition": partition, "bytes": size,
                "tries": segment.tries + 1,
            }  # fmt: skip
            segment = run.put(segment.model_copy(update=released))
            writes.append(self._segment(segment))
            if stands_in(plan, index, epoch):
                records = stream_of(plan, spec, index, epoch)
                writes += [write for record in records for write in self._both(run, segment, record)]
            else:
                releases.append(SegmentRelease(segment=index, partition=partition))
        if not releases:
            return writes
        decode = DecodeOrder(job=spec.job, epoch=epoch, spec=spec, plan=run.record.plan, releases=releases)
        key = f"{spec.job}/{run.segments[indices[0]].order}"  # parts of an order go to the same worker
        return [*writes, Write(self._topics.orders_ingest, key, decode)]

    def _least_loaded(self, stream: str) -> int:
        """The partition with the fewest bytes in flight; equal ones evenly by the stream's name."""
        n = len(self._load)
        first = crc32(stream.encode()) % n
        return min(((first + i) % n for i in range(n)), key=lambda p: self._load[p])

    def _again(self, run: Run, segment: SegmentRecord, reason: str) -> list[Write]:
        """Give up the present release of a segment and have it wait for the next."""
        self._load[segment.partition] -= segment.bytes
        again = run.put(failed_again(segment, reason))
        return [*self._abort(run, segment, reason), self._segment(again)]

    def _redo(self, run: Run, index: int) -> Write:
        """A segment that is done waits for release, with all its tries before it."""
        epoch = max(run.segments[index].epoch, run.done.pop(index).epoch)
        fresh = {"state": SegmentState.FAILED, "epoch": epoch, "tries": 0, "reason": ""}
        return self._segment(run.put(run.segments[index].model_copy(update=fresh)))

    def _abort(self, run: Run, segment: SegmentRecord, reason: str) -> list[Write]:
        abort = StreamAbort(job=segment.job, stream=segment.stream, epoch=segment.epoch, reason=reason)
        return self._both(run, segment, abort)

    def _both(self, run: Run, segment: SegmentRecord, record: Record) -> list[Write]:
        """A record for the stream's partition of frames and of swaps."""
        lane = run.record.spec.lane
        topics = (self._topics.frames(lane), self._topics.swaps(lane))
        return [Write(topic, segment.stream, record, segment.partition) for topic in topics]

    def _finish(self, run: Run) -> list[Write]:
        spec, segments = run.record.spec, [run.done[i] for i in sorted(run.done)]
        order = FinishOrder(job=spec.job, epoch=run.epoch, spec=spec, plan=run.record.plan, segments=segments)
        return [
            self._set_state(run, JobState.FINISHING),
            Write(self._topics.orders_finish, spec.job, order),
        ]

    def _end(self, run: Run, state: JobState, reason: str) -> list[Write]:
        """Close a job: its state, aborts for what is in flight, tombstones for what nobody needs any more.
        What a replay, or going on after a failure, needs stays until the sweep."""
        job = run.record.job
        run.change(reason=reason, paused=False, cancelling=False, ended_ns=self._now_ns(), epoch=run.epoch)
        writes = [self._set_state(run, state)]
        for _, segment in sorted(run.flying.items()):
            self._load[segment.partition] -= segment.bytes
            writes += self._abort(run, segment, reason or state.value)
        if state is not JobState.FAILED:
            writes += [Write(self._topics.segments, stream_id(job, i), None) for i in sorted(run.segments)]
        if state is JobState.CANCELLED:
            writes += [Write(self._topics.checkpoints, stream_id(job, i), None) for i in sorted(run.done)]
        del self._runs[job]
        self.ended[job] = run.record
        return writes

    def _orphan(self, checkpoint: Checkpoint) -> list[Write]:
        """A segment that became real when nobody wanted it any more."""
        ended = self.ended.get(checkpoint.job)
        if ended is not None and ended.state is not JobState.CANCELLED:
            return []
        return [Write(self._topics.checkpoints, checkpoint.stream, None)]

    def _set_state(self, run: Run, state: JobState) -> Write:
        return self._job(run, state=state)

    def _job(self, run: Run, **changes: object) -> Write:
        return Write(self._topics.jobs, run.record.job, run.change(**changes))

    def _segment(self, segment: SegmentRecord) -> Write:
        return Write(self._topics.segments, segment.stream, segment)
