"""Where faces are: detectors on a square canvas, their outputs read, and doubles left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.mesh import detect as blazeface
from swapper.engines.onnx.align import TEMPLATES, Matrix, inverse, is_spread, moved, turn
from swapper.engines.onnx.catalog import DETECTORS, MANY_DETECTORS, Layout, Scale
from swapper.engines.onnx.faces import Hit
from swapper.engines.onnx.options import DetectorOptions
from swapper.engines.onnx.session import Array, Models
from swapper.engines.onnx.surface import Picture, Surface
from swapper.engines.onnx.tensors import black, fill

_TOGETHER = 16
"""Canvases in one run: 80 MB of floats."""
_STRIDES = (8, 16, 32)
_OVERLAPS = {1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}
"""By the number of angles: how much of their union two boxes of one face share."""
_OVERLAP_OF_MANY = 0.1
_TINY = 1e-6
_EYES, _CORNERS = (np.ptp(TEMPLATES["ffhq_512"][two, 0]) for two in (slice(0, 2), slice(3, 5)))
_MOUTH = float(_CORNERS / _EYES)
"""Width of a mouth over the distance of the eyes."""


@dataclass(frozen=True, slots=True)
class _View:
    """A surface as a detector is to see it: turned, with a margin."""

    surface: Surface
    left: int = 0
    top: int = 0
    back: Matrix | None = None
    """From the turned picture to the surface."""


@dataclass(slots=True)
class Raw:
    """Faces as a detector says: (n, 4) left, top, right, bottom; (n,); (n, 5, 2), in canvas pixels."""

    boxes: npt.NDArray[Any]
    scores: npt.NDArray[Any]
    points: npt.NDArray[Any]


def detect(models: Models, surfaces: Sequence[Surface], options: DetectorOptions) -> list[list[Hit]]:
    """The faces of each surface, the surest first; those equally sure in order of angle and detector."""
    names = MANY_DETECTORS if options.model == "many" else (options.model,)
    views = [[_viewed(surface, angle, options) for angle in options.angles] for surface in surfaces]
    flat = [view for row in views for view in row]
    found = {name: _all(models, flat, name, options) for name in names}
    results, at = [], 0
    for row in views:
        span = range(at, at + len(row))
        hits = [hit for i in span for name in names for hit in _placed(flat[i], found[name][i])]
        results.append(_distinct(hits, options))
        at += len(row)
    return results


def _viewed(surface: Surface, angle: int, options: DetectorOptions) -> _View:
    back = None
    if angle:
        matrix, size = turn(angle, surface.width, surface.height)
        turned: Any = cv2.warpAffine(surface.whole(), matrix, size)
        surface, back = Picture(turned), inverse(matrix)
    if not any(options.margin):
        return _View(surface, back=back)
    top, right, bottom, left = (
        int(side * percent / 200)
        for side, percent in zip((surface.height, surface.width) * 2, options.margin, strict=True)
    )
    framed: Any = cv2.copyMakeBorder(surface.whole(), top, bottom, left, right, cv2.BORDER_CONSTANT)
    return _View(Picture(framed), left, top, back)


def _all(models: Models, views: Sequence[_View], name: str, options: DetectorOptions) -> list[Raw]:
    kind = DETECTORS[name]
    side = options.size if options.size and options.size in kind.sides else kind.sides[-1]
    read, model = _READERS[kind.layout], models[kind.file]
    found = []
    for start in range(0, len(views), _TOGETHER):
        some = views[start : start + _TOGETHER]
        canvas: Array = np.zeros((len(some), side, side, 3), np.uint8)
        if kind.scale is not None:
            canvas = models.buffer(len(some), 3, side, side)
        ratios = [_drawn(out, side, view.surface, kind.scale) for out, view in zip(canvas, some, strict=True)]
        outputs = model({kind.input: canvas})
        for i, (x, y) in enumerate(ratios):
            raw = read([output[i] for output in outputs], side, options.score)
            raw.boxes = raw.boxes * np.array([x, y, x, y], raw.boxes.dtype)
            raw.points = raw.points * np.array([x, y], raw.points.dtype)
            found.append(raw)
    return found


def _drawn(canvas: Array, side: int, surface: Surface, scale: Scale | None) -> tuple[float, float]:
    """Put a surface at the top left of a canvas, shrunk to fit; the ratios back."""
    width, height = surface.width, surface.height
    if width > side or height > side:
        ratio = min(side / height, side / width)
        width, height = max(int(width * ratio), 1), max(int(height * ratio), 1)
    picture = surface.shrunk(width, height)
    if scale is None:
        canvas[:height, :width] = picture[..., ::-1]
    else:
        fill(canvas[:, :height, :width], picture, scale)
        canvas[:, height:] = canvas[:, :, width:] = black(scale)
    return surface.width / width, surface.height / height


def _placed(view: _View, raw: Raw) -> Iterator[Hit]:
    """Hits in pixels of the surface, before margin and turn."""
    margin = np.array([view.left, view.top], np.float64)
    for box, score, points in zip(raw.boxes, raw.scores, raw.points, strict=True):
        corners, five = box.reshape(2, 2) - margin, points - margin
        if view.back is not None:
            (left, top), (right, bottom) = corners
            hull = moved(np.array([[left, top], [right, top], [right, bottom], [left, bottom]]), view.back)
            corners, five = np.stack([hull.min(0), hull.max(0)]), moved(five, view.back)
        yield Hit(corners.reshape(4), float(score), five)


def _distinct(hits: Sequence[Hit], options: DetectorOptions) -> list[Hit]:
    hits = [hit for hit in hits if is_spread(hit.points) and np.isfinite(hit.box).all()]
    if not hits:
        return []
    overlap = _OVERLAP_OF_MANY if options.model == "many" else _OVERLAPS[len(options.angles)]
    boxes = [[*hit.box[:2], *(hit.box[2:] - hit.box[:2])] for hit in hits]
    scores = [hit.score for hit in hits]
    kept: Any = cv2.dnn.NMSBoxes(boxes, scores, options.score, overlap)
    return [hits[i] for i in kept]


def _yolo(outputs: Sequence[Array], side: int, least: float) -> Raw:
    rows = outputs[0]
    rows = rows[:, rows[4] > least].T
    half = rows[:, 2:4] / 2
    boxes = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], 1)
    return Raw(boxes, rows[:, 4], rows[:, 5:].reshape(-1, 5, 3)[..., :2])


def _anchored(outputs: Sequence[Array], side: int, least: float) -> Raw:
    parts = []
    for level, stride in enumerate(_STRIDES):
        scores, boxes, points = (outputs[kind * 3 + level] for kind in range(3))
        scores = scores.reshape(-1)
        hits = np.flatnonzero(scores > least)
        anchors = _anchors(side, stride, 2)[hits]
        reach = boxes.reshape(-1, 4)[hits] * stride
        placed = np.concatenate([anchors - reach[:, :2], anchors + reach[:, 2:]], 1)
        five = points.reshape(-1, 5, 2)[hits] * stride
        parts.append(Raw(placed, scores[hits], anchors[:, None] + five))
    return _joined(parts)


def _centred(outputs: Sequence[Array], side: int, least: float) -> Raw:
    parts = []
    for level, stride in enumerate(_STRIDES):
        kinds, objects, boxes, points = (outputs[kind * 3 + level] for kind in range(4))
        scores = (kinds * objects).reshape(-1)
        hits = np.flatnonzero(scores > least)
        anchors = _anchors(side, stride, 1)[hits]
        box = boxes.reshape(-1, 4)[hits]
        centre, half = anchors + box[:, :2] * stride, np.exp(box[:, 2:]) * stride / 2
        five = points.reshape(-1, 5, 2)[hits] * stride
        parts.append(
            Raw(np.concatenate([centre - half, centre + half], 1), scores[hits], anchors[:, None] + five)
        )
    return _joined(parts)


def _blaze(outputs: Sequence[Array], side: int, least: float) -> Raw:
    boxes, logits = outputs
    found = blazeface.read(boxes, logits, (side, side), min(max(least, _TINY), 1 - _TINY))
    corners = [[*(one.centre - one.size / 2), *(one.centre + one.size / 2)] for one in found]
    scores = [one.score for one in found]
    fives = [_five(one.points) for one in found]
    return Raw(
        np.array(corners, np.float64).reshape(-1, 4),
        np.array(scores, np.float64),
        np.array(fives, np.float64).reshape(-1, 5, 2),
    )


def _five(six: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The mouth is one point: its corners are put beside it, along the eyes, as in a face from the front."""
    right, left, nose, mouth = six[:4]
    half = (left - right) * _MOUTH / 2
    return np.stack([right, left, nose, mouth - half, mouth + half])


_Reader = Callable[[Sequence[Array], int, float], Raw]
_READERS: Mapping[Layout, _Reader] = {
    Layout.YOLO: _yolo,
    Layout.ANCHORS: _anchored,
    Layout.CENTRES: _centred,
    Layout.BLAZE: _blaze,
}


def _joined(parts: Sequence[Raw]) -> Raw:
    return Raw(
        np.concatenate([part.boxes for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.points for part in parts]),
    )


@lru_cache(maxsize=32)
def _anchors(side: int, stride: int, each: int) -> npt.NDArray[np.float64]:
    """(cells * each, 2): x, y of the cells' corners, row by row."""
    y, x = np.mgrid[: side // stride, : side // stride] * float(stride)
    return np.stack([x, y], -1).reshape(-1, 2).repeat(each, 0)
