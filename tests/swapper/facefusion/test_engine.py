"""A checkout's processors change frames; the contract about it is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from schemas.errors import ContentRefusedError, UsageError
from schemas.frames import FrameFlag, FrameInfo
from schemas.swaps import SwapFlag
from swapper.engines.base import Frame, FrameSwap, SourceFace, Work
from swapper.engines.facefusion.engine import FaceFusionEngine
from tests.support import checkout
from tests.support.painted import Bgr, frame, pasted, shown

pytestmark = pytest.mark.unit

PLAIN = FrameFlag(0)
GREEN = (40, 200, 40)


def plain(colour: Sequence[int], width: int = 96, height: int = 64) -> Bgr:
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = colour
    return picture


def noisy(width: int = 96, height: int = 64) -> Bgr:
    return np.random.default_rng(1).integers(60, 200, (height, width, 3)).astype(np.uint8)


def source(colour: Sequence[int] = GREEN) -> bytes:
    return bytes(cv2.imencode(".png", plain(colour))[1])


def at(one: Frame, seq: int, pts: int, flags: FrameFlag = PLAIN) -> Frame:
    return Frame(FrameInfo(seq, pts, 1, flags), seq, one.format, Fraction(1, 25), one.planes)


def run(
    engine: FaceFusionEngine, frames: Sequence[Frame], colour: Sequence[int] = GREEN, **options: Any
) -> list[FrameSwap]:
    face = engine.prepare([source(colour)], options=options)
    (swaps,) = engine.swap([Work(engine.open(face, options), frames, last=True)])
    return swaps


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("yuv420p", {}),
        ("yuv444p", {}),
        ("yuv422p10le", {}),
        ("yuv420p", {"rotation": 90}),
        ("yuv420p", {"rotation": 270}),
        ("yuv420p10le", {"transfer": "smpte2084", "matrix": "bt2020nc"}),
        ("yuva420p", {}),
    ],
)
def test_what_changed_is_patched_and_nothing_else(
    engine: FaceFusionEngine, name: str, form: dict[str, Any]
) -> None:
    one = frame(noisy(), name, **form)
    (swap,) = run(engine, [one])
    assert swap.patches
    assert not swap.flags
    planes = pasted(one, swap)
    turns = form.get("rotation", 0) // 90
    where = np.rot90(np.pad(np.ones((32, 32), bool), ((8, 0), (8, 0))), 0)
    upright = np.zeros(np.rot90(np.empty((64, 96)), turns).shape, bool)
    upright[8:40, 8:40] = where[8:, 8:]
    inside = np.rot90(upright, -turns)
    for i in range(3):
        size = planes[i].shape[::-1]
        touched = cv2.resize(inside.astype(np.uint8), size, interpolation=cv2.INTER_AREA) > 0
        assert np.array_equal(planes[i][~touched], one.planes[i][~touched])
    picture = shown(planes, one.format)
    if "transfer" not in form:
        assert np.abs(picture[inside].astype(int) - GREEN).max() <= (4 if name.endswith("444p") else 90)
        assert np.abs(picture[inside].astype(float).mean(0) - GREEN).max() < 4


def test_fields_and_oblong_pixels_are_shown_as_they_are_seen(engine: FaceFusionEngine) -> None:
    form = {"field_order": "tt", "sample_aspect": (2, 1)}
    one = frame(plain((90, 90, 90)), **form)
    (swap,) = run(engine, [one])
    planes = pasted(one, swap)
    assert np.abs(shown(planes, one.format)[10:38, 6:18].astype(int) - GREEN).max() < 4
    assert np.array_equal(planes[0][:, 24:], one.planes[0][:, 24:])


def test_ten_bits_keep_their_fine_steps_where_little_changes(engine: FaceFusionEngine) -> None:
    one = frame(noisy(), "gray10le")
    engine.prepare([source()])
    (swap,) = run(engine, [one], processors="frame_enhancer", frame_enhancer_model="x1")
    change = one.planes[0].astype(int) - pasted(one, swap)[0]
    assert len(np.unique(pasted(one, swap)[0] % 4)) == 4
    assert change.min() >= 0


@pytest.mark.parametrize("name", ["yuv420p", "yuv411p", "yuv410p"])
def test_whole_pictures_of_odd_sizes_are_changed_to_the_edge(engine: FaceFusionEngine, name: str) -> None:
    one = frame(plain((60, 90, 150), 97, 67), name)
    (swap,) = run(engine, [one], processors="frame_enhancer", frame_enhancer_model="x1")
    picture = shown(pasted(one, swap), one.format).astype(int)
    assert np.abs(picture - (30, 45, 75)).max() < 4


def test_a_frame_without_a_face_has_no_patches(engine: FaceFusionEngine) -> None:
    assert run(engine, [frame(plain((0, 0, 0)))]) == [FrameSwap(0, (), SwapFlag.NO_FACE)]


def test_faces_of_several_jobs_do_not_mix(engine: FaceFusionEngine) -> None:
    works = []
    for colour in (GREEN, (200, 60, 60)):
        state = engine.open(engine.prepare([source(colour)]), {})
        works.append(Work(state, [frame(plain((90, 90, 90)), "yuv444p")]))
    swaps = engine.swap([works[0], works[1], works[0]])
    colours = [
        shown(pasted(work.frames[0], done[0]), work.frames[0].format)[20, 20]
        for work, done in zip([works[0], works[1], works[0]], swaps, strict=True)
    ]
    assert np.abs(np.array(colours, int) - [GREEN, (200, 60, 60), GREEN]).max() < 4
    assert len(engine._children) == 1


def test_processors_run_in_the_order_given(engine: FaceFusionEngine) -> None:
    one = frame(plain((90, 90, 90)), "yuv444p")
    (swap,) = run(engine, [one], processors="face_swapper,face_enhancer")
    picture = shown(pasted(one, swap), one.format)
    assert np.abs(picture[20, 20].astype(int) - (255 - np.array(GREEN))).max() < 4


def test_the_reference_frame_is_handed_over(engine: FaceFusionEngine) -> None:
    options = {"face_selector_mode": "reference", "reference_frame_number": 7}
    assert engine.wants(options).frame == 7
    face = engine.prepare([source()], options=options, frame=plain((60, 60, 200)))
    face = SourceFace.from_bytes(face.to_bytes())
    one = frame(plain((90, 90, 90)), "yuv444p")
    ((swap,),) = engine.swap([Work(engine.open(face, options), [one])])
    assert np.abs(shown(pasted(one, swap), one.format)[20, 20].astype(int) - (60, 60, 200)).max() < 4


def test_options_reach_processors_that_the_contract_only_names(engine: FaceFusionEngine, home: Path) -> None:
    run(engine, [frame(noisy())], processors="age_modifier", age_modifier_direction=-30)
    assert checkout.events(home, "age") == ["-30"]


def test_transparent_parts_show_the_colour_asked_for(engine: FaceFusionEngine) -> None:
    one = frame(plain((90, 90, 90)), "yuv444p")
    (swap,) = run(engine, [one], processors="background_remover", mask_colour="0,200,0")
    picture = shown(pasted(one, swap), one.format).astype(int)
    assert np.abs(picture[:, :32] - (0, 200, 0)).max() < 4
    assert np.array_equal(picture[:, 32:], np.broadcast_to((90, 90, 90), (64, 64, 3)))


def test_a_processor_that_changes_the_size_is_refused_by_name(engine: FaceFusionEngine) -> None:
    with pytest.raises(UsageError, match="frame_enhancer of FaceFusion made 192x128 of 96x64"):
        run(engine, [frame(noisy())], processors="frame_enhancer", frame_enhancer_model="x2")


@pytest.mark.parametrize("name", ["frame_enhancer", "frame_colorizer", "background_remover"])
def test_whole_pictures_of_hdr_are_refused_by_name(engine: FaceFusionEngine, name: str) -> None:
    one = frame(noisy(), "yuv420p10le", transfer="arib-std-b67")
    with pytest.raises(UsageError, match=f"{name}.*arib-std-b67"):
        run(engine, [one], processors=name)


def test_colours_for_frames_without_planes_for_them_are_refused(engine: FaceFusionEngine) -> None:
    with pytest.raises(UsageError, match=r"frame_colorizer.*gray"):
        run(engine, [frame(noisy(), "gray")], processors="frame_colorizer")


def test_content_is_checked_once_a_second_and_at_the_start(engine: FaceFusionEngine, home: Path) -> None:
    one = frame(noisy())
    run(engine, [at(one, n, 10 + n) for n in range(60)])  # 0.4 s to 2.8 s
    assert len(checkout.events(home, "test")) == 3


def test_refused_content_is_an_outcome_of_its_own(engine: FaceFusionEngine) -> None:
    blue = frame(plain((250, 20, 20)))
    with pytest.raises(ContentRefusedError, match=r"content check refuses the frame at 0\.00 s"):
        run(engine, [blue])
    assert run(engine, [frame(plain((90, 90, 90)))])[0].patches


def test_context_frames_pass(engine: FaceFusionEngine, home: Path) -> None:
    one = frame(noisy())
    swaps = run(engine, [at(one, 0, 3, FrameFlag.CONTEXT), at(one, 1, 4, FrameFlag.CONTEXT), at(one, 2, 5)])
    assert [bool(swap.patches) for swap in swaps] == [False, False, True]
    assert len(checkout.events(home, "test")) == 1


def test_remembered_faces_are_cleared_after_each_batch(engine: FaceFusionEngine, home: Path) -> None:
    one = frame(noisy())
    run(engine, [at(one, n, n) for n in range(3)])
    run(engine, [one])
    assert checkout.events(home, "clear") == ["3", "1"]


def test_a_configuration_has_a_child_and_the_oldest_goes(make: Any, home: Path) -> None:
    engine = make(children=2)
    one = frame(noisy())
    for weight in (0.1, 0.2, 0.1, 0.3, 0.1, 0.2):
        run(engine, [one], face_swapper_weight=weight)
        assert len(engine._children) <= 2
    assert len(checkout.events(home, "import")) == 4


def test_the_child_gets_no_secrets(make: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACESTREAM_KAFKA__PASSWORD", "hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    run(make(environment={"ORT_LOG": "1"}), [frame(noisy())])
    (told,) = checkout.events(home, "environment")
    seen = json.loads(told)
    assert "hunter2" not in told
    assert "PATH" in seen
    assert seen["ORT_LOG"] == "1"


def test_what_made_the_patches_is_named(engine: FaceFusionEngine, home: Path) -> None:
    run(engine, [frame(noisy())], processors="face_swapper,face_enhancer")
    folder = home / ".assets" / "models"
    swapper, enhancer = ((folder / f"{n}.hash").read_text() for n in ("hyperswap_1a_256", "gfpgan_1.4"))
    assert engine.model_id == (
        f"facefusion/1 3.8.1 face_swapper+face_enhancer hyperswap_1a_256@{swapper} gfpgan_1.4@{enhancer}"
    )


def test_faces_are_prepared_where_no_checkout_is(make: Any) -> None:
    engine = make(home=None)
    engine.warm()
    assert engine.prepare([source()]).arrays
    with pytest.raises(UsageError, match="FACEFUSION_HOME"):
        engine.open(engine.prepare([source()]), {})
