"""How far a face is turned away, and how much of the texture is shown then."""

from __future__ import annotations

from math import atan2, degrees, exp, hypot

import numpy as np
import numpy.typing as npt

from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.topology import LEFT_EDGE, RIGHT_EDGE, TRIANGLES, VERTICES

_FLATTENED = 1.45
"""The landmark model sees turned faces less turned: 35 degrees where they are 50, 53 where 77."""
FADES_FROM, GONE_AT = 45.0, 60.0
"""Degrees between which the texture fades out."""
_MEMORY = 0.1
"""Seconds over which the turn is averaged."""


def yaw(marks: Landmarks) -> float:
    """Degrees, estimated, by which a face is turned to the side; the sign says to which."""
    across = marks[LEFT_EDGE] - marks[RIGHT_EDGE]
    return _FLATTENED * degrees(atan2(across[2], hypot(across[0], across[1])))


def facing(marks: Landmarks) -> npt.NDArray[np.float32]:
    """Cosine between each vertex's normal and the line of sight; negative: turned away."""
    corners = marks[TRIANGLES]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sums = np.zeros((VERTICES, 3), np.float32)
    for corner in range(3):
        np.add.at(sums, TRIANGLES[:, corner], normals)
    slope = sums[:, 2] / (np.linalg.norm(sums, axis=1) + np.float32(1e-6))
    seen: npt.NDArray[np.float32] = slope * np.sign(np.median(slope))
    return seen


class Turn:
    """The turn of one face over time."""

    def __init__(self) -> None:
        self._yaw: float | None = None
        self._count = 0

    def __call__(self, marks: Landmarks, seconds: float) -> float:
        """Degrees from the front, averaged; `seconds` since the frame before."""
        now = yaw(marks)
        self._count += 1
        rate = max(1 - exp(-seconds / _MEMORY), 1 / self._count)
        self._yaw = now if self._yaw is None else self._yaw + rate * (now - self._yaw)
        return abs(self._yaw)


def visible(degrees_off: float) -> float:
    """0..1: how much of the texture is shown on a face so many degrees from the front."""
    share = min(max((GONE_AT - degrees_off) / (GONE_AT - FADES_FROM), 0.0), 1.0)
    return share * share * (3 - 2 * share)
