"""What stands before a face: a hand in a glove, a microphone, a cup, dark hair.

The target's colours are read at the places of the canonical mesh. Skin is one colour under a light
that changes slowly over a face: a quadratic surface, fitted to the log of luma and to chroma over
luma (which light does not change) by iteratively reweighted least squares from the warmest part.
What is far from it, is less warm than skin or very dark, forms a patch and does not show a face's
own relief (the source's, or that of the other half) stands before the face. In doubt nothing does:
skin before skin, a beard, glasses, lips and eyes are the face.
"""

from __future__ import annotations

from math import exp
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.mesh import kernels
from swapper.engines.mesh.colour import Map
from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.pose import facing
from swapper.engines.mesh.topology import (
    LEFT_BROW,
    LEFT_EYE,
    LIPS,
    NOSTRILS,
    RIGHT_BROW,
    RIGHT_EYE,
    SUBNASALE,
    TRIANGLES,
    UV,
)

Cells = npt.NDArray[np.float32]
"""(SIDE, SIDE, …): values by place in the texture."""
Mask = npt.NDArray[np.bool_]

SIDE = 48
_POINTS = np.ascontiguousarray(UV * np.float32(SIDE - 1))
_SHOWN = 0.3
"""Alpha from which a place counts."""
_DARKEST = np.float32(0.06)
_GREYEST = np.float32(0.12)
"""Added to luma where it is a logarithm's or a quotient's: noise of the dark counts little."""
_SPREAD = np.array([0.22, 0.02, 0.02], np.float32)
"""Deviation of skin from its surface on a plainly lit face; of each channel."""
_WIDEST = 2.5
"""Times that: deviation of the worst face."""
_ROUNDS = 5
_STIFFNESS = np.array([0, 0.5, 0.5, 2, 2, 2], np.float32)
"""How much the surface prefers to be flat."""
_WARM_RANK, _WARM_SHARE = 80, 0.5
"""Skin is at least so warm, of what is warmer than so many per cent of the face."""
_COLOURED = 0.03
"""Warmth under which a picture has no colours."""
_FAR, _OFF = 20.0, 8.0
"""Squared distances from the surface: where an object is seen, and how far it reaches."""
_LIKE = 12.0
"""Squared distance from an object's own colour within which a place belongs to it."""
_COOLER, _DARK = 0.03, -1.1
"""An object is less warm than the skin there, or darker (log)."""
_DIM = -1.5
"""Deviations of luma from which a place may be beard."""
_BLOWN = float(np.log(0.85 + _DARKEST))
"""Luma (log) above which colours are washed out."""
_FACING = 0.35
_SMALLEST, _CORE = 0.02, 0.3
"""Share of the skin that an object covers at least, and of itself that is far from skin."""
_LARGEST = 0.6
"""Share of the skin above which it is not known what is face."""
_RELIEF, _MIRRORED = 0.35, 0.6
"""Correlations with the source's relief and with the other half from which it is the face itself."""
_RELEASE = 0.1
"""Seconds in which an object that has gone fades."""
_FAINT = 0.02


class Places:
    """Which places of a texture are skin, and its relief."""

    def __init__(self, luma: Cells, alpha: Cells) -> None:
        """Both square, 0..1."""
        small = cv2.resize(np.dstack([luma, alpha]), (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        self.face: Mask = (small[..., 1] > _SHOWN) & _ON_MESH
        self.skin: Mask = self.face & ~_FEATURES
        self.count = int(self.skin.sum())
        self.relief = _relief(np.log(small[..., 0] + _DARKEST))
        self.sample = np.flatnonzero(self.skin)[::3]
        self.basis = _BASIS.reshape(-1, 6)[self.sample]


class Veil:
    """What stands before one face, over time."""

    def __init__(self) -> None:
        self.cover: Cells | None = None
        """0..1 by place, 1 where the face is hidden; None if it is nowhere."""

    def __call__(
        self,
        places: Places,
        target: Map,
        points: npt.NDArray[np.float32],
        marks: Landmarks,
        seconds: float,
    ) -> Cells | None:
        """The new `cover`.

        `target` is a picture of the face, y 0..1, cb, cr -.5..+.5; `points` (468, 2) its vertices in
        there. `seconds` since the frame before.
        """
        hidden = occluded(places, target, points, marks)
        cover = None if self.cover is None else self.cover * np.float32(exp(-seconds / _RELEASE))
        if hidden is not None:
            grown = cv2.dilate(hidden.astype(np.float32), np.ones((4, 4), np.uint8))
            soft = cv2.GaussianBlur(grown, (3, 3), 0.7).astype(np.float32, copy=False)
            cover = soft if cover is None else np.maximum(cover, soft)
        self.cover = cover if cover is not None and cover.max() > _FAINT else None
        return self.cover


def occluded(places: Places, target: Map, points: npt.NDArray[np.float32], marks: Landmarks) -> Mask | None:
    """Places of a face that something hides; None if none is, which a sample of the skin tells."""
    sample = _hues(target, points, places.sample)
    fit, spread = _skin(sample, places.basis)
    few, _ = _foreign(sample - places.basis @ fit, sample, spread)
    if few.mean() < _SMALLEST / 2:
        return None
    values = _hues(target, points, _EVERY).reshape(SIDE, SIDE, 3)
    off = values - _BASIS @ fit
    core, far = _foreign(off, values, spread)
    core &= places.skin
    beard = _beard(off[..., 0] / spread[0] < _DIM, places.skin)
    core &= ~beard & (_by_place(facing(marks)) > _FACING)
    core = _opened(core, 3)
    objects = _objects(core, _opened((far > _OFF) & places.skin & ~beard, 2), places)
    relief = _relief(values[..., 0])
    hidden = np.zeros((SIDE, SIDE), bool)
    for one in objects:
        whole = _whole(one, values, core, (far > _OFF) & places.face)
        if not _is_face(_closed(whole, 13) & places.face, relief, places.relief):
            hidden |= _closed(whole, 5) & places.face
    share = (hidden & places.skin).sum() / places.count
    return hidden if 0 < share < _LARGEST else None


def _hues(target: Map, points: npt.NDArray[np.float32], where: npt.NDArray[np.intp]) -> Cells:
    """Log of luma, cb and cr over luma, at some places (n,): (n, 3)."""
    values = np.empty((len(where), 3), np.float32)
    triangle, weight = _TRIANGLE[where], _WEIGHT[where]
    kernels.read_hues(target, points, triangle, weight, _DARKEST, _GREYEST, values)
    return values


def _foreign(off: Cells, values: Cells, spread: Cells) -> tuple[Mask, Cells]:
    """Where `off` skin's surface something else is seen, and squared distances from it."""
    far = _square(off / spread)
    other = (off[..., 2] - off[..., 1] < -_COOLER) | (off[..., 0] < _DARK)
    return (far > _FAR) & other & (values[..., 0] < _BLOWN), far


def _square(off: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Squared length; quicker than a sum over so short an axis."""
    a, b, c = off[..., 0], off[..., 1], off[..., 2]
    square: npt.NDArray[Any] = a * a + b * b + c * c
    return square


def _skin(values: Cells, basis: Cells) -> tuple[Cells, Cells]:
    """Coefficients (6, 3) of the surface of skin among `values` (n, 3), and its deviation (3,)."""
    warmth = values[:, 2] - values[:, 1]
    warmest = float(np.percentile(warmth, _WARM_RANK))
    warm = warmth > _WARM_SHARE * warmest if warmest > _COLOURED else np.ones(len(values), bool)
    fit, spread = np.empty((6, 3), np.float32), np.empty(3, np.float32)
    start, most = warm.astype(np.float32), np.float32(_WIDEST) * _SPREAD
    kernels.fit_surface(values, basis, start, _STIFFNESS, _SPREAD, most, _ROUNDS, fit, spread)
    return fit, spread


def _deviation(off: Cells) -> Cells:
    """Standard deviation, told from the median."""
    deviation: Cells = np.float32(1.48) * np.median(np.abs(off), axis=0)
    return deviation


def _beard(dim: Mask, skin: Mask) -> Mask:
    """What is dark on both sides below the nose, if most that is dark there is."""
    low = dim & _BELOW_NOSE & skin
    both: Mask = low & low[:, ::-1]
    return both if both.sum() > 0.7 * low.sum() else np.zeros_like(both)


def _objects(core: Mask, reach: Mask, places: Places) -> list[Mask]:
    count, labels = cv2.connectedComponents(reach.astype(np.uint8), connectivity=4)
    sure = np.bincount(labels[core], minlength=count)
    size = np.bincount(labels.reshape(-1), minlength=count)
    large = (sure >= _SMALLEST * places.count) & (sure >= _CORE * size)
    return [labels == number for number in np.flatnonzero(large) if number]


def _whole(one: Mask, values: Cells, core: Mask, reach: Mask) -> Mask:
    """An object with the places of its colour that hang together with it, over eyes and mouth too."""
    seen = values[one & core]
    colour = np.median(seen, axis=0)
    spread = np.maximum(_deviation(seen - colour), _SPREAD)
    alike = _square((values - colour) / spread) < _LIKE
    _, labels = cv2.connectedComponents((one | (alike & reach)).astype(np.uint8), connectivity=4)
    whole: Mask = np.isin(labels, np.unique(labels[one]))
    return whole


def _is_face(area: Mask, relief: Cells, source: Cells) -> bool:
    """Whether the light and dark of an area are those of a face, only lit otherwise."""
    alone = area & ~area[:, ::-1]
    mirrored = _correlation(relief[alone], relief[:, ::-1][alone]) if alone.sum() > 30 else 0.0
    return _correlation(relief[area], source[area]) > _RELIEF or mirrored > _MIRRORED


def _correlation(a: Cells, b: Cells) -> float:
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum() + 1e-6))


def _relief(log_luma: Cells) -> Cells:
    """Without what changes slowly."""
    broad = cv2.GaussianBlur(log_luma, (0, 0), 3, borderType=cv2.BORDER_REPLICATE)
    return (log_luma - broad).astype(np.float32, copy=False)


def _opened(mask: Mask, side: int) -> Mask:
    kernel = np.ones((side, side), np.uint8)
    return cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, kernel).astype(bool)


def _closed(mask: Mask, side: int) -> Mask:
    kernel = np.ones((side, side), np.uint8)
    return cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, kernel).astype(bool)


def _hulls(*parts: list[int]) -> Mask:
    mask = np.zeros((SIDE, SIDE), np.uint8)
    for part in parts:
        hull = cv2.convexHull(np.round(_POINTS[part] * 16).astype(np.int32))
        cv2.fillConvexPoly(mask, hull, 1, shift=4)
    return cv2.dilate(mask, np.ones((3, 3), np.uint8)).astype(bool)


def _weights() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], Mask]:
    """Triangle of each place, weights of its corners, and whether the place lies on the mesh."""
    y, x = np.mgrid[:SIDE, :SIDE]
    cells = np.stack([x, y], -1).reshape(-1, 1, 2).astype(np.float32)
    a, b, c = (_POINTS[TRIANGLES[:, corner]] for corner in range(3))
    b, c, off = b - a, c - a, cells - a
    area = _cross(b, c)
    area[np.abs(area) < 1e-9] = 1e-9
    second, third = _cross(off, c) / area, _cross(b, off) / area
    weights = np.stack([1 - second - third, second, third], -1)
    inside = weights.min(-1)
    best = inside.argmax(1)
    chosen = weights[np.arange(len(best)), best].astype(np.float32)
    return np.ascontiguousarray(TRIANGLES[best]), chosen, (inside.max(1) > -0.01).reshape(SIDE, SIDE)


def _cross(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    product: npt.NDArray[Any] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return product


def _by_place(values: npt.NDArray[np.float32]) -> Cells:
    """Values (468,) of the vertices by place."""
    spread: Cells = (values[_TRIANGLE] * _WEIGHT).sum(1)
    return spread.reshape(SIDE, SIDE)


def _quadratic() -> Cells:
    ramp = np.linspace(-1, 1, SIDE, dtype=np.float32)
    v, u = np.meshgrid(ramp, ramp, indexing="ij")
    return np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], -1)


_TRIANGLE, _WEIGHT, _ON_MESH = _weights()
_BASIS = _quadratic()
_EVERY = np.arange(SIDE * SIDE)
_FEATURES = _hulls(RIGHT_EYE + RIGHT_BROW, LEFT_EYE + LEFT_BROW, LIPS, NOSTRILS)
_BELOW_NOSE = np.arange(SIDE)[:, None] >= np.full(SIDE, np.ceil(_POINTS[SUBNASALE, 1]))
