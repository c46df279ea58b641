"""The source face as one texture in the canonical mesh's own coordinates.

Each picture is unwrapped onto the mesh; the one seen most from the front leads, and where another,
or the mirrored half, sees a place better, that is taken. Broad tones are the mean of all pictures,
detail is of one: means of details are blurred. Alpha is the part that is certainly face:
the oval without hairline, edge, hair over the forehead or collar, feathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.colour import Samples
from swapper.decode import Picture
from swapper.engines.mesh import kernels
from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.occlusion import Places
from swapper.engines.mesh.pose import facing
from swapper.engines.mesh.topology import (
    BROWS,
    FACE_OVAL,
    INNER_FACE,
    SKIN_PATCHES,
    TRIANGLES,
    UV,
    VERTICES,
)
from swapper.transfer import from_srgb, is_hdr

Texture = npt.NDArray[np.uint8]
"""(SIDE, SIDE, 4): B, G, R, alpha."""
Mask = npt.NDArray[np.uint8]
Weight = npt.NDArray[np.float32]

SIDE = 512
_SMALLEST = 64
_SHOWS = 4
"""Alpha, of 255, from which a texel makes a visible difference."""
_OUTLINE_STEP = 6
_POINTS = np.ascontiguousarray(UV * np.float32(SIDE - 1))
_OVAL_SHRINK = 0.88
_ABOVE_BROWS = 0.075
"""Of SIDE: how much of the forehead belongs to the texture."""
_FEATHER = 0.08
_MIN_FACING = 0.15
_FAINT = np.float32(1e-3)
_BROAD = 0.06
"""Of SIDE: sigma of what counts as a broad tone."""
_SKIN_DISTANCE = 7.0
"""Squared Mahalanobis distance up to which a colour is the face's skin."""
_SKIN_VARIANCE = (90.0, 9.0, 14.0)
"""Of L, a, b (8 bit), added to what the skin patches show."""


@dataclass(frozen=True, slots=True)
class Level:
    """One size of a texture: `luma` (n, n, 2) y, alpha; `chroma` (n, n, 3) cb + 128, cr + 128, alpha.

    All 0..255; uint8, but float32 for HDR, whose code steps of 8 bit would show.
    """

    luma: npt.NDArray[Any]
    chroma: npt.NDArray[Any]


class YuvTexture:
    """A texture in the matrix, transfer and primaries of a stream, at all sizes from 64 to 512 so that
    small faces do not flicker."""

    def __init__(self, texture: Texture, meaning: Samples) -> None:
        bgr, alpha = texture[..., :3], texture[..., 3]
        rgb = from_srgb(
            bgr[..., ::-1].astype(np.float32) / np.float32(255), meaning.transfer, meaning.primaries
        )
        yuv = rgb * np.float32(255) @ meaning.from_rgb().T
        yuv[..., 1:] += 128
        exact = np.dstack([np.clip(yuv, 0, 255), alpha]).astype(np.float32)
        packed: Any = exact if is_hdr(meaning.transfer) else np.round(exact).astype(np.uint8)
        self._levels: list[tuple[int, Level]] = []
        side = len(packed)
        while side >= _SMALLEST:
            luma = np.ascontiguousarray(packed[..., [0, 3]])
            self._levels.append((side, Level(luma, np.ascontiguousarray(packed[..., 1:]))))
            smallest = packed
            side //= 2
            packed = cv2.resize(packed, (side, side), interpolation=cv2.INTER_AREA)
        self.small = np.ascontiguousarray((smallest - _GREY) * np.float32(1 / 255))
        """(64, 64, 4) float32: y, cb, cr, alpha; y and alpha 0..1, cb, cr -.5..+.5."""
        self.triangles = _visible(alpha)
        """(n, 3): those of the mesh that are not transparent all over."""
        self.outline = Outline(alpha)
        self.places = Places(self.small[..., 0], self.small[..., 3])

    def level(self, face: float) -> Level:
        """The size for a face of so many luma samples."""
        large_enough = [level for side, level in self._levels if side >= 0.8 * face]
        return large_enough[-1] if large_enough else self._levels[0][1]


def _visible(alpha: Mask) -> npt.NDArray[np.int32]:
    """Triangles with a texel that shows in the box around them."""
    corners = _POINTS[TRIANGLES]
    low, high = corners.min(1).astype(int), corners.max(1).astype(int) + 2
    boxes = zip(low, high, strict=True)
    shown = [(alpha[y:bottom, x:right] >= _SHOWS).any() for (x, y), (right, bottom) in boxes]
    return np.ascontiguousarray(TRIANGLES[shown])


class Outline:
    """The edge of what shows of a texture, to be found again on landmarks."""

    def __init__(self, alpha: Mask) -> None:
        shown = (alpha >= _SHOWS).astype(np.uint8)
        contours, _ = cv2.findContours(shown, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        points = np.concatenate([contour[:, 0] for contour in contours])[::_OUTLINE_STEP]
        origin, b, c = (_POINTS[TRIANGLES[:, corner]] for corner in range(3))
        b, c = b - origin, c - origin
        off = points[:, None] - origin
        area = _cross(b, c)
        weights = np.stack([_cross(off, c) / area, _cross(b, off) / area], -1)
        weights = np.insert(weights, 0, 1 - weights.sum(-1), axis=-1)
        best = weights.min(-1).argmax(1)
        self._triangles = TRIANGLES[best]
        self._weights = weights[np.arange(len(best)), best].astype(np.float32)[..., None]

    def on(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Its places (n, 2) for vertices at `points` (468, 2)."""
        outline: npt.NDArray[np.float32] = (points[self._triangles] * self._weights).sum(1)
        return outline


def _cross(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    product: npt.NDArray[Any] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return product


_GREY = np.array([0, 128, 128, 0], np.float32)


def unwrap(pictures: Sequence[tuple[Picture, Landmarks]]) -> Texture:
    """The texture of one person's face from pictures with their landmarks."""
    views = [_View.of(picture, marks) for picture, marks in pictures]
    views.sort(key=lambda view: -float(view.facing[_inner() > 0].mean()))
    lead = views[0]
    colours, facing, skin = lead.colours, lead.facing, lead.skin
    matched = [lead.colours] + [_matched(other.colours, lead.colours) for other in views[1:]]
    for other, like in zip(views[1:], matched[1:], strict=True):
        colours = _filled(colours, facing, like, other.facing)
        skin |= other.skin & (other.facing > facing).astype(np.uint8)
        facing = np.maximum(facing, other.facing)
    if len(views) > 1:
        colours = _evened(colours, matched, [_trust(view.facing) for view in views])
    area = _area(facing) & (skin * np.uint8(255))
    area = _connected(area)
    colours = _filled(colours, facing, colours[:, ::-1], facing[:, ::-1])
    return np.dstack([_bled(colours), _feathered(area)])


@dataclass(slots=True)
class _View:
    """One picture on the mesh."""

    colours: Picture
    facing: Weight
    """1 seen from the front, 0 from the side or not at all."""
    skin: Mask
    """0 or 1: has the colour of the face's skin, or is where eyes, nose and mouth are."""

    @classmethod
    def of(cls, picture: Picture, marks: Landmarks) -> _View:
        x, y = cv2.split(_over_uv(marks[:, :2]))
        colours: Any = cv2.remap(picture, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        slope = facing(marks)
        spread = _over_uv(np.column_stack([slope, slope]))[..., 0]
        smooth: Any = cv2.GaussianBlur(spread, (0, 0), SIDE / 60)
        return cls(colours, smooth, _skin(colours))


def _over_uv(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Values (468, 2) of the vertices, spread over the texture: (SIDE, SIDE, 2); 0 outside."""
    raster = np.zeros((SIDE, SIDE, 3), np.float32)
    flat = np.zeros(VERTICES, np.float32)
    kernels.rasterise(_POINTS, flat, np.ascontiguousarray(values, np.float32), TRIANGLES, raster)
    return np.ascontiguousarray(raster[..., :2])


def _polygon(points: npt.NDArray[np.float32], mask: Mask | None = None) -> Mask:
    mask = np.zeros((SIDE, SIDE), np.uint8) if mask is None else mask
    cv2.fillPoly(mask, [np.round(points).astype(np.int32)], 255)
    return mask


def _hull(vertices: list[int]) -> npt.NDArray[Any]:
    return cv2.convexHull(np.round(_POINTS[vertices]).astype(np.int32))


def _inner() -> Mask:
    return _polygon(_hull(INNER_FACE))


def _area(facing: Weight) -> Mask:
    """Where the texture may be used: inside the oval, up to above the brows, seen well enough."""
    oval = _POINTS[FACE_OVAL]
    centre = oval.mean(0)
    area = _polygon((oval - centre) * np.float32(_OVAL_SHRINK) + centre)
    edge = _POINTS[BROWS] - np.array([0, _ABOVE_BROWS * SIDE], np.float32)
    rows, columns = np.arange(SIDE)[:, None], np.arange(SIDE)
    area[rows < np.interp(columns, edge[:, 0], edge[:, 1])] = 0
    area[(facing < _MIN_FACING) & (_inner() == 0)] = 0
    return area


def _skin(colours: Picture) -> Mask:
    """Places whose colour is that of cheeks, brow and nose, and all of the inner face."""
    lab = cv2.cvtColor(cv2.GaussianBlur(colours, (0, 0), SIDE / 170), cv2.COLOR_BGR2Lab)
    patches = np.zeros((SIDE, SIDE), np.uint8)
    for vertices in SKIN_PATCHES:
        _polygon(_hull(vertices), patches)
    sample = lab[patches > 0].astype(np.float32)
    mean = np.median(sample, axis=0)
    distance = np.abs(sample - mean).sum(1)
    sample = sample[distance <= np.percentile(distance, 85)]
    inverse = np.linalg.inv(np.cov((sample - mean).T) + np.diag(_SKIN_VARIANCE))
    off = lab.astype(np.float32) - mean
    near = np.einsum("ijk,kl,ijl->ij", off, inverse, off) < _SKIN_DISTANCE
    skin: Any = (near | (_inner() > 0)).astype(np.uint8)
    skin = cv2.morphologyEx(skin, cv2.MORPH_CLOSE, np.ones((SIDE // 50,) * 2, np.uint8))
    opened: Any = cv2.morphologyEx(skin, cv2.MORPH_OPEN, np.ones((SIDE // 25,) * 2, np.uint8))
    mask: Mask = opened.astype(np.uint8, copy=False)
    return mask


def _connected(area: Mask) -> Mask:
    """The part that hangs together with the inner face."""
    _, labels = cv2.connectedComponents((area > 0).astype(np.uint8))
    inner = labels[(_inner() > 0) & (area > 0)]
    if not len(inner):
        return area
    kept: Mask = np.where(labels == np.bincount(inner).argmax(), 255, 0).astype(np.uint8)
    return kept


def _filled(colours: Picture, facing: Weight, other: Picture, other_facing: Weight) -> Picture:
    """`colours`, with `other` where that sees better."""
    share = np.clip(_trust(other_facing) - _trust(facing), 0, 1)[..., None]
    mixed: Picture = (colours * (1 - share) + other * share + 0.5).astype(np.uint8)
    return mixed


def _trust(facing: Weight) -> Weight:
    """0..1: how well a place is seen."""
    trust: Weight = np.clip((facing - 0.1) / 0.3, 0, 1) ** 2
    return trust


def _evened(colours: Picture, pictures: Sequence[Picture], trusts: Sequence[Weight]) -> Picture:
    """`colours` with the broad tones that all pictures have in the mean: the light of one counts less."""
    total = sum(trusts, np.full((SIDE, SIDE), _FAINT, np.float32))[..., None]
    mean = sum((p * t[..., None] for p, t in zip(pictures, trusts, strict=True)), colours * _FAINT)
    packed = np.dstack([mean - colours * total, total]).astype(np.float32)
    blurred = cv2.GaussianBlur(packed, (0, 0), _BROAD * SIDE)
    evened: Picture = np.clip(colours + blurred[..., :3] / blurred[..., 3:] + 0.5, 0, 255).astype(np.uint8)
    return evened


def _matched(colours: Picture, like: Picture) -> Picture:
    """Mean and spread of the inner face's colours made those of `like`: pictures differ in light."""
    inner = _inner() > 0
    mean, spread = colours[inner].mean(0), colours[inner].std(0)
    to_mean, to_spread = like[inner].mean(0), like[inner].std(0)
    moved = (colours - mean) * np.clip(to_spread / (spread + 1), 0.7, 1.4) + to_mean
    matched: Picture = np.clip(moved, 0, 255).astype(np.uint8)
    return matched


def _bled(colours: Picture) -> Picture:
    """Colours pushed outwards from the oval, so that nothing foreign is sampled at its edge."""
    oval = _polygon(_POINTS[FACE_OVAL])
    core = cv2.erode(oval, np.ones((9, 9), np.uint8))
    size = (SIDE // 4, SIDE // 4)
    small = cv2.resize(colours, size, interpolation=cv2.INTER_AREA)
    outside = cv2.resize(255 - core, size, interpolation=cv2.INTER_NEAREST)
    grown = cv2.resize(cv2.inpaint(small, outside, 5, cv2.INPAINT_TELEA), (SIDE, SIDE))
    inside = cv2.erode(oval, np.ones((3, 3), np.uint8))[..., None] > 0
    return np.where(inside, colours, grown).astype(np.uint8)


def _feathered(area: Mask) -> Mask:
    """Alpha 0..255 that rises smoothly inwards from the edge, and is 0 outside."""
    framed = cv2.copyMakeBorder(area, 1, 1, 1, 1, cv2.BORDER_CONSTANT)
    depth = cv2.distanceTransform(framed, cv2.DIST_L2, 5)[1:-1, 1:-1] / SIDE
    ramp = np.clip(depth / _FEATHER, 0, 1)
    alpha = cv2.GaussianBlur(ramp * ramp * (3 - 2 * ramp), (0, 0), SIDE / 60)
    feathered: Mask = np.where(area > 0, alpha * 255, 0).astype(np.uint8)
    return feathered
