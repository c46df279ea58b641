"""Who in the target gets which face."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import NoFaceError, UsageError
from swapper.engines.base import Identity
from swapper.engines.onnx import source
from swapper.engines.onnx.analyse import analyse
from swapper.engines.onnx.faces import Face, Vector
from swapper.engines.onnx.options import SWAP, Options
from swapper.engines.onnx.recognise import distance, recognise
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.source import Source
from swapper.engines.onnx.surface import Picture, Surface
from swapper.engines.onnx.tensors import Bgr

Distances = Sequence[Sequence[float]]
"""Of each face of a picture to each person."""
FrameOf = Callable[[int], Bgr]
"""A frame of the target by its number."""

_PREFIX = "person"
_LOOKS = "looks"
_SAME = 1e-4
"""Distance of two looks that are one picture."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in the target. `looks` (n, 512): embeddings of the person. `source`: the face to put on; None
    where faces are only enhanced."""

    looks: npt.NDArray[np.float32]
    source: Source | None

    def distance(self, face: Vector) -> float:
        """Of a face to the nearest of the looks, 0..1."""
        return min(distance(face, look) for look in self.looks)


def distances(faces: Sequence[Face], people: Sequence[Person]) -> list[list[float]]:
    """Of each face to each person."""
    return [[person.distance(face.identity) for person in people] for face in faces]


def assigned(apart: Distances, limit: float) -> list[int | None]:
    """Who each face is, by likeness alone: the nearest pair below the limit first, nobody twice."""
    result: list[int | None] = [None] * len(apart)
    pairs = sorted((one, i, person) for i, row in enumerate(apart) for person, one in enumerate(row))
    for one, i, person in pairs:
        if one < limit and result[i] is None and person not in result:
            result[i] = person
    return result


def prepare(
    models: Models, identities: Sequence[Identity], face: int | None, options: Options, frame_of: FrameOf
) -> list[Person]:
    """Raises what `Engine.prepare_map` raises."""
    if not identities:
        raise UsageError("a map names nobody")
    check(options)
    shown = _Reference(models, options, frame_of)
    numbers = count(1)
    people = []
    for one in identities:
        looks = [
            shown.look(look) if isinstance(look, int) else _look(models, look, next(numbers), options)
            for look in one.looks
        ]
        pictures = [(next(numbers), data) for data in one.sources]
        made = source.of_pictures(models, pictures, face, options)
        people.append(Person(np.stack(looks), made))
    _tell_apart(people)
    return people


def check(options: Options) -> None:
    """Raises UsageError for options that do not go with a map."""
    selector = options.selector
    if SWAP not in options.processors:
        raise UsageError("a map puts faces on people, but processors do not name face_swapper")
    if selector.mode != "many" or selector.filters:
        raise UsageError(
            "a map says itself which faces are changed: selector.mode, gender, race and age do not go with it"
        )


def stored(people: Sequence[Person]) -> dict[str, npt.NDArray[Any]]:
    """People as plain arrays."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for i, person in enumerate(people):
        parts = {_LOOKS: person.looks} | (person.source.arrays() if person.source else {})
        arrays |= {f"{_PREFIX} {i:03} {name}": part for name, part in parts.items()}
    return arrays


def loaded(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Person, ...]:
    """What `stored` made; nobody if the arrays are those of one face for all."""
    groups: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for key, part in arrays.items():
        if key.startswith(f"{_PREFIX} "):
            _, number, name = key.split(" ", 2)
            groups.setdefault(number, {})[name] = part
    return tuple(Person(groups[number].pop(_LOOKS), Source.of(groups[number])) for number in sorted(groups))


class _Reference:
    """The faces of the reference frame, from left to right; looked for when one is asked for."""

    def __init__(self, models: Models, options: Options, frame_of: FrameOf) -> None:
        self._models, self._options, self._frame_of = models, options, frame_of
        self._faces: list[Face] | None = None

    def look(self, number: int) -> Vector:
        if self._faces is None:
            self._faces = self._found()
        if not 1 <= number <= len(self._faces):
            shows = f"shows {len(self._faces)} face{'s' * (len(self._faces) != 1)}"
            frame = self._options.selector.reference_frame_number
            raise NoFaceError(
                f"frame {frame} of the target {shows}: there is no face {number} from the left "
                "(selector.reference_frame_number names the frame)"
            )
        return self._faces[number - 1].identity

    def _found(self) -> list[Face]:
        options = self._options
        surface = Picture(self._frame_of(options.selector.reference_frame_number))
        (faces,) = analyse(self._models, [surface], options.detector, options.landmarker)
        recognise(self._models, [(surface, face) for face in faces])
        return source.from_the_left(faces)


def _look(models: Models, data: bytes, number: int, options: Options) -> Vector:
    """Embedding of the largest face of a picture of the person."""
    ((surface, face),) = source.seen(models, [(number, data)], None, options)
    seen: list[tuple[Surface, Face]] = [(surface, face)]
    recognise(models, seen)
    return face.identity


def _tell_apart(people: Sequence[Person]) -> None:
    """Raises UsageError if two are the same."""
    for i, one in enumerate(people):
        for j, other in enumerate(people[:i]):
            if any(other.distance(look) < _SAME for look in one.looks):
                raise UsageError(f"a map names one person twice: entries {j + 1} and {i + 1} look the same")
