"""Draws a source texture on the tracked faces of a frame: rectangles of new samples come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from schemas.pixels import PixelFormat
from swapper.colour import Samples
from swapper.engines.base import PatchPixels, Plane
from swapper.engines.mesh import kernels
from swapper.engines.mesh.colour import SIDE, Light, Map
from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.stages import Stages
from swapper.engines.mesh.texture import Level, YuvTexture
from swapper.engines.mesh.topology import (
    INNER_LIPS,
    LEFT_EYE,
    LOWER_LIP_INNER,
    RIGHT_EYE,
    UPPER_LIP_INNER,
    UV,
)

_COVER_SIDE = 128
_MIN_SIDE = 8
"""Faces of which less than this many samples can be seen are left alone."""
_FAINT = np.float32(1e-4)
_OPEN_FROM, _OPEN_RANGE = 0.015, 0.03
"""Gap of the lips, over the face's height, from which the target's mouth shows, and how much more
until all of it does."""

Cover = npt.NDArray[np.uint8]
_ALL_COVERED = np.full((_COVER_SIDE, _COVER_SIDE), 255, np.uint8)


@dataclass(frozen=True, slots=True)
class Look:
    """How a face is drawn, each 0..1: how much of the target's own eyes and open mouth stays, and
    of its shading is taken over."""

    keep_eyes: float = 0.0
    keep_mouth: float = 1.0
    shade: float = 0.9


@dataclass(frozen=True, slots=True)
class Rectangle:
    """In luma samples, on the chroma grid or at the frame's edge."""

    x: int
    y: int
    width: int
    height: int

    @classmethod
    def around(
        cls, points: npt.NDArray[np.float32], pixels: PixelFormat, width: int, height: int
    ) -> Rectangle:
        """The part of the frame that points (n, 2) span; sides may be 0 or less outside of it."""
        step = np.array([1 << pixels.chroma_x, 1 << pixels.chroma_y])
        low = np.floor((points.min(0) - 1) / step).astype(int) * step
        high = np.ceil((points.max(0) + 2) / step).astype(int) * step
        x, y = (int(n) for n in np.maximum(low, 0))
        right, bottom = (int(n) for n in np.minimum(high, [width, height]))
        return cls(x, y, right - x, bottom - y)

    def of_plane(self, plane: int, pixels: PixelFormat) -> tuple[slice, slice]:
        """Rows and columns of the rectangle in a plane."""
        sx, sy = (pixels.chroma_x, pixels.chroma_y) if plane in (1, 2) else (0, 0)
        width, height = pixels.plane_size(plane, self.width, self.height)
        x, y = self.x >> sx, self.y >> sy
        return slice(y, y + height), slice(x, x + width)


class Painter:
    """Draws faces; keeps only scratch memory."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._scratch = np.empty(0, np.float32)
        self._small = np.empty((SIDE, SIDE, 3), np.float32)
        self._seen = np.empty((SIDE, SIDE, 4), np.float32)

    def paint(
        self,
        planes: Sequence[Plane],
        pixels: PixelFormat,
        meaning: Samples,
        texture: YuvTexture,
        marks: Landmarks,
        light: Light,
        look: Look,
        earlier: Sequence[PatchPixels],
        *,
        seconds: float,
        draw: bool,
    ) -> PatchPixels | None:
        """Draw one face on a copy of its rectangle, over `earlier` patches of the same frame.

        `seconds` since the frame before. Without `draw` only `light` learns. None if too little of
        the face is in the frame.
        """
        height, width = planes[0].shape
        place = Rectangle.around(texture.outline.on(marks[:, :2]), pixels, width, height)
        if min(place.width, place.height) < _MIN_SIDE:
            return None
        points = marks[:, :2] - np.array([place.x, place.y], np.float32)
        depth = np.ascontiguousarray(marks[:, 2])
        with self._stages("mask"):
            cover = _cover(points, place, look)
        with self._stages("colour"):
            parts = [plane[place.of_plane(i, pixels)] for i, plane in enumerate(planes)]
            target, source, weight = self._both(parts, meaning, texture, points, depth, cover, place)
            gain = light(target, source, weight, look.shade, seconds)
        if not draw:
            return None
        with self._stages("raster"):
            raster = self._raster(place)
            kernels.rasterise(points, depth, UV, texture.triangles, raster)
        with self._stages("render"):
            patch = _copy(parts, place, pixels, earlier)
            level = texture.level(float(np.ptp(points, axis=0).max()))
            _blend(patch, raster, level, gain, cover, meaning, pixels)
        return patch

    def _raster(self, place: Rectangle) -> kernels.Raster:
        size = place.width * place.height * 3
        if self._scratch.size < size:
            self._scratch = np.empty(size, np.float32)
        return self._scratch[:size].reshape(place.height, place.width, 3)

    def _both(
        self,
        parts: Sequence[Plane],
        meaning: Samples,
        texture: YuvTexture,
        points: npt.NDArray[np.float32],
        depth: npt.NDArray[np.float32],
        cover: Cover | None,
        place: Rectangle,
    ) -> tuple[Map, Map, npt.NDArray[np.float32]]:
        """Target, source and weight as `Light` takes them."""
        scale = np.array([SIDE / place.width, SIDE / place.height], np.float32)
        small = points * scale
        kernels.rasterise(small, depth, UV, texture.triangles, self._small)
        kernels.look_up(self._small, texture.small, self._seen)
        weight = self._seen[..., 3]
        if cover is not None:
            shown = cv2.resize(cover, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            weight = weight * shown * np.float32(1 / 255)
        return _shrunk(parts, meaning), self._seen[..., :3], weight + _FAINT


def _shrunk(parts: Sequence[Plane], meaning: Samples) -> npt.NDArray[np.float32]:
    """(SIDE, SIDE, 3): y, cb, cr of a rectangle."""
    out = np.zeros((SIDE, SIDE, 3), np.float32)
    for i, part in enumerate(parts[: 3 if len(parts) >= 3 else 1]):
        small = cv2.resize(part, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        zero, scale = (meaning.grey, meaning.chroma) if i else (meaning.black, meaning.luma)
        out[..., i] = (small - np.float32(zero)) * np.float32(1 / scale)
    return out


def _cover(points: npt.NDArray[np.float32], place: Rectangle, look: Look) -> Cover | None:
    """Where the texture goes, 0..255 over the rectangle; None for everywhere."""
    gap = float(np.linalg.norm(points[UPPER_LIP_INNER] - points[LOWER_LIP_INNER]))
    tall = float(np.ptp(points[:, 1]))
    opening = min(max((gap / tall - _OPEN_FROM) / _OPEN_RANGE, 0.0), 1.0)
    kept = [(INNER_LIPS, look.keep_mouth * opening)]
    kept += [(eye, look.keep_eyes) for eye in (LEFT_EYE, RIGHT_EYE)]
    kept = [(part, keep) for part, keep in kept if keep > 0]
    if not kept:
        return None
    cover = _ALL_COVERED.copy()
    scale = np.array([_COVER_SIDE / place.width, _COVER_SIDE / place.height], np.float32)
    for part, keep in kept:
        outline = np.round(points[part] * scale * 16).astype(np.int32)
        cv2.fillPoly(cover, [outline], round(255 * (1 - keep)), shift=4)
    return cv2.GaussianBlur(cover, (7, 7), 1.6).astype(np.uint8, copy=False)


def _copy(
    parts: Sequence[Plane], place: Rectangle, pixels: PixelFormat, earlier: Sequence[PatchPixels]
) -> PatchPixels:
    """The rectangle as it is now: the frame's samples under those of earlier patches."""
    patch = PatchPixels(place.x, place.y, place.width, place.height, tuple(np.array(part) for part in parts))
    for other in earlier:
        x, y = max(patch.x, other.x), max(patch.y, other.y)
        right = min(patch.x + patch.width, other.x + other.width)
        bottom = min(patch.y + patch.height, other.y + other.height)
        if right > x and bottom > y:
            for i, (to, source) in enumerate(zip(patch.planes, other.planes, strict=True)):
                ours = Rectangle(x - patch.x, y - patch.y, right - x, bottom - y)
                theirs = Rectangle(x - other.x, y - other.y, right - x, bottom - y)
                to[ours.of_plane(i, pixels)] = source[theirs.of_plane(i, pixels)]
    return patch


def _blend(
    patch: PatchPixels,
    raster: kernels.Raster,
    level: Level,
    gain: npt.NDArray[np.float32],
    cover: Cover | None,
    meaning: Samples,
    pixels: PixelFormat,
) -> None:
    cover = _ALL_COVERED if cover is None else cover
    black, scale = np.float32(meaning.black), np.float32(meaning.luma / 255)
    kernels.blend_luma(patch.planes[0], raster, level.luma, gain, cover, black, scale)
    if pixels.planes >= 3:
        grey, reach = np.float32(meaning.grey), np.float32(meaning.chroma)
        cb, cr = patch.planes[1:3]
        x, y = pixels.chroma_x, pixels.chroma_y
        kernels.blend_chroma(cb, cr, raster, level.chroma, gain, cover, grey, reach, x, y)
