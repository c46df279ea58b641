"""The engine `mesh` on what hides a face or changes it: hands, bars, closed eyes, profiles."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from schemas.frames import VideoFormat
from swapper.colour import samples
from swapper.engines.base import Frame, FrameSwap, PatchPixels, SourceFace, Work
from swapper.engines.mesh import eyes
from swapper.engines.mesh.cover import Look
from swapper.engines.mesh.engine import MeshEngine
from swapper.engines.mesh.landmarks import Landmarks
from swapper.engines.mesh.pose import Turn, visible, yaw
from swapper.engines.mesh.render import Memory, Painter
from swapper.engines.mesh.stages import Stages
from swapper.engines.mesh.texture import YuvTexture
from tests.support import faces, scenes
from tests.support.assets import astronaut

pytestmark = pytest.mark.media

FORMAT = VideoFormat(width=640, height=524, pixel_format="yuv420p", color_range="tv", matrix="smpte170m")
BARS = [
    ((160, 90, 30), 30, 0.0),
    ((25, 25, 25), 70, 0.1),
    ((200, 200, 200), 10, 0.2),
    ((60, 130, 60), -40, 0),
]


@pytest.fixture(scope="module")
def clip() -> list[Frame]:
    return faces.clip(FORMAT)


@pytest.fixture(scope="module")
def portrait(clip: list[Frame]) -> tuple[faces.Bgr, Landmarks]:
    picture = faces.bgr(clip[0].planes, FORMAT)
    return picture, faces.landmarks(picture)


def run(engine: MeshEngine, source: SourceFace, frames: Sequence[Frame]) -> list[FrameSwap]:
    (swaps,) = engine.swap([Work(engine.open(source, {}), frames, last=True)])
    return swaps


def still(
    engine: MeshEngine, source: SourceFace, picture: faces.Bgr
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Luma before and after."""
    one = faces.picture_frame(picture, FORMAT)
    (swap,) = run(engine, source, [one])
    return one.planes[0].astype(int), faces.pasted(one, swap)[0].astype(int)


def inner(marks: Landmarks, share: float = 0.75) -> npt.NDArray[np.bool_]:
    """Where the texture is plainly on."""
    mask = np.zeros((FORMAT.height, FORMAT.width), np.uint8)
    hull = cv2.convexHull(np.ascontiguousarray(marks[:, :2]))[:, 0]
    hull = (hull - hull.mean(0)) * share + hull.mean(0)
    cv2.fillConvexPoly(mask, np.round(hull).astype(np.int32), 1)
    return mask > 0


@pytest.mark.parametrize(("colour", "angle", "offset"), BARS)
def test_bar_before_the_face_stays_and_the_rest_is_swapped(
    engine: MeshEngine,
    source: SourceFace,
    portrait: tuple[faces.Bgr, Landmarks],
    colour: tuple[float, float, float],
    angle: float,
    offset: float,
) -> None:
    picture, marks = portrait
    scene, bar = scenes.behind_a_bar(picture, marks, colour, angle, offset)
    before, after = still(engine, source, scene)
    hidden = bar & inner(marks, 1)
    assert (before == after)[hidden].mean() > 0.9
    rest = inner(marks) & ~cv2.dilate(bar.astype(np.uint8), np.ones((21, 21))).astype(bool)
    assert (before != after)[rest].mean() > 0.7


def test_gloved_hand_before_the_face_stays(
    engine: MeshEngine, source: SourceFace, portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    picture, marks = portrait
    scene, hand = scenes.behind_a_hand(picture, marks, (60, 100, 60))
    before, after = still(engine, source, scene)
    assert (before == after)[hand & inner(marks, 1)].mean() > 0.9
    assert (before != after)[inner(marks)].any()


def test_hand_of_the_faces_own_colour_makes_no_holes(
    engine: MeshEngine, source: SourceFace, portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    """It cannot be told from the face by colour: painted over, as a whole."""
    picture, marks = portrait
    scene, _ = scenes.behind_a_hand(picture, marks, scenes.skin(picture, marks))
    before, after = still(engine, source, scene)
    assert (before != after)[inner(marks)].mean() > 0.9


def test_clean_faces_have_no_holes(source: SourceFace, clip: list[Frame]) -> None:
    """In other light too."""
    woman = cv2.resize(faces.read(astronaut())[:262, 70:390], (640, 524), interpolation=cv2.INTER_CUBIC)
    pictures = [faces.bgr(one.planes, FORMAT) for one in clip[::12]] + [woman, woman[:, ::-1]]
    for picture in pictures:
        marks = faces.landmarks(np.ascontiguousarray(picture))
        shades = [np.full(3, 0.4), np.ones(3), np.full(3, 1.25), np.linspace(0.5, 1.2, 640)[:, None]]
        shades += [np.array([0.7, 0.9, 1.1]), np.array([1.2, 1, 0.9])]
        for shade in shades:
            lit = np.clip(picture * shade, 0, 255).astype(np.uint8)
            memory = Memory()
            assert painted(source, faces.picture_frame(lit, FORMAT), marks, memory) is not None
            assert memory.veil.cover is None


def test_what_passes_before_a_face_leaves_nothing_behind(
    engine: MeshEngine, source: SourceFace, portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    picture, marks = portrait
    pictures = [picture] * 4
    pictures += [scenes.behind_a_bar(picture, marks, (160, 90, 30), 80, x)[0] for x in (0.3, 0.15, 0, -0.15)]
    pictures += [picture] * 16
    frames = [faces.picture_frame(one, FORMAT, i) for i, one in enumerate(pictures)]
    swaps = run(engine, source, frames)
    first, last = (faces.pasted(frames[i], swaps[i]) for i in (3, -1))
    assert faces.psnr(first, last) > 42


def test_closed_eyes_stay_closed(
    engine: MeshEngine, source: SourceFace, portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    picture, marks = portrait
    for shut in ((True, True), (True, False), (False, True)):
        scene = scenes.with_closed_eyes(picture, marks, shut)
        before, after = still(engine, source, scene)
        seen = faces.landmarks(scene)
        meaning = samples(FORMAT)
        found = eyes.closed(after.astype(np.uint8), seen[:, :2], meaning.black, meaning.luma)
        for eye, lids, wanted in zip(found, ([159, 145], [386, 374]), shut, strict=True):
            assert eye == pytest.approx(float(wanted), abs=0.3)
            x, y = seen[lids, :2].mean(0).astype(int)
            part = np.s_[y - 3 : y + 3, x - 6 : x + 6]
            assert (np.abs(before - after)[part].mean() < 3) == wanted


def test_eyes_are_told_open_or_closed_over_a_clip(clip: list[Frame]) -> None:
    meaning = samples(FORMAT)
    told = []
    for one in clip[4::8]:  # eyes wide open too: white makes them as bright as skin on the whole
        picture = faces.bgr(one.planes, FORMAT)
        marks = faces.landmarks(picture)
        shut = faces.picture_frame(scenes.with_closed_eyes(picture, marks), FORMAT)
        told += [
            [
                eyes.closed(planes[0], marks[:, :2], meaning.black, meaning.luma)
                for planes in (one.planes, shut.planes)
            ]
        ]
    opened, closed = np.swapaxes(told, 0, 1)
    assert opened.max() < 0.15
    assert closed.mean() > 0.85


def painted(
    source: SourceFace, frame: Frame, marks: Landmarks, memory: Memory | None = None
) -> PatchPixels | None:
    meaning = samples(FORMAT)
    texture = YuvTexture(source.arrays["texture"], meaning)
    return Painter(Stages()).paint(
        frame.planes,
        FORMAT.pixels,
        meaning,
        texture,
        marks,
        memory or Memory(),
        Look(),
        (),
        seconds=1 / 30,
        draw=True,
    )


def change(frame: Frame, patch: PatchPixels | None) -> float:
    """Mean difference of luma that a patch makes, over its area."""
    if patch is None:
        return 0.0
    was = frame.planes[0][patch.y : patch.y + patch.height, patch.x : patch.x + patch.width]
    return float(np.abs(patch.planes[0].astype(int) - was).mean())


@pytest.mark.parametrize("side", [-1, 1])
def test_texture_fades_out_towards_the_profile(
    source: SourceFace, clip: list[Frame], portrait: tuple[faces.Bgr, Landmarks], side: int
) -> None:
    turns = [0, 30, 40, 50, 60, 80]
    changes = []
    for turn in turns:
        marks = scenes.turned_marks(portrait[1], side * turn / 1.45)
        assert abs(abs(yaw(marks)) - turn) < 6
        changes.append(change(clip[0], painted(source, clip[0], marks)))
    assert changes[0] > 1
    assert min(changes[:3]) > 0.85 * changes[0]
    assert changes[2] > changes[3] > 2 * changes[4]
    assert changes[-1] == 0


def test_frame_of_a_profile_is_the_frame_itself(
    source: SourceFace, clip: list[Frame], portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    for turn in (68, 75, 90, -68, -90):
        assert painted(source, clip[0], scenes.turned_marks(portrait[1], turn / 1.45)) is None


def test_a_head_that_turns_fades_smoothly(
    source: SourceFace, clip: list[Frame], portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    """In 0.4 s to the profile and back, which is as quick as heads turn: it takes some frames."""
    memory, changes = Memory(), []
    for turn in [0] * 3 + list(range(0, 90, 8)) + [90] * 6 + list(range(90, 0, -8)) + [0] * 8:
        marks = scenes.turned_marks(portrait[1], turn / 1.45)
        changes.append(change(clip[0], painted(source, clip[0], marks, memory)))
    assert min(changes) == 0
    assert changes[-1] == pytest.approx(changes[0], rel=0.1)
    assert np.abs(np.diff(changes)).max() < 0.75 * max(changes)


def test_turn_is_averaged_and_forgets() -> None:
    front = np.zeros((468, 3), np.float32)
    front[454, 0] = 1
    away = front.copy()
    away[454, 2] = 1
    turn = Turn()
    assert turn(front, 1 / 30) == 0
    angles = [turn(away, 1 / 30) for _ in range(30)]
    assert angles == sorted(angles)
    assert angles[0] < 0.7 * yaw(away)
    assert angles[-1] == pytest.approx(yaw(away), rel=0.01)
    assert visible(45) == 1
    assert visible(60) == 0


def test_no_part_of_the_texture_that_is_turned_away_is_drawn(
    source: SourceFace, clip: list[Frame], portrait: tuple[faces.Bgr, Landmarks]
) -> None:
    """Beyond the far cheek's outline the frame stays, so that nothing is torn out over the background."""
    marks = scenes.turned_marks(portrait[1], 45 / 1.45)
    patch = painted(source, clip[0], marks)
    assert patch is not None
    outline = np.zeros((FORMAT.height, FORMAT.width), np.uint8)
    cv2.fillConvexPoly(
        outline, np.round(cv2.convexHull(np.ascontiguousarray(marks[:, :2]))).astype(np.int32), 1
    )
    rows, columns = slice(patch.y, patch.y + patch.height), slice(patch.x, patch.x + patch.width)
    differs = patch.planes[0] != clip[0].planes[0][rows, columns]
    edge = outline - cv2.erode(outline, np.ones((5, 5), np.uint8))
    assert differs.any()
    assert not differs[outline[rows, columns] == 0].any()
    assert differs[edge[rows, columns] > 0].mean() < 0.2
