"""One sample of every record kind, with the body it carries. The golden bytes are made from these."""

from __future__ import annotations

from schemas.checkpoint import Checkpoint, FrameRange
from schemas.events import (
    Alive,
    Cancel,
    Dead,
    Failed,
    Finished,
    Pause,
    Planned,
    Progress,
    Redrive,
    Resume,
    Role,
    Warned,
)
from schemas.frames import (
    FrameBatch,
    FrameFlag,
    PayloadCodec,
    RangeRef,
    StreamAbort,
    StreamEnd,
    StreamStart,
    VideoFormat,
)
from schemas.job import EncodeSpec, JobRecord, JobSpec, JobState, PlanSpec, SwapSpec
from schemas.orders import DecodeOrder, FinishOrder, PlanOrder, SegmentRelease
from schemas.plan import Plan, Segment, SideTrack
from schemas.record import Record
from schemas.segments import SegmentRecord, SegmentState
from schemas.swaps import Failure, FailurePolicy, Patch, SwapBatch, SwapFlag

FORMAT = VideoFormat(
    width=6,
    height=4,
    pixel_format="yuv420p",
    color_range="tv",
    matrix="bt709",
    primaries="bt709",
    transfer="bt709",
    sample_aspect=(4, 3),
    rotation=90,
    field_order="tt",
)
SPEC = JobSpec(
    job="j1",
    revision=2,
    priority=3,
    input="/in/clip.mp4",
    output="/out/clip.mkv",
    plan=PlanSpec(segment_seconds=2.5, context_frames=12, payload=PayloadCodec.LOSSLESS),
    swap=SwapSpec(
        face="faces/ab", sources=["a.jpg"], consent="c-17", accepted={"m": "nc"}, options={"max_faces": 2}
    ),
    encode=EncodeSpec(encoder="libx265", quality=20, preset="fast", threads=2, options={"tune": "grain"}),
)
CHECKPOINT = Checkpoint(
    job="j1",
    stream="j1/1",
    epoch=4,
    segment=1,
    object="segments/j1/1/4/a.mp4",
    time_base=(1, 90000),
    pts=[900, 3903],
    end=6906,
    reorder=2,
    bytes=1234,
    encoder="libx264 core 164",
    engine="mesh 1",
    swapped=2,
    warnings={"freeze": 1},
    frames=FrameRange(topic="f.frames.batch", partition=5, first_offset=7, last_offset=9, count=3, context=1),
)

SAMPLES: dict[str, tuple[Record, bytes]] = {
    "frames": (
        FrameBatch(
            job="j1",
            stream="j1/0",
            epoch=4,
            revision=2,
            start_offset=17,
            seq=3,
            ordinal=103,
            format=FORMAT,
            time_base=(1001, 30000),
            pts=[100, 101],
            duration=[1, 1],
            flags=[int(FrameFlag.KEY), int(FrameFlag.CONTEXT | FrameFlag.CORRUPT)],
            spans=[(0, 24), (24, 6), (30, 6), (36, 24), (60, 6), (66, 6)],
            stamps={"decoded": 1764500000000000000},
        ),
        bytes(range(72)),
    ),
    "start": (
        StreamStart(
            job="j1",
            stream="j1/0",
            epoch=4,
            revision=2,
            segment=0,
            start=100,
            end=220,
            time_base=(1001, 30000),
            frames=120,
            context=12,
            format=FORMAT,
            rate=(30000, 1001),
        ),
        b"",
    ),
    "end": (
        StreamEnd(job="j1", stream="j1/0", epoch=4, count=132, context=12, end=220, warnings={"missing": 1}),
        b"",
    ),
    "abort": (StreamAbort(job="j1", stream="j1/0", epoch=4, reason="cancelled"), b""),
    "range": (
        RangeRef(
            job="j1",
            stream="j1/0",
            epoch=1,
            topic="f.frames.batch",
            partition=3,
            first_offset=5,
            last_offset=9,
            source="j0/0",
            source_epoch=2,
            start=100,
            end=220,
            count=132,
            context=12,
            shift=-100,
        ),
        b"",
    ),
    "swaps": (
        SwapBatch(
            job="j1",
            stream="j1/0",
            epoch=4,
            seq=3,
            count=2,
            patches=[[Patch(x=2, y=0, width=4, height=2, offset=0)], []],
            flags=[0, int(SwapFlag.NO_FACE)],
            engine="mesh",
            model="mesh 1",
            timings={"engine": 4.5},
        ),
        bytes(range(100, 112)),
    ),
    "swaps-failed": (
        SwapBatch(
            job="j1",
            stream="j1/0",
            epoch=4,
            seq=3,
            count=2,
            engine="mesh",
            failed=Failure(reason="RuntimeError: no", policy=FailurePolicy.FREEZE),
        ),
        b"",
    ),
    "job": (SPEC, b""),
    "jobstate": (
        JobRecord(
            job="j1",
            spec=SPEC,
            state=JobState.FAILED,
            reason="no",
            plan="jobs/j1/plan",
            warnings={"w": 1},
            failed_by=Role.ASSEMBLER,
            exit_code=1,
            ended_ns=1_700_000_000_000_000_000,
        ),
        b"",
    ),
    "plan": (
        Plan(
            job="j1",
            format=FORMAT,
            time_base=(1, 30),
            rate=(30, 1),
            seekable=True,
            pts=[0, 1],
            duration=[1, 1],
            keys=[0],
            segments=[Segment(index=0, first=0, frames=2, context=0, start=0, end=2, bytes=72)],
            orders=[[0]],
            sides="jobs/j1/sides",
            metadata={"title": "x"},
            chapters=[(0, 1, 1, 1000, "one")],
            tracks=[
                SideTrack(stream=0, shift=1024, kind="audio", codec="aac", time_base=(1, 48000), packets=9)
            ],
        ),
        b"",
    ),
    "order.plan": (PlanOrder(job="j1", spec=SPEC), b""),
    "order.decode": (
        DecodeOrder(
            job="j1",
            epoch=4,
            spec=SPEC,
            plan="jobs/j1/plan",
            releases=[SegmentRelease(segment=0, partition=5)],
        ),
        b"",
    ),
    "order.finish": (FinishOrder(job="j1", spec=SPEC, plan="jobs/j1/plan", segments=[CHECKPOINT]), b""),
    "checkpoint": (CHECKPOINT, b""),
    "segment": (
        SegmentRecord(
            job="j1",
            stream="j1/1",
            epoch=4,
            segment=1,
            order=1,
            state=SegmentState.RELEASED,
            partition=2,
            bytes=72,
            tries=2,
            reason="j1/1: the store was gone",
        ),
        b"",
    ),
    "event.planned": (Planned(job="j1", plan="jobs/j1/plan", frames=2, segments=1), b""),
    "event.progress": (Progress(job="j1", stream="j1/0", epoch=4, role=Role.SWAPPER, frames=30), b""),
    "event.warning": (Warned(job="j1", role=Role.INGEST, name="corrupt", count=2, detail="packet 9"), b""),
    "event.failed": (Failed(job="j1", stream="j1/0", role=Role.ASSEMBLER, reason="no"), b""),
    "event.finished": (Finished(job="j1", output="/out/clip.mkv", frames=2, bytes=99), b""),
    "event.cancel": (Cancel(job="j1"), b""),
    "event.pause": (Pause(job="j1"), b""),
    "event.resume": (Resume(job="j1"), b""),
    "event.redrive": (Redrive(job="j1", stream="j1/0"), b""),
    "event.alive": (Alive(role=Role.INGEST, worker="h-1", ready=True, host="h", pid=1), b""),
    "dead": (
        Dead(
            job="j1",
            stream="j1/0",
            epoch=4,
            topic="f.frames.batch",
            partition=1,
            offset=9,
            seq=3,
            count=2,
            reason="RuntimeError: no",
            stack="...",
            policy=FailurePolicy.FAIL,
        ),
        b"",
    ),
}
"""By the name of the golden file."""
