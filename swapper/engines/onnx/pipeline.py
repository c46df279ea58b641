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
from swapper.engines.onnx.identities import Person, assigned, distances
from swapper.engines.onnx.options import ENHANCE, SWAP, Options
from swapper.engines.onnx.recognise import classify, recognise
from swapper.engines.onnx.select import referred, select
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.source import Source
from swapper.engines.onnx.surface import Surface
from swapper.engines.onnx.swap import Task, blends, swap
from swapper.engines.onnx.tracker import Tracker

_TOUCH = 2
"""Pixels around a face that bilinear sampling may read."""

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What is done to a frame. Without a source nothing is swapped, but enhanced all the same;
    `reference`: embedding of the face looked for in mode `reference`. `people`: who gets which face, instead
    of all of them."""

    options: Options
    source: Source | None = None
    reference: Vector | None = None
    people: tuple[Person, ...] = ()

    @cached_property
    def finding(self) -> str:
        """The same for jobs whose faces may be looked for together."""
        return f"{self.options.detector!r} {self.options.landmarker!r}"

    @property
    def locked(self) -> bool:
        """Whether faces are followed, so that people keep theirs."""
        lock = self.options.tracker.lock
        return bool(self.people) if lock is None else lock

    @cached_property
    def wanted(self) -> tuple[Person, ...]:
        """Who is looked for by a job that looks for people."""
        if self.people or self.reference is None:
            return self.people
        return (Person(self.reference[None], self.source),)

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
    """A frame, and what is to be done to it; `faces` is filled in: all that were found.

    `tracker`: of the frame's stream, whose items come in order; none: the frame is looked at by itself.
    `cut`: it begins another shot. `context`: only looked at, for the tracker's sake.
    """

    surface: Surface
    job: Job
    faces: list[Face] = field(default_factory=list)
    tracker: Tracker | None = None
    cut: bool = False
    context: bool = False


Chosen = tuple[Face, Source | None]
"""A face to change, and what is put on."""


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


def _chosen(models: Models, items: Sequence[Item]) -> list[tuple[Item, list[Chosen]]]:
    """The faces of each frame that are changed, with all that is needed of them."""
    seen = [(item, item.surface, face) for item in items for face in item.faces]
    recognise(models, [(s, f) for item, s, f in seen if _looks_for_people(item.job)])
    classify(models, [(s, f) for item, s, f in seen if _filters(item.job.options)])
    chosen = [(item, _selected(item)) for item in items]
    mixed = [
        (item.surface, face)
        for item, faces in chosen
        if SWAP in item.job.options.processors and blends(item.job.options.swapper)
        for face, _ in faces
    ]
    recognise(models, mixed)
    return chosen


def _selected(item: Item) -> list[Chosen]:
    job = item.job
    if job.people or job.locked:
        return _found(item)
    traits = job.source.traits if job.source else None
    faces = select(item.faces, job.options.selector, traits, job.reference)
    return [(face, job.source) for face in faces]


def _found(item: Item) -> list[Chosen]:
    """People that are looked for, each at most once, in the detector's order."""
    people, limit = item.job.wanted, item.job.options.selector.reference_face_distance
    if not people:
        return []
    apart = distances(item.faces, people)
    if item.tracker is None:
        who = assigned(apart, limit)
    else:
        who = item.tracker.step(item.faces, apart, cut=item.cut)
    if item.context:
        return []
    pairs = zip(item.faces, who, strict=True)
    return [(face, people[one].source) for face, one in pairs if one is not None]


def _looks_for_people(job: Job) -> bool:
    return bool(job.people) or job.options.selector.mode == "reference"


def _filters(options: Options) -> bool:
    """In mode `reference` filters are for the reference frame."""
    return options.selector.filters and options.selector.mode != "reference"


@dataclass(frozen=True, slots=True)
class _Turn:
    """One face at one place of its frame's chain."""

    job: Job
    processor: str
    task: Task
    source: Source | None


def _step(models: Models, chosen: Sequence[tuple[Item, list[Chosen]]], step: int) -> None:
    """The processor at one place of the chain, for all frames."""
    rounds: list[list[_Turn]] = []
    for item, faces in chosen:
        names = item.job.options.processors[step : step + 1]
        for name in names:
            scheduled = _scheduled(item, [face for face, _ in faces], name)
            for (at, task), (_, source) in zip(scheduled, faces, strict=True):
                rounds += [[] for _ in range(at + 1 - len(rounds))]
                rounds[at].append(_Turn(item.job, name, task, source))
    for turns in rounds:
        for group in _grouped(turns, lambda turn: turn.job.changing[turn.processor]):
            _change(models, group)


def _change(models: Models, turns: Sequence[_Turn]) -> None:
    """Turns that may go through their models together."""
    options = turns[0].job.options
    if turns[0].processor == SWAP:
        pairs = [(turn.task, turn.source) for turn in turns if turn.source is not None]
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
