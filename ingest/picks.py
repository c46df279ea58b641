"""Which frames of an input are kept, and when they are shown: trimming and resampling by time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from statistics import median_low

from ingest.timeline import Timeline
from schemas.errors import InputError
from schemas.frames import Rational
from schemas.job import PlanSpec

HELD = Fraction(1, 10)
"""Seconds for which a picture that began before the cut must stay on to be kept, from the cut on."""


@dataclass(frozen=True, slots=True)
class Picks:
    """Frames kept. `timeline` is in the result's clock, ticks of `base`; `numbers` are those of the input's
    frames; `origin` and `span` as in `schemas.plan.Plan`."""

    timeline: Timeline
    base: Fraction
    numbers: list[int]
    origin: Fraction
    span: tuple[Rational | None, Rational | None]


def pick(timeline: Timeline, base: Fraction, spec: PlanSpec, most: int) -> Picks | None:
    """Apply `trim_start`, `trim_end` and `fps`; None where none of them is set.

    Trimming keeps the frames that begin in the span, and from its start on the one shown there if it stays
    for more than HELD. The result's clock then begins at the span. Resampling shows at every tick of 1/fps
    the frame that the input shows then. Raises InputError where nothing is left, or more than `most` frames.
    """
    if spec.fps is None and spec.trim_start is None and spec.trim_end is None:
        return None
    trimmed = _trim(timeline, base, spec)
    return trimmed if spec.fps is None else _resample(trimmed, timeline, Fraction(*spec.fps), most)


def _trim(timeline: Timeline, base: Fraction, spec: PlanSpec) -> Picks:
    pts = timeline.pts
    begin = pts[0] * base
    shown = pts[-1] + timeline.duration[-1]
    start = None if spec.trim_start is None else begin + Fraction(*spec.trim_start)
    end = None if spec.trim_end is None else begin + Fraction(*spec.trim_end)
    low = pts[0] if start is None else ceil(start / base)
    high = shown if end is None else min(ceil(end / base), shown)
    first, last = bisect_left(pts, low), bisect_left(pts, high)
    if low > pts[0] and (pts[first] if first < len(pts) else shown) - low > HELD / base:
        first -= 1
    if first >= last or high <= low:
        raise InputError(
            f"trimming leaves no frame: the picture lasts {float((shown - pts[0]) * base):.3f} s, "
            f"{float((low - pts[0]) * base):.3f} to {float((high - pts[0]) * base):.3f} s are asked for"
        )
    zero = 0 if start is None else low
    ticks = [max(tick, low) - zero for tick in pts[first:last]]
    lengths = [b - a for a, b in zip(ticks, [*ticks[1:], ticks[-1]], strict=True)]
    lengths[-1] = min(pts[last - 1] + timeline.duration[last - 1], high) - zero - ticks[-1]
    numbers = list(range(first, last))
    span = (None if start is None else _rational(low * base), None if end is None else _rational(end))
    kept = Timeline(ticks, lengths, _keys(timeline.keys, numbers))
    return Picks(kept, base, numbers, zero * base, span)


def _resample(picks: Picks, source: Timeline, rate: Fraction, most: int) -> Picks:
    pts, base = picks.timeline.pts, picks.base
    begin, end = pts[0] * base, (pts[-1] + picks.timeline.duration[-1]) * base
    first = ceil(begin * rate)
    ahead = begin - first / rate  # so that the first frame lies on the grid
    # Containers round times to their ticks: a frame may be written one too late. A tick as long as a frame
    # (AVI, Theora) is no rounding.
    usual = median_low([b - a for a, b in pairwise(pts)] or picks.timeline.duration)
    slack = min(base, usual * base / 8, 1 / (4 * rate))
    count = max(ceil((end - begin - slack) * rate), 1)
    if count > most:
        raise InputError(f"{float(rate):g} frames a second make {count} frames; {most} are the limit")
    shown = [bisect_right(pts, (begin + n / rate + slack) / base) - 1 for n in range(count)]
    numbers = [picks.numbers[place] for place in shown]
    timeline = Timeline(list(range(first, first + count)), [1] * count, _keys(source.keys, numbers))
    return Picks(timeline, 1 / rate, numbers, picks.origin + ahead, picks.span)


def _keys(keys: list[int], numbers: list[int]) -> list[int]:
    """Places in `numbers` of the first frame kept from each key frame on, before the next."""
    found = {bisect_left(numbers, key) for key in keys}
    inner = sorted(place for place in found if place < len(numbers))
    return inner if inner and inner[0] == 0 else [0, *inner]


def _rational(value: Fraction) -> Rational:
    return value.numerator, value.denominator
