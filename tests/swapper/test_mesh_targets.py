"""The engine `mesh` on targets as people have them: cut faces, small faces, gaps, rates and formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import cv2
import numpy as np
import pytest

from schemas.frames import VideoFormat
from schemas.swaps import SwapFlag
from swapper.engines.base import Frame, FrameSwap, SourceFace, Work
from swapper.engines.mesh.engine import MeshEngine
from tests.support import faces, light
from tests.support.assets import astronaut, skimage_picture

pytestmark = pytest.mark.media

FORMAT = VideoFormat(width=640, height=524, pixel_format="yuv420p", color_range="tv", matrix="smpte170m")


@pytest.fixture(scope="module")
def clip() -> list[Frame]:
    return faces.clip(FORMAT)


def run(engine: MeshEngine, source: SourceFace, frames: Sequence[Frame], **options: float) -> list[FrameSwap]:
    (swaps,) = engine.swap([Work(engine.open(source, options), frames, last=True)])
    return swaps


@pytest.mark.parametrize("side", ["left", "right", "top", "bottom"])
def test_face_cut_by_the_edge_from_the_start_is_swapped(
    engine: MeshEngine, source: SourceFace, clip: list[Frame], side: str
) -> None:
    """A third of it is outside, and it was never seen whole."""
    marks = faces.landmarks(faces.bgr(clip[0].planes, FORMAT))[:, :2]
    x, y = (int(n) // 2 * 2 for n in marks.min(0) + np.ptp(marks, axis=0) / 3)
    right, bottom = (int(n) // 2 * 2 for n in marks.max(0) - np.ptp(marks, axis=0) / 3)
    box = {
        "left": (x, 0, 640, 524),
        "right": (0, 0, right, 524),
        "top": (0, y, 640, 524),
        "bottom": (0, 0, 640, bottom),
    }[side]
    form = FORMAT.model_copy(update={"width": box[2] - box[0], "height": box[3] - box[1]})
    frames = [
        faces.frame(
            [
                np.ascontiguousarray(p[box[1] >> c : box[3] >> c, box[0] >> c : box[2] >> c])
                for p, c in zip(one.planes, (0, 1, 1), strict=True)
            ],
            form,
            i,
        )
        for i, one in enumerate(clip[:8])
    ]
    assert all(len(swap.patches) == 1 for swap in run(engine, source, frames))


@pytest.mark.parametrize(("width", "height", "tall"), [(1280, 720, 60), (1920, 1080, 80), (640, 360, 34)])
def test_small_face_in_a_large_frame_is_swapped(
    engine: MeshEngine, source: SourceFace, clip: list[Frame], width: int, height: int, tall: int
) -> None:
    form = VideoFormat(width=width, height=height, pixel_format="yuv420p")
    frames = []
    for i, one in enumerate(clip[:6]):
        picture = faces.bgr(one.planes, FORMAT)
        size = round(640 * tall / 290), round(524 * tall / 290)
        scene = np.full((height, width, 3), 90, np.uint8)
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        scene[height // 3 :, width // 5 :][: size[1], : size[0]] = small
        frames.append(faces.picture_frame(scene, form, i))
    assert all(len(swap.patches) == 1 for swap in run(engine, source, frames))


def test_small_face_beside_a_large_one_is_swapped_too(
    engine: MeshEngine, source: SourceFace, clip: list[Frame]
) -> None:
    form = VideoFormat(width=1280, height=720, pixel_format="yuv420p")
    frames = []
    for i, one in enumerate(clip[:20]):
        picture = faces.bgr(one.planes, FORMAT)
        scene = np.full((720, 1280, 3), 90, np.uint8)
        scene[100:624, :640] = picture
        scene[300:408, 900:1032] = cv2.resize(picture, (132, 108), interpolation=cv2.INTER_AREA)
        frames.append(faces.picture_frame(scene, form, i))
    assert all(len(swap.patches) == 2 for swap in run(engine, source, frames))


def test_frames_without_the_face_in_the_middle_stay_and_it_is_taken_up_after(
    engine: MeshEngine, source: SourceFace, clip: list[Frame]
) -> None:
    """M80 of the case log."""
    empty = faces.picture_frame(faces.read(skimage_picture("coffee.png")), FORMAT)
    frames = faces.renumbered([*clip[:40], *[empty] * 23, *clip[63:90]])
    swaps = run(engine, source, frames)
    assert [len(swap.patches) for swap in swaps] == [1] * 40 + [0] * 23 + [1] * 27
    assert {swap.flags for swap in swaps[40:63]} == {SwapFlag.NO_FACE}


def test_two_people_are_both_swapped_in_every_frame(
    engine: MeshEngine, source: SourceFace, clip: list[Frame]
) -> None:
    """M81 of the case log."""
    form = VideoFormat(width=640, height=360, pixel_format="yuv420p")
    woman = cv2.resize(faces.read(astronaut())[10:280, 130:350], (250, 307))
    frames = []
    for i, one in enumerate(clip[:45]):
        scene = np.full((360, 640, 3), 90, np.uint8)
        scene[20:340, :380] = faces.bgr(one.planes, FORMAT)[100:420, 120:500]
        scene[20:327, 385:635] = woman
        frames.append(faces.picture_frame(scene, form, i))
    for swap in run(engine, source, frames):
        left, right = sorted(swap.patches, key=lambda patch: patch.x)
        assert left.x + left.width <= 400 <= right.x + right.width


@pytest.mark.parametrize("rate", [10, 24, 60, 120])
def test_a_border_does_not_show_at_any_rate(
    engine: MeshEngine, source: SourceFace, clip: list[Frame], rate: int
) -> None:
    """The same second of motion at other rates: frames left out, or repeated with the noise of a camera."""
    picked = _at_rate(clip, rate)
    whole = run(engine, source, picked)
    context, cut = engine.context_frames, len(picked) // 2
    part = faces.renumbered(picked[cut - context : cut + 10], cut - context, context)
    swaps = run(engine, source, part)
    for one, swap, like in zip(part[context:], swaps[context:], whole[cut : cut + 10], strict=True):
        assert len(swap.patches) == 1
        assert faces.psnr(faces.pasted(one, swap), faces.pasted(one, like)) > 45


def _at_rate(clip: Sequence[Frame], rate: int) -> list[Frame]:
    count = min(4 * rate, 120)
    rng = np.random.default_rng(rate)
    frames = []
    for i in range(count):
        one = clip[min(i * 30 // rate, len(clip) - 1)]
        noisy = [np.clip(p + rng.integers(-2, 3, p.shape), 0, 255).astype(np.uint8) for p in one.planes]
        frames.append(replace(faces.frame(noisy, FORMAT, i), tick=Fraction(1, rate)))
    return frames


@pytest.mark.parametrize(
    "form",
    [
        light.form("smpte2084"),
        light.form("arib-std-b67"),
        VideoFormat(width=321, height=263, pixel_format="yuv422p10le", matrix="bt709", color_range="tv"),
        VideoFormat(width=720, height=288, pixel_format="yuv420p", sample_aspect=(16, 22)),
        VideoFormat(width=320, height=262, pixel_format="gray"),
    ],
    ids=["pq", "hlg", "422-10-odd", "anamorphic", "gray"],
)
def test_a_border_does_not_show_in_any_format(
    engine: MeshEngine, source: SourceFace, form: VideoFormat
) -> None:
    hdr = form.primaries == "bt2020"
    frames = light.clip(form, 50) if hdr else faces.clip(form, 50)
    whole = run(engine, source, frames)
    context, cut = engine.context_frames, 33
    part = faces.renumbered(frames[cut - context : cut + 10], cut - context, context)
    swaps = run(engine, source, part)
    for one, swap, like in zip(part[context:], swaps[context:], whole[cut : cut + 10], strict=True):
        assert len(swap.patches) == 1
        after, expected = faces.pasted(one, swap), faces.pasted(one, like)
        assert faces.psnr(after, expected, form.pixels.depth) > 45


def test_still_of_several_people_is_swapped_whole(engine: MeshEngine, source: SourceFace) -> None:
    """One frame, and no other to confirm what it shows."""
    form = VideoFormat(width=2400, height=1600, pixel_format="yuv420p", color_range="pc")
    portrait = faces.read(astronaut())
    scene = np.full((1600, 2400, 3), 100, np.uint8)
    for x, y, side in ((100, 300, 512), (900, 500, 700), (1800, 400, 500)):
        scene[y : y + side, x : x + side] = cv2.resize(portrait, (side, side), interpolation=cv2.INTER_AREA)
    (swap,) = run(engine, source, [faces.picture_frame(scene, form)])
    assert len(swap.patches) == 3
