"""Jobs, plans and checkpoints for tests of the scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from control.scheduler import Scheduler, Write
from schemas.checkpoint import Checkpoint
from schemas.events import Planned
from schemas.frames import VideoFormat
from schemas.job import JobRecord, JobSpec
from schemas.orders import DecodeOrder
from schemas.plan import Plan, Segment
from schemas.topics import TopicSet

TOPICS = TopicSet("t.")
FORMAT = VideoFormat(width=64, height=48, pixel_format="yuv420p")


def job(name: str, priority: int = 0) -> JobRecord:
    return JobRecord(job=name, spec=JobSpec(job=name, input="in.mp4", output="out.mp4", priority=priority))


def plan(name: str, segments: int, size: int = 100, run: int = 1) -> Plan:
    return Plan(
        job=name,
        format=FORMAT,
        time_base=(1, 30),
        seekable=True,
        pts=list(range(segments)),
        duration=[1] * segments,
        keys=list(range(segments)),
        segments=[
            Segment(index=i, first=i, frames=1, context=0, start=i, end=i + 1, bytes=size)
            for i in range(segments)
        ],
        orders=[list(range(i, min(i + run, segments))) for i in range(0, segments, run)],
    )


def start(scheduler: Scheduler, record: JobRecord, of: Plan) -> list[Write]:
    name = record.job
    writes = scheduler.submitted(record)
    event = Planned(job=name, plan=f"jobs/{name}/plan", frames=1, segments=len(of.segments))
    return writes + scheduler.planned(event, of)


def checkpoint(name: str, segment: int, epoch: int = 1) -> Checkpoint:
    return Checkpoint(
        job=name,
        stream=f"{name}/{segment}",
        epoch=epoch,
        segment=segment,
        object="o",
        time_base=(1, 30),
        pts=[segment],
        end=segment + 1,
        reorder=0,
        bytes=1,
        encoder="x",
    )


def orders(writes: Sequence[Write]) -> list[DecodeOrder]:
    return [w.record for w in writes if isinstance(w.record, DecodeOrder)]


def segments_of(writes: Sequence[Write]) -> list[list[int]]:
    """Segments of each order to decode."""
    return [[r.segment for r in o.releases] for o in orders(writes)]
