"""Draws a source texture on the tracked faces of a frame: rectangles of new samples come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
import numpy.typing as npt

from schemas.pixels import PixelFormat
from swapper.colour import Samples
from swapper.engines.base import PatchPixels, Plane
from swapper.engines.mesh import eyes, kernels
from swapper.engines.mesh.colour import SIDE, Light, Map
from swapper.engines.mesh.cover import ALL, Cover, Look, both, features, turned, unveiled
from swapper.engines.mesh.cover import SIDE as COVER
from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.occlusion import Veil
from swapper.engines.mesh.pose import Turn, facing, visible
from swapper.engines.mesh.stages import Stages
from swapper.engines.mesh.texture import Level, YuvTexture
from swapper.engines.mesh.topology import UV

_MIN_SIDE = 8
"""Faces of which less than this many samples can be seen are left alone."""
_FAINT = np.float32(1e-4)
_TURNED_FROM = 25.0
"""Degrees from the front from which parts of a face are turned away."""


@dataclass(slots=True)
class Memory:
    """What is remembered of one face from frame to frame."""

    light: Light = field(default_factory=Light)
    veil: Veil = field(default_factory=Veil)
    turn: Turn = field(default_factory=Turn)


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
        memory: Memory,
        look: Look,
        earlier: Sequence[PatchPixels],
        *,
        seconds: float,
        draw: bool,
    ) -> PatchPixels | None:
        """Draw one face on a copy of its rectangle, over `earlier` patches of the same frame.

        `seconds` since the frame before. Without `draw` only `memory` learns. None if too little of
        the face is in the frame, or it is turned too far away.
        """
        angle = memory.turn(marks, seconds)
        shown = visible(angle)
        height, width = planes[0].shape
        place = Rectangle.around(texture.outline.on(marks[:, :2]), pixels, width, height)
        if min(place.width, place.height) < _MIN_SIDE:
            return None
        points = marks[:, :2] - np.array([place.x, place.y], np.float32)
        depth = np.ascontiguousarray(marks[:, 2])
        parts = [plane[place.of_plane(i, pixels)] for i, plane in enumerate(planes)]
        with self._stages("mask"):
            fine = np.array([COVER / place.width, COVER / place.height], np.float32)
            closed = eyes.closed(parts[0], points, meaning.black, meaning.luma)
            cover = features(points, fine, look, closed)
            if angle > _TURNED_FROM:
                cover = both(cover, turned(points * fine, depth, facing(marks)))
        with self._stages("colour"):
            target = _shrunk(parts, meaning)
        with self._stages("mask"):
            coarse = np.array([SIDE / place.width, SIDE / place.height], np.float32)
            veil = memory.veil(texture.places, target, points * coarse, marks, seconds)
            if veil is not None:
                cover = both(cover, unveiled(points * fine, depth, veil))
        with self._stages("colour"):
            source, weight = self._source(texture, points * coarse, depth, cover)
            gain = memory.light(target, source, weight, look.shade, seconds)
        if not draw or not shown:
            return None
        if shown < 1:
            cover = both(cover, np.full_like(ALL, round(255 * shown)))
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

    def _source(
        self,
        texture: YuvTexture,
        small: npt.NDArray[np.float32],
        depth: npt.NDArray[np.float32],
        cover: Cover | None,
    ) -> tuple[Map, npt.NDArray[np.float32]]:
        """The texture as `Light` takes it, and where it shows; `small` are the vertices in there."""
        kernels.rasterise(small, depth, UV, texture.triangles, self._small)
        kernels.look_up(self._small, texture.small, self._seen)
        weight = self._seen[..., 3]
        if cover is not None:
            shown = cv2.resize(cover, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            weight = weight * shown * np.float32(1 / 255)
        return self._seen[..., :3], weight + _FAINT


def _shrunk(parts: Sequence[Plane], meaning: Samples) -> npt.NDArray[np.float32]:
    """(SIDE, SIDE, 3): y, cb, cr of a rectangle."""
    out = np.zeros((SIDE, SIDE, 3), np.float32)
    for i, part in enumerate(parts[: 3 if len(parts) >= 3 else 1]):
        small = cv2.resize(part, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        zero, scale = (meaning.grey, meaning.chroma) if i else (meaning.black, meaning.luma)
        out[..., i] = (small - np.float32(zero)) * np.float32(1 / scale)
    return out


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
    cover = ALL if cover is None else cover
    black, scale = np.float32(meaning.black), np.float32(meaning.luma / 255)
    kernels.blend_luma(patch.planes[0], raster, level.luma, gain, cover, black, scale)
    if pixels.planes >= 3:
        grey, reach = np.float32(meaning.grey), np.float32(meaning.chroma)
        cb, cr = patch.planes[1:3]
        x, y = pixels.chroma_x, pixels.chroma_y
        kernels.blend_chroma(cb, cr, raster, level.chroma, gain, cover, grey, reach, x, y)
