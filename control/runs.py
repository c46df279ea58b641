"""The state of one job that has not ended, as the scheduler keeps it. Pure data; no decisions."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from schemas.checkpoint import Checkpoint
from schemas.job import JobRecord, split_stream, stream_id
from schemas.plan import Plan
from schemas.record import Record
from schemas.segments import SegmentRecord, SegmentState

MOST_REASONS = 3
"""Different reasons that are kept of a segment that failed again and again."""


@dataclass(frozen=True, slots=True)
class Write:
    """A record to put on a topic; `record` None is a tombstone, `partition` -1 leaves it to the key."""

    topic: str
    key: str
    record: Record | None
    partition: int = -1


@dataclass(slots=True)
class Swept:
    """What a sweep found: tombstones of streams, and jobs to be forgotten."""

    tombstones: list[Write] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """A job that has not ended."""

    record: JobRecord
    plan: Plan | None = None
    segments: dict[int, SegmentRecord] = field(default_factory=dict)
    """Where each segment stands, as the topic says."""
    flying: dict[int, SegmentRecord] = field(default_factory=dict)
    """Those of them that are released and not done."""
    done: dict[int, Checkpoint] = field(default_factory=dict)
    waiting: list[list[int]] = field(default_factory=list)
    """Runs of segments to be released, each decoded in one pass; in order of their first."""

    @property
    def complete(self) -> bool:
        return self.plan is not None and len(self.done) == len(self.plan.segments)

    @property
    def epoch(self) -> int:
        """The highest of its segments."""
        return max((segment.epoch for segment in self.segments.values()), default=0)

    def change(self, **fields: Any) -> JobRecord:
        """Change the job's record."""
        self.record = self.record.model_copy(update=fields)
        return self.record

    def count(self, warnings: dict[str, int]) -> None:
        """Add warnings to the job's."""
        self.change(warnings=dict(Counter(self.record.warnings) + Counter(warnings)))

    def planned(self, index: int, order: int) -> SegmentRecord:
        """The record of a segment that was never released."""
        job = self.record.job
        return SegmentRecord(
            job=job, stream=stream_id(job, index), segment=index, order=order, state=SegmentState.PLANNED
        )

    def current(self, stream: str, epoch: int) -> SegmentRecord | None:
        """The segment in flight under this epoch; None for an earlier release, and for one that is done."""
        try:
            job, index = split_stream(stream)
        except ValueError:
            return None
        segment = self.flying.get(index)
        known = job == self.record.job and segment is not None and segment.epoch == epoch
        return segment if known else None

    def put(self, segment: SegmentRecord) -> SegmentRecord:
        """A segment changed: keep it where it belongs now."""
        index = segment.segment
        self.segments[index] = segment
        self.flying.pop(index, None)
        if segment.state is SegmentState.RELEASED:
            self.flying[index] = segment
        elif segment.state is SegmentState.FAILED:
            insort(self.waiting, [index])
        return segment

    def rebuild(self, records: Iterable[SegmentRecord]) -> None:
        """Take the segments as the topic has them: those planned wait in their orders, failed ones alone."""
        assert self.plan is not None
        found = {record.segment: record for record in records}
        for number, indices in enumerate(self.plan.orders):
            for index in indices:
                self.put(found.get(index) or self.planned(index, number))
            rest = [i for i in indices if self.segments[i].state is SegmentState.PLANNED]
            if rest:
                insort(self.waiting, rest)


def failed_again(segment: SegmentRecord, reason: str) -> SegmentRecord:
    """A segment whose release failed: it waits to be released again."""
    reasons = segment.reason.split("; ") if segment.reason else []
    if reason not in reasons:
        reasons = [*reasons, reason][-MOST_REASONS:]
    return segment.model_copy(update={"state": SegmentState.FAILED, "reason": "; ".join(reasons)})
