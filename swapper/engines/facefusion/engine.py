"""The engine `facefusion`: a checkout of FaceFusion does the work, in child processes.

Written from a contract about FaceFusion 3.8.1; never run with FaceFusion itself.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from runtime.settings import FaceFusionSettings, load
from schemas.errors import EngineError, FacestreamError, UsageError
from schemas.frames import FrameFlag
from schemas.swaps import SwapFlag
from swapper.decode import decode
from swapper.engines.base import Engine, Frame, FrameSwap, SourceFace, Wants, Work
from swapper.engines.facefusion import files
from swapper.engines.facefusion.options import SWAP, WHOLE, Options
from swapper.engines.facefusion.pictures import Bgr, Canvas
from swapper.engines.facefusion.process import VERSIONS, Child, blob, home_of
from swapper.engines.facefusion.protocol import Message
from swapper.models.manifest import Terms
from swapper.transfer import is_hdr

_VERSION = 1
"""Raised with every change that alters patches."""
_REFERENCE = "reference"
_OPAQUE = 255


@dataclass(frozen=True, slots=True)
class Job:
    """What is done to frames of a stream."""

    options: Options
    face: SourceFace

    @property
    def key(self) -> str:
        """Jobs of one key can share a child."""
        return json.dumps([self.options.processors, self.options.items], sort_keys=True)


class FaceFusionEngine(Engine):
    """Hands frames to FaceFusion one by one. FaceFusion's state is one of a whole process, so that each
    configuration has a child of its own; the one unused for longest goes when there are too many."""

    name = "facefusion"
    stateful = False
    context_frames = 0

    def __init__(self, models: Path, settings: FaceFusionSettings | None = None) -> None:
        """`models` is not read: a checkout has its own."""
        self._settings = settings or load().facefusion
        self._children: OrderedDict[str, Child] = OrderedDict()
        self._faces: dict[str, SourceFace] = {}
        """What each child was given last."""
        self._used: dict[str, str] = {}

    @property
    def model_id(self) -> str:
        """Of what the last `swap` used."""
        return "; ".join(self._used.values()) or f"facefusion/{_VERSION} {VERSIONS[-1]}"

    def warm(self) -> None:
        """Children start with the first frames of a job: only its options say what to load. Handing jobs
        over needs no checkout."""

    def wants(self, options: Mapping[str, Any]) -> Wants:
        chosen = Options.of(options)
        frame = chosen.reference_frame_number if chosen.face_selector_mode == "reference" else None
        return Wants(pictures=SWAP in chosen.processors, frame=frame)

    def licences(self, options: Mapping[str, Any]) -> Mapping[str, Terms]:
        return files.licences(Options.of(options))

    def prepare(
        self,
        pictures: Sequence[bytes],
        face: int | None = None,
        options: Mapping[str, Any] | None = None,
        frame: npt.NDArray[np.uint8] | None = None,
    ) -> SourceFace:
        """Keeps the pictures, as PNG: FaceFusion looks for faces in them when it swaps."""
        wants = self.wants(options or {})
        if face is not None:
            raise UsageError("FaceFusion takes the largest face of a picture: a face cannot be picked")
        if wants.pictures and not pictures:
            raise UsageError("no source picture given")
        if wants.frame is not None and frame is None:
            raise UsageError("face_selector_mode reference needs the target's reference frame")
        arrays = {f"source{i:03}": _packed(decode(data, i)) for i, data in enumerate(pictures, 1)}
        if frame is not None:
            arrays[_REFERENCE] = _packed(frame)
        return SourceFace(self.name, arrays)

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> Job:
        if face.engine != self.name:
            raise UsageError(f"the source face was prepared for engine {face.engine}, not facefusion")
        chosen = Options.of(options)
        if SWAP in chosen.processors and not any(name.startswith("source") for name in face.arrays):
            raise UsageError("no source face, but processors name face_swapper")
        if chosen.face_selector_mode == "reference" and _REFERENCE not in face.arrays:
            raise UsageError("face_selector_mode reference: prepare the face with that option")
        home_of(self._settings)
        return Job(chosen, face)

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        self._used.clear()
        try:
            return [self._run(one.state, one.frames) for one in work]
        except FacestreamError:
            raise
        except Exception as error:  # OpenCV raises kinds of its own
            raise EngineError(f"engine facefusion: {error}") from error

    def _run(self, job: Job, frames: Sequence[Frame]) -> list[FrameSwap]:
        for frame in frames:
            _check(frame, job.options)
        child = self._child(job)
        try:
            return [_swapped(child, job, frame) for frame in frames]
        finally:
            _forget(child)

    def _child(self, job: Job) -> Child:
        """The child of a job's configuration, which has the job's pictures."""
        child = self._children.pop(job.key, None)
        if child is None or not child.alive:
            if child is not None:
                child.end()
            self._faces.pop(job.key, None)
            child = self._start(job)
        self._children[job.key] = child
        if self._faces.get(job.key) is not job.face:
            pictures = {name: blob(_unpacked(data)) for name, data in sorted(job.face.arrays.items())}
            child.ask(Message("face", {}, pictures))
            self._faces[job.key] = job.face
        home = home_of(self._settings)
        said = [f"facefusion/{_VERSION} {child.version}", "+".join(job.options.processors)]
        self._used[job.key] = " ".join(said + files.marks(home, job.options.models))
        return child

    def _start(self, job: Job) -> Child:
        files.check(home_of(self._settings), job.options)
        while len(self._children) >= self._settings.children:
            key, oldest = self._children.popitem(last=False)
            self._faces.pop(key, None)
            oldest.end()
        return Child(self._settings, job.options.processors, job.options.items)


def _packed(picture: Bgr) -> npt.NDArray[np.uint8]:
    """A tenth of the room, without loss, and without what else was in the file."""
    return np.asarray(cv2.imencode(".png", picture)[1], np.uint8)


def _unpacked(data: npt.NDArray[Any]) -> Bgr:
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)


def _forget(child: Child) -> None:
    """FaceFusion remembers each frame that it has seen. A child that cannot forget has to go."""
    if child.alive:
        try:
            child.ask(Message("clear"))
        except EngineError:
            child.end()


def _check(frame: Frame, options: Options) -> None:
    """Raises UsageError for frames that a processor would spoil."""
    form = frame.format
    whole = [name for name in options.processors if name in WHOLE]
    if whole and is_hdr(form.transfer):
        raise UsageError(
            f"{whole[0]} of FaceFusion takes the highlights from HDR ({form.transfer}): use --hdr tonemap"
        )
    if "frame_colorizer" in whole and form.pixels.colours == 1:
        raise UsageError(f"frame_colorizer cannot put colours into frames of {form.pixel_format}")


def _swapped(child: Child, job: Job, frame: Frame) -> FrameSwap:
    tested, passes = _is_tested(frame), bool(frame.info.flags & FrameFlag.CONTEXT)
    if passes and not tested:
        return FrameSwap(frame.info.seq)
    canvas = Canvas(frame)
    changed = False
    for moment in canvas.moments():
        before = moment.picture()
        if tested:
            what = f"the frame at {float(frame.info.pts * frame.tick):.2f} s"
            child.ask(Message("test", {"what": what}, {"picture": blob(before)}))
        if passes:
            continue
        after = _after(child, before, job.options)
        if after is not None:
            moment.change(before, after)
            changed = True
    if not changed:
        faces = not any(name in WHOLE for name in job.options.processors)
        return FrameSwap(frame.info.seq, (), SwapFlag.NO_FACE if faces and not passes else SwapFlag(0))
    return FrameSwap(frame.info.seq, canvas.patches())


def _after(child: Child, before: Bgr, options: Options) -> Bgr | None:
    """What FaceFusion makes of a picture; None if nothing."""
    answer = child.ask(Message("frame", {}, {"picture": blob(before)}))
    made, mask = answer.blobs.get("picture"), answer.blobs.get("mask")
    if made is None and mask is None:
        return None
    after = before if made is None else np.frombuffer(made.data, np.uint8).reshape(before.shape)
    if mask is None:
        return after
    share = np.frombuffer(mask.data, np.uint8).reshape(*before.shape[:2], 1) / np.float32(_OPAQUE)
    behind = np.array(options.mask_colour[::-1], np.float32)
    mixed: Bgr = np.rint(after * share + behind * (1 - share)).astype(np.uint8)
    return mixed


def _is_tested(frame: Frame) -> bool:
    """Whether FaceFusion's content check looks at a frame: one a second, and the first of a stream. It
    follows from the frame alone, so that it matters not who gets which frames.
    """
    start = frame.info.pts * frame.tick
    return frame.info.seq == 0 or ceil(start) < start + frame.info.duration * frame.tick
