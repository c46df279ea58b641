"""Orders: what control tells ingest and the assembler to do."""

from __future__ import annotations

from pydantic import Field

from schemas.checkpoint import Checkpoint
from schemas.job import JobSpec
from schemas.record import Model, Record, register


@register
class PlanOrder(Record):
    """orders.ingest: scan the input, store plan and sides, answer with a Planned event."""

    KIND = "order.plan"

    spec: JobSpec


class SegmentRelease(Model):
    """One segment of an order: which, and the partition of its stream on frames and swaps."""

    segment: int
    partition: int


@register
class DecodeOrder(Record):
    """orders.ingest: decode a run of segments in one pass. `plan` is the object name of the Plan."""

    KIND = "order.decode"

    spec: JobSpec
    plan: str
    releases: list[SegmentRelease] = Field(min_length=1)


@register
class FinishOrder(Record):
    """orders.finish: join committed segments, mux the other tracks, put the result in place."""

    KIND = "order.finish"

    spec: JobSpec
    plan: str
    segments: list[Checkpoint] = Field(min_length=1)
    """In order of presentation."""
