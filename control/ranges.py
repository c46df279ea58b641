"""What control writes itself for a segment whose batches are still in Kafka: three small records."""

from __future__ import annotations

from typing import Any

from schemas.frames import StreamEnd, StreamStart
from schemas.job import JobSpec
from schemas.plan import Plan
from schemas.record import Record


def stands_in(plan: Plan, segment: int, epoch: int) -> bool:
    """Whether batches of another stream stand for a segment at this release; at a later one it is decoded."""
    return epoch == 1 and bool(plan.ranges) and plan.ranges[segment] is not None


def stream_of(plan: Plan, spec: JobSpec, segment: int, epoch: int) -> list[Record]:
    """The whole stream of a segment: start, range, end. `stands_in` must hold."""
    ref = plan.ranges[segment]
    assert ref is not None
    of = plan.segments[segment]
    last = of.first + of.frames - 1
    who: dict[str, Any] = {"job": ref.job, "stream": ref.stream, "epoch": epoch}
    start = StreamStart(
        **who,
        revision=spec.revision,
        segment=segment,
        start=of.start,
        end=of.end,
        time_base=plan.time_base,
        frames=of.frames,
        context=ref.context,
        format=plan.format,
        rate=plan.rate,
        bitrate=plan.bitrate,
        encoder=plan.encoder,
    )
    end = StreamEnd(**who, count=ref.count, context=ref.context, end=plan.pts[last] + plan.duration[last])
    missing = of.frames - (ref.count - ref.context)
    if missing > 0:
        end = end.model_copy(update={"warnings": {"frames_missing": missing}})
    return [start, ref.model_copy(update={"epoch": epoch}), end]
