"""The engine `onnx`: FaceFusion's models on the faces of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from runtime.settings import OnnxSettings, load
from schemas.errors import ContentRefusedError, EngineError, FacestreamError, NoFaceError, UsageError
from schemas.frames import FrameFlag
from schemas.swaps import SwapFlag
from swapper.decode import decode
from swapper.engines.base import Engine, Frame, FrameSwap, SourceFace, Wants, Work
from swapper.engines.onnx import content, pipeline, source
from swapper.engines.onnx.analyse import analyse
from swapper.engines.onnx.catalog import PictureSource
from swapper.engines.onnx.custom import Catalogue
from swapper.engines.onnx.faces import Face
from swapper.engines.onnx.needs import licences, needed
from swapper.engines.onnx.options import SWAP, Options
from swapper.engines.onnx.pipeline import Item, Job
from swapper.engines.onnx.planes import Canvas
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.source import Source
from swapper.engines.onnx.surface import Picture, Surface
from swapper.models.manifest import Terms

_VERSION = 1
"""Raised with every change that alters patches."""
_REFERENCE = "reference"
_NOBODY: npt.NDArray[np.float32] = np.zeros(0, np.float32)
"""Stands for a reference frame without a face: nothing is changed then."""


class OnnxEngine(Engine):
    """Runs the faces of all frames that it is given together, whichever streams they belong to.

    Keeps nothing from frame to frame. The models are files `NAME.onnx` of one folder, opened when a job
    first asks for them.
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
        if not pictures and SWAP in chosen.processors:
            raise UsageError("no source picture given")
        made = self._source(pictures, face, chosen) if pictures else None
        arrays = made.arrays() if made else {}
        if chosen.selector.mode == "reference":
            if frame is None:
                raise UsageError("selector.mode reference needs the target's reference frame")
            found = pipeline.reference(self._models, Picture(frame), chosen, made)
            arrays[_REFERENCE] = _NOBODY if found is None else found
        return SourceFace(self.name, arrays)

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> Job:
        """What is done to frames of a stream. Raises ModelError for a model that is not there."""
        if face.engine != self.name:
            raise UsageError(f"the source face was prepared for engine {face.engine}, not onnx")
        chosen = Options.of(options, self._catalogue)
        self._check(chosen)
        made = Source.of(face.arrays) if "raw" in face.arrays else None
        if made is None and SWAP in chosen.processors:
            raise UsageError("no source face, but processors name face_swapper")
        selector = chosen.selector
        if "auto" in (selector.gender, selector.race) and (made is None or made.traits is None):
            raise UsageError(
                "selector asks for the source's gender or race: prepare the face with that option"
            )
        picture = chosen.swapper.kind.source
        if made is not None and isinstance(picture, PictureSource) and picture not in made.crops:
            raise UsageError(f"swapper.model {chosen.swapper.model}: prepare the face with that option")
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
        drawn = [[_Drawn(frame, one.state) for frame in one.frames] for one in work]
        self._inspect([one for row in drawn for one in row])
        pipeline.run(self._models, [item for row in drawn for one in row for item in one.items])
        return [[one.result() for one in row] for row in drawn]

    def _inspect(self, drawn: Sequence[_Drawn]) -> None:
        """Raises ContentRefusedError for a frame that the content check objects to."""
        surfaces = [surface for one in drawn if one.inspected for surface in one.surfaces]
        if surfaces and any(content.refused(self._models, surfaces)):
            raise ContentRefusedError("the content check refuses a frame of the target")

    def _check(self, options: Options) -> None:
        """Raises ModelError for a file that is not there."""
        for name in needed(options):
            self._models.file(name)

    def _source(self, pictures: Sequence[bytes], face: int | None, options: Options) -> Source:
        surfaces: list[Surface] = [Picture(decode(data, i)) for i, data in enumerate(pictures, 1)]
        found = analyse(self._models, surfaces, options.detector, options.landmarker)
        chosen = [
            (surface, _picked(faces, number, face))
            for number, (surface, faces) in enumerate(zip(surfaces, found, strict=True), 1)
        ]
        return source.merged(self._models, surfaces[0], chosen, options)


class _Drawn:
    """A frame on its way through the pipeline; context frames only pass."""

    def __init__(self, frame: Frame, job: Job) -> None:
        self._seq = frame.info.seq
        self._canvas = Canvas(frame)
        skipped = frame.info.flags & FrameFlag.CONTEXT
        self.surfaces = [] if skipped else self._canvas.surfaces()
        self.items = [Item(surface, job) for surface in self.surfaces]
        self.inspected = job.options.content_check and (self._seq == 0 or _is_on_a_second(frame))

    def result(self) -> FrameSwap:
        seen = any(item.faces for item in self.items)
        flags = SwapFlag(0) if seen or not self.items else SwapFlag.NO_FACE
        return FrameSwap(self._seq, self._canvas.patches(), flags)


def _is_on_a_second(frame: Frame) -> bool:
    """Whether a whole second passes while the frame is shown: one frame a second, wherever segments begin."""
    start, end = (at * frame.tick for at in (frame.info.pts, frame.info.pts + frame.info.duration))
    return ceil(start) < end


def _picked(faces: Sequence[Face], number: int, wanted: int | None) -> Face:
    """The largest face of a source picture, or one by its number from the left."""
    if not faces:
        raise NoFaceError(f"source picture {number} shows no face")
    if wanted is None:
        return max(faces, key=lambda face: face.hit.area)
    if wanted > len(faces):
        shows = f"shows {len(faces)} face{'s' * (len(faces) != 1)}"
        raise NoFaceError(f"source picture {number} {shows}: there is no face {wanted} to take")
    return sorted(faces, key=lambda face: float(face.hit.box[0]))[wanted - 1]
