from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assembler.timing import decode_times, durations, reorder_depth

pytestmark = pytest.mark.unit

rising = st.lists(st.integers(-(10**6), 10**9), min_size=1, max_size=40, unique=True).map(sorted)


@st.composite
def reordered(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Times in presentation order, and the same cut into segments, each shuffled as an encoder might."""
    pts = draw(rising)
    cuts = sorted(draw(st.sets(st.integers(1, len(pts)), max_size=3)))
    segments = [pts[a:b] for a, b in itertools.pairwise([0, *cuts, len(pts)]) if a < b]
    return pts, [draw(st.permutations(segment)) for segment in segments]


@given(reordered())
def test_decode_times_rise_and_never_pass_the_packets_own_time(
    case: tuple[list[int], list[list[int]]],
) -> None:
    pts, segments = case
    depth = max(reorder_depth(segment) for segment in segments)
    dts = decode_times(pts, depth)
    assert all(a < b for a, b in itertools.pairwise(dts))
    packets = [value for segment in segments for value in segment]
    assert all(decode <= shown for decode, shown in zip(dts, packets, strict=True))


@pytest.mark.parametrize(
    ("order", "depth"), [([0, 1, 2], 0), ([0, 2, 1], 1), ([0, 4, 2, 1, 3], 2), ([5], 0), ([], 0)]
)
def test_reorder_depth(order: list[int], depth: int) -> None:
    assert reorder_depth(order) == depth


def test_the_first_decode_times_lie_before_the_first_frame() -> None:
    assert decode_times([100, 140, 150, 190], 2) == [20, 60, 100, 140]
    assert decode_times([7], 1) == [6]


def test_durations_reach_to_the_next_frame_and_the_end() -> None:
    assert durations([0, 10, 15], 40) == [10, 5, 25]
    assert durations([3], 3) == [0]
    assert durations([], 9) == []
