"""The engine `onnx`: FaceFusion's models on the faces of frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from runtime.settings import OnnxSettings, load
from schemas.errors import ContentRefusedError, EngineError, FacestreamError, UsageError
from schemas.frames import FrameFlag
from schemas.swaps import SwapFlag
from swapper.engines.base import Engine, Frame, FrameSwap, Identity, SourceFace, Wants, Work
from swapper.engines.onnx import content, identities, pipeline, source
from swapper.engines.onnx.catalog import PictureSource
from swapper.engines.onnx.custom import Catalogue
from swapper.engines.onnx.identities import Person
from swapper.engines.onnx.needs import licences, needed
from swapper.engines.onnx.options import SWAP, Options
from swapper.engines.onnx.pipeline import Item, Job
from swapper.engines.onnx.planes import Canvas
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.source import Source
from swapper.engines.onnx.surface import Picture
from swapper.engines.onnx.tracker import Tracker
from swapper.models.manifest import Terms

_VERSION = 1
"""Raised with every change that alters patches."""
_REFERENCE = "reference"
_NOBODY: npt.NDArray[np.float32] = np.zeros(0, np.float32)
"""Stands for a reference frame without a face: nothing is changed then."""
_CONTEXT = 12
"""Frames before a segment from which a tracker knows who is who."""


@dataclass(slots=True)
class Stream:
    """State of one stream: what is done to it, and whom it has shown."""

    job: Job
    tracker: Tracker | None
    """Replaced, never changed, once the frames it has seen are done: a run that raises leaves no trace."""


class OnnxEngine(Engine):
    """Runs the faces of all frames that it is given together, whichever streams they belong to.

    Keeps nothing from frame to frame but, of jobs that follow faces, where people were. The models are files
    `NAME.onnx` of one folder, opened when a job first asks for them.
    """

    name = "onnx"
    stateful = False
    context_frames = 0

    def __init__(self, models: Path, settings: OnnxSettings | None = None) -> None:
        settings = settings or load().onnx
        self._models = Models(models, settings.device, settings.threads)
        self._catalogue = Catalogue(models)

    @property
    def model_id(self) -> str:
        return " ".join([f"onnx/{_VERSION}", *self._models.loaded])

    def warm(self) -> None:
        """Models are opened by `prepare` and `open`, which know the options."""
        cv2.setNumThreads(1)

    def wants(self, options: Mapping[str, Any]) -> Wants:
        chosen = Options.of(options, self._catalogue)
        selector = chosen.selector
        frame = selector.reference_frame_number if selector.mode == "reference" else None
        return Wants(pictures=SWAP in chosen.processors, frame=frame)

    def licences(self, options: Mapping[str, Any]) -> Mapping[str, Terms]:
        return licences(Options.of(options, self._catalogue))

    def prepare(
        self,
        pictures: Sequence[bytes],
        face: int | None = None,
        options: Mapping[str, Any] | None = None,
        frame: npt.NDArray[np.uint8] | None = None,
    ) -> SourceFace:
        chosen = Options.of(options or {}, self._catalogue)
        self._check(chosen)
        _check_lock(chosen, mapped=False)
        if not pictures and SWAP in chosen.processors:
            raise UsageError("no source picture given")
        numbered = list(enumerate(pictures, 1))
        made = source.of_pictures(self._models, numbered, face, chosen) if pictures else None
        arrays = made.arrays() if made else {}
        if chosen.selector.mode == "reference":
            if frame is None:
                raise UsageError("selector.mode reference needs the target's reference frame")
            found = pipeline.reference(self._models, Picture(frame), chosen, made)
            arrays[_REFERENCE] = _NOBODY if found is None else found
        return SourceFace(self.name, arrays)

    def prepare_map(
        self,
        people: Sequence[Identity],
        face: int | None,
        options: Mapping[str, Any],
        frame_of: Callable[[int], npt.NDArray[np.uint8]],
    ) -> SourceFace:
        chosen = Options.of(options, self._catalogue)
        self._check(chosen)
        made = identities.prepare(self._models, people, face, chosen, frame_of)
        return SourceFace(self.name, identities.stored(made))

    def context(self, options: Mapping[str, Any], *, mapped: bool) -> int:
        lock = Options.of(options, self._catalogue).tracker.lock
        return _CONTEXT if (mapped if lock is None else lock) else self.context_frames

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> Stream:
        """What is done to frames of a stream. Raises ModelError for a model that is not there."""
        if face.engine != self.name:
            raise UsageError(f"the source face was prepared for engine {face.engine}, not onnx")
        chosen = Options.of(options, self._catalogue)
        self._check(chosen)
        people = identities.loaded(face.arrays)
        _check_lock(chosen, mapped=bool(people))
        job = self._mapped(people, chosen) if people else self._job(face, chosen)
        limit = chosen.selector.reference_face_distance
        return Stream(job, Tracker(chosen.tracker, limit) if job.locked else None)

    def _mapped(self, people: tuple[Person, ...], chosen: Options) -> Job:
        identities.check(chosen)
        for person in people:
            _check_crops(person.source, chosen)
        return Job(chosen, people=people)

    def _job(self, face: SourceFace, chosen: Options) -> Job:
        made = Source.of(face.arrays) if "raw" in face.arrays else None
        if made is None and SWAP in chosen.processors:
            raise UsageError("no source face, but processors name face_swapper")
        selector = chosen.selector
        if "auto" in (selector.gender, selector.race) and (made is None or made.traits is None):
            raise UsageError(
                "selector asks for the source's gender or race: prepare the face with that option"
            )
        _check_crops(made, chosen)
        wanted = face.arrays.get(_REFERENCE)
        if selector.mode == "reference" and wanted is None:
            raise UsageError("selector.mode reference: prepare the face with that option")
        return Job(chosen, made, wanted if wanted is not None and wanted.size else None)

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        try:
            return self._run(work)
        except FacestreamError:
            raise
        except Exception as error:  # ONNX Runtime and OpenCV raise kinds of their own
            raise EngineError(f"engine onnx: {error}") from error

    def _run(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        trackers = [_own(one.state) for one in work]
        drawn = [
            [_Drawn(frame, one.state.job, tracker) for frame in one.frames]
            for one, tracker in zip(work, trackers, strict=True)
        ]
        self._inspect([one for row in drawn for one in row])
        pipeline.run(self._models, [item for row in drawn for one in row for item in one.items])
        results = [[one.result() for one in row] for row in drawn]
        for one, tracker in zip(work, trackers, strict=True):
            one.state.tracker = tracker
        return results

    def _inspect(self, drawn: Sequence[_Drawn]) -> None:
        """Raises ContentRefusedError for a frame that the content check objects to."""
        surfaces = [surface for one in drawn if one.inspected for surface in one.surfaces]
        if surfaces and any(content.refused(self._models, surfaces)):
            raise ContentRefusedError("the content check refuses a frame of the target")

    def _check(self, options: Options) -> None:
        """Raises ModelError for a file that is not there."""
        for name in needed(options):
            self._models.file(name)


class _Drawn:
    """A frame on its way through the pipeline. Context frames only pass, or are looked at by the tracker."""

    def __init__(self, frame: Frame, job: Job, tracker: Tracker | None) -> None:
        self._seq = frame.info.seq
        self._canvas = Canvas(frame)
        context = bool(frame.info.flags & FrameFlag.CONTEXT)
        self.surfaces = [] if context and tracker is None else self._canvas.surfaces()
        self.items = [Item(surface, job, tracker=tracker, context=context) for surface in self.surfaces]
        if tracker is not None:
            self.items[0].cut = tracker.is_cut(frame.planes[0], frame.format.pixels.depth)
        self.inspected = job.options.content_check and (self._seq == 0 or _is_on_a_second(frame))

    def result(self) -> FrameSwap:
        blank = not any(item.faces or item.context for item in self.items) and bool(self.items)
        flags = SwapFlag.NO_FACE if blank else SwapFlag(0)
        return FrameSwap(self._seq, self._canvas.patches(), flags)


def _is_on_a_second(frame: Frame) -> bool:
    """Whether a whole second passes while the frame is shown: one frame a second, wherever segments begin."""
    start, end = (at * frame.tick for at in (frame.info.pts, frame.info.pts + frame.info.duration))
    return ceil(start) < end


def _own(stream: Stream) -> Tracker | None:
    """The stream's tracker for one run."""
    return stream.tracker.copy() if stream.tracker is not None else None


def _check_lock(options: Options, *, mapped: bool) -> None:
    if options.tracker.lock and not mapped and options.selector.mode != "reference":
        raise UsageError("tracker.lock is for people who are looked for: --map, or selector.mode reference")


def _check_crops(made: Source | None, options: Options) -> None:
    picture = options.swapper.kind.source
    if made is not None and isinstance(picture, PictureSource) and picture not in made.crops:
        raise UsageError(f"swapper.model {options.swapper.model}: prepare the face with that option")
