"""The rule for timestamps, on made-up ones."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.timeline import WRAP, Clock, Mend, in_order, mend_clocks

pytestmark = pytest.mark.unit

TICK = Fraction(1, 90_000)
STEP = 3000


def order(ticks: list[int | None], step: int = 10) -> tuple[list[int], dict[str, int]]:
    changed: Counter[str] = Counter()
    return in_order(ticks, step, changed), dict(+changed)


def test_times_that_rise_stay() -> None:
    assert order([5, 7, 20, 21, 900]) == ([5, 7, 20, 21, 900], {})


def test_times_in_the_order_of_decoding_are_sorted() -> None:
    assert order([0, 20, 30, 10, 50, 60, 40, 70]) == (
        [0, 10, 20, 30, 40, 50, 60, 70],
        {"timestamps_sorted": 6},
    )


@pytest.mark.parametrize("wrong", [None, 5000, -5000, 490, 510])
def test_one_time_out_of_line_is_put_between_its_neighbours(wrong: int | None) -> None:
    ticks: list[int | None] = [n * 10 for n in range(100)]
    ticks[50] = wrong
    pts, changed = order(ticks)
    assert all(a < b for a, b in pairwise(pts))
    assert sum(tick != n * 10 for n, tick in enumerate(pts)) <= (2 if wrong == 510 else 1)
    assert abs(pts[50] - 500) <= 10
    assert changed == {"timestamps_repaired": 1}


def test_an_outlier_among_the_last_frames_moves_no_other() -> None:
    assert order([0, 10, 20, 30, 40, 9000, 60])[0] == [0, 10, 20, 30, 40, 50, 60]


def test_without_any_time_the_nominal_rate_counts() -> None:
    assert order([None, None, None], step=40)[0] == [0, 40, 80]


def test_times_before_the_first_and_after_the_last_known_are_the_usual_step_apart() -> None:
    assert order([None, 100, None, 140, None], step=40)[0] == [80, 100, 120, 140, 160]


@given(st.lists(st.none() | st.integers(-1000, 1000), min_size=1, max_size=60), st.integers(1, 50))
def test_any_times_end_up_rising_and_as_many(ticks: list[int | None], step: int) -> None:
    pts, _ = order(ticks, step)
    assert len(pts) == len(ticks)
    assert all(a < b for a, b in pairwise(pts))


def clocks(
    picture: list[int], sound: list[int], sound_step: int = 1920, split: tuple[int, int] | None = None
) -> list[Clock]:
    """A picture and a sound track; packets interleave by time, within the two parts that `split` makes."""
    video, audio = Clock(TICK, "video"), Clock(TICK, "audio")
    parts = [(picture, sound)]
    if split is not None:
        parts = [(picture[: split[0]], sound[: split[1]]), (picture[split[0] :], sound[split[1] :])]
    place = 0
    for one, other in parts:
        rows = sorted([(t, 0) for t in one] + [(t, 1) for t in other])
        for tick, which in rows:
            clock, step = ((video, STEP), (audio, sound_step))[which]
            clock.add(tick, tick, step, place)
            place += 1
    return [video, audio]


def mended(clock: Clock, mend: Mend) -> list[int | None]:
    found: list[int | None] = []
    for number, tick in enumerate(clock.pts):
        more = mend.outliers.get(number, 0)
        found.append(None if more is None else tick + mend.shift(number) + more)
    return found


def test_good_clocks_need_nothing() -> None:
    assert mend_clocks(clocks([0, 3000, 6000], [0, 1920, 3840]), 0, True, Counter()) is None


def test_pictures_without_decode_times_tell_nothing_of_the_clock() -> None:
    """As FFmpeg reads slow Matroska with B-frames: the reordered pictures at the start are no restart."""
    slow = Clock(Fraction(1, 1000), "video")
    for place, (pts, dts) in enumerate([(0, None), (4000, None), (2000, 0), (1000, 1000), (3000, 2000)]):
        slow.add(pts, dts, 1000, place)
    assert mend_clocks([slow], 0, False, Counter()) is None


def test_after_a_restart_the_picture_goes_on_and_sound_is_shifted_alike() -> None:
    picture = [126_000 + n * STEP for n in range(60)]
    sound = [126_000 - 1920 + n * 1920 for n in range(95)]
    both = clocks(picture * 2, sound * 2, split=(60, 95))
    changed: Counter[str] = Counter()
    mends = mend_clocks(both, 0, True, changed)
    assert mends is not None
    later = 60 * STEP
    assert mended(both[0], mends[0]) == [126_000 + n * STEP for n in range(120)]
    assert mended(both[1], mends[1]) == sound + [tick + later for tick in sound]
    assert +changed == {"clock_restarted": 1}


def test_no_packet_of_sound_is_lost_where_two_clocks_overlap() -> None:
    picture = [90_000 + n * STEP for n in range(30)]
    sound = [90_000 + n * 1920 for n in range(94)]
    both = clocks(picture * 2, sound * 2, split=(30, 94))
    mends = mend_clocks(both, 0, True, Counter())
    assert mends is not None
    assert len(mended(both[1], mends[1])) == 188
    assert mends[0].shifts == mends[1].shifts


def test_a_wrap_keeps_the_gap_that_is_there() -> None:
    top = int(WRAP / TICK)
    picture = [top - 3 * STEP, top - 2 * STEP, 4 * STEP, 5 * STEP]
    both = clocks(picture, [], split=(2, 0))
    changed: Counter[str] = Counter()
    mends = mend_clocks(both[:1], 0, True, changed)
    assert mends is not None
    assert mended(both[0], mends[0]) == [*picture[:2], top + 4 * STEP, top + 5 * STEP]
    assert +changed == {"clock_wrapped": 1}


def test_a_single_packet_out_of_line_is_no_restart() -> None:
    picture = [n * STEP for n in range(50)]
    sound = [n * 1920 for n in range(80)]
    both = clocks(picture, sound)
    both[0].pts[20] = both[0].dts[20] = 9_000_000
    both[1].pts[30] = both[1].dts[30] = -900_000
    changed: Counter[str] = Counter()
    mends = mend_clocks(both, 0, True, changed)
    assert mends is not None
    assert mended(both[0], mends[0]) == [*picture[:20], None, *picture[21:]]
    assert mended(both[1], mends[1]) == sound
    assert +changed == {"timestamp_outliers": 2}


def test_a_leap_ahead_is_a_gap_but_in_mpeg_streams() -> None:
    picture = [n * STEP for n in range(10)] + [9_000_000 + n * STEP for n in range(10)]
    assert mend_clocks(clocks(picture, [])[:1], 0, False, Counter()) is None
    both = clocks(picture, [])
    mends = mend_clocks(both[:1], 0, True, Counter())
    assert mends is not None
    assert mended(both[0], mends[0]) == [n * STEP for n in range(20)]
