"""When each frame is shown: the one rule by which an input's timestamps are put in order.

1. *Clocks.* A track's decode timestamps rise; a picture without one tells nothing of the clock. A single
   packet out of line between two neighbours that rise is an outlier: its time counts as missing. A fall of
   more than JUMP_BACK seconds that stays is a restarted clock; one of 2^33 ticks of 90 kHz, the width of
   MPEG's clock, a wrap; a leap of more than JUMP_AHEAD seconds, in MPEG streams only, a clock that was set
   anew. From there on all tracks are shifted alike: by 2^33 ticks after a wrap, else so that the picture goes
   on without a gap. No sound is dropped: where the old clock's reaches into the new one's, the muxer sets
   packets a tick apart until both agree.
2. *Frames* are shown in the order in which the decoder gives them out. Where their times are the right ones
   in another order, each moved by no more than a decoder may reorder (AVI knows decode times only), they are
   sorted.
3. Else the longest rising series of times is believed; frames outside it (missing, equal, falling, out of
   line) are spread evenly between their believed neighbours, and at the usual distance before the first
   and after the last.

Start offsets, edit lists, priming and the delay of B-frames are what they are: times are kept, never
counted anew from zero. What is changed is counted: `clock_restarted`, `clock_wrapped`, `timestamp_outliers`,
`timestamps_sorted`, `timestamps_repaired`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from statistics import median_low

JUMP_BACK = Fraction(3, 10)
JUMP_AHEAD = Fraction(10)
"""As FFmpeg's dts_delta_threshold."""
CLOCKED = ("video", "audio")
"""Kinds of tracks whose times tell of the clock; packets of others may come late or early."""
WRAP = Fraction(1 << 33, 90_000)
MOST_REORDERED = 32
"""Frames, doubled: both H.264 and HEVC allow 16."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames in presentation order: pts rising, durations positive, in ticks; ordinals of key frames."""

    pts: list[int]
    duration: list[int]
    keys: list[int]


def durations(pts: Sequence[int], last: int, nominal: int) -> list[int]:
    """Each frame lasts until the next; the last as its packet says, else as the one before it."""
    steps = [b - a for a, b in pairwise(pts)]
    end = last if last > 0 else (steps[-1] if steps else nominal)
    return [*steps, max(end, 1)]


# -- frames in the decoder's order ------------------------------------------------------------------


def in_order(ticks: Sequence[int | None], step: int, changed: Counter[str]) -> list[int]:
    """Rising times for frames in the order they are shown (parts 2 and 3 of the rule). `step`: ticks from
    frame to frame, used where no two times are believed."""
    known = [tick for tick in ticks if tick is not None]
    if len(known) == len(ticks) and all(a < b for a, b in pairwise(known)):
        return known
    ordered = sorted(known)
    if len(set(known)) == len(ticks) and _moved_little(known, ordered, step):
        changed["timestamps_sorted"] += sum(a != b for a, b in zip(known, ordered, strict=True))
        return ordered
    return _spread(ticks, _longest_rise(ticks), max(step, 1), changed)


def _moved_little(ticks: Sequence[int], ordered: Sequence[int], step: int) -> bool:
    usual = max(median_low([b - a for a, b in pairwise(ordered)] or [step]), 1)
    return all(abs(a - b) <= MOST_REORDERED * usual for a, b in zip(ticks, ordered, strict=True))


def _longest_rise(ticks: Sequence[int | None]) -> list[int]:
    """Places of the longest strictly rising series, by patience sorting (Fredman, 1975)."""
    tails: list[int] = []
    ends: list[int] = []
    before = [-1] * len(ticks)
    for place, tick in enumerate(ticks):
        if tick is None:
            continue
        length = bisect_left(tails, tick)
        if length < len(tails) and tails[length] == tick:
            continue  # of equal times the first is believed
        before[place] = ends[length - 1] if length else -1
        tails[length : length + 1] = [tick]
        ends[length : length + 1] = [place]
    series: list[int] = []
    place = ends[-1] if ends else -1
    while place >= 0:
        series.append(place)
        place = before[place]
    return series[::-1]


def _spread(ticks: Sequence[int | None], kept: list[int], step: int, changed: Counter[str]) -> list[int]:
    changed["timestamps_repaired"] += len(ticks) - len(kept)
    if not kept:
        return [place * step for place in range(len(ticks))]
    believed = [tick for place in kept if (tick := ticks[place]) is not None]
    pairs = list(zip(pairwise(kept), pairwise(believed), strict=True))
    step = max(median_low([(high - low) // (b - a) for (a, b), (low, high) in pairs] or [step]), 1)
    pts = [believed[0] - (kept[0] - place) * step for place in range(kept[0])]
    for (a, b), (low, high) in pairs:
        pts += [low + (high - low) * (place - a) // (b - a) for place in range(a, b)]
    pts += [believed[-1] + (place - kept[-1]) * step for place in range(kept[-1], len(ticks))]
    for place, (a, b) in enumerate(pairwise(pts), 1):
        if pts[place - 1] >= b:
            pts[place] = max(a, pts[place - 1]) + 1
    return pts


# -- clocks of tracks -------------------------------------------------------------------------------


MISSING = -(1 << 63)
"""Stands for a time that a packet does not have."""


def _ticks() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Clock:
    """Times of one track's packets in the order of the file."""

    base: Fraction
    kind: str
    """`video`, `audio`, `subtitle`, ..."""
    pts: array[int] = field(default_factory=_ticks)
    dts: array[int] = field(default_factory=_ticks)
    duration: array[int] = field(default_factory=_ticks)
    place: array[int] = field(default_factory=_ticks)
    """Number of the packet among those of all tracks."""

    def add(self, pts: int | None, dts: int | None, duration: int, place: int) -> None:
        self.pts.append(MISSING if pts is None else pts)
        self.dts.append(MISSING if dts is None else dts)
        self.duration.append(duration)
        self.place.append(place)

    def ticks(self) -> Iterator[tuple[int, int]]:
        """(packet number, time) of what must rise: the decode times, or the presentation times of packets
        without; not those of pictures, which may be reordered (FFmpeg finds no decode times for the first
        ones of Matroska)."""
        for number, (pts, dts) in enumerate(zip(self.pts, self.dts, strict=True)):
            tick = pts if dts == MISSING and self.kind != "video" else dts
            if tick != MISSING:
                yield number, tick


@dataclass(slots=True)
class Mend:
    """What is to be done with the times of one track."""

    outliers: dict[int, int | None] = field(default_factory=dict)
    """By packet number: ticks that are added to its time, on top of the shift; None: its time is unknown."""
    starts: list[int] = field(default_factory=lambda: [0])
    shifts: list[int] = field(default_factory=lambda: [0])
    """From packet number `starts[i]` on, `shifts[i]` ticks are added."""

    def shift(self, number: int) -> int:
        return self.shifts[bisect_right(self.starts, number) - 1]


def mend_clocks(
    clocks: Sequence[Clock], picture: int, mpeg: bool, changed: Counter[str]
) -> list[Mend] | None:
    """Part 1 of the rule: what to do with each of `clocks`; None where nothing is wrong.

    `picture` is the number of the track that the others follow; `mpeg`: the container has MPEG's clock.
    """
    mends = [Mend(_outliers(clock)) for clock in clocks]
    jumps = [_jumps(clock, mend.outliers, mpeg) for clock, mend in zip(clocks, mends, strict=True)]
    found = sum(len(mend.outliers) for mend in mends)
    changed["timestamp_outliers"] += found
    if not any(jumps):
        return mends if found else None
    master, own = clocks[picture], jumps[picture]
    for number, jump in enumerate(own):
        following = [
            _same_jump(clock, jumps[track], master.place[jump], number, len(own))
            for track, clock in enumerate(clocks)
        ]
        _shift_all(clocks, mends, following, picture, changed)
    for track, clock in enumerate(clocks):
        if not own:  # this track alone was set anew
            for jump in jumps[track]:
                _shift_all([clock], [mends[track]], [jump], 0, changed)
    return mends


def _outliers(clock: Clock) -> dict[int, int | None]:
    """Sound goes on from the packet before; pictures get their times from their neighbours, once decoded."""
    found: dict[int, int | None] = {}
    if clock.kind not in CLOCKED:
        return found
    before = middle = (-1, MISSING)
    for after in clock.ticks():
        if before[1] != MISSING and before[1] < after[1] and not before[1] <= middle[1] <= after[1]:
            on_time = before[1] + clock.duration[before[0]]
            found[middle[0]] = None if clock.kind == "video" else min(on_time, after[1]) - middle[1]
        before, middle = middle, after
    return found


def _jumps(clock: Clock, outliers: Collection[int], mpeg: bool) -> list[int]:
    """Numbers of the packets with which a new clock begins."""
    if clock.kind not in CLOCKED:
        return []
    back, ahead = JUMP_BACK / clock.base, JUMP_AHEAD / clock.base
    found: list[int] = []
    last: int | None = None
    for number, tick in clock.ticks():
        if number in outliers:
            continue
        if last is not None and (tick < last - back or (mpeg and tick > last + ahead)):
            found.append(number)
        last = tick
    return found


def _same_jump(clock: Clock, jumps: list[int], place: int, number: int, count: int) -> int:
    """Number of the packet of `clock` from which on the clock that began at `place` of the file counts."""
    if len(jumps) == count:
        return jumps[number]
    return bisect_left(clock.place, place)


def _shift_all(
    clocks: Sequence[Clock], mends: Sequence[Mend], jumps: Sequence[int], picture: int, changed: Counter[str]
) -> None:
    """Let every track go on from `jumps` on, shifted by the same time."""
    master, jump = clocks[picture], jumps[picture]
    begin = _begin(master, jump, mends[picture])
    previous = _end(master, mends[picture], jump)
    if begin is None or previous is None:
        return
    shift = previous - begin
    held = mends[picture].shifts[-1] * master.base
    if abs(shift - held - WRAP) < JUMP_AHEAD:
        shift = held + WRAP
        changed["clock_wrapped"] += 1
    else:
        changed["clock_restarted"] += 1
    for clock, mend, at in zip(clocks, mends, jumps, strict=True):
        mend.starts.append(at)
        mend.shifts.append(round(shift / clock.base))


def _begin(clock: Clock, at: int, mend: Mend) -> Fraction | None:
    """Seconds, unshifted, of the first presentation among the packets that begin a clock."""
    near = [
        tick
        for number, tick in enumerate(clock.pts[at : at + MOST_REORDERED], at)
        if tick != MISSING and number not in mend.outliers
    ]
    return min(near) * clock.base if near else None


def _end(clock: Clock, mend: Mend, at: int) -> Fraction | None:
    """Seconds, shifted, at which what came before packet `at` ends."""
    near = range(max(mend.starts[-1], at - MOST_REORDERED), at)
    shown = sorted(
        (tick + mend.shift(number), clock.duration[number])
        for number in near
        if (tick := clock.pts[number]) != MISSING and number not in mend.outliers
    )
    if not shown:
        return None
    last, duration = shown[-1]
    usual = median_low([b - a for (a, _), (b, _) in pairwise(shown)] or [0])
    return (last + (duration or usual)) * clock.base
