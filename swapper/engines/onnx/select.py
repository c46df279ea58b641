"""Which faces of a frame are changed, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from swapper.engines.onnx.faces import Face, Traits, Vector
from swapper.engines.onnx.options import SelectorOptions
from swapper.engines.onnx.recognise import distance

_KEYS: Mapping[str, tuple[Callable[[Face], float], bool]] = {
    "left-right": (lambda face: float(face.hit.box[0]), False),
    "right-left": (lambda face: float(face.hit.box[0]), True),
    "top-bottom": (lambda face: float(face.hit.box[1]), False),
    "bottom-top": (lambda face: float(face.hit.box[1]), True),
    "small-large": (lambda face: face.hit.area, False),
    "large-small": (lambda face: face.hit.area, True),
    "best-worst": (lambda face: face.hit.score, True),
    "worst-best": (lambda face: face.hit.score, False),
}
"""What an order sorts by, and whether from high to low; equals stay as the detector has them."""


def select(
    faces: Sequence[Face],
    options: SelectorOptions,
    source: Traits | None = None,
    reference: Vector | None = None,
) -> list[Face]:
    """The faces to change, in the order in which they are pasted.

    `source`: traits of the face that is put in, for filters `auto`; `reference`: embedding of the face
    looked for in mode `reference`, without which nothing is changed.
    """
    if options.mode == "reference":
        if reference is None:
            return []
        limit = options.reference_face_distance
        return [face for face in faces if distance(face.identity, reference) < limit]
    chosen = ranked(faces, options, source)
    return chosen[:1] if options.mode == "one" else chosen


def referred(faces: Sequence[Face], options: SelectorOptions, source: Traits | None) -> Face | None:
    """The face of the reference frame that is looked for: the last if there are fewer than its position."""
    chosen = ranked(faces, options, source)
    return chosen[min(options.reference_face_position, len(chosen) - 1)] if chosen else None


def ranked(faces: Sequence[Face], options: SelectorOptions, source: Traits | None) -> list[Face]:
    """Faces that pass the filters, in order."""
    key, falling = _KEYS[options.order]
    ordered = sorted(faces, key=key, reverse=falling)
    if not options.filters:
        return ordered
    return [face for face in ordered if face.traits is not None and _passes(face.traits, options, source)]


def _passes(traits: Traits, options: SelectorOptions, source: Traits | None) -> bool:
    gender = _wanted(options.gender, source.gender if source else None)
    race = _wanted(options.race, source.race if source else None)
    if gender not in (None, traits.gender) or race not in (None, traits.race):
        return False
    if options.age_start is None or options.age_end is None:
        return True
    return traits.age[0] < options.age_end and options.age_start < traits.age[1]


def _wanted(said: str | None, of_source: str | None) -> str | None:
    return of_source if said == "auto" else said
