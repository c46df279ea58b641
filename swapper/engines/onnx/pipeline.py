"""The chain of stages over the frames of any number of streams and jobs, each stage in as few runs as
options allow.

Faces of a frame are changed one after the other, so a face that lies over another sees it changed. Faces
that touch nothing in common are changed together; each takes the first round in which all earlier
ones that it touches are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from swapper.engines.onnx.align import Rectangle, fitted, inverse, reach
from swapper.engines.onnx.analyse import analyse
from swapper.engines.onnx.enhance import enhance
from swapper.engines.onnx.faces import Face, Vector
from swapper.engines.onnx.options import ENHANCE, SWAP, Options
from swapper.engines.onnx.recognise import classify, recognise
from swapper.engines.onnx.select import referred, select
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.source import Source
from swapper.engines.onnx.surface import Surface
from swapper.engines.onnx.swap import Task, blends, swap

_TOUCH = 2
"""Pixels around a face that bilinear sampling may read."""

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What is done to a frame. Without a source nothing is swapped, but enhanced all the same;
    `reference`: embedding of the face looked for in mode `reference`."""

    options: Options
    source: Source | None = None
    reference: Vector | None = None

    @cached_property
    def finding(self) -> str:
        """The same for jobs whose faces may be looked for together."""
        return f"{self.options.detector!r} {self.options.landmarker!r}"

    @cached_property
    def changing(self) -> Mapping[str, str]:
        """By processor: the same for jobs whose faces may go through it together."""
        options = self.options
        return {
            SWAP: f"{SWAP} {options.swapper!r} {options.swapper.kind!r} {options.mask!r}",
            ENHANCE: f"{ENHANCE} {options.enhancer!r} {options.enhancer.kind!r} {options.mask!r}",
        }


@dataclass(slots=True)
class Item:
    """A frame, and what is to be done to it; `faces` is filled in: all that were found."""

    surface: Surface
    job: Job
    faces: list[Face] = field(default_factory=list)


def run(models: Models, items: Sequence[Item]) -> None:
    """Change each surface as its job says."""
    for group in _grouped(items, lambda item: item.job.finding):
        options = group[0].job.options
        found = analyse(models, [item.surface for item in group], options.detector, options.landmarker)
        for item, faces in zip(group, found, strict=True):
            item.faces = faces
    chosen = _chosen(models, items)
    for step in range(max((len(item.job.options.processors) for item in items), default=0)):
        _step(models, chosen, step)


def reference(models: Models, surface: Surface, options: Options, source: Source | None) -> Vector | None:
    """Embedding of the face of the reference frame that is looked for; None if there is none."""
    (faces,) = analyse(models, [surface], options.detector, options.landmarker)
    if options.selector.filters:
        classify(models, [(surface, face) for face in faces])
    face = referred(faces, options.selector, source.traits if source else None)
    if face is None:
        return None
    recognise(models, [(surface, face)])
    return face.identity


def _chosen(models: Models, items: Sequence[Item]) -> list[tuple[Item, list[Face]]]:
    """The faces of each frame that are changed, with all that is needed of them."""
    seen = [(item, item.surface, face) for item in items for face in item.faces]
    recognise(models, [(s, f) for item, s, f in seen if item.job.options.selector.mode == "reference"])
    classify(models, [(s, f) for item, s, f in seen if _filters(item.job.options)])
    chosen = [(item, _selected(item)) for item in items]
    mixed = [
        (item.surface, face)
        for item, faces in chosen
        if SWAP in item.job.options.processors and blends(item.job.options.swapper)
        for face in faces
    ]
    recognise(models, mixed)
    return chosen


def _selected(item: Item) -> list[Face]:
    job = item.job
    return select(item.faces, job.options.selector, job.source.traits if job.source else None, job.reference)


def _filters(options: Options) -> bool:
    """In mode `reference` filters are for the reference frame."""
    return options.selector.filters and options.selector.mode != "reference"


@dataclass(frozen=True, slots=True)
class _Turn:
    """One face at one place of its frame's chain."""

    job: Job
    processor: str
    task: Task


def _step(models: Models, chosen: Sequence[tuple[Item, list[Face]]], step: int) -> None:
    """The processor at one place of the chain, for all frames."""
    rounds: list[list[_Turn]] = []
    for item, faces in chosen:
        names = item.job.options.processors[step : step + 1]
        for name in names:
            for at, task in _scheduled(item, faces, name):
                rounds += [[] for _ in range(at + 1 - len(rounds))]
                rounds[at].append(_Turn(item.job, name, task))
    for turns in rounds:
        for group in _grouped(turns, lambda turn: turn.job.changing[turn.processor]):
            _change(models, group)


def _change(models: Models, turns: Sequence[_Turn]) -> None:
    """Turns that may go through their models together."""
    options = turns[0].job.options
    if turns[0].processor == SWAP:
        pairs = [(turn.task, turn.job.source) for turn in turns if turn.job.source is not None]
        swap(models, pairs, options.swapper, options.mask)
    else:
        enhance(models, [turn.task for turn in turns], options.enhancer, options.mask)


def _scheduled(item: Item, faces: Sequence[Face], name: str) -> Iterable[tuple[int, Task]]:
    """Each face of a frame with its round."""
    options = item.job.options
    if name == SWAP:
        template, side = options.swapper.kind.template, options.swapper.side
    else:
        kind = options.enhancer.kind
        template, side = kind.template, kind.side
    earlier: list[tuple[int, Rectangle]] = []
    for face in faces:
        matrix = fitted(face.points, template, side)
        place = reach(inverse(matrix), side, side).grown(_TOUCH)
        at = 1 + max((n for n, other in earlier if other.meets(place)), default=-1)
        earlier.append((at, place))
        yield at, Task(item.surface, face, matrix)


def _grouped(things: Iterable[T], key: Callable[[T], str]) -> list[list[T]]:
    """Things of one key together, in order."""
    groups: dict[str, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return list(groups.values())
