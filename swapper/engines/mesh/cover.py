"""Where the texture goes: not on an open mouth, closed eyes, what stands before the face, or what of
it is turned away."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.mesh import kernels
from swapper.engines.mesh.occlusion import Cells
from swapper.engines.mesh.topology import (
    CHIN,
    FOREHEAD,
    INNER_LIPS,
    LEFT_EYE,
    LEFT_LIDS,
    LOWER_LIP_INNER,
    RIGHT_EYE,
    RIGHT_LIDS,
    TRIANGLES,
    UPPER_LIP_INNER,
    UV,
)

Cover = npt.NDArray[np.uint8]
"""(SIDE, SIDE), 0..255 over a face's rectangle."""

SIDE = 128
ALL = np.full((SIDE, SIDE), 255, np.uint8)
_OPEN_FROM, _OPEN_RANGE = 0.015, 0.03
"""Gap of the lips, over the face's height, from which the target's mouth shows, and how much more
until all of it does."""
_EDGE_FROM, _EDGE_TO = 0.12, 0.4
"""Facing of a place from which the texture shows, and from which all of it does."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a face is drawn, each 0..1: how much of the target's own eyes and open mouth stays, and
    of its shading is taken over."""

    keep_eyes: float = 0.0
    keep_mouth: float = 1.0
    shade: float = 0.9


def features(
    points: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], look: Look, closed: tuple[float, float]
) -> Cover | None:
    """Without what of mouth and eyes stays the target's; None for everywhere.

    `points` (468, 2) times `scale` lie in the cover; `closed`: how much the right and the left eye are.
    """
    gap = float(np.linalg.norm(points[UPPER_LIP_INNER] - points[LOWER_LIP_INNER]))
    tall = float(np.linalg.norm(points[FOREHEAD] - points[CHIN]))
    opening = min(max((gap / tall - _OPEN_FROM) / _OPEN_RANGE, 0.0), 1.0)
    kept = [(INNER_LIPS, look.keep_mouth * opening)]
    kept += [(eye, look.keep_eyes) for eye in (LEFT_EYE, RIGHT_EYE)]
    kept += [(lids, shut) for lids, shut in zip((RIGHT_LIDS, LEFT_LIDS), closed, strict=True)]
    kept = [(part, keep) for part, keep in kept if keep > 0]
    if not kept:
        return None
    cover = ALL.copy()
    for part, keep in kept:
        outline = np.round(points[part] * scale * 16).astype(np.int32)
        cv2.fillPoly(cover, [outline], round(255 * (1 - keep)), shift=4)
    return cv2.GaussianBlur(cover, (7, 7), 1.6).astype(np.uint8, copy=False)


def turned(
    points: npt.NDArray[np.float32], depth: npt.NDArray[np.float32], facing: npt.NDArray[np.float32]
) -> Cover:
    """Without what is turned away; `points` (468, 2) lie in the cover."""
    raster = np.zeros((SIDE, SIDE, 3), np.float32)
    slope = np.ascontiguousarray(np.column_stack([facing, facing]))
    kernels.rasterise(points, depth, slope, TRIANGLES, raster)
    shown = np.clip((raster[..., 0] - _EDGE_FROM) / (_EDGE_TO - _EDGE_FROM), 0, 1)
    cover: Cover = (shown * 255).astype(np.uint8)
    return cover


def unveiled(points: npt.NDArray[np.float32], depth: npt.NDArray[np.float32], veil: Cells) -> Cover:
    """Without what is hidden; `points` (468, 2) lie in the cover, `veil` is by place of the texture."""
    raster = np.empty((SIDE, SIDE, 3), np.float32)
    hidden = np.empty((SIDE, SIDE, 1), np.float32)
    kernels.rasterise(points, depth, UV, TRIANGLES, raster)
    kernels.look_up(raster, veil[..., None], hidden)
    cover: Cover = (255 - 255 * hidden[..., 0]).astype(np.uint8)
    return cover


def both(a: Cover | None, b: Cover | None) -> Cover | None:
    """Where two covers let the texture be."""
    if a is None or b is None:
        return b if a is None else a
    product: Cover = cv2.multiply(a, b, scale=1 / 255).astype(np.uint8, copy=False)
    return product
