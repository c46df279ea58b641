"""The engine `mesh` on a real clip: whose face it shows, what it leaves alone, and that it repeats itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import pytest

from schemas.errors import EngineError, ModelError, UsageError
from schemas.frames import FrameFlag, VideoFormat
from schemas.pixels import PIXEL_FORMATS
from schemas.swaps import SwapFlag
from swapper.colour import samples
from swapper.engines.base import Frame, FrameSwap, SourceFace, Work
from swapper.engines.mesh.engine import MeshEngine
from tests.support import faces
from tests.support.assets import astronaut, skimage_picture

pytestmark = pytest.mark.media

FORMAT = VideoFormat(width=640, height=524, pixel_format="yuv420p", color_range="tv", matrix="smpte170m")
"""Carphone at its own shape."""
SMALL = VideoFormat(width=320, height=262, pixel_format="yuv420p")


@pytest.fixture(scope="module")
def clip() -> list[Frame]:
    return faces.clip(FORMAT)


@pytest.fixture(scope="module")
def swapped(engine: MeshEngine, source: SourceFace, clip: list[Frame]) -> list[FrameSwap]:
    return run(engine, source, clip)


def run(engine: MeshEngine, source: SourceFace, frames: Sequence[Frame], **options: float) -> list[FrameSwap]:
    """One stream from start to end."""
    (swaps,) = engine.swap([Work(engine.open(source, options), frames, last=True)])
    return swaps


def shown(frames: Sequence[Frame], swaps: Sequence[FrameSwap]) -> list[faces.Bgr]:
    return [faces.bgr(faces.pasted(one, swap), one.format) for one, swap in zip(frames, swaps, strict=True)]


def assert_same(a: Sequence[FrameSwap], b: Sequence[FrameSwap]) -> None:
    """The same decisions, to the bit."""
    for one, other in zip(a, b, strict=True):
        assert (one.seq, one.flags) == (other.seq, other.flags)
        for p, q in zip(one.patches, other.patches, strict=True):
            assert (p.x, p.y, p.width, p.height) == (q.x, q.y, q.width, q.height)
            for ours, theirs in zip(p.planes, q.planes, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_identity_moves_to_the_source_and_the_pose_stays(clip: list[Frame], swapped: list[FrameSwap]) -> None:
    portrait = faces.read(astronaut())
    wanted = faces.identity(portrait, faces.landmarks(portrait))
    before, after, to_target, shifts = [], [], [], []
    for one, picture in list(zip(clip, shown(clip, swapped), strict=True))[::8]:
        original = faces.bgr(one.planes, one.format)
        old, new = faces.landmarks(original), faces.landmarks(picture)
        target, result = faces.identity(original, old), faces.identity(picture, new)
        before.append(faces.distance(target, wanted))
        after.append(faces.distance(result, wanted))
        to_target.append(faces.distance(result, target))
        apart = np.linalg.norm((old[33] - old[263])[:2])
        shifts.append(np.linalg.norm((old - new)[:, :2], axis=1).mean() / apart)
    assert np.mean(after) < 0.55
    assert np.mean(after) < np.mean(before) - 0.15
    assert np.mean(after) < np.mean(to_target)
    assert np.mean(shifts) < 0.05
    assert np.max(shifts) < 0.09


def test_every_frame_with_the_face_is_patched_from_the_first_on(swapped: list[FrameSwap]) -> None:
    assert [swap.seq for swap in swapped] == list(range(120))
    assert all(len(swap.patches) == 1 and not swap.flags for swap in swapped)


def test_picture_does_not_flicker_more_than_the_clip(clip: list[Frame], swapped: list[FrameSwap]) -> None:
    centre = np.s_[150:330, 240:400]
    old = [faces.bgr(one.planes, FORMAT)[centre].astype(np.float32) for one in clip]
    new = [picture[centre].astype(np.float32) for picture in shown(clip, swapped)]

    def flicker(pictures: list[np.ndarray]) -> float:
        triples = zip(pictures, pictures[1:], pictures[2:], strict=False)
        return float(np.mean([np.abs(a - 2 * b + c).mean() for a, b, c in triples]))

    assert flicker(new) < 1.2 * flicker(old)


def test_edge_of_each_patch_is_the_frame_itself(clip: list[Frame], swapped: list[FrameSwap]) -> None:
    """So nothing outside changes and no seam can show."""
    for one, swap in zip(clip, swapped, strict=True):
        new = faces.pasted(one, swap)
        for patch in swap.patches:
            for i, (plane, part) in enumerate(zip(new, patch.planes, strict=True)):
                shift = 1 if i else 0
                x, y = patch.x >> shift, patch.y >> shift
                was = one.planes[i][y : y + part.shape[0], x : x + part.shape[1]]
                rim = np.ones(part.shape, bool)
                rim[1:-1, 1:-1] = False
                assert np.abs(part.astype(int) - was)[rim].max() <= 1
                assert part.flags.c_contiguous
                assert part.dtype == plane.dtype


def test_frames_are_not_written_to(clip: list[Frame], swapped: list[FrameSwap]) -> None:
    for one, again in zip(clip[::20], faces.clip(FORMAT)[::20], strict=True):
        for plane, same in zip(one.planes, again.planes, strict=True):
            np.testing.assert_array_equal(plane, same)


@pytest.mark.parametrize("name", ["coffee.png", "chelsea.png", "motorcycle_left.png"])
def test_frames_without_a_face_stay_as_they_are(engine: MeshEngine, source: SourceFace, name: str) -> None:
    picture = faces.read(skimage_picture(name))
    frames = [faces.picture_frame(picture, SMALL, i) for i in range(12)]
    swaps = run(engine, source, frames)
    assert all(not swap.patches and swap.flags == SwapFlag.NO_FACE for swap in swaps)


@pytest.mark.parametrize("name", sorted(PIXEL_FORMATS))
def test_patches_fit_every_pixel_format_at_odd_sizes(
    engine: MeshEngine, source: SourceFace, name: str
) -> None:
    form = VideoFormat(width=321, height=263, pixel_format=name)
    pixels = form.pixels
    frames = faces.clip(form, 3)
    reference = run(engine, source, faces.clip(SMALL, 3))
    for one, swap, like in zip(frames, run(engine, source, frames), reference, strict=True):
        (patch,) = swap.patches
        assert patch.x % (1 << pixels.chroma_x) == patch.y % (1 << pixels.chroma_y) == 0
        for i, part in enumerate(patch.planes):
            width, height = pixels.plane_size(i, patch.width, patch.height)
            assert part.shape == (height, width)
            assert part.max() < 1 << pixels.depth
        new = faces.bgr(faces.pasted(one, swap), form)
        assert np.abs(new.astype(int) - faces.bgr(one.planes, form)).max() > 20
        if pixels.planes == 3:
            expected = cv2.resize(shown(faces.clip(SMALL, 1), [like])[0], (321, 263))
            if one.ordinal == 0:
                assert np.abs(new.astype(int) - expected).mean() < 3.5


def test_range_and_matrix_of_the_format_are_used(engine: MeshEngine, source: SourceFace) -> None:
    """The same picture, stored under other matrices and ranges, becomes the same picture."""
    results = []
    for matrix, color_range in (("smpte170m", "tv"), ("bt709", "tv"), ("bt709", "pc")):
        form = VideoFormat(
            width=320, height=262, pixel_format="yuv444p", matrix=matrix, color_range=color_range
        )
        base = faces.bgr(faces.clip(SMALL, 1)[0].planes, SMALL)
        rgb = base[..., ::-1].reshape(-1, 3).astype(np.float32)
        meaning = samples(form)
        yuv = rgb / 255 @ meaning.from_rgb().T
        yuv *= np.float32([meaning.luma, meaning.chroma, meaning.chroma])
        yuv += np.float32([meaning.black, meaning.grey, meaning.grey])
        yuv = np.round(yuv).clip(0, 255)
        planes = [np.ascontiguousarray(p) for p in yuv.T.reshape(3, 262, 320).astype(np.uint8)]
        one = faces.frame(planes, form, 0)
        results += shown([one], run(engine, source, [one]))
    for other in results[1:]:
        assert np.abs(results[0].astype(int) - other).mean() < 1.5


@pytest.mark.parametrize("size", [1, 7, 50])
def test_patches_are_the_same_to_the_bit_however_frames_are_grouped(
    engine: MeshEngine,
    source: SourceFace,
    clip: list[Frame],
    swapped: list[FrameSwap],
    size: int,
) -> None:
    """Also when another stream is run in the same calls."""
    state, other = engine.open(source, {}), engine.open(source, {"shade": 0.5})
    frames, result = clip[:60], []
    strangers = faces.clip(SMALL, 60)
    for i in range(0, 60, size):
        work = [
            Work(other, strangers[i : i + size]),
            Work(state, frames[i : i + size]),
        ]
        result += engine.swap(work)[1]
    assert_same(result, swapped[: len(result)])
    assert len(result) >= 60 - 17


def test_a_stream_that_starts_in_the_middle_shows_no_border(
    engine: MeshEngine, source: SourceFace, clip: list[Frame], swapped: list[FrameSwap]
) -> None:
    context = engine.context_frames
    for cut in (25, 44, 61, 73, 88):
        part = [
            replace(one, ordinal=cut - context + i)
            for i, one in enumerate(faces.renumbered(clip[cut - context : cut + 10], cut - context, context))
        ]
        swaps = run(engine, source, part)
        assert [swap.seq for swap in swaps] == list(range(context + 10))
        assert not any(swap.patches for swap in swaps[:context])
        for one, swap, whole in zip(part[context:], swaps[context:], swapped[cut : cut + 10], strict=True):
            assert len(swap.patches) == 1
            assert faces.psnr(faces.pasted(one, swap), faces.pasted(one, whole)) > 50


def test_face_that_appears_between_detections_is_swapped_from_its_first_frame(
    engine: MeshEngine, source: SourceFace, clip: list[Frame]
) -> None:
    empty = faces.picture_frame(faces.read(skimage_picture("coffee.png")), FORMAT)
    for first in (6, 18):
        frames = [replace(empty, ordinal=i) for i in range(first)] + clip[first:32]
        frames = faces.renumbered(frames)
        swaps = run(engine, source, frames)
        assert [bool(swap.patches) for swap in swaps] == [i >= first for i in range(32)]
        assert [swap.flags for swap in swaps[:first]] == [SwapFlag.NO_FACE] * first


@pytest.mark.parametrize("ordinal", [0, 3, 44])
def test_one_frame_alone_is_swapped(
    engine: MeshEngine, source: SourceFace, clip: list[Frame], ordinal: int
) -> None:
    (swap,) = run(engine, source, [clip[ordinal]])
    assert len(swap.patches) == 1


def test_all_faces_of_a_frame_are_swapped_and_options_limit_them(
    engine: MeshEngine, source: SourceFace
) -> None:
    wide = VideoFormat(width=640, height=262, pixel_format="yuv420p")
    frames = []
    for one in faces.clip(SMALL, 8):
        picture = faces.bgr(one.planes, SMALL)
        both = np.hstack([picture, picture[:, ::-1]])
        frames.append(faces.picture_frame(np.ascontiguousarray(both), wide, one.ordinal))
    for swap in run(engine, source, frames):
        left, right = sorted(swap.patches, key=lambda patch: patch.x)
        assert left.x + left.width <= 320 <= right.x
    assert all(len(swap.patches) == 1 for swap in run(engine, source, frames, max_faces=1))


def test_patches_that_overlap_keep_both_faces(engine: MeshEngine, source: SourceFace) -> None:
    """Pasted in their order, the later one holds the earlier one's samples where it shows none of its own."""
    picture = faces.bgr(faces.clip(SMALL, 1)[0].planes, SMALL)
    face = picture[20:220, 100:215]
    scene = np.full((262, 320, 3), 120, np.uint8)
    scene[20:220, 30:145] = face
    scene[40:240, 128:243] = face
    one = faces.picture_frame(scene, SMALL)
    alone = [run(engine, source, [one], max_faces=1)[0]]
    (both,) = run(engine, source, [one])
    assert len(both.patches) == 2
    first = replace(both, patches=both.patches[:1])
    ours, whole = faces.pasted(one, first)[0], faces.pasted(one, both)[0]
    kept = np.zeros(ours.shape, bool)
    kept[both.patches[0].y : both.patches[0].y + both.patches[0].height, 30:100] = True
    np.testing.assert_array_equal(ours[kept], whole[kept])
    assert alone[0].patches


@pytest.mark.parametrize(("dx", "dy"), [(-170, 0), (0, -90), (90, 0), (0, 110)])
def test_face_at_the_edge_of_the_frame_is_swapped(
    engine: MeshEngine, source: SourceFace, dx: int, dy: int
) -> None:
    picture = faces.bgr(faces.clip(FORMAT, 1)[0].planes, FORMAT)
    matrix = np.array([[1, 0, dx], [0, 1, dy]], np.float64)
    moved = cv2.warpAffine(picture, matrix, (460, 420), borderMode=cv2.BORDER_REPLICATE)
    form = VideoFormat(width=460, height=420, pixel_format="yuv420p")
    frames = [faces.picture_frame(moved, form, i) for i in range(4)]
    for swap in run(engine, source, frames):
        (patch,) = swap.patches
        assert patch.x >= 0
        assert patch.y >= 0
        assert patch.x + patch.width <= 460
        assert patch.y + patch.height <= 420


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_video_stored_turned_is_swapped_as_if_upright(
    engine: MeshEngine, source: SourceFace, rotation: int
) -> None:
    upright = faces.clip(SMALL, 6)
    quarters = rotation // 90
    form = SMALL.model_copy(
        update={
            "rotation": rotation,
            "width": 262 if quarters % 2 else 320,
            "height": 320 if quarters % 2 else 262,
        }
    )
    turned = [
        faces.picture_frame(np.ascontiguousarray(np.rot90(faces.bgr(one.planes, SMALL), -quarters)), form, i)
        for i, one in enumerate(upright)
    ]
    expected = shown(upright, run(engine, source, upright))
    for picture, like in zip(shown(turned, run(engine, source, turned)), expected, strict=True):
        assert np.abs(np.rot90(picture, quarters).astype(int) - like).mean() < 1.5


def test_video_of_samples_that_are_not_square_is_swapped_as_it_is_displayed(
    engine: MeshEngine, source: SourceFace
) -> None:
    frames = faces.clip(FORMAT, 6)
    narrow = FORMAT.model_copy(update={"width": 320, "sample_aspect": (2, 1)})
    squeezed = faces.clip(narrow, 6)
    expected = shown(frames, run(engine, source, frames))
    for picture, like in zip(shown(squeezed, run(engine, source, squeezed)), expected, strict=True):
        like = cv2.resize(like, (320, 524), interpolation=cv2.INTER_AREA)
        assert np.abs(picture.astype(int) - like).mean() < 1.5


def test_dark_face_stays_dark(engine: MeshEngine, source: SourceFace) -> None:
    bright = faces.bgr(faces.clip(SMALL, 1)[0].planes, SMALL)
    one = faces.picture_frame((bright * 0.2).astype(np.uint8), SMALL)
    (swap,) = run(engine, source, [one])
    (patch,) = swap.patches
    was = one.planes[0][patch.y : patch.y + patch.height, patch.x : patch.x + patch.width]
    assert abs(float(patch.planes[0].mean()) - float(was.mean())) < 4
    assert patch.planes[0].max() < 90


def test_mouth_that_opens_stays_the_targets(
    engine: MeshEngine, source: SourceFace, clip: list[Frame], swapped: list[FrameSwap]
) -> None:
    one = clip[60]
    marks = faces.landmarks(faces.bgr(one.planes, FORMAT))
    x, y = ((marks[13] + marks[14]) / 2)[:2].astype(int)
    inside = np.s_[y - 3 : y + 3, x - 6 : x + 6]
    np.testing.assert_array_equal(faces.pasted(one, swapped[60])[0][inside], one.planes[0][inside])
    closed = run(engine, source, clip[50:62], keep_mouth=0)[10]
    assert np.abs(faces.pasted(one, closed)[0][inside].astype(int) - one.planes[0][inside]).max() > 20


def test_context_frames_are_run_but_not_patched(
    engine: MeshEngine, source: SourceFace, clip: list[Frame]
) -> None:
    frames = [replace(one, info=replace(one.info, flags=FrameFlag.CONTEXT)) for one in clip[:6]]
    swaps = run(engine, source, frames)
    assert [swap.seq for swap in swaps] == list(range(6))
    assert all(swap.patches == () for swap in swaps)


@pytest.mark.parametrize(
    "options",
    [{"magic": 1}, {"max_faces": 0}, {"max_faces": 1.5}, {"min_score": 1}, {"shade": 2}, {"keep_eyes": "no"}],
)
def test_options_that_do_not_exist_or_fit_are_refused_by_name(
    engine: MeshEngine, source: SourceFace, options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        engine.open(source, options)


def test_face_of_another_engine_is_refused(engine: MeshEngine) -> None:
    with pytest.raises(UsageError, match="prepared for engine none"):
        engine.open(SourceFace("none"), {})


def test_planes_that_do_not_fit_their_format_are_an_engine_error(
    engine: MeshEngine, source: SourceFace, clip: list[Frame]
) -> None:
    broken = replace(clip[0], planes=(np.empty((0, 0), np.uint8),) * 3)
    with pytest.raises(EngineError, match="engine mesh"):
        run(engine, source, [broken])


def test_without_models_the_command_that_helps_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    engine = MeshEngine(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ModelError, match="facestream models pull"):
        engine.warm()


def test_model_id_names_the_models_and_their_hashes(engine: MeshEngine) -> None:
    assert engine.model_id.startswith("mesh/")
    assert "det_back@e1d709a9f2e3" in engine.model_id
    assert "mesh@b55abf188518" in engine.model_id
