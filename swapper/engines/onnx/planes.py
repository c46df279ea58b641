"""Frames of Y'CbCr planes as surfaces: faces are cut out of the planes and pasted into them.

A frame is never converted as a whole: a cut samples each plane and converts the small result, a paste
converts the small crop and samples it into each plane, in the frame's own depth. Where a mask is 0 samples
stay what they are, and so does everything outside the patches.

A surface shows the frame as it is seen: pixels square, upright, and of an interlaced frame one field, so
that each moment is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat
from swapper.colour import Samples, samples
from swapper.engines.base import Frame, PatchPixels, Plane
from swapper.engines.onnx.align import Matrix, Rectangle, inverse, reach, shifted
from swapper.engines.onnx.surface import Crop, Mask
from swapper.engines.onnx.tensors import Bgr
from swapper.sampling import coloured, rgb
from swapper.transfer import from_viewing, is_hdr

_FIELDS = {"tt": (0, 1), "bt": (0, 1), "bb": (1, 0), "tb": (1, 0)}
"""First rows of the fields in the order they are shown."""
_WHOLE = np.array([[1.0, 0, 0], [0, 1, 0]])


class Canvas:
    """A frame and what is pasted on it. Its own planes stay as they are."""

    def __init__(self, frame: Frame) -> None:
        self.format = frame.format
        self._given = coloured(frame.planes)
        self._copies: list[Plane] | None = None
        self._touched: list[Rectangle] = []

    @property
    def planes(self) -> Sequence[Plane]:
        """The frame's colour planes as they are now."""
        return self._given if self._copies is None else self._copies

    def surfaces(self) -> list[Planes]:
        """One for a frame, two for one of two fields."""
        parities = _FIELDS.get(self.format.field_order)
        if parities is None:
            return [Planes(self, 0, 1)]
        return [Planes(self, parity, 2) for parity in parities]

    def opened(self) -> Sequence[Plane]:
        """The planes, to be written to."""
        if self._copies is None:
            self._copies = [np.array(plane) for plane in self._given]
        return self._copies

    def touch(self, place: Rectangle) -> None:
        """Remember that luma samples, and chroma that belongs to them, were written to."""
        merged = place
        while apart := [other for other in self._touched if other.meets(merged)]:
            merged = merged.joined(*apart)
            self._touched = [other for other in self._touched if other not in apart]
        self._touched.append(merged)

    def patches(self) -> tuple[PatchPixels, ...]:
        """What was written to, in rectangles that do not overlap."""
        return tuple(self._patch(place) for place in self._touched)

    def _patch(self, place: Rectangle) -> PatchPixels:
        pixels = self.format.pixels
        width, height = place.right - place.x, place.bottom - place.y
        parts = []
        for i, plane in enumerate(self.planes):
            across, down = (pixels.chroma_x, pixels.chroma_y) if i else (0, 0)
            wide, high = pixels.plane_size(i, width, height)
            x, y = place.x >> across, place.y >> down
            parts.append(np.ascontiguousarray(plane[y : y + high, x : x + wide]))
        return PatchPixels(place.x, place.y, width, height, tuple(parts))


@dataclass(frozen=True, slots=True)
class _View:
    """How a frame is seen. `planes`: for luma and chroma, samples to pixels as seen."""

    width: int
    height: int
    quarters: int
    planes: tuple[Matrix, Matrix]


class Planes:
    """A frame, or every second row of it, as a surface."""

    def __init__(self, canvas: Canvas, first: int, step: int) -> None:
        self._canvas, self._rows = canvas, slice(first, None, step)
        self._view = _viewed(canvas.format, first, step)
        self._meaning = samples(canvas.format)

    @property
    def width(self) -> int:
        return self._view.width

    @property
    def height(self) -> int:
        return self._view.height

    def whole(self) -> Bgr:
        return self.shrunk(self.width, self.height)

    def shrunk(self, width: int, height: int) -> Bgr:
        lying = self._view.quarters % 2
        size = (height, width) if lying else (width, height)
        small = [cv2.resize(plane, size) for plane in self._planes(self._canvas.planes)]
        stored = rgb(small, self._meaning, reverse=True)
        return np.ascontiguousarray(np.rot90(stored, self._view.quarters))

    def cut(self, matrix: Matrix, side: int, *, repeat: bool = True) -> Bgr:
        border = cv2.BORDER_REPLICATE if repeat else cv2.BORDER_CONSTANT
        parts: list[Any] = []
        for i, plane in enumerate(self._planes(self._canvas.planes)):
            there = joined(self._view.planes[i > 0], matrix)
            black = self._meaning.grey if i else self._meaning.black
            size = (side, side)
            parts.append(cv2.warpAffine(plane, there, size, borderMode=border, borderValue=black))
        return rgb(parts, self._meaning, reverse=True)

    def paste(self, crop: Crop, mask: Mask, matrix: Matrix, share: float = 1.0) -> None:
        parts = cv2.split(_samples(crop, self._meaning, len(self._canvas.planes)))
        planes = self._planes(self._canvas.opened())
        back = inverse(matrix)
        for of_chroma in (False, True)[: len(planes)]:
            there = joined(back, inverse(self._view.planes[of_chroma]))
            some = slice(1, None) if of_chroma else slice(0, 1)
            height, width = planes[some][0].shape
            place = reach(there, *crop.shape[1::-1]).within(width, height)
            if not place.empty:
                _mix(planes[some], parts[some], mask * np.float32(share), there, place)
                self._canvas.touch(self._in_frame(place, of_chroma))

    def _planes(self, planes: Sequence[Plane]) -> list[Plane]:
        return [plane[self._rows] for plane in planes]

    def _in_frame(self, place: Rectangle, of_chroma: bool) -> Rectangle:
        """Samples of planes of this surface as luma samples of the frame, on the grid of chroma."""
        form, pixels = self._canvas.format, self._canvas.format.pixels
        across, down = (pixels.chroma_x, pixels.chroma_y) if of_chroma else (0, 0)
        step = self._rows.step
        wide, high = 1 << pixels.chroma_x, 1 << pixels.chroma_y
        x, right = place.x << across, place.right << across
        y, bottom = place.y * step << down, place.bottom * step << down
        grid = Rectangle(
            floor(x / wide) * wide,
            floor(y / high) * high,
            ceil(right / wide) * wide,
            ceil(bottom / high) * high,
        )
        return grid.within(form.width, form.height)


def joined(first: Matrix, second: Matrix) -> Matrix:
    """One matrix that does what two do, one after the other."""
    return np.column_stack([second[:, :2] @ first[:, :2], second[:, :2] @ first[:, 2] + second[:, 2]])


def _mix(planes: Sequence[Plane], parts: Sequence[Any], mask: Mask, there: Matrix, place: Rectangle) -> None:
    """Put samples into a rectangle of planes of one size, as far as a mask says."""
    size = place.right - place.x, place.bottom - place.y
    there = shifted(there, place.x, place.y)
    weight = cv2.warpAffine(mask, there, size)
    for plane, part in zip(planes, parts, strict=True):
        region = plane[place.y : place.bottom, place.x : place.right]
        new: Any = cv2.warpAffine(part, there, size, borderMode=cv2.BORDER_REPLICATE)
        new -= region
        new *= weight
        new += region
        new += np.float32(0.5)
        region[:] = new.astype(plane.dtype)


def _samples(crop: Crop, meaning: Samples, planes: int) -> npt.NDArray[np.float32]:
    """(side, side, planes): B G R 0..255 as samples."""
    colours = crop.astype(np.float32, copy=False)
    if is_hdr(meaning.transfer):
        colours = from_viewing(colours * np.float32(1 / 255), meaning.transfer) * np.float32(255)
    made: Any = cv2.transform(colours, _to_samples(meaning)[:planes])
    return np.asarray(made, np.float32).reshape(*crop.shape[:2], planes)


@lru_cache(maxsize=64)
def _to_samples(meaning: Samples) -> npt.NDArray[np.float32]:
    """(3, 4): B, G, R 0..255, 1 to samples."""
    scale = np.array([meaning.luma, meaning.chroma, meaning.chroma], np.float32) / 255
    shift = np.array([meaning.black, meaning.grey, meaning.grey], np.float32)
    return np.column_stack([meaning.from_rgb()[:, ::-1] * scale[:, None], shift])


@lru_cache(maxsize=64)
def _viewed(form: VideoFormat, first: int, step: int) -> _View:
    """How a frame is seen of which every `step`-th row from `first` on is taken."""
    along, across = form.sample_aspect
    stretch = along / across if along > 0 and across > 0 else 1.0
    width = max(round(form.width * stretch), 1)
    stretch = width / form.width
    grid = np.array([[stretch, 0, (stretch - 1) / 2], [0, step, first]])
    pixels = form.pixels
    x, y = 1 << pixels.chroma_x, 1 << pixels.chroma_y
    middle = np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2]])
    upright = _upright(form.rotation, width, form.height)
    size = (form.height, width) if form.rotation % 180 else (width, form.height)
    planes = joined(grid, upright), joined(joined(middle, grid), upright)
    return _View(*size, form.rotation // 90, planes)


def _upright(degrees: int, width: int, height: int) -> Matrix:
    """Pixels of a picture as stored to those of it turned counter-clockwise."""
    return {
        0: _WHOLE,
        90: np.array([[0.0, 1, 0], [-1, 0, width - 1]]),
        180: np.array([[-1.0, 0, width - 1], [0, -1, height - 1]]),
        270: np.array([[0.0, -1, height - 1], [1, 0, 0]]),
    }[degrees]
