"""Where faces are: BlazeFace (Bazarevsky et al., 2019), the model for the back camera.

The model looks at the picture in cells of 16 and 32 pixels, with 2 and 6 anchors each (MediaPipe,
face_detection_back.pbtxt). It is convolutional, so a wide picture need not be padded to a square.
What it says is read here for the engine `onnx` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from swapper.engines.mesh.inference import Model
from swapper.sampling import Rgb

Points = npt.NDArray[np.float32]

INPUT_SIDE = 256
"""Longest side the model was trained on."""
_CELLS = ((16, 2), (32, 6))
_STRIDE = 32
_OVERLAP = 0.3
"""Hits that share more of their area are one face."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One face. `points` (6, 2): right eye, left eye, nose, mouth, right ear, left ear."""

    score: float
    centre: Points
    size: Points
    points: Points


class Detector:
    """Finds all faces of a small picture."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __call__(self, image: Rgb, min_score: float) -> list[Detection]:
        """Faces of an RGB picture with sides of at most about 256, best first, in its pixels."""
        padded = _padded(image)
        boxes, logits = self._model(padded[None])
        return read(boxes[0], logits[0], (padded.shape[0], padded.shape[1]), min_score)


def read(
    boxes: npt.NDArray[Any], logits: npt.NDArray[Any], shape: tuple[int, int], min_score: float
) -> list[Detection]:
    """Faces of what the model says, (anchors, 16) and (anchors, 1), of a picture of so many rows and
    columns; best first. `min_score` lies between 0 and 1."""
    odds = logits[:, 0]
    hits = np.flatnonzero(odds > np.log(min_score / (1 - min_score)))
    if not len(hits):
        return []
    found = boxes[hits].reshape(-1, 8, 2)
    anchors = _anchors(*shape)[hits]
    found[:, 0] += anchors
    found[:, 2:] += anchors[:, None]
    return _merged(found, 1 / (1 + np.exp(-odds[hits])))


def input_size(width: float, height: float) -> tuple[int, int]:
    """(width, height) to which a picture is scaled before detection."""
    scale = INPUT_SIDE / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _padded(image: Rgb) -> Rgb:
    height, width = (-(-n // _STRIDE) * _STRIDE for n in image.shape[:2])
    if (height, width) == image.shape[:2]:
        return np.ascontiguousarray(image)
    padded = np.zeros((height, width, 3), np.uint8)
    padded[: image.shape[0], : image.shape[1]] = image
    return padded


@lru_cache(maxsize=8)
def _anchors(height: int, width: int) -> Points:
    """(anchors, 2): centres in pixels, in the order of the model's outputs."""
    parts = []
    for cell, count in _CELLS:
        y, x = np.mgrid[: height // cell, : width // cell]
        centres = np.stack([x, y], -1).reshape(-1, 2) * cell + cell / 2
        parts.append(centres.repeat(count, 0))
    return np.concatenate(parts).astype(np.float32)


def _merged(found: Points, scores: npt.NDArray[Any]) -> list[Detection]:
    """Weighted non-maximum suppression: hits on one face become their mean, weighted by score."""
    low, high = found[:, 0] - found[:, 1] / 2, found[:, 0] + found[:, 1] / 2
    area = found[:, 1].prod(1)
    free = np.ones(len(found), bool)
    merged = []
    for best in np.argsort(-scores, kind="stable"):
        if not free[best]:
            continue
        shared = np.minimum(high[best], high) - np.maximum(low[best], low)
        common = np.clip(shared, 0, None).prod(1)
        same = free & (common > _OVERLAP * (area[best] + area - common))
        same[best] = True
        free &= ~same
        weight = scores[same] / scores[same].sum()
        mean = (found[same] * weight[:, None, None]).sum(0).astype(np.float32)
        merged.append(Detection(float(scores[best]), mean[0], mean[1], mean[2:]))
    return merged
