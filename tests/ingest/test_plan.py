"""How inputs are cut, for any timeline."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.plan import plan_orders, plan_segments
from ingest.timeline import Timeline, durations
from schemas.frames import VideoFormat
from schemas.job import PlanSpec
from schemas.plan import Segment

pytestmark = pytest.mark.unit

VIDEO = VideoFormat(width=64, height=48, pixel_format="yuv420p")
BASE = Fraction(1, 1000)


def cut(timeline: Timeline, seconds: float = 4.0, context: int = 0) -> list[Segment]:
    return plan_segments(timeline, BASE, VIDEO, PlanSpec(segment_seconds=seconds, context_frames=context))


def steady(frames: int, step: int, keys: list[int]) -> Timeline:
    return Timeline([i * step for i in range(frames)], [step] * frames, keys)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    steps = draw(st.lists(st.integers(1, 3000), min_size=0, max_size=200))
    pts = [draw(st.integers(-5000, 5000))]
    for step in steps:
        pts.append(pts[-1] + step)
    keys = sorted(draw(st.sets(st.integers(0, len(pts) - 1), max_size=20)) | {0})
    return Timeline(pts, durations(pts, draw(st.integers(0, 100)), 40), keys)


@given(timelines(), st.floats(0.02, 10), st.integers(0, 5))
def test_every_frame_is_in_exactly_one_segment_of_bounded_length(
    timeline: Timeline, seconds: float, context: int
) -> None:
    segments = cut(timeline, seconds, context)
    assert [s.index for s in segments] == list(range(len(segments)))
    covered = [ordinal for s in segments for ordinal in range(s.first, s.first + s.frames)]
    assert covered == list(range(len(timeline.pts)))
    for segment in segments:
        assert segment.frames > 0
        assert segment.frames == 1 or segment.end - segment.start <= Fraction(seconds) / BASE * Fraction(3, 2)
        assert segment.start == timeline.pts[segment.first]
        assert segment.context == min(context, segment.first)
        assert segment.bytes == VIDEO.frame_bytes * (segment.frames + segment.context)
    ends = [timeline.pts[s.first] for s in segments[1:]] + [timeline.pts[-1] + timeline.duration[-1]]
    assert [s.end for s in segments] == ends


@given(timelines(), st.floats(0.02, 10))
def test_a_border_is_a_key_frame_where_one_lies_near(timeline: Timeline, seconds: float) -> None:
    length = Fraction(seconds) / BASE
    segments = cut(timeline, seconds)
    for before, after in pairwise(segments):
        near = [
            key
            for key in timeline.keys
            if before.start + length / 2 <= timeline.pts[key] <= before.start + length * 3 / 2
            and key > before.first
        ]
        if near:
            wished = before.start + length
            nearest = min(abs(timeline.pts[key] - wished) for key in near)
            assert after.first in near
            assert abs(after.start - wished) == nearest


@given(timelines(), st.floats(0.02, 10), st.booleans())
def test_orders_are_runs_that_begin_at_key_frames(timeline: Timeline, seconds: float, seekable: bool) -> None:
    segments = cut(timeline, seconds)
    orders = plan_orders(segments, timeline, seekable)
    assert [index for order in orders for index in order] == [s.index for s in segments]
    for order in orders[1:]:
        assert segments[order[0]].first in timeline.keys
    for order in orders:
        assert not seekable or not any(segments[index].first in timeline.keys for index in order[1:])
    assert seekable or len(orders) == 1


def test_two_second_groups_of_pictures_are_cut_every_four_seconds() -> None:
    segments = cut(steady(500, 40, list(range(0, 500, 50))))
    assert [s.first for s in segments] == [0, 100, 200, 300, 400]


def test_one_key_frame_is_cut_anywhere_and_decoded_in_one_pass() -> None:
    timeline = steady(500, 40, [0])
    segments = cut(timeline)
    assert [s.first for s in segments] == [0, 100, 200, 300, 400]
    assert plan_orders(segments, timeline, True) == [[0, 1, 2, 3, 4]]


def test_a_short_rest_joins_the_last_segment() -> None:
    assert [s.frames for s in cut(steady(240, 40, [0]))] == [100, 140]


def test_a_frame_that_lasts_long_is_a_segment_of_its_own() -> None:
    pts = [*range(0, 1000, 40), *range(60_000, 61_000, 40)]
    segments = cut(Timeline(pts, durations(pts, 40, 40), [0]))
    assert [(s.first, s.frames) for s in segments] == [(0, 24), (24, 1), (25, 25)]
