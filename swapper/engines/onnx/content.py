"""The content check: three classifiers say whether a picture shows what must not be worked on.

Each sees the whole picture fitted into its square with black bars; two of three decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.catalog import HALF, Scale
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Surface
from swapper.engines.onnx.tensors import Tensor, black, fill

_CLIP = Scale((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))

Scores = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Classifier:
    """`score` of an output for one picture; above `limit` it objects."""

    file: str
    side: int
    scale: Scale
    score: Callable[[Scores], float]
    limit: float


def _best_class(output: Scores) -> float:
    """Of boxes, (4 + classes, boxes)."""
    return float(output[4:].max())


def _first_over_second(output: Scores) -> float:
    return float(output[0] - output[1])


def _last_over_first_two(output: Scores) -> float:
    return float(output[2] + output[3] - output[0] - output[1])


_CLASSIFIERS = (
    _Classifier("nsfw_1", 640, Scale(), _best_class, 0.2),
    _Classifier("nsfw_2", 384, Scale(HALF, HALF), _first_over_second, 0.25),
    _Classifier("nsfw_3", 448, _CLIP, _last_over_first_two, 10.5),
)
FILES = tuple(one.file for one in _CLASSIFIERS)
_MAJORITY = 2


def votes(models: Models, surfaces: Sequence[Surface]) -> list[tuple[bool, ...]]:
    """For each picture, whether each of the classifiers objects."""
    return list(zip(*(_votes(models, surfaces, one) for one in _CLASSIFIERS), strict=True))


def refused(models: Models, surfaces: Sequence[Surface]) -> list[bool]:
    """For each picture, whether most classifiers object."""
    return [sum(row) >= _MAJORITY for row in votes(models, surfaces)]


def _votes(models: Models, surfaces: Sequence[Surface], kind: _Classifier) -> list[bool]:
    tensor = np.stack([_fitted(surface, kind) for surface in surfaces])
    (outputs, *_) = models[kind.file]({"input": tensor})
    return [kind.score(output) > kind.limit for output in outputs]


def _fitted(surface: Surface, kind: _Classifier) -> Tensor:
    side = kind.side
    scale = side / max(surface.width, surface.height)
    width, height = max(round(surface.width * scale), 1), max(round(surface.height * scale), 1)
    x, y = (side - width) // 2, (side - height) // 2
    out = np.empty((3, side, side), np.float32)
    out[:] = black(kind.scale)
    fill(out[:, y : y + height, x : x + width], surface.shrunk(width, height), kind.scale)
    return out
