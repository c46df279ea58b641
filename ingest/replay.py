"""The plan of a replay: a finished job's plan again, with its batches in Kafka in place of decoding."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from schemas.checkpoint import Checkpoint, FrameRange
from schemas.errors import InputError
from schemas.frames import RangeRef, Rational
from schemas.job import JobSpec, stream_id
from schemas.orders import FinishOrder
from schemas.plan import Plan, Segment, Source

DECODED_AGAIN = "segments_decoded_again"
CONTEXT_MISSING = "context_missing"


@dataclass(frozen=True, slots=True)
class _Cut:
    """Frames [first, last) of the old plan are kept, those in ticks [start, end), moved by `shift`."""

    first: int
    last: int
    start: int
    end: int
    shift: int


def replay_plan(
    old: Plan, finish: FinishOrder, spec: JobSpec, sides: str, retained: Callable[[FrameRange], bool]
) -> Plan:
    """The plan of job `spec`, which uses the frames of the job that `old` and `finish` are of.

    `spec.plan.trim_start` and `trim_end` choose a part, in seconds from the old result's first picture;
    `sides` is the new name of the other tracks. Segments whose batches are not `retained` have no range:
    they are decoded again, counted in the warnings. Raises InputError where no frame is left.
    """
    cut = _cut(old, spec)
    done = {checkpoint.segment: checkpoint for checkpoint in finish.segments}
    if finish.spec.plan.split == "scenes":
        old = old.model_copy(update={"segments": _as_cut(old, done)})
    kept = [s for s in old.segments if s.first < cut.last and s.first + s.frames > cut.first]
    segments = [_segment(segment, index, cut) for index, segment in enumerate(kept)]
    ranges = [
        _range(spec, index, done.get(segment.index), cut, retained) for index, segment in enumerate(kept)
    ]
    numbers = {segment.index: index for index, segment in enumerate(kept)}
    orders = [[numbers[i] for i in order if i in numbers] for order in old.orders]
    base = Fraction(*old.time_base)
    origin = Fraction(*old.origin) - cut.shift * base
    durations = old.duration[cut.first : cut.last]
    durations[-1] = min(durations[-1], cut.end - old.pts[cut.last - 1])
    return old.model_copy(
        update={
            "job": spec.job,
            "revision": spec.revision,
            "origin": (origin.numerator, origin.denominator),
            "span": _span(old, spec, cut),
            "source": _source(old, cut),
            "pts": [tick + cut.shift for tick in old.pts[cut.first : cut.last]],
            "duration": durations,
            "keys": _keys(old.keys, cut),
            "segments": segments,
            "orders": [order for order in orders if order],
            "ranges": ranges,
            "sides": sides,
            "warnings": old.warnings | _warnings(finish.spec, spec, segments, ranges),
        }
    )


def gone(plan: Plan) -> str:
    """The spans of a replay that have left Kafka, in words."""
    spans: list[tuple[int, int]] = []
    for segment, ref in zip(plan.segments, plan.ranges, strict=True):
        if ref is not None:
            continue
        if spans and spans[-1][1] == segment.start:
            spans[-1] = spans[-1][0], segment.end
        else:
            spans.append((segment.start, segment.end))
    base = Fraction(*plan.time_base)
    return ", ".join(f"{_seconds(start, base)} to {_seconds(end, base)}" for start, end in spans)


def _cut(old: Plan, spec: JobSpec) -> _Cut:
    base, begin = Fraction(*old.time_base), old.pts[0]
    shown = old.pts[-1] + old.duration[-1]
    trim_start, trim_end = spec.plan.trim_start, spec.plan.trim_end
    start = begin if trim_start is None else begin + ceil(Fraction(*trim_start) / base)
    end = shown if trim_end is None else min(begin + ceil(Fraction(*trim_end) / base), shown)
    first, last = bisect_left(old.pts, start), bisect_left(old.pts, end)
    if first >= last:
        raise InputError(
            f"no frame of job {old.job} lies between {_seconds(start - begin, base)} and "
            f"{_seconds(end - begin, base)}: its picture lasts {_seconds(shown - begin, base)}"
        )
    return _Cut(first, last, start, end, 0 if trim_start is None else -start)


def _as_cut(old: Plan, done: dict[int, Checkpoint]) -> list[Segment]:
    """The segments as decoding has cut them."""
    firsts = [segment.first for segment in old.segments]
    for index, checkpoint in done.items():
        if index and checkpoint.pts:
            firsts[index] = bisect_left(old.pts, checkpoint.pts[0])
    ends = [*firsts[1:], len(old.pts)]
    shown = old.pts[-1] + old.duration[-1]
    return [
        segment.model_copy(
            update={
                "first": first,
                "frames": end - first,
                "context": segment.context if first == segment.first else 0,
                "start": old.pts[first],
                "end": old.pts[end] if end < len(old.pts) else shown,
            }
        )
        for segment, first, end in zip(old.segments, firsts, ends, strict=True)
    ]


def _keys(keys: list[int], cut: _Cut) -> list[int]:
    """What a part begins with counts as a key frame."""
    inner = [key - cut.first for key in keys if cut.first <= key < cut.last]
    return inner if cut.first == 0 or inner[:1] == [0] else [0, *inner]


def _segment(old: Segment, index: int, cut: _Cut) -> Segment:
    first = max(old.first, cut.first)
    frames = min(old.first + old.frames, cut.last) - first
    return Segment(
        index=index,
        first=first - cut.first,
        frames=frames,
        context=min(old.context, first - cut.first),
        start=max(old.start, cut.start) + cut.shift,
        end=min(old.end, cut.end) + cut.shift,
        bytes=old.bytes,
    )


def _range(
    spec: JobSpec,
    index: int,
    done: Checkpoint | None,
    cut: _Cut,
    retained: Callable[[FrameRange], bool],
) -> RangeRef | None:
    """The batches of a segment, if all of them are still there."""
    if done is None or done.frames is None or not retained(done.frames):
        return None
    at = done.frames
    before, upto = bisect_left(done.pts, cut.start), bisect_left(done.pts, cut.end)
    if upto <= before:
        return None
    return RangeRef(
        job=spec.job,
        stream=stream_id(spec.job, index),
        epoch=1,
        revision=spec.revision,
        topic=at.topic,
        partition=at.partition,
        first_offset=at.first_offset,
        last_offset=at.last_offset,
        source=done.stream,
        source_epoch=done.epoch,
        start=cut.start,
        end=cut.end,
        count=at.context + upto,
        context=at.context + before,
        shift=cut.shift,
    )


def _source(old: Plan, cut: _Cut) -> Source | None:
    """What is decoded where batches are gone; the old plan's pictures, less those that are cut off."""
    if old.source is not None:
        picks = old.source.picks[cut.first : cut.last]
        return old.source.model_copy(update={"picks": picks})
    if (cut.first, cut.last, cut.shift) == (0, len(old.pts), 0):
        return None
    numbers = list(range(cut.first, cut.last))
    return Source(format=old.format, time_base=old.time_base, pts=old.pts, keys=old.keys, picks=numbers)


def _span(old: Plan, spec: JobSpec, cut: _Cut) -> tuple[Rational | None, Rational | None]:
    """Seconds of the input's clock, as in `Plan.span`."""
    base, origin = Fraction(*old.time_base), Fraction(*old.origin)
    start, end = origin + cut.start * base, origin + cut.end * base
    return (
        old.span[0] if spec.plan.trim_start is None else (start.numerator, start.denominator),
        old.span[1] if spec.plan.trim_end is None else (end.numerator, end.denominator),
    )


def _warnings(
    before: JobSpec, now: JobSpec, segments: list[Segment], ranges: list[RangeRef | None]
) -> dict[str, int]:
    """Segments that are decoded again, and those that the engine would see with more frames before."""
    found: dict[str, int] = {}
    if gone := sum(one is None for one in ranges):
        found[DECODED_AGAIN] = gone
    if now.plan.context_frames > before.plan.context_frames:
        short = sum(s.first > 0 and one is not None for s, one in zip(segments, ranges, strict=True))
        if short:
            found[CONTEXT_MISSING] = short
    return found


def _seconds(ticks: int, base: Fraction) -> str:
    return f"{float(ticks * base):.3f} s"
