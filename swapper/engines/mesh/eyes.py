"""Whether eyes are closed. The landmark model keeps its lids open, so it is told from the picture:
the upper part of a closed eye is lid, as bright as the skin below the eye; that of an open one is
darker by iris and lashes."""

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
_SHUT, _OPEN = 0.05, 0.11
"""How much darker than skin the upper part of an eye is."""


def _columns() -> npt.NDArray[np.float32]:
    """(16, 9): places across an eye from the points of a lid."""
    knots = np.linspace(0, 1, 9)
    return np.stack([np.interp(_ACROSS, knots, row) for row in np.eye(9)], -1).astype(np.float32)


_COLUMNS = _columns()


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
    darker = np.clip(1 - eye / np.maximum(skin, _DARKEST), 0, 1).mean(1)
    right, left = np.clip((_OPEN - darker) / (_OPEN - _SHUT), 0, 1)
    return float(right), float(left)
