"""68 points of each face, and the five that it is aligned by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.align import Matrix, Points, fitted, inverse, is_spread, moved, turn
from swapper.engines.onnx.catalog import (
    LANDMARK_ESTIMATOR,
    LANDMARKERS,
    MANY_LANDMARKERS,
    Landmarker,
    Scale,
)
from swapper.engines.onnx.facemesh import Found, outlines
from swapper.engines.onnx.faces import Face, Hit
from swapper.engines.onnx.options import LandmarkerOptions
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Surface
from swapper.engines.onnx.tensors import Bgr, stacked

_SIDE = 256
_FACE = 195
"""The longer side of a box in the crop."""
_GRID = 64
_PLAIN = Scale(rgb=False)
_DARK = 30
"""Mean lightness of 255 below which a crop's contrast is raised."""
_LEAD = 0.2
"""By how much 2dfan4 may be less sure than peppa_wutz and is still believed."""


def landmarks(models: Models, faces: Sequence[tuple[Surface, Hit]], options: LandmarkerOptions) -> list[Face]:
    """Faces with their points, in order."""
    if not faces:
        return []
    if options.by_mesh:
        found = outlines(models, faces, LANDMARKERS[options.model])
        angles = [_angle(outline) for outline, _ in found]
    else:
        estimates = _estimated(models, [hit.points for _, hit in faces])
        angles = [_angle(outline) for outline in estimates]
        found = [(outline, 0.0) for outline in estimates]
        if options.score > 0:
            found = _found(models, faces, angles, options.model)
    return [
        Face(hit, angle, outline, certainty, _chosen(hit, outline, certainty, options.score))
        for (_, hit), angle, (outline, certainty) in zip(faces, angles, found, strict=True)
    ]


def _chosen(hit: Hit, outline: Points, certainty: float, least: float) -> Points:
    """Eyes, nose, corners of the mouth of the 68 points where they are sure enough, else of the detector."""
    if certainty <= least:
        return hit.points
    eyes = [outline[36:42].mean(0), outline[42:48].mean(0)]
    five = np.stack([*eyes, outline[30], outline[48], outline[54]])
    return five if is_spread(five) else hit.points


def _estimated(models: Models, fives: Sequence[Points]) -> list[Points]:
    """68 points guessed from five."""
    matrices = [fitted(five, "ffhq_512", 1) for five in fives]
    inputs = np.stack([moved(five, matrix) for five, matrix in zip(fives, matrices, strict=True)])
    (outlines, *_) = models[LANDMARK_ESTIMATOR]({"input": inputs.astype(np.float32)})
    return [moved(one, inverse(matrix)) for one, matrix in zip(outlines, matrices, strict=True)]


def _angle(outline: Points) -> int:
    """The quarter turn that makes a face upright, by the ends of its jaw."""
    x, y = outline[16] - outline[0]
    return round(float(np.degrees(np.arctan2(y, x))) % 360 / 90) % 4 * 90


def _found(
    models: Models, faces: Sequence[tuple[Surface, Hit]], angles: Sequence[int], name: str
) -> list[Found]:
    crops, backs = [], []
    for (surface, hit), angle in zip(faces, angles, strict=True):
        crop, back = _crop(surface, hit, angle)
        crops.append(crop)
        backs.append(back)
    tensor = stacked(crops, _PLAIN)
    if name != "many":
        return _placed(_read(models, LANDMARKERS[name], tensor), backs)
    both = (LANDMARKERS[one] for one in MANY_LANDMARKERS)
    first, second = (_placed(_read(models, one, tensor), backs) for one in both)
    return [a if a[1] > b[1] - _LEAD else b for a, b in zip(first, second, strict=True)]


def _crop(surface: Surface, hit: Hit, angle: int) -> tuple[Bgr, tuple[Matrix, Matrix]]:
    """The box in the middle of a square, upright; and the two steps back."""
    scale = _FACE / max(float((hit.box[2:] - hit.box[:2]).max()), 1)
    shift = (_SIDE - (hit.box[:2] + hit.box[2:]) * scale) / 2
    matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]], np.float64)
    crop = surface.cut(matrix, _SIDE, repeat=False)
    rotation, size = turn(angle, _SIDE, _SIDE)
    if angle:
        turned: Any = cv2.warpAffine(crop, rotation, size)
        crop = turned
    return _lit(crop), (inverse(rotation), inverse(matrix))


def _lit(crop: Bgr) -> Bgr:
    """Through Lab and back, which is not quite the same; contrast raised where it is dark.

    The conversion takes B G R for R G B, as the original does.
    """
    lab: Any = cv2.cvtColor(crop, cv2.COLOR_RGB2Lab)
    if cv2.mean(lab)[0] < _DARK:
        lab[..., 0] = cv2.createCLAHE(clipLimit=2).apply(np.ascontiguousarray(lab[..., 0]))
    result: Any = cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)
    return np.asarray(result, np.uint8)


def _read(models: Models, kind: Landmarker, tensor: npt.NDArray[np.float32]) -> list[Found]:
    """Points in crop pixels."""
    outputs = models[kind.file]({"input": tensor})
    outlines = outputs[0].reshape(len(tensor), 68, 3)
    if kind.heatmaps:
        sure = outputs[1].max((2, 3)).mean(1)
    else:
        sure = outlines[..., 2].mean(1)
    scores = np.clip(sure / kind.full, 0, 1)
    placed = outlines[..., :2] / _GRID * _SIDE
    return [(points, float(score)) for points, score in zip(placed, scores, strict=True)]


def _placed(found: Sequence[Found], backs: Sequence[tuple[Matrix, Matrix]]) -> list[Found]:
    return [
        (moved(moved(points, upright), back), score)
        for (points, score), (upright, back) in zip(found, backs, strict=True)
    ]
