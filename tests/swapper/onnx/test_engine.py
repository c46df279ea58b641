"""The engine `onnx` on frames of planes: the golden pictures again, in every format that frames travel in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.errors import ModelError, NoFaceError, UsageError
from schemas.frames import FrameFlag
from schemas.pixels import PIXEL_FORMATS
from schemas.swaps import SwapFlag
from swapper.colour import samples
from swapper.engines.base import Frame, FrameSwap, PatchPixels, SourceFace, Work
from swapper.engines.onnx.engine import OnnxEngine
from swapper.engines.onnx.options import ENHANCE
from swapper.engines.onnx.planes import Canvas
from swapper.transfer import for_viewing
from tests.golden.vectors import HERE, Bgr, Case, cases, picture
from tests.support.painted import frame, pasted, result, shown

pytestmark = pytest.mark.unit

CASES = cases()
DEEP = {"name": "yuv444p12le", "color_range": "pc", "matrix": "bt709"}
"""Holds what 8-bit R G B says."""
INSWAPPER = {"swapper.model": "inswapper_128"}
SINGLE = CASES["c01_default"]


@pytest.fixture(scope="module")
def engine(standins: Path) -> OnnxEngine:
    engine = OnnxEngine(standins)
    engine.warm()
    return engine


def encoded(case: Case) -> list[bytes]:
    return [(HERE / path).read_bytes() for path in case.sources]


def state(engine: OnnxEngine, case: Case) -> Any:
    options = case.options.model_dump()
    wanted = picture(case.reference) if engine.wants(options).frame is not None else None
    face = SourceFace.from_bytes(engine.prepare(encoded(case), None, options, wanted).to_bytes())
    return engine.open(face, options)


def run(engine: OnnxEngine, case: Case, *frames: Frame) -> list[FrameSwap]:
    (swaps,) = engine.swap([Work(state(engine, case), frames, last=True)])
    return swaps


def apart(ours: Bgr, expected: Bgr) -> np.ndarray:
    return ours.astype(int) - expected


def bytes_of(swaps: Sequence[FrameSwap]) -> list[tuple[Any, ...]]:
    def of(patch: PatchPixels) -> tuple[Any, ...]:
        place = (patch.x, patch.y, patch.width, patch.height)
        return (*place, *(part.tobytes() for part in patch.planes))

    return [(swap.seq, swap.flags, [of(patch) for patch in swap.patches]) for swap in swaps]


@pytest.mark.parametrize(
    "name",
    [
        "c01_default",
        "c04_portrait_boost512",
        "c05_odd_dims",
        "c06_border",
        "c09_angles_all",
        "c17_overlap",
        "c23_ghost",
        "c26_uniface",
        "c39_all_masks",
        "c44_reference_pos0",
        "c50_race",
        "c59_margin",
        "c65_swap_enhance",
        "c68_codeformer_w90",
    ],
)
def test_planes_show_what_facefusion_makes_but_for_rounding(engine: OnnxEngine, name: str) -> None:
    """Which cuts fractions off, where we round: so at most one level, half a level on the whole."""
    case = CASES[name]
    one = frame(picture(case.frame), **DEEP)
    (swap,) = run(engine, case, one)
    expected = picture(case.expected)
    touched = (expected != picture(case.frame)).any(2)
    off = apart(result(one, swap), expected)
    assert np.abs(off).max() <= 4
    assert (np.abs(off[touched]) <= (2 if ENHANCE in case.options.processors else 1)).mean() >= 0.97
    assert 0.2 < off[touched].mean() < 0.9


@pytest.mark.parametrize("name", [name for name, pixels in PIXEL_FORMATS.items() if pixels.planes > 1])
def test_patches_fit_every_pixel_format_at_odd_sizes(engine: OnnxEngine, name: str) -> None:
    case = CASES["c05_odd_dims"]
    one = frame(picture(case.frame), name)
    (swap,) = run(engine, case, one)
    (patch,) = swap.patches
    pixels = one.format.pixels
    assert patch.x % (1 << pixels.chroma_x) == patch.y % (1 << pixels.chroma_y) == 0
    assert max(int(part.max()) for part in patch.planes) < 1 << pixels.depth
    ours, before = result(one, swap), shown(one.planes, one.format)
    assert np.abs(apart(ours, before)).max() > 20
    assert np.abs(apart(ours, picture(case.expected))).mean() < 2.5


@pytest.mark.parametrize("name", [name for name, pixels in PIXEL_FORMATS.items() if pixels.planes == 1])
def test_gray_is_seen_and_changed_as_gray(name: str) -> None:
    """Painted faces are told by their colours, so no detector finds one here."""
    one = frame(picture(SINGLE.frame), name)
    canvas = Canvas(one)
    (surface,) = canvas.surfaces()
    matrix = np.array([[0.5, 0, -100], [0, 0.5, -50]])
    crop = surface.cut(matrix, 64)
    assert (crop == crop[..., :1]).all()
    surface.paste(255 - crop, np.ones((64, 64), np.float32), matrix)
    (patch,) = canvas.patches()
    assert (patch.x, patch.y, patch.width, patch.height, len(patch.planes)) == (200, 100, 128, 128, 1)
    np.testing.assert_allclose(surface.cut(matrix, 64).astype(int), 255 - crop.astype(int), atol=1)


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le"])
def test_samples_that_a_mask_leaves_out_are_the_frames_own(engine: OnnxEngine, name: str) -> None:
    """Only the lower half of the face is swapped: above it, the patch repeats the frame to the bit."""
    case = CASES["c72_angles_hd"]
    one = frame(picture(case.frame), name)
    (swap,) = run(engine, case, one)
    same = (picture(case.expected) == picture(case.frame)).all(2)
    rows = [patch.y + patch.height // 4 for patch in swap.patches]
    for patch, row in zip(swap.patches, rows, strict=True):
        assert same[patch.y : row, patch.x : patch.x + patch.width].all()
        part = patch.planes[0][: row - patch.y]
        np.testing.assert_array_equal(part, one.planes[0][patch.y : row, patch.x : patch.x + patch.width])


def test_frames_without_a_face_and_context_frames_are_left_alone(engine: OnnxEngine) -> None:
    empty = frame(picture("frames/f08_noface.png"), number=0)
    seen = frame(picture(SINGLE.frame), number=1)
    context = replace(seen, info=replace(seen.info, flags=FrameFlag.CONTEXT))
    swaps = run(engine, SINGLE, empty, context, seen)
    assert [(swap.flags, len(swap.patches)) for swap in swaps] == [(SwapFlag.NO_FACE, 0), (0, 0), (0, 1)]


def test_a_frame_none_of_whose_faces_is_chosen_shows_faces_all_the_same(engine: OnnxEngine) -> None:
    case = replace(SINGLE, options=SINGLE.options.of({"selector": {"gender": "female"}, **INSWAPPER}))
    (swap,) = run(engine, case, frame(picture(SINGLE.frame)))
    assert (swap.flags, swap.patches) == (SwapFlag(0), ())


def test_streams_run_together_get_the_bytes_that_each_gets_alone(engine: OnnxEngine) -> None:
    works = []
    for name in ("c02_two_faces", "c17_overlap", "c39_all_masks", "c23_ghost", "c65_swap_enhance"):
        shows = [CASES[other].frame for other in (name, "c02_two_faces", name)]
        frames = [frame(picture(path), number=i) for i, path in enumerate(shows)]
        works.append(Work(state(engine, CASES[name]), frames))
    together = engine.swap(works)
    for work, swaps in zip(works, together, strict=True):
        alone = [engine.swap([Work(work.state, [one])])[0][0] for one in work.frames]
        assert bytes_of(alone) == bytes_of(swaps)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_frames_that_are_stored_turned_are_seen_upright(engine: OnnxEngine, degrees: int) -> None:
    upright = picture(SINGLE.frame)
    stored = np.ascontiguousarray(np.rot90(upright, -degrees // 90))
    one = frame(stored, rotation=degrees, **DEEP)
    (swap,) = run(engine, SINGLE, one)
    ours = np.rot90(result(one, swap), degrees // 90)
    off = np.abs(apart(ours, picture(SINGLE.expected)))
    assert off.max() <= 3
    assert (off <= 1).mean() > 0.99


def test_pixels_that_are_not_square_are_seen_as_square(engine: OnnxEngine) -> None:
    narrow = np.ascontiguousarray(picture(SINGLE.frame)[:, ::2])
    one = frame(narrow, sample_aspect=(2, 1), **DEEP)
    (swap,) = run(engine, SINGLE, one)
    expected = picture(SINGLE.expected)[:, ::2]
    assert np.abs(apart(result(one, swap), expected)).mean() < 1.5
    (patch,) = swap.patches
    assert 1.8 < patch.height / patch.width < 2.2


def test_each_field_of_an_interlaced_frame_is_a_picture_of_its_own(engine: OnnxEngine) -> None:
    """The second field shows the picture moved by 24 pixels: the swapped face moves with it."""
    first = picture(SINGLE.frame)
    second = np.roll(first, 24, axis=1)
    woven = first.copy()
    woven[1::2] = second[1::2]
    one = frame(woven, "yuv444p", field_order="tt")
    (swap,) = run(engine, SINGLE, one)
    ours = result(one, swap)
    moments = [frame(first, "yuv444p"), frame(second, "yuv444p")]
    alone = [result(moment, run(engine, SINGLE, moment)[0]) for moment in moments]
    for parity in (0, 1):
        off = np.abs(apart(ours[parity::2], alone[parity][parity::2]))
        assert off.mean() < 0.5
        assert np.abs(apart(ours[parity::2], alone[1 - parity][parity::2])).mean() > 3


@pytest.mark.parametrize("transfer", ["smpte2084", "arib-std-b67"])
def test_hdr_is_changed_in_its_own_light(engine: OnnxEngine, transfer: str) -> None:
    """Seen as SDR, it is the frame that an SDR stream gets."""
    table = for_viewing(transfer).astype(int)
    codes = np.abs(table[None] - np.arange(256)[:, None]).argmin(1).astype(np.uint8)
    dim = np.minimum(picture(SINGLE.frame), 235)
    one = frame(codes[dim], "yuv444p10le", color_range="pc", matrix="bt709", transfer=transfer)
    (swap,) = run(engine, SINGLE, one)
    like = frame(dim, **DEEP)
    expected = result(like, run(engine, SINGLE, like)[0])
    ours = for_viewing(transfer)[shown(pasted(one, swap), one.format)]
    assert np.abs(apart(ours, expected)).mean() < 2
    assert samples(one.format).transfer == transfer


def test_planes_of_frames_are_not_written_to(engine: OnnxEngine) -> None:
    one = frame(picture(SINGLE.frame))
    before = [np.array(plane) for plane in one.planes]
    run(engine, SINGLE, one)
    for plane, same in zip(one.planes, before, strict=True):
        np.testing.assert_array_equal(plane, same)


def test_one_face_of_several_is_taken_by_its_number(engine: OnnxEngine) -> None:
    both = [(HERE / "sources/s3_two_faces.png").read_bytes()]
    left, right = (engine.prepare(both, number, INSWAPPER).arrays["raw"] for number in (1, 2))
    largest = engine.prepare(both, None, INSWAPPER).arrays["raw"]
    assert not np.array_equal(left, right)
    assert any(np.array_equal(largest, one) for one in (left, right))
    with pytest.raises(NoFaceError, match="source picture 1 shows 2 faces: there is no face 3 to take"):
        engine.prepare(both, 3, INSWAPPER)


def test_a_source_picture_without_a_face_is_named(engine: OnnxEngine) -> None:
    pictures = [(HERE / f"sources/{name}.png").read_bytes() for name in ("s1", "s4_noface")]
    with pytest.raises(NoFaceError, match="source picture 2 shows no face"):
        engine.prepare(pictures, None, INSWAPPER)


def test_enhancing_alone_wants_no_source(engine: OnnxEngine) -> None:
    options = {"processors": "face_enhancer"}
    assert not engine.wants(options)
    one = frame(picture(SINGLE.frame))
    ((swap,),) = engine.swap([Work(engine.open(SourceFace("onnx"), options), [one])])
    assert len(swap.patches) == 1


def test_reference_mode_wants_a_frame_and_leaves_all_alone_if_it_shows_no_face(engine: OnnxEngine) -> None:
    options = {"selector.mode": "reference", "selector.reference_frame_number": 7, **INSWAPPER}
    assert engine.wants(options).frame == 7
    empty = picture("frames/f08_noface.png")
    face = engine.prepare(encoded(SINGLE), None, options, empty)
    one = frame(picture(SINGLE.frame))
    ((swap,),) = engine.swap([Work(engine.open(face, options), [one])])
    assert swap.patches == ()
    with pytest.raises(UsageError, match="reference frame"):
        engine.prepare(encoded(SINGLE), None, options)
    plain = engine.prepare(encoded(SINGLE), None, INSWAPPER)
    with pytest.raises(UsageError, match="prepare the face with that option"):
        engine.open(plain, options)


def test_a_face_of_another_engine_or_of_none_is_refused(engine: OnnxEngine) -> None:
    with pytest.raises(UsageError, match="prepared for engine mesh"):
        engine.open(SourceFace("mesh"), INSWAPPER)
    with pytest.raises(UsageError, match="no source face"):
        engine.open(SourceFace("onnx"), INSWAPPER)


def test_a_model_that_is_not_there_is_named_before_any_work(engine: OnnxEngine, tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"ghost_3_256\.onnx is not in .*standins.*--models names the folder"
    ):
        engine.prepare(encoded(SINGLE), None, {"swapper.model": "ghost_3_256"})
    with pytest.raises(ModelError, match=r"yoloface_8n\.onnx"):
        OnnxEngine(tmp_path).open(SourceFace("onnx"), INSWAPPER)


def test_device_and_threads_come_from_the_settings(standins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACESTREAM_ONNX__DEVICE", "cuda")
    with pytest.raises(ModelError, match="CUDAExecutionProvider"):
        OnnxEngine(standins).prepare(encoded(SINGLE), None, INSWAPPER)


def test_model_id_names_what_was_used_with_its_checksum(engine: OnnxEngine, standins: Path) -> None:
    run(engine, SINGLE, frame(picture(SINGLE.frame)))
    said = (standins / "inswapper_128.hash").read_text()
    assert f"inswapper_128@{said}" in engine.model_id.split()
