"""The engine `mesh`: a geometric face swap on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.errors import EngineError, UsageError
from schemas.frames import FrameFlag, VideoFormat
from schemas.swaps import SwapFlag
from swapper.colour import Samples, samples
from swapper.decode import decode
from swapper.engines.base import Engine, Frame, FrameSwap, PatchPixels, SourceFace, Work
from swapper.engines.mesh import fields
from swapper.engines.mesh.cover import Look
from swapper.engines.mesh.detect import Detector
from swapper.engines.mesh.inference import Model
from swapper.engines.mesh.landmarks import SIDE, Landmarks, Mesh, Square
from swapper.engines.mesh.render import Memory, Painter
from swapper.engines.mesh.search import aspect, search
from swapper.engines.mesh.smooth import Smoother
from swapper.engines.mesh.source import SourceFinder
from swapper.engines.mesh.stages import Stages
from swapper.engines.mesh.texture import Texture, YuvTexture, unwrap
from swapper.engines.mesh.topology import UV, VERTICES
from swapper.engines.mesh.track import Seen, Tracker
from swapper.models import store
from swapper.models.manifest import manifest
from swapper.sampling import warped

_VERSION = 6
"""Raised with every change that alters patches."""
_TEXTURE = "texture"
_MIN_SECONDS = 1e-3
"""Time between two frames whose timestamps do not rise."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a job. `max_faces` of a frame; `min_score` 0..1 of the detector for a new face;
    `keep_eyes`, `keep_mouth`, `shade` as in `Look`."""

    max_faces: int = 8
    min_score: float = 0.6
    keep_eyes: float = 0.0
    keep_mouth: float = 1.0
    shade: float = 0.9

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises UsageError for an unknown option or a value out of range."""
        known = cls.__dataclass_fields__
        for name, value in given.items():
            if name not in known:
                raise UsageError(f"engine mesh has no option {name!r}; it has: {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"option {name} of engine mesh is a number, not {value!r}")
        options = cls(**given)
        if options.max_faces < 1 or options.max_faces != int(options.max_faces):
            raise UsageError(f"option max_faces is a whole number from 1, not {options.max_faces}")
        if not 0 < options.min_score < 1:
            raise UsageError(f"option min_score lies between 0 and 1, not {options.min_score}")
        for name in ("keep_eyes", "keep_mouth", "shade"):
            if not 0 <= getattr(options, name) <= 1:
                raise UsageError(f"option {name} is 0 to 1, not {getattr(options, name)}")
        return options

    @property
    def look(self) -> Look:
        return Look(self.keep_eyes, self.keep_mouth, self.shade)


@dataclass(slots=True)
class _Face:
    """State of one tracked face."""

    smoother: Smoother = field(default_factory=Smoother)
    memory: Memory = field(default_factory=Memory)


@dataclass(slots=True)
class _Stream:
    """State of one stream."""

    texture: Texture
    options: Options
    tracker: Tracker
    faces: dict[int, _Face] = field(default_factory=dict)
    textures: dict[Samples, YuvTexture] = field(default_factory=dict)
    last_pts: Fraction | None = None

    def yuv(self, meaning: Samples) -> YuvTexture:
        if meaning not in self.textures:
            self.textures[meaning] = YuvTexture(self.texture, meaning)
        return self.textures[meaning]

    def elapsed(self, frame: Frame) -> float:
        """Seconds since the frame before."""
        now = frame.info.pts * frame.tick
        before, self.last_pts = self.last_pts, now
        return max(float(now - before), _MIN_SECONDS) if before is not None else 1.0


class MeshEngine(Engine):
    """Detects and follows faces by their mesh and draws the source's texture on them.

    Thread-bound: the models and OpenCV are kept to one thread. `stages` sums seconds by stage.
    """

    name = "mesh"
    stateful = True
    context_frames = 12

    def __init__(self, models: Path) -> None:
        self._store = models
        self._loaded: tuple[Detector, Mesh] | None = None
        self.stages = Stages()
        self._painter = Painter(self.stages)

    @property
    def model_id(self) -> str:
        used = (manifest()[name] for name in ("det_back", "mesh"))
        return f"mesh/{_VERSION} " + " ".join(f"{m.name}@{m.sha256[:12]}" for m in used)

    def warm(self) -> None:
        """Load the models and compile the kernels for 8 and 16 bit and for HDR.

        Raises ModelError when a model is missing or wrong.
        """
        self._models()
        texture = np.full((512, 512, 4), 128, np.uint8)
        marks = np.column_stack([UV * 60 + 2, np.zeros(VERTICES)]).astype(np.float32)
        for name, transfer in (("yuv420p", "bt709"), ("yuv420p10le", "bt709"), ("yuv420p10le", "smpte2084")):
            form = VideoFormat(width=64, height=64, pixel_format=name, transfer=transfer)
            kind = np.uint8 if form.pixels.depth == 8 else np.uint16
            planes = [np.zeros((side, side), kind) for side in (64, 32, 32)]
            meaning = samples(form)
            yuv = YuvTexture(texture, meaning)
            paint = self._painter.paint
            paint(planes, form.pixels, meaning, yuv, marks, Memory(), Look(), (), seconds=1, draw=True)
        self.stages.clear()

    def prepare(
        self,
        pictures: Sequence[bytes],
        face: int | None = None,
        options: Mapping[str, Any] | None = None,
        frame: npt.NDArray[np.uint8] | None = None,
    ) -> SourceFace:
        """Options change nothing about a face, but are checked."""
        Options.of(options or {})
        if not pictures:
            raise UsageError("no source picture given")
        find = SourceFinder(*self._models())
        faces = []
        for number, data in enumerate(pictures, 1):
            picture = decode(data, number)
            faces.append((picture, find(picture, number, face)))
        return SourceFace(self.name, {_TEXTURE: unwrap(faces)})

    def open(self, face: SourceFace, options: Mapping[str, Any]) -> _Stream:
        if face.engine != self.name or _TEXTURE not in face.arrays:
            raise UsageError(f"the source face was prepared for engine {face.engine}, not mesh")
        chosen = Options.of(options)
        detector, mesh = self._models()

        def find(frame: Frame, *, thorough: bool, upside_down: bool = False) -> list[Square]:
            with self.stages("detect"):
                return search(detector, frame, chosen.min_score, thorough=thorough, upside_down=upside_down)

        def look(frame: Frame, square: Square) -> tuple[Landmarks, float]:
            with self.stages("landmark"):
                return _look(mesh, frame, square)

        tracker = Tracker(find, look, int(chosen.max_faces))
        return _Stream(face.arrays[_TEXTURE], chosen, tracker)

    def swap(self, work: Sequence[Work]) -> list[list[FrameSwap]]:
        return [self._run(one.state, one.frames, one.last) for one in work]

    def _models(self) -> tuple[Detector, Mesh]:
        if self._loaded is None:
            cv2.setNumThreads(1)
            detector = Detector(Model(store.path(self._store, "det_back")))
            self._loaded = detector, Mesh(Model(store.path(self._store, "mesh")))
        return self._loaded

    def _run(self, stream: _Stream, frames: Sequence[Frame], last: bool) -> list[FrameSwap]:
        try:
            decided = [seen for frame in frames for seen in stream.tracker.push(frame)]
            if last:
                decided += stream.tracker.finish()
            return [self._paint(stream, seen) for seen in decided]
        except Exception as error:  # ONNX Runtime and OpenCV raise kinds of their own
            raise EngineError(f"engine mesh: {error}") from error

    def _paint(self, stream: _Stream, seen: Seen) -> FrameSwap:
        frame, form = seen.frame, seen.frame.format
        stream.faces = {n: stream.faces.get(n) or _Face() for n in seen.faces}
        seconds = stream.elapsed(frame)
        shown = []
        for number, marks in _far_to_near(seen.faces):
            with self.stages("smooth"):
                quiet = stream.faces[number].smoother(marks, seconds, Square.of_landmarks(marks).side)
                shown.append((number, quiet * np.array([1 / aspect(form), 1, 1], np.float32)))
        draw = self._draw_fields if fields.parities(form) else self._draw
        patches = draw(stream, frame, shown, seconds)
        flags = SwapFlag(0) if seen.faces else SwapFlag.NO_FACE
        return FrameSwap(frame.info.seq, tuple(p for p in patches if p is not None), flags)

    def _draw(
        self, stream: _Stream, frame: Frame, shown: Sequence[tuple[int, Landmarks]], seconds: float
    ) -> list[PatchPixels | None]:
        """A patch for each face, in samples of the frame; None where it cannot be seen."""
        meaning, patches = samples(frame.format), list[PatchPixels | None]()
        for number, marks in shown:
            patch = self._painter.paint(
                frame.planes,
                frame.format.pixels,
                meaning,
                stream.yuv(meaning),
                marks,
                stream.faces[number].memory,
                stream.options.look,
                [earlier for earlier in patches if earlier is not None],
                seconds=seconds,
                draw=not frame.info.flags & FrameFlag.CONTEXT,
            )
            patches.append(patch)
        return patches

    def _draw_fields(
        self, stream: _Stream, frame: Frame, shown: Sequence[tuple[int, Landmarks]], seconds: float
    ) -> list[PatchPixels | None]:
        """As `_draw`, each field by itself."""
        order, pixels = fields.parities(frame.format), frame.format.pixels
        moved = [fields.motion(frame.planes[0], marks, order[0]) for _, marks in shown]
        halves = []
        for when, parity in zip((-0.5, 0.5), order, strict=True):
            field = replace(frame, planes=tuple(plane[parity::2] for plane in frame.planes))
            there = [
                (number, fields.in_field(marks + np.float32(when) * shift, parity))
                for (number, marks), shift in zip(shown, moved, strict=True)
            ]
            halves.append([(parity, p) for p in self._draw(stream, field, there, seconds / 2)])
        return [fields.woven(frame.planes, pixels, pair) for pair in zip(*halves, strict=True)]


def _far_to_near(faces: Mapping[int, Landmarks]) -> list[tuple[int, Landmarks]]:
    """Smaller faces first: the nearer is drawn over the farther."""
    return sorted(faces.items(), key=lambda item: (float(np.ptp(item[1][:, 1])), item[0]))


def _look(mesh: Mesh, frame: Frame, square: Square) -> tuple[Landmarks, float]:
    form = frame.format
    matrix = square.matrix()
    matrix[0] /= aspect(form)
    image = warped(frame.planes, form.pixels, samples(form), matrix, SIDE)
    return mesh(image, square)
