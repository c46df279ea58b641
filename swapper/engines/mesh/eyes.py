"""Whether eyes are closed. The landmark model keeps its lids open, so it is told from the picture:
a closed eye is lid, evenly as bright as the skin below the eye; an open one is darker by iris and
lashes, or, wide open, as bright on the whole but uneven: white beside the iris."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.base import Plane

_LIDS = np.array(
    [
        [[33, 246, 161, 160, 159, 158, 157, 173, 133], [33, 7, 163, 144, 145, 153, 154, 155, 133]],
        [[263, 466, 388, 387, 386, 385, 384, 398, 362], [263, 249, 390, 373, 374, 380, 381, 382, 362]],
    ]
)
"""(eye, upper or lower, 9): from the outer corner to the inner one; the right eye first."""
_ACROSS = np.linspace(0.15, 0.85, 16)
_WITHIN, _BELOW = (0.2, 0.3, 0.4, 0.5, 0.6), (1.45, 1.6, 1.75)
"""Rows from the upper lid (0) to the lower one (1) and on."""
_DARKEST = 0.02
"""Of full scale: darker skin says nothing."""
_UNEVEN = 0.5
"""Weight of the unevenness across an eye beside its darkness."""
_SHUT, _OPEN = 0.1, 0.124
"""Of both together, in parts of the skin's brightness. Carphone, 120 frames: open 0.124 or more, closed
0.081 or less."""
_SLOPE = np.linspace(-1, 1, len(_ACROSS), dtype=np.float32)


def _columns() -> npt.NDArray[np.float32]:
    """(16, 9): places across an eye from the points of a lid."""
    knots = np.linspace(0, 1, 9)
    return np.stack([np.interp(_ACROSS, knots, row) for row in np.eye(9)], -1).astype(np.float32)


_COLUMNS = _columns()


def _unevenness(part: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(2,): spread across each eye of (2, 16), without the even slope that light from one side makes."""
    rest = part - part.mean(1, keepdims=True)
    slope = rest @ _SLOPE / (_SLOPE @ _SLOPE)
    spread: npt.NDArray[np.float32] = (rest - slope[:, None] * _SLOPE).std(1)
    return spread


def _rows(places: Sequence[float]) -> npt.NDArray[np.float32]:
    return np.array(places, np.float32)[:, None, None]


_DOWN = _rows((*_WITHIN, *_BELOW))


def closed(luma: Plane, points: npt.NDArray[np.float32], black: float, scale: float) -> tuple[float, float]:
    """0..1 for the right and the left eye. `luma` holds the face, `points` (468, 2) in its samples;
    a sample is `black + scale * y` with y 0..1."""
    lids = _COLUMNS @ points[_LIDS]
    places = lids[:, :1] * (1 - _DOWN) + lids[:, 1:] * _DOWN
    x, y = cv2.split(places.astype(np.float32).reshape(-1, len(_ACROSS), 2))
    seen: Any = cv2.remap(luma, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    rows = (seen.astype(np.float32).reshape(2, len(_DOWN), -1) - np.float32(black)) / np.float32(scale)
    eye, skin = rows[:, : len(_WITHIN)].mean(1), rows[:, len(_WITHIN) :].mean(1)
    part = eye / np.maximum(skin, _DARKEST)
    told = np.clip(1 - part, 0, 1).mean(1) + _UNEVEN * _unevenness(part)
    right, left = np.clip((_OPEN - told) / (_OPEN - _SHUT), 0, 1)
    return float(right), float(left)
