"""Decode timestamps from presentation timestamps, and durations, as the join writes them."""

from __future__ import annotations

from collections.abc import Sequence


def reorder_depth(pts: Sequence[int]) -> int:
    """How many frames an encoder's output, given in decode order, is reordered by at most.

    With D of at least this depth, dts[n] = sorted pts[n - D] never passes the n-th packet's pts.
    """
    rank = {value: index for index, value in enumerate(sorted(pts))}
    return max((n - rank[value] for n, value in enumerate(pts)), default=0)


def decode_times(pts: Sequence[int], depth: int) -> list[int]:
    """dts of each packet in decode order: strictly rising, never above the packet's pts.

    `pts`: of all frames, in presentation order; `depth`: the deepest reorder of any segment. The first
    `depth` values lie before the first pts, at distances of the first frame's duration.
    """
    if depth == 0:
        return list(pts)
    step = pts[1] - pts[0] if len(pts) > 1 else 1
    return [pts[n - depth] if n >= depth else pts[0] - (depth - n) * step for n in range(len(pts))]


def durations(pts: Sequence[int], end: int) -> list[int]:
    """Duration of each frame in presentation order: up to the next one, the last one up to `end`."""
    if not pts:
        return []
    return [b - a for a, b in zip(pts, [*pts[1:], max(end, pts[-1])], strict=True)]
