"""The engine `mesh` on faces that lie on their side or stand on their head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from schemas.frames import VideoFormat
from swapper.engines.base import Frame, FrameSwap, SourceFace, Work
from swapper.engines.mesh.engine import MeshEngine
from swapper.engines.mesh.landmarks import Square
from tests.support import faces
from tests.support.assets import astronaut, skimage_picture
from tests.support.scenes import rolled

pytestmark = pytest.mark.media

FORMAT = VideoFormat(width=640, height=524, pixel_format="yuv420p", color_range="tv", matrix="smpte170m")
BORDER = 100
WIDE = FORMAT.model_copy(update={"width": 640 + 2 * BORDER, "height": 524 + 2 * BORDER})


@pytest.fixture(scope="module")
def pictures() -> list[faces.Bgr]:
    return [faces.bgr(one.planes, FORMAT) for one in faces.clip(FORMAT, 60)]


def run(engine: MeshEngine, source: SourceFace, frames: Sequence[Frame]) -> list[FrameSwap]:
    (swaps,) = engine.swap([Work(engine.open(source, {}), frames, last=True)])
    return swaps


@pytest.mark.parametrize("degrees", [0, 45, 90, 135, 180, 225, 270, 315])
def test_identity_moves_to_the_source_however_the_face_is_turned(
    engine: MeshEngine, source: SourceFace, pictures: list[faces.Bgr], degrees: int
) -> None:
    portrait = faces.read(astronaut())
    wanted = faces.identity(portrait, faces.landmarks(portrait))
    one = faces.picture_frame(rolled(pictures[0], degrees, BORDER), WIDE)
    (swap,) = run(engine, source, [one])
    assert len(swap.patches) == 1
    before, after = (
        rolled(faces.bgr(planes, WIDE), -degrees) for planes in (one.planes, faces.pasted(one, swap))
    )
    old, new = faces.landmarks(before), faces.landmarks(after)
    target, result = faces.identity(before, old), faces.identity(after, new)
    assert faces.distance(result, wanted) < min(0.57, faces.distance(target, wanted) - 0.15)
    assert faces.distance(result, wanted) < faces.distance(result, target)
    apart = np.linalg.norm((old[33] - old[263])[:2])
    assert np.linalg.norm((old - new)[:, :2], axis=1).mean() < 0.06 * apart


def test_face_that_turns_all_the_way_round_is_followed(
    engine: MeshEngine, source: SourceFace, pictures: list[faces.Bgr]
) -> None:
    frames = [
        faces.picture_frame(rolled(picture, 6 * i, BORDER), WIDE, i) for i, picture in enumerate(pictures)
    ]
    assert [len(swap.patches) for swap in run(engine, source, frames)] == [1] * len(frames)


def test_face_upside_down_is_not_mistaken_for_an_upright_one(
    engine: MeshEngine, source: SourceFace, pictures: list[faces.Bgr]
) -> None:
    """The landmark model believes in both up to 0.98."""
    for degrees in (150, 165, 195, 210):
        one = faces.picture_frame(rolled(pictures[0], degrees, BORDER), WIDE)
        state = engine.open(source, {})
        (seen,) = [*state.tracker.push(one), *state.tracker.finish()]
        (marks,) = seen.faces.values()
        off = np.degrees(Square.of_landmarks(marks).angle) - degrees
        assert abs((off + 180) % 360 - 180) < 20


@pytest.mark.parametrize("name", ["coffee.png", "chelsea.png", "motorcycle_left.png"])
def test_nothing_upside_down_is_taken_for_a_face(engine: MeshEngine, source: SourceFace, name: str) -> None:
    picture = rolled(faces.read(skimage_picture(name)), 180)
    frames = [faces.picture_frame(picture, FORMAT, i) for i in range(6)]
    assert all(not swap.patches for swap in run(engine, source, frames))
