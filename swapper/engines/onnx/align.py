"""Where a face lies: templates of five points, and the similarities that take a face to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
"""(n, 2): x, y in pixels."""
Matrix = npt.NDArray[np.float64]
"""(2, 3)."""

_PIXELS = 100
"""Reprojection error up to which a point counts; with all five inside, this is least squares."""


def _template(*numbers: float) -> Points:
    points = np.array(numbers, np.float64).reshape(5, 2)
    points.flags.writeable = False
    return points


TEMPLATES: Mapping[str, Points] = MappingProxyType(
    {
        "arcface_112_v1": _template(
            0.35473214, 0.45658929, 0.64526786, 0.45658929, 0.5,
            0.61154464, 0.37913393, 0.77687500, 0.62086607, 0.77687500,
        ),
        "arcface_112_v2": _template(
            0.34191607, 0.46157411, 0.65653393, 0.45983393, 0.50022500,
            0.64050536, 0.37097589, 0.82469196, 0.63151696, 0.82325089,
        ),
        "arcface_128": _template(
            0.36167656, 0.40387734, 0.63696719, 0.40235469, 0.50019687,
            0.56044219, 0.38710391, 0.72160547, 0.61507734, 0.72034453,
        ),
        "ffhq_512": _template(
            0.37691676, 0.46864664, 0.62285697, 0.46912813, 0.50123859,
            0.61331904, 0.39308822, 0.72541100, 0.61150205, 0.72490465,
        ),
        "mtcnn_512": _template(
            0.36562865, 0.46733799, 0.63305391, 0.46585885, 0.50019127,
            0.61942959, 0.39032951, 0.77598822, 0.61178945, 0.77476328,
        ),
    }
)  # fmt: skip
"""Left eye, right eye, nose, left and right corner of the mouth, as seen in the picture; of a side of 1."""


class Rectangle(NamedTuple):
    """Whole pixels, `right` and `bottom` not included; empty where they are not beyond `x` and `y`."""

    x: int
    y: int
    right: int
    bottom: int

    @property
    def empty(self) -> bool:
        return self.right <= self.x or self.bottom <= self.y

    def meets(self, other: Rectangle) -> bool:
        return (
            self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom
        )

    def grown(self, by: int) -> Rectangle:
        return Rectangle(self.x - by, self.y - by, self.right + by, self.bottom + by)

    def joined(self, *others: Rectangle) -> Rectangle:
        """The smallest that holds all."""
        x, y, right, bottom = zip(self, *others, strict=True)
        return Rectangle(min(x), min(y), max(right), max(bottom))

    def within(self, width: int, height: int) -> Rectangle:
        return Rectangle(max(self.x, 0), max(self.y, 0), min(self.right, width), min(self.bottom, height))


def fitted(points: Points, template: str, side: float) -> Matrix:
    """The similarity that takes five points, which must be spread, nearest to a template of this side."""
    goal = TEMPLATES[template] * side
    matrix, _ = cv2.estimateAffinePartial2D(points, goal, method=cv2.RANSAC, ransacReprojThreshold=_PIXELS)
    if matrix is None or not np.isfinite(matrix).all():
        raise ValueError("five points in one place")
    return np.asarray(matrix, np.float64)


def is_spread(points: Points) -> bool:
    """Whether a similarity can be found for points: they are finite, and not all in one pixel."""
    return bool(np.isfinite(points).all()) and float(np.ptp(points, 0).max()) >= 1


def inverse(matrix: Matrix) -> Matrix:
    back: Any = cv2.invertAffineTransform(matrix)
    return np.asarray(back, np.float64)


def moved(points: npt.NDArray[Any], matrix: Matrix) -> npt.NDArray[Any]:
    """(n, 2) points under a matrix, in the precision of the points."""
    placed: Any = cv2.transform(points.reshape(-1, 1, 2), matrix)
    return np.asarray(placed).reshape(-1, 2)


def shifted(matrix: Matrix, x: float, y: float) -> Matrix:
    """The matrix with what comes out of it moved by -x, -y."""
    return matrix - np.array([[0, 0, x], [0, 0, y]], np.float64)


def reach(back: Matrix, width: int, height: int) -> Rectangle:
    """Whole pixels (to the nearest) around a crop of this size that `back` puts into a picture; may lie
    outside of it."""
    corners = moved(np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64), back)
    low, high = corners.min(0), corners.max(0)
    return Rectangle(round(low[0]), round(low[1]), round(high[0]), round(high[1]))


@lru_cache(maxsize=64)
def turn(degrees: int, width: int, height: int) -> tuple[Matrix, tuple[int, int]]:
    """A counter-clockwise turn of a picture about its centre, and the (width, height) that holds it.

    The centre is at half of the sides in pixels counted from 0, as the original has it: so a quarter turn
    loses a row or a column and shows a black one.
    """
    matrix = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1), np.float64)
    cosine, sine = np.abs(matrix[0, :2])
    size = int(width * cosine + height * sine), int(width * sine + height * cosine)
    return shifted(matrix, width / 2 - size[0] / 2, height / 2 - size[1] / 2), size
