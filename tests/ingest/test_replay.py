"""The plan of a replay: which batches stand for which frames, and what is decoded again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.replay import CONTEXT_MISSING, DECODED_AGAIN, replay_plan
from schemas.checkpoint import Checkpoint, FrameRange
from schemas.errors import InputError
from schemas.frames import RangeRef, VideoFormat
from schemas.job import JobSpec
from schemas.orders import FinishOrder
from schemas.plan import Plan, Segment

pytestmark = pytest.mark.unit
FORMAT = VideoFormat(width=16, height=16, pixel_format="gray")
TICKS, FRAMES, CONTEXT = 40, 25, 5
"""Ticks of 1/1000 s a frame, frames a segment, context frames of all but the first."""


def old_plan(segments: int = 4) -> Plan:
    count = segments * FRAMES
    return Plan(
        job="old",
        format=FORMAT,
        time_base=(1, 1000),
        origin=(1, 2),
        seekable=True,
        pts=[n * TICKS for n in range(count)],
        duration=[TICKS] * count,
        keys=list(range(0, count, FRAMES)),
        segments=[
            Segment(
                index=n, first=n * FRAMES, frames=FRAMES, context=CONTEXT if n else 0,
                start=n * FRAMES * TICKS, end=(n + 1) * FRAMES * TICKS, bytes=100,
            )
            for n in range(segments)
        ],
        orders=[[0, 1], list(range(2, segments))],
    )  # fmt: skip


def checkpoint(plan: Plan, number: int, missing: int = 0) -> Checkpoint:
    segment = plan.segments[number]
    pts = plan.pts[segment.first : segment.first + segment.frames - missing]
    count = len(pts) + segment.context
    at = FrameRange(
        topic="frames", partition=2, first_offset=number * 100, last_offset=number * 100 + 9,
        count=count, context=segment.context,
    )  # fmt: skip
    return Checkpoint(
        job="old", stream=f"old/{number}", epoch=3, segment=number, object="o", time_base=(1, 1000), pts=pts,
        end=segment.end, reorder=0, bytes=1, encoder="e", frames=at,
    )  # fmt: skip


def spec(job: str, **plan: Any) -> JobSpec:
    return JobSpec.model_validate({"job": job, "input": "i.mp4", "output": "o.mp4", "plan": plan})


def replay(gone: set[int] | None = None, missing: int = 0, **plan: Any) -> Plan:
    old = old_plan()
    finish = FinishOrder(
        job="old", spec=spec("old"), plan="p", segments=[checkpoint(old, n, missing) for n in range(4)]
    )
    lost = gone or set()
    return replay_plan(old, finish, spec("new", **plan), "", lambda at: at.first_offset // 100 not in lost)


def ranges(plan: Plan) -> list[RangeRef]:
    found = [ref for ref in plan.ranges if ref is not None]
    assert len(found) == len(plan.ranges)
    return found


def test_the_whole_job_is_the_old_plan_with_a_range_for_each_segment() -> None:
    plan, old = replay(), old_plan()
    assert (plan.pts, plan.segments, plan.orders, plan.keys) == (
        old.pts, old.segments, old.orders, old.keys
    )  # fmt: skip
    assert (plan.job, plan.source, plan.origin, plan.warnings) == ("new", None, (1, 2), {})
    assert [(r.stream, r.source, r.source_epoch, r.first_offset) for r in ranges(plan)] == [
        (f"new/{n}", f"old/{n}", 3, n * 100) for n in range(4)
    ]
    assert [(r.count, r.context) for r in ranges(plan)] == [(25, 0), (30, 5), (30, 5), (30, 5)]


def test_a_part_begins_and_ends_at_the_frame() -> None:
    plan = replay(trim_start=(13, 10), trim_end=(21, 10))  # frames 33 (1.32 s) to 52 (2.08 s)
    assert len(plan.pts) == 20
    assert plan.pts[0] == 20
    assert plan.pts[-1] == 780
    assert [(s.first, s.frames, s.context) for s in plan.segments] == [(0, 17, 0), (17, 3, 5)]
    assert [(r.source, r.count, r.context, r.shift) for r in ranges(plan)] == [
        ("old/1", 30, 13, -1300),
        ("old/2", 8, 5, -1300),
    ]
    assert plan.orders == [[0], [1]]
    assert Fraction(*plan.origin) == Fraction(18, 10)
    assert plan.span == ((9, 5), (13, 5))
    assert plan.keys == [0, 17]
    assert plan.duration[-1] == 20, "the last frame ends with the part"


def test_what_has_left_the_topic_is_decoded_again_and_said() -> None:
    plan = replay(gone={1})
    assert [ref is None for ref in plan.ranges] == [False, True, False, False]
    assert plan.warnings == {DECODED_AGAIN: 1}


def test_decoding_a_part_again_shows_the_old_inputs_frames() -> None:
    plan = replay(gone={2}, trim_start=(13, 10))
    assert plan.source is not None
    assert plan.source.picks == list(range(33, 100))
    assert plan.source.pts == old_plan().pts


def test_an_engine_that_wants_more_context_than_there_is_says_so() -> None:
    assert replay(context_frames=12).warnings == {CONTEXT_MISSING: 3}


def test_frames_that_were_missing_are_not_waited_for() -> None:
    assert [(r.count, r.context) for r in ranges(replay(missing=2))][1] == (28, 5)


def test_a_part_without_frames_is_refused_with_the_length() -> None:
    with pytest.raises(InputError, match=r"between 4\.500 s and 4\.000 s.*lasts 4\.000 s"):
        replay(trim_start=(9, 2))


@given(st.integers(0, 4000), st.integers(0, 4000))
def test_any_part_is_covered_exactly_by_its_ranges(one: int, other: int) -> None:
    start, end = sorted((one, other))
    wanted = [tick for tick in old_plan().pts if start <= tick < end]
    try:
        plan = replay(trim_start=(start, 1000), trim_end=(end, 1000))
    except InputError:
        assert not wanted
        return
    assert [tick + start for tick in plan.pts] == wanted
    assert sum(ref.count - ref.context for ref in ranges(plan)) == len(wanted)
    assert [s.frames for s in plan.segments] == [ref.count - ref.context for ref in ranges(plan)]
