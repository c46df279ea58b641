"""What is known of one face in a picture, as stages find it out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.align import Points

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Hit:
    """What a detector says. `box` (4,): left, top, right, bottom in pixels; `points` (5, 2)."""

    box: npt.NDArray[np.float64]
    score: float
    points: Points

    @property
    def area(self) -> float:
        return float((self.box[2] - self.box[0]) * (self.box[3] - self.box[1]))


@dataclass(frozen=True, slots=True)
class Traits:
    """What the classifier says; the age lies in [from, to)."""

    gender: str
    race: str
    age: tuple[int, int]


@dataclass(slots=True)
class Face:
    """A face with its landmarks: `outline` (68, 2), and five `points` to align it by.

    `angle`: by which quarter turn counter-clockwise it stands upright, in degrees. `embedding` (512,) and
    `traits` are filled in by `recognise` where they are needed.
    """

    hit: Hit
    angle: int
    outline: Points
    certainty: float
    """Of the landmarks, 0..1."""
    points: Points
    embedding: Vector | None = None
    traits: Traits | None = None

    @property
    def identity(self) -> Vector:
        """The raw embedding, which must have been asked for."""
        assert self.embedding is not None
        return self.embedding
