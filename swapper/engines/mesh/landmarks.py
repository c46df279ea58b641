"""The 468 landmarks of one face, and the square it is seen in (MediaPipe; Kartynnik et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import atan2, cos, exp, hypot, log2, pi, sin

import numpy as np
import numpy.typing as npt

from swapper.engines.mesh.detect import Detection
from swapper.engines.mesh.inference import Model
from swapper.engines.mesh.topology import LEFT_EYE_OUTER, RIGHT_EYE_OUTER, VERTICES
from swapper.sampling import Rgb

Landmarks = npt.NDArray[np.float32]
"""(468, 3): x, y in luma samples of the frame (x stretched to square ones where samples are not),
z in the same unit, smaller is nearer."""

SIDE = 192
"""Side of the square that the model sees."""
_MARGIN = 1.5
"""Side of the square over the longer side of the face (MediaPipe, face_landmark graph)."""
_STEP = 1 / 64
"""Grain of a square's place, size (octaves) and angle (radians): about one pixel of the model's
input. Two streams that follow the same face from different starts then see the very same picture
after a few frames, and their states become equal, not just close."""
_SAME = 0.25


@dataclass(frozen=True, slots=True)
class Square:
    """A turned square around a face: centre, side (luma samples), angle (radians, clockwise)."""

    x: float
    y: float
    side: float
    angle: float

    @classmethod
    def of_detection(cls, found: Detection) -> Square:
        eyes = found.points[1] - found.points[0]
        angle = atan2(eyes[1], eyes[0])
        return cls._on_grid(found.centre, _MARGIN * float(found.size.max()), angle)

    @classmethod
    def of_landmarks(cls, marks: Landmarks) -> Square:
        eyes = marks[LEFT_EYE_OUTER, :2] - marks[RIGHT_EYE_OUTER, :2]
        angle = atan2(eyes[1], eyes[0])
        turn = np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]], np.float32)
        upright = marks[:, :2] @ turn
        low, high = upright.min(0), upright.max(0)
        return cls._on_grid(turn @ ((low + high) / 2), _MARGIN * float((high - low).max()), angle)

    @classmethod
    def _on_grid(cls, centre: npt.NDArray[np.float32], side: float, angle: float) -> Square:
        side = 2 ** (round(log2(max(side, 1.0)) / _STEP) * _STEP)
        grain = 2 ** round(log2(side / SIDE))
        x, y = (round(float(c) / grain) * grain for c in centre)
        return cls(x, y, side, round(angle / _STEP) * _STEP)

    def matrix(self) -> npt.NDArray[np.float64]:
        """(2, 3): pixels of the model's input to luma samples."""
        scale, half = self.side / SIDE, SIDE / 2
        c, s = cos(self.angle) * scale, sin(self.angle) * scale
        return np.array([[c, -s, self.x - half * c + half * s], [s, c, self.y - half * s - half * c]])

    def upside_down(self) -> Square:
        return replace(self, angle=self.angle + pi)

    def same_face(self, other: Square) -> bool:
        """Whether two squares lie on one face."""
        return hypot(self.x - other.x, self.y - other.y) < _SAME * max(self.side, other.side)


class Mesh:
    """Landmarks of the face in a square."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __call__(self, image: Rgb, square: Square) -> tuple[Landmarks, float]:
        """`image` is the square's picture, (192, 192, 3); returns its landmarks in the frame and
        the model's belief, 0 to 1, that there is a face.

        One picture a call: more at once are slower each on a CPU (they leave its cache).
        """
        raw, belief = self._model(image[None])
        return read(raw[0], belief[0], square)


def read(
    raw: npt.NDArray[np.float32], belief: npt.NDArray[np.float32], square: Square
) -> tuple[Landmarks, float]:
    """What the model says of a square's picture, (1404,) and (1,), as `Mesh` returns it."""
    points, matrix = raw.reshape(VERTICES, 3), square.matrix().astype(np.float32)
    marks = np.empty((VERTICES, 3), np.float32)
    marks[:, :2] = points[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    marks[:, 2] = points[:, 2] * np.float32(square.side / SIDE)
    return marks, 1 / (1 + exp(-float(belief[0])))
