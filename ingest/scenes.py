"""Borders of segments at scene cuts, found while decoding.

A segment that begins inside a decode pass may begin sooner than planned: at the first cut in the second
half of the segment before it. So its place depends on nothing but those frames, whoever decodes them and
wherever that begins, and the lengths of segments stay between a half and three halves of the planned.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import Any

import av
import numpy as np

from schemas.plan import Plan

THRESHOLD = 27.0
"""Mean step of the luma, of 255, that is a cut: PySceneDetect's default."""
_WIDTH = 160
"""Luma is compared at this width: a cut shows in any size."""


class CutFinder:
    """Says of each frame, given in order, whether a scene begins with it."""

    def __init__(self) -> None:
        from scenedetect import ContentDetector, FrameTimecode  # slow to import, seldom used

        self._detector = ContentDetector(threshold=THRESHOLD, min_scene_len=0, luma_only=True)
        self._timecode: Any = FrameTimecode
        self._count = 0

    def is_cut(self, frame: av.VideoFrame) -> bool:
        """False for the first frame."""
        height = max(round(frame.height * _WIDTH / frame.width), 1)
        luma = frame.reformat(width=_WIDTH, height=height, format="gray").to_ndarray()
        self._count += 1
        found = self._detector.process_frame(self._timecode(self._count, 25.0), np.dstack([luma] * 3))
        return bool(found)


def windows(plan: Plan) -> dict[int, range]:
    """For each segment that begins inside an order: the frames (numbers in the plan) at which it may begin
    instead of its planned first frame."""
    found: dict[int, range] = {}
    for order in plan.orders:
        for before, index in pairwise(order):
            one, other = plan.segments[before], plan.segments[index]
            middle = bisect_left(plan.pts, one.start + (other.start - one.start) // 2)
            found[index] = range(max(middle, one.first + 1), other.first)
    return found
