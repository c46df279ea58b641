"""Frames as whole pictures of B G R, and back: what a picture gained is added to the frame's own samples.

FaceFusion knows pictures of 8 bit, upright, of square pixels, progressive. A frame is shown as such, each
field of an interlaced one by itself. Only differences go back, so that samples where nothing changed stay
what they are, and elsewhere depths above 8 bit keep their fine steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat
from swapper.colour import Samples, samples
from swapper.engines.base import Frame, PatchPixels, Plane
from swapper.sampling import coloured, rgb
from swapper.transfer import from_viewing, is_hdr

Bgr = npt.NDArray[np.uint8]
"""(height, width, 3)."""

_TILE = 32
"""Patches lie on tiles of so many luma samples: a multiple of every chroma grid."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The rows of one moment: all of a frame, or one of its fields."""

    form: VideoFormat
    planes: Sequence[Plane]

    def picture(self) -> Bgr:
        """As it is seen."""
        along, across = self.form.sample_aspect
        stretch = along / across if along > 0 and across > 0 else 1.0
        size = max(round(self.form.width * stretch), 1), self.form.height
        parts = [cv2.resize(plane, size) for plane in self.planes]
        lying: Any = cv2.cvtColor(rgb(parts, samples(self.form)), cv2.COLOR_RGB2BGR)
        return np.ascontiguousarray(np.rot90(lying, self.form.rotation // 90))

    def change(self, before: Bgr, after: Bgr) -> None:
        """Add to the planes what a picture gained."""
        meaning, pixels = samples(self.form), self.form.pixels
        was, now = (np.rot90(one, -(self.form.rotation // 90)) for one in (before, after))
        planes = self.planes
        if was.shape[:2] == planes[0].shape:  # pixel by sample: the part that changed is enough
            rows, columns = _changed(was, now)
            was, now = was[rows, columns], now[rows, columns]
            planes = [
                plane[_on(rows, pixels.chroma_y), _on(columns, pixels.chroma_x)]
                if i
                else plane[rows, columns]
                for i, plane in enumerate(planes)
            ]
        gained = _coded(now, meaning) - _coded(was, meaning)
        moved: Any = cv2.transform(np.ascontiguousarray(gained[..., ::-1]), meaning.from_rgb())
        scales = (meaning.luma, meaning.chroma, meaning.chroma)
        for plane, scale, change in zip(planes, scales, cv2.split(moved), strict=False):
            step: Any = cv2.resize(change, plane.shape[::-1], interpolation=cv2.INTER_AREA)
            new: Any = plane + step * np.float32(scale)
            plane[:] = np.clip(np.rint(new), 0, (1 << pixels.depth) - 1).astype(plane.dtype)


class Canvas:
    """A frame and what became of it. Its own planes stay as they are."""

    def __init__(self, frame: Frame) -> None:
        self._form = frame.format
        self._given = coloured(frame.planes)
        self._now = [np.array(plane) for plane in self._given]

    def moments(self) -> Iterator[Moment]:
        if self._form.field_order == "progressive":
            yield Moment(self._form, self._now)
            return
        for parity in (0, 1):
            yield Moment(self._form, [plane[parity::2] for plane in self._now])

    def patches(self) -> tuple[PatchPixels, ...]:
        """Rectangles that hold all samples that changed, and do not overlap."""
        return tuple(self._patch(*box) for box in _boxes(self._tiles()))

    def _tiles(self) -> npt.NDArray[np.uint8]:
        """1 for tiles where a sample changed."""
        pixels = self._form.pixels
        across, down = -(-self._form.width // _TILE), -(-self._form.height // _TILE)
        tiles = np.zeros((down, across), np.uint8)
        for i, (given, now) in enumerate(zip(self._given, self._now, strict=True)):
            wide, high = (_TILE >> pixels.chroma_x, _TILE >> pixels.chroma_y) if i else (_TILE, _TILE)
            changed = np.zeros((down * high, across * wide), bool)
            changed[: given.shape[0], : given.shape[1]] = given != now
            tiles |= changed.reshape(down, high, across, wide).any((1, 3))
        return tiles

    def _patch(self, left: int, top: int, right: int, bottom: int) -> PatchPixels:
        form, pixels = self._form, self._form.pixels
        x, y = left * _TILE, top * _TILE
        width, height = min(right * _TILE, form.width) - x, min(bottom * _TILE, form.height) - y
        parts = []
        for i, plane in enumerate(self._now):
            wide, high = pixels.plane_size(i, width, height)
            px, py = (x >> pixels.chroma_x, y >> pixels.chroma_y) if i else (x, y)
            parts.append(np.ascontiguousarray(plane[py : py + high, px : px + wide]))
        return PatchPixels(x, y, width, height, tuple(parts))


def _changed(was: Bgr, now: Bgr) -> tuple[slice, slice]:
    """Rows and columns around all pixels that differ, on tiles."""
    differ = cv2.absdiff(np.ascontiguousarray(was), np.ascontiguousarray(now))
    spans = []
    for axis, size in ((1, was.shape[0]), (0, was.shape[1])):
        most: Any = cv2.reduce(differ, axis, cv2.REDUCE_MAX)
        (where,) = np.nonzero(most.reshape(size, 3).any(1))
        first, last = (int(where[0]), int(where[-1]) + 1) if where.size else (0, size)
        spans.append(slice(first // _TILE * _TILE, min(-(-last // _TILE) * _TILE, size)))
    return spans[0], spans[1]


def _on(span: slice, shift: int) -> slice:
    """A span of luma samples, of chroma."""
    return slice(span.start >> shift, -(-span.stop >> shift))


def _coded(picture: Bgr, meaning: Samples) -> npt.NDArray[np.float32]:
    """B' G' R' 0..1 in the frame's own transfer."""
    shown = picture.astype(np.float32) / np.float32(255)
    return from_viewing(shown, meaning.transfer) if is_hdr(meaning.transfer) else shown


_Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in tiles."""


def _boxes(tiles: npt.NDArray[np.uint8]) -> list[_Box]:
    """Around tiles that touch; boxes that overlap become one."""
    _, _, found, _ = cv2.connectedComponentsWithStats(tiles)
    boxes: list[_Box] = []
    for x, y, width, height, _ in found[1:].tolist():
        box = (x, y, x + width, y + height)
        while apart := [other for other in boxes if _overlap(other, box)]:
            boxes = [other for other in boxes if other not in apart]
            lefts, tops, rights, bottoms = zip(box, *apart, strict=True)
            box = min(lefts), min(tops), max(rights), max(bottoms)
        boxes.append(box)
    return boxes


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
