"""The engine `mesh` on interlaced frames: each field shows the face where it was at that moment."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from schemas.frames import VideoFormat
from swapper.engines.base import Frame, Plane, SourceFace, Work
from swapper.engines.mesh import fields
from swapper.engines.mesh.engine import MeshEngine
from tests.support import faces

pytestmark = pytest.mark.media

PLAIN = VideoFormat(width=640, height=524, pixel_format="yuv420p", color_range="tv", matrix="smpte170m")


@pytest.fixture(scope="module")
def picture() -> faces.Bgr:
    return faces.bgr(faces.clip(PLAIN, 1)[0].planes, PLAIN)


def moments(picture: faces.Bgr, speed: tuple[float, float], count: int) -> list[Frame]:
    """One progressive frame for each field: the picture moves by `speed` from one to the next."""
    made = []
    for i in range(count):
        matrix = np.array([[1, 0, speed[0] * i], [0, 1, speed[1] * i]], np.float64)
        moved = cv2.warpAffine(picture, matrix, (640, 524), borderMode=cv2.BORDER_REPLICATE)
        made.append(faces.picture_frame(moved.astype(np.uint8), PLAIN, i))
    return made


def interlaced(made: list[Frame], order: str) -> list[Frame]:
    """Frames of two moments each."""
    first = 0 if order == "tt" else 1
    form = PLAIN.model_copy(update={"field_order": order})
    frames = []
    for i in range(0, len(made), 2):
        planes = [plane.copy() for plane in made[i].planes]
        for plane, later in zip(planes, made[i + 1].planes, strict=True):
            plane[1 - first :: 2] = later[1 - first :: 2]
        frames.append(faces.frame(planes, form, i // 2))
    return frames


def result(engine: MeshEngine, source: SourceFace, frames: list[Frame]) -> list[tuple[Plane, ...]]:
    (swaps,) = engine.swap([Work(engine.open(source, {}), frames, last=True)])
    assert all(len(swap.patches) == 1 for swap in swaps)
    return [faces.pasted(one, swap) for one, swap in zip(frames, swaps, strict=True)]


def around_face(picture: faces.Bgr) -> tuple[slice, slice]:
    marks = faces.landmarks(picture)[:, :2]
    (x, y), (right, bottom) = marks.min(0).astype(int), marks.max(0).astype(int)
    return slice(y // 2 * 2, bottom), slice(x, right)


def apart(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> float:
    return float(np.abs(a.astype(int) - b).mean())


@pytest.mark.parametrize("order", ["tt", "bb"])
@pytest.mark.parametrize("speed", [(6, 0), (-4, 3)])
def test_each_field_shows_its_own_moment(
    engine: MeshEngine, source: SourceFace, picture: faces.Bgr, order: str, speed: tuple[float, float]
) -> None:
    made = moments(picture, speed, 12)
    wanted = result(engine, source, made)
    woven = result(engine, source, interlaced(made, order))
    first = 0 if order == "tt" else 1
    rows, columns = around_face(faces.bgr(made[8].planes, PLAIN))
    for number, parity in ((8, first), (9, 1 - first)):
        own, other = wanted[number][0], wanted[17 - number][0]
        field = woven[4][0][rows, columns][parity::2]
        right = apart(field, own[rows, columns][parity::2])
        wrong = apart(field, other[rows, columns][parity::2])
        assert right < 2.5
        assert right < 0.5 * wrong


def test_film_stored_as_fields_is_swapped_as_film(
    engine: MeshEngine, source: SourceFace, picture: faces.Bgr
) -> None:
    """Both fields of one moment: no combs where there were none."""
    frames = [one for one in moments(picture, (5, 1), 6) for _ in range(2)]
    frames = [faces.frame([p.copy() for p in one.planes], PLAIN, i) for i, one in enumerate(frames)]
    plain, woven = result(engine, source, frames[::2]), result(engine, source, interlaced(frames, "tt"))
    for a, b in zip(plain[1:], woven[1:], strict=True):
        assert apart(a[0], b[0]) < 0.5


@pytest.mark.parametrize("order", ["tt", "bb"])
@pytest.mark.parametrize("speed", [(0, 0), (5, 0), (-3, 4), (0, -5)])
def test_motion_between_fields_is_measured(
    picture: faces.Bgr, order: str, speed: tuple[float, float]
) -> None:
    (one,) = interlaced(moments(picture, speed, 2), order)
    first = fields.parities(one.format)[0]
    moved = fields.motion(one.planes[0], faces.landmarks(picture), first)
    np.testing.assert_allclose(moved, [*speed, 0], atol=0.7)


def test_progressive_frames_have_no_fields() -> None:
    assert fields.parities(PLAIN) == ()


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "gray", "yuv444p"])
def test_patches_of_fields_fit_every_format(engine: MeshEngine, source: SourceFace, name: str) -> None:
    form = VideoFormat(width=321, height=263, pixel_format=name, field_order="tt")
    frames = faces.clip(form, 3)
    for one, planes in zip(frames, result(engine, source, frames), strict=True):
        for was, now in zip(one.planes, planes, strict=True):
            assert was.shape == now.shape
        assert np.abs(planes[0].astype(int) - one.planes[0]).max() > 20
