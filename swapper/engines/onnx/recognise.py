"""Who a face is, and how old: embeddings and traits, filled in where they are missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swapper.engines.onnx.align import fitted
from swapper.engines.onnx.catalog import (
    AGES,
    CLASSIFIER,
    GENDERS,
    HALF,
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    RACES,
    RECOGNISER,
    Scale,
)
from swapper.engines.onnx.faces import Face, Traits, Vector
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Surface
from swapper.engines.onnx.tensors import Tensor, stacked

_TEMPLATE = "arcface_112_v2"
_SIDE = 112
_CLASS_SIDE = 224
_SCALE = Scale(HALF, HALF)
_CLASS_SCALE = Scale(IMAGENET_MEAN, IMAGENET_DEVIATION)

Seen = tuple[Surface, Face]


def recognise(models: Models, seen: Sequence[Seen]) -> None:
    """Give each face its embedding (512,), as the model says it: not of length 1."""
    missing = [(surface, face) for surface, face in seen if face.embedding is None]
    if not missing:
        return
    (embeddings, *_) = models[RECOGNISER]({"input": _crops(missing, _SIDE, _SCALE)})
    for (_, face), embedding in zip(missing, embeddings, strict=True):
        face.embedding = embedding.reshape(-1)


def classify(models: Models, seen: Sequence[Seen]) -> None:
    """Give each face its traits."""
    missing = [(surface, face) for surface, face in seen if face.traits is None]
    if not missing:
        return
    races, genders, ages, *_ = models[CLASSIFIER]({"input": _crops(missing, _CLASS_SIDE, _CLASS_SCALE)})
    for (_, face), race, gender, age in zip(missing, races, genders, ages, strict=True):
        face.traits = Traits(GENDERS[int(gender)], RACES[int(race)], AGES[int(age)])


def normed(vector: Vector) -> Vector:
    """Of length 1."""
    return vector / np.linalg.norm(vector)


def distance(one: Vector, other: Vector) -> float:
    """0 for the same direction, 1 for the opposite one."""
    return float(1 - normed(one) @ normed(other)) / 2


def _crops(seen: Sequence[Seen], side: int, scale: Scale) -> Tensor:
    return stacked([surface.cut(fitted(face.points, _TEMPLATE, side), side) for surface, face in seen], scale)
