"""Which frames trimming and resampling keep, and when they are shown."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.picks import Picks, pick
from ingest.timeline import Timeline, durations
from schemas.errors import InputError
from schemas.job import PlanSpec

pytestmark = pytest.mark.unit

MS = Fraction(1, 1000)


def made(pts: list[int], base: Fraction = MS, keys: list[int] | None = None, **spec: Any) -> Picks:
    timeline = Timeline(pts, durations(pts, 0, 40), keys or [0])
    picks = pick(timeline, base, PlanSpec(**spec), 1000)
    assert picks is not None
    return picks


def test_nothing_asked_for_changes_nothing() -> None:
    assert pick(Timeline([0], [1], [0]), MS, PlanSpec(), 10) is None


def test_half_the_rate_keeps_every_second_frame() -> None:
    picks = made(list(range(0, 400, 20)), fps=(25, 1))
    assert picks.numbers == list(range(0, 20, 2))
    assert picks.timeline.pts == list(range(10))
    assert picks.base == Fraction(1, 25)
    assert picks.origin == 0


def test_rounded_times_of_containers_pick_evenly() -> None:
    """30 frames a second in Matroska's milliseconds."""
    assert made([round(n * 1000 / 30) for n in range(30)], fps=(15, 1)).numbers == list(range(0, 30, 2))


def test_ticks_as_long_as_frames_are_no_rounding() -> None:
    """AVI and Theora: 1/12 s is frame 2 and a half, and shows frame 2."""
    assert made(list(range(10)), Fraction(1, 30), fps=(12, 1)).numbers == [0, 2, 5, 7]


def test_a_higher_rate_repeats_frames() -> None:
    assert made([0, 40, 80], fps=(50, 1)).numbers == [0, 0, 1, 1, 2, 2]


def test_a_held_frame_is_shown_at_every_tick() -> None:
    picks = made([0, 40, 500], fps=(10, 1))
    assert picks.numbers == [0, 1, 1, 1, 1, 2, 2, 2, 2, 2]


def test_a_start_off_the_grid_shifts_the_result_by_less_than_a_frame() -> None:
    picks = made([21, 61, 101], fps=(25, 1))
    assert picks.timeline.pts == [1, 2, 3]
    assert picks.origin == Fraction(21, 1000) - Fraction(1, 25)


def test_an_odd_rate_is_exact() -> None:
    picks = made(list(range(0, 4000, 20)), fps=(24_000, 1001))
    assert picks.base == Fraction(1001, 24_000)
    assert len(picks.numbers) == 96


def test_trimming_counts_from_the_first_picture() -> None:
    picks = made(list(range(1000, 3000, 40)), trim_start=(1, 1), trim_end=(3, 2))
    assert picks.numbers == list(range(25, 38))
    assert picks.timeline.pts == [n * 40 for n in range(13)]
    assert picks.timeline.duration[-1] == 20
    assert picks.origin == 2
    assert picks.span == ((2, 1), (5, 2))


def test_only_the_end_trimmed_leaves_the_clock_alone() -> None:
    picks = made(list(range(100, 1100, 40)), trim_end=(1, 5))
    assert picks.timeline.pts == [100, 140, 180, 220, 260]
    assert picks.origin == 0
    assert picks.span == (None, (3, 10))


def test_a_picture_that_stays_on_over_the_cut_begins_there() -> None:
    picks = made([0, 40, 2040, 2080], trim_start=(1, 1))
    assert picks.numbers == [1, 2, 3]
    assert picks.timeline.pts == [0, 1040, 1080]
    assert picks.timeline.duration == [1040, 40, 40]


def test_trim_and_rate_together() -> None:
    picks = made(list(range(0, 2000, 20)), trim_start=(1, 2), trim_end=(1, 1), fps=(25, 1))
    assert picks.numbers == list(range(25, 50, 2))
    assert picks.timeline.pts == list(range(13))
    assert picks.origin == Fraction(1, 2)


def test_key_frames_left_out_count_for_the_next_frame_kept() -> None:
    picks = made(list(range(0, 400, 20)), keys=[0, 5, 10], fps=(25, 1))
    assert picks.timeline.keys == [0, 3, 5]


@pytest.mark.parametrize("spec", [{"trim_start": (9, 1)}, {"trim_start": (2, 1), "trim_end": (1, 1)}])
def test_nothing_left_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="trimming leaves no frame"):
        made(list(range(0, 3000, 40)), **spec)


def test_too_many_frames_are_refused() -> None:
    with pytest.raises(InputError, match="1000 are the limit"):
        made([0, 100_000], fps=(100, 1))


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=60),
    st.integers(-3000, 3000),
    st.fractions(Fraction(1, 2), 120),
)
def test_each_tick_shows_what_the_input_shows_then(steps: list[int], start: int, rate: Fraction) -> None:
    pts = [start]
    for step in steps:
        pts.append(pts[-1] + step)
    timeline = Timeline(pts, durations(pts, 0, 40), [0])
    picks = pick(timeline, MS, PlanSpec(fps=(rate.numerator, rate.denominator)), 10**6)
    assert picks is not None
    assert abs(picks.origin) < 1 / rate
    end = pts[-1] + timeline.duration[-1]
    last = picks.timeline.pts[-1] / rate + picks.origin
    assert last < end * MS <= last + 1 / rate + MS
    for tick, number in zip(picks.timeline.pts, picks.numbers, strict=True):
        moment = (tick / rate + picks.origin) / MS
        assert pts[number] <= moment + 1
        assert number == len(pts) - 1 or moment < pts[number + 1]
