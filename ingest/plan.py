"""How an input is cut: a pure function from its timeline to segments and orders."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction

from ingest.timeline import Timeline
from schemas.frames import VideoFormat
from schemas.job import PlanSpec
from schemas.plan import Segment


def plan_segments(
    timeline: Timeline, time_base: Fraction, video: VideoFormat, spec: PlanSpec
) -> list[Segment]:
    """Cut the frames into segments of about `segment_seconds`.

    A border is the key frame nearest to the wished one, where one lies within half a length of it;
    else the first frame after it. So no segment but one of a single frame is longer than one and a
    half lengths. Every frame is in exactly one segment.
    """
    length = Fraction(spec.segment_seconds) / time_base
    borders = [0]
    while (border := _next_border(timeline, borders[-1], length)) < len(timeline.pts):
        borders.append(border)
    return [
        _segment(index, first, last, timeline, video, spec.context_frames)
        for index, (first, last) in enumerate(zip(borders, [*borders[1:], len(timeline.pts)], strict=True))
    ]


def _next_border(timeline: Timeline, first: int, length: Fraction) -> int:
    """Ordinal of the first frame of the segment after the one that begins at `first`."""
    pts, start = timeline.pts, timeline.pts[first]
    end = pts[-1] + timeline.duration[-1]
    longest = start + length * Fraction(3, 2)
    if end <= longest:
        return len(pts)
    key = _nearest_key(timeline, start + length / 2, start + length, longest)
    if key is not None and key > first:
        return key
    border = bisect_left(pts, start + length)
    border_tick = pts[border] if border < len(pts) else end
    if border_tick > longest and border - 1 > first:
        return border - 1  # the frame before lasts very long: it makes a segment of its own
    return max(border, first + 1)


def _nearest_key(timeline: Timeline, low: Fraction, wished: Fraction, high: Fraction) -> int | None:
    """The key frame nearest to `wished` within [low, high] ticks; the earlier of two."""
    pts, keys = timeline.pts, timeline.keys
    near = keys[bisect_left(keys, bisect_left(pts, low)) : bisect_left(keys, bisect_right(pts, high))]
    return min(near, key=lambda ordinal: abs(pts[ordinal] - wished), default=None)


def _segment(
    index: int, first: int, last: int, timeline: Timeline, video: VideoFormat, context: int
) -> Segment:
    """Frames [first, last) of the input."""
    context = min(context, first)
    return Segment(
        index=index,
        first=first,
        frames=last - first,
        context=context,
        start=timeline.pts[first],
        end=timeline.pts[last] if last < len(timeline.pts) else timeline.pts[-1] + timeline.duration[-1],
        bytes=video.frame_bytes * (last - first + context),
    )


def plan_orders(segments: list[Segment], timeline: Timeline, seekable: bool) -> list[list[int]]:
    """Runs of segments that are decoded in one pass, each from one key frame.

    A segment that begins on a key frame begins an order; others belong to the one before them, since
    decoding them alone would decode that one's frames once more. Without seeking there is one order.
    """
    keys = set(timeline.keys) if seekable else set[int]()
    orders: list[list[int]] = []
    for segment in segments:
        if not orders or segment.first in keys:
            orders.append([])
        orders[-1].append(segment.index)
    return orders
