"""Faces of a frame, wherever they are: upright as displayed, cut by the frame's edge, or small.

The detector sees a picture of at most about 256 samples a side, in which a face needs about 16. A
thorough search also looks past the frame's edge, which it repeats outwards, and at four overlapping
parts of a large frame, in which faces are 1.7 times as large.

The detector knows faces up to a quarter turn from upright either way; those beyond are found in the
frame stood on its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat
from swapper.colour import samples
from swapper.engines.base import Frame
from swapper.engines.mesh.detect import INPUT_SIDE, Detection, Detector, input_size
from swapper.engines.mesh.landmarks import Square
from swapper.engines.mesh.render import Rectangle
from swapper.sampling import scaled, unturned

_MARGIN = 32
"""Samples of the detector's input by which the frame is continued on each side."""
_TILE = 0.6
"""Sides of a part, of the frame's."""
_TILED_FROM = 2 * INPUT_SIDE
"""Longest side of a frame that is worth looking at in parts."""


@dataclass(frozen=True, slots=True)
class _View:
    """A part of the frame, in luma samples, continued by a margin in samples of the detector's input,
    and turned by quarters."""

    place: Rectangle
    margin: int = 0
    quarters: int = 0


def aspect(form: VideoFormat) -> float:
    """Width of a sample over its height. Faces are looked at and followed as they are displayed, in
    units of a sample's height; only to paint, x is counted in samples again."""
    wide, high = form.sample_aspect
    return wide / high if wide > 0 and high > 0 else 1.0


def search(
    detector: Detector, frame: Frame, min_score: float, *, thorough: bool, upside_down: bool = False
) -> list[Square]:
    """Squares around the faces of a frame that the detector knows upright, or `upside_down`, the
    largest first. The same face may come more than once."""
    views = _views(frame.format, thorough=thorough) if not upside_down else [_on_its_head(frame.format)]
    found = [face for view in views for face in _seen(detector, frame, view, min_score)]
    found.sort(key=lambda face: -float(face.size.max()))
    return [Square.of_detection(face) for face in found]


def _views(form: VideoFormat, *, thorough: bool) -> Iterator[_View]:
    width, height = form.width, form.height
    yield _View(Rectangle(0, 0, width, height), _MARGIN if thorough else 0)
    if not thorough or max(width * aspect(form), height) < _TILED_FROM:
        return
    corners = np.array([[0, 0, _TILE, _TILE]]) + np.array([[x, y, x, y] for y in (0, 0.4) for x in (0, 0.4)])
    for low_x, low_y, high_x, high_y in corners * [width, height, width, height]:
        points = np.array([[low_x, low_y], [high_x, high_y]], np.float32)
        yield _View(Rectangle.around(points, form.pixels, width, height))


def _on_its_head(form: VideoFormat) -> _View:
    return _View(Rectangle(0, 0, form.width, form.height), _MARGIN, 2)


def _seen(detector: Detector, frame: Frame, view: _View, min_score: float) -> Iterator[Detection]:
    """Faces of a view, in the frame's luma samples with x stretched as `aspect` says."""
    form, place, margin = frame.format, view.place, view.margin
    parts = [plane[place.of_plane(i, form.pixels)] for i, plane in enumerate(frame.planes)]
    shown_width = place.width * aspect(form)
    width, height = input_size(shown_width, place.height)
    image = scaled(parts, samples(form), width, height)
    if margin:
        border = cv2.copyMakeBorder(image, margin, margin, margin, margin, cv2.BORDER_REPLICATE)
        image = border.astype(np.uint8, copy=False)
    quarters = form.rotation // 90 + view.quarters
    upright = np.ascontiguousarray(np.rot90(image, quarters))
    scale = np.array([shown_width / width, place.height / height], np.float32)
    corner = np.array([place.x * aspect(form), place.y], np.float32)

    def shown(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
        inside = unturned(points, upright.shape[1], upright.shape[0], quarters) - margin
        placed: npt.NDArray[Any] = (inside + 0.5) * scale - 0.5 + corner
        return placed

    for face in detector(upright, min_score):
        size = (face.size[::-1] if quarters % 2 else face.size) * scale
        yield Detection(face.score, shown(face.centre), size, shown(face.points))
