"""Interlaced frames: their two fields show two moments, so each is drawn as a picture of its own.

A field is every second row of each plane. How far a face moved from one field to the other is
measured (phase correlation), not taken from the flag: film that is stored as fields does not move.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat
from schemas.pixels import PixelFormat
from swapper.engines.base import PatchPixels, Plane
from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.render import Rectangle

_SIDE = 96
_REST = 0.4
"""Samples of motion that count as none."""
_CLEAR = 0.15
"""Response of the correlation from which it is believed."""
_FURTHEST = 0.15
"""Of the face's size: motion between two fields that can be believed."""


def parities(form: VideoFormat) -> tuple[int, ...]:
    """First rows of the fields in the order they are shown; none for progressive frames."""
    return {"tt": (0, 1), "bt": (0, 1), "bb": (1, 0), "tb": (1, 0)}.get(form.field_order, ())


def motion(luma: Plane, marks: Landmarks, first: int) -> npt.NDArray[np.float32]:
    """(3,): how far the face at `marks` moves from field `first` to the other; in samples, and 0."""
    still = np.zeros(3, np.float32)
    low, high = marks[:, :2].min(0).astype(int), marks[:, :2].max(0).astype(int)
    x, y = max(int(low[0]), 0), max(int(low[1]) // 2 * 2, 0)
    part = luma[y : max(int(high[1]), 0), x : max(int(high[0]), 0)]
    if min(part.shape) < 8:
        return still
    before, after = (
        cv2.resize(part[parity::2], (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR).astype(np.float32)
        for parity in (first, 1 - first)
    )
    window = cv2.createHanningWindow((_SIDE, _SIDE), cv2.CV_32F)
    (dx, dy), response = cv2.phaseCorrelate(before, after, window)
    height, width = part.shape
    moved = np.array([dx * width / _SIDE, dy * height / _SIDE + (1 - 2 * first), 0], np.float32)
    far = float(np.abs(moved).max())
    if response < _CLEAR or not _REST < far < _FURTHEST * max(part.shape):
        return still
    return moved


def in_field(marks: Landmarks, parity: int) -> Landmarks:
    """Landmarks of a frame in the rows of a field."""
    scale, shift = np.array([1, 0.5, 0.5], np.float32), np.array([0, parity, 0], np.float32)
    placed: Landmarks = (marks - shift) * scale
    return placed


def woven(
    planes: Sequence[Plane], pixels: PixelFormat, halves: Sequence[tuple[int, PatchPixels | None]]
) -> PatchPixels | None:
    """One patch of a frame of those of its fields, each with its parity."""
    patches = [(parity, patch) for parity, patch in halves if patch is not None]
    if not patches:
        return None
    x, y = min(p.x for _, p in patches), 2 * min(p.y for _, p in patches)
    right = max(p.x + p.width for _, p in patches)
    bottom = min(2 * max(p.y + p.height for _, p in patches), planes[0].shape[0])
    place = Rectangle(x, y, right - x, bottom - y)
    parts = tuple(np.array(plane[place.of_plane(i, pixels)]) for i, plane in enumerate(planes))
    for parity, patch in patches:
        for i, (part, rows) in enumerate(zip(parts, patch.planes, strict=True)):
            inside = Rectangle(patch.x - x, patch.y - y // 2, patch.width, patch.height)
            lines, columns = inside.of_plane(i, pixels)
            part[2 * lines.start + parity :: 2][: len(rows), columns] = rows
    return PatchPixels(x, y, place.width, place.height, parts)
