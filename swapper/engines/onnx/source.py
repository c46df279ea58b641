"""The face that is put in, made of one or more pictures: whatever any swapper may want of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import NoFaceError
from swapper.decode import decode
from swapper.engines.onnx.align import fitted
from swapper.engines.onnx.analyse import analyse
from swapper.engines.onnx.catalog import SWAPPERS, PictureSource
from swapper.engines.onnx.faces import Face, Traits, Vector
from swapper.engines.onnx.options import Options
from swapper.engines.onnx.recognise import classify, normed, recognise
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Picture, Surface
from swapper.engines.onnx.tensors import Bgr

_CROPS = tuple(
    sorted({one.source for one in SWAPPERS.values() if isinstance(one.source, PictureSource)}, key=str)
)
"""Of any picture, so that a replay may choose another built-in swapper."""
_CROP = "crop "


@dataclass(frozen=True, slots=True)
class Source:
    """A source face. `raw`, `normed` (512,): means of the embeddings of all pictures; the second is not
    of length 1 again. `crops`: B G R of what swappers take a picture of. `traits`: of the largest face."""

    raw: Vector
    normed: Vector
    crops: Mapping[PictureSource, Bgr]
    traits: Traits | None = None
    vectors: dict[str, Vector] = field(default_factory=dict)
    """By swapper: what goes into it, once it has been made."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """As plain arrays."""
        stored: dict[str, npt.NDArray[Any]] = {"raw": self.raw, "normed": self.normed}
        stored |= {_key(kind.template, kind.side): crop for kind, crop in self.crops.items()}
        if self.traits is not None:
            stored["traits"] = np.array([self.traits.gender, self.traits.race, *map(str, self.traits.age)])
        return stored

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Source:
        """What `arrays` made."""
        traits = None
        if "traits" in arrays:
            gender, race, young, old = (str(part) for part in arrays["traits"])
            traits = Traits(gender, race, (int(young), int(old)))
        names = (name.split() for name in arrays if name.startswith(_CROP))
        crops = {PictureSource(word, int(side)): arrays[_key(word, side)] for _, word, side in names}
        return cls(arrays["raw"], arrays["normed"], crops, traits)


def prepare(models: Models, pictures: Sequence[Surface], options: Options) -> Source | None:
    """The largest face of each picture; pictures without one do not count. None if no picture shows any.

    Crops are of the first picture, at the first face that was found: as the original has it, whose
    callers do not hand it a first picture without a face.
    """
    found = analyse(models, pictures, options.detector, options.landmarker)
    largest = [
        (picture, max(faces, key=lambda face: face.hit.area))
        for picture, faces in zip(pictures, found, strict=True)
        if faces
    ]
    return merged(models, pictures[0], largest, options) if largest else None


def of_pictures(
    models: Models, pictures: Sequence[tuple[int, bytes]], face: int | None, options: Options
) -> Source:
    """One source of encoded pictures of a person, each with the number that errors tell: of each the largest
    face, or the `face`-th from the left.

    Raises NoFaceError, and InputError for what is no picture.
    """
    chosen = seen(models, pictures, face, options)
    return merged(models, chosen[0][0], chosen, options)


def seen(
    models: Models, pictures: Sequence[tuple[int, bytes]], face: int | None, options: Options
) -> list[tuple[Surface, Face]]:
    """One face of each encoded picture, as `of_pictures` says."""
    surfaces: list[Surface] = [Picture(decode(data, number)) for number, data in pictures]
    found = analyse(models, surfaces, options.detector, options.landmarker)
    return [
        (surface, _picked(faces, number, face))
        for (number, _), surface, faces in zip(pictures, surfaces, found, strict=True)
    ]


def from_the_left(faces: Sequence[Face]) -> list[Face]:
    """By their left edges."""
    return sorted(faces, key=lambda face: float(face.hit.box[0]))


def merged(
    models: Models, first: Surface, chosen: Sequence[tuple[Surface, Face]], options: Options
) -> Source:
    """One source of a face each of several pictures."""
    recognise(models, chosen)
    raw = np.stack([face.identity for _, face in chosen])
    points = chosen[0][1].points
    wanted = options.swapper.kind.source
    kinds = {*_CROPS, wanted} if isinstance(wanted, PictureSource) else set(_CROPS)
    crops = {kind: first.cut(fitted(points, kind.template, kind.side), kind.side) for kind in kinds}
    traits = None
    if "auto" in (options.selector.gender, options.selector.race):
        best = max(chosen, key=lambda one: one[1].hit.area)
        classify(models, [best])
        traits = best[1].traits
    length = np.stack([normed(one) for one in raw])
    return Source(raw.mean(0), length.mean(0), crops, traits)


def _picked(faces: Sequence[Face], number: int, wanted: int | None) -> Face:
    """The largest face of a source picture, or one by its number from the left."""
    if not faces:
        raise NoFaceError(f"source picture {number} shows no face")
    if wanted is None:
        return max(faces, key=lambda face: face.hit.area)
    if wanted > len(faces):
        shows = f"shows {len(faces)} face{'s' * (len(faces) != 1)}"
        raise NoFaceError(f"source picture {number} {shows}: there is no face {wanted} to take")
    return from_the_left(faces)[wanted - 1]


def _key(template: str, side: int | str) -> str:
    return f"{_CROP}{template} {side}"
