"""Quietens landmarks over time without lag.

The filter is the One-Euro filter (Casiez et al., 2012) on what is left of the motion after the
last shape has been moved by the similarity (turn, scale, shift) that fits the new landmarks best:
so a moving head is followed at once, and only the trembling within the face is filtered.
"""

from __future__ import annotations

from math import exp, pi

import numpy as np

from swapper.engines.mesh.landmarks import Landmarks

_CUTOFF = 1.2
"""Hz, for a face at rest."""
_SPEED = 8.0
"""Hz more for each face-square side a second."""
_DEPTH_SECONDS = 0.05
"""Over which depth, which trembles most and shows least, is averaged."""


class Smoother:
    """State of one face."""

    def __init__(self) -> None:
        self._raw: Landmarks | None = None
        self._shape: Landmarks | None = None

    def __call__(self, marks: Landmarks, seconds: float, scale: float) -> Landmarks:
        """The quietened landmarks; `seconds` since the last ones, `scale` is the face's size."""
        if self._raw is None or self._shape is None:
            shape = marks
        else:
            moved = _moved(self._shape, self._raw, marks)
            rest = marks[:, :2] - moved
            speed = np.linalg.norm(rest, axis=1, keepdims=True) / np.float32(seconds * scale)
            rate = np.float32(2 * pi * seconds) * (_CUTOFF + np.float32(_SPEED) * speed)
            share = np.float32(1 - exp(-seconds / _DEPTH_SECONDS))
            depth = self._shape[:, 2:] + share * (marks[:, 2:] - self._shape[:, 2:])
            shape = np.hstack([moved + rate / (1 + rate) * rest, depth]).astype(np.float32)
        self._raw, self._shape = marks, shape
        return shape


def _moved(shape: Landmarks, before: Landmarks, after: Landmarks) -> Landmarks:
    """`shape`'s x, y moved by the least-squares similarity that takes `before` to `after`."""
    from_mean, to_mean = before[:, :2].mean(0), after[:, :2].mean(0)
    a, b = before[:, :2] - from_mean, after[:, :2] - to_mean
    size = (a * a).sum()
    cosine = (a * b).sum() / size
    sine = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum() / size
    turn = np.array([[cosine, sine], [-sine, cosine]], np.float32)
    moved: Landmarks = (shape[:, :2] - from_mean) @ turn + to_mean
    return moved
