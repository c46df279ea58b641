"""Faces of frames for tests: clips as engine frames, patches pasted, landmarks and identities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import cv2
import dlib
import numpy as np
import numpy.typing as npt

from schemas.frames import FrameFlag, FrameInfo, VideoFormat
from schemas.pixels import pixel_format
from swapper.colour import samples
from swapper.engines.base import Frame, FrameSwap, Plane
from swapper.engines.mesh.detect import Detector
from swapper.engines.mesh.inference import Model
from swapper.engines.mesh.landmarks import Landmarks, Mesh
from swapper.engines.mesh.source import SourceFinder
from swapper.models import store
from swapper.sampling import scaled
from tests.support.assets import carphone, dlib_resnet

Bgr = npt.NDArray[np.uint8]
_CHIP_POINTS = (263, 362, 33, 133, 2)
"""Mesh vertices of dlib's five points: left eye out, in, right eye out, in, under the nose."""


@cache
def models() -> Path:
    """The model store of this machine, filled on first use."""
    folder = store.default_store()
    store.pull(folder)
    return folder


@cache
def finder() -> SourceFinder:
    """Finds the largest face of a BGR picture and its landmarks."""
    detector = Detector(Model(store.path(models(), "det_back")))
    return SourceFinder(detector, Mesh(Model(store.path(models(), "mesh"))))


@cache
def _recogniser() -> Any:
    return dlib.face_recognition_model_v1(str(dlib_resnet()))


def landmarks(picture: Bgr) -> Landmarks:
    """Of the largest face. Raises NoFaceError."""
    return finder()(picture, 1)


def identity(picture: Bgr, marks: Landmarks) -> npt.NDArray[np.float64]:
    """dlib's 128 numbers of a face; under 0.6 apart is the same person to it."""
    points = [dlib.point(*(round(float(n)) for n in marks[i, :2])) for i in _CHIP_POINTS]
    shape = dlib.full_object_detection(dlib.rectangle(0, 0, 10, 10), dlib.points(points))
    chip = dlib.get_face_chip(np.ascontiguousarray(picture[..., ::-1]), shape, 150, 0.25)
    return np.array(_recogniser().compute_face_descriptor(chip))


def distance(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    return float(np.linalg.norm(a - b))


def cosine(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Of two identities."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def clip(form: VideoFormat, count: int | None = None) -> list[Frame]:
    """Carphone, scaled to a format."""
    frames: list[Frame] = []
    with av.open(str(carphone())) as container:
        for decoded in container.decode(video=0):
            made = decoded.reformat(form.width, form.height, form.pixel_format, interpolation="BICUBIC")
            frames.append(frame([_plane(plane, form) for plane in made.planes], form, len(frames)))
            if len(frames) == count:
                break
    return frames


def _plane(plane: Any, form: VideoFormat) -> Plane:
    kind = np.uint8 if form.pixels.depth == 8 else np.uint16
    rows = np.frombuffer(plane, kind).reshape(plane.height, -1)
    return np.ascontiguousarray(rows[:, : plane.width])


def frame(planes: Sequence[Plane], form: VideoFormat, number: int) -> Frame:
    """A frame of a clip of 30 frames/s; its planes cannot be written to, like those from Kafka."""
    for plane in planes:
        plane.flags.writeable = False
    info = FrameInfo(number, number, 1, FrameFlag(0))
    return Frame(info, number, form, Fraction(1, 30), tuple(planes))


def picture_frame(picture: Bgr, form: VideoFormat, number: int = 0) -> Frame:
    """A frame that shows a picture, scaled to the format."""
    made = av.VideoFrame.from_ndarray(picture, "bgr24")
    made = made.reformat(form.width, form.height, form.pixel_format, interpolation="BICUBIC")
    return frame([_plane(plane, form) for plane in made.planes], form, number)


def renumbered(frames: Iterable[Frame], first_ordinal: int = 0, context: int = 0) -> list[Frame]:
    """Frames as a stream of their own, the first `context` flagged; timestamps stay."""
    flags = [FrameFlag.CONTEXT, FrameFlag(0)]
    return [
        replace(
            one,
            ordinal=first_ordinal + i,
            info=replace(one.info, seq=i, flags=flags[i >= context]),
        )
        for i, one in enumerate(frames)
    ]


def pasted(one: Frame, swap: FrameSwap) -> tuple[Plane, ...]:
    """The frame's planes with the patches laid on in their order."""
    planes = tuple(plane.copy() for plane in one.planes)
    for patch in swap.patches:
        for i, (plane, part) in enumerate(zip(planes, patch.planes, strict=True)):
            pixels = pixel_format(one.format.pixel_format)
            x, y = (patch.x >> pixels.chroma_x, patch.y >> pixels.chroma_y) if i else (patch.x, patch.y)
            plane[y : y + part.shape[0], x : x + part.shape[1]] = part
    return planes


def bgr(planes: Sequence[Plane], form: VideoFormat) -> Bgr:
    """The picture that planes show, as stored (not turned)."""
    return np.ascontiguousarray(scaled(planes, samples(form), form.width, form.height)[..., ::-1])


def psnr(a: Sequence[Plane], b: Sequence[Plane], depth: int = 8) -> float:
    """Over all samples of two frames, in dB."""
    errors = sum(float(((x.astype(np.float64) - y) ** 2).sum()) for x, y in zip(a, b, strict=True))
    if errors == 0:
        return float("inf")
    mean = errors / sum(x.size for x in a)
    return float(10 * np.log10(((1 << depth) - 1) ** 2 / mean))


def read(path: Path) -> Bgr:
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert picture is not None
    return picture.astype(np.uint8, copy=False)
