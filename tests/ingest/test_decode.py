"""Every frame of an input, exactly once, whichever worker decodes which order."""

from __future__ import annotations

import io
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.decode import InputDecoder
from ingest.scan import scan
from ingest.worker import build_plan
from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.job import JobSpec, PlanSpec
from schemas.plan import Plan
from tests.support.media import decode_whole, digest, make_clip

pytestmark = pytest.mark.media

TICK = Fraction(1, 90_000)
OPEN_GOP = {"x264-params": "open-gop=1:keyint=25:min-keyint=25:bframes=3:scenecut=0"}
HEVC = {"x265-params": "log-level=none:keyint=25:min-keyint=25:open-gop=1:bframes=4:scenecut=0"}
REFRESH = {"x264-params": "intra-refresh=1:keyint=25"}
IRREGULAR = [450_000 + 3600 * n + (n * n * 97) % 3000 for n in range(120)]
WRAPPING = [(1 << 33) - 200_000 + 3600 * n for n in range(120)]

CLIPS: dict[str, dict[str, Any]] = {
    "plain.mp4": {"options": {"g": "25", "bf": "2"}},
    "plain.mkv": {"options": {"g": "25", "bf": "2"}},
    "plain.ts": {"options": {"g": "25", "bf": "2"}},
    "plain.mov": {"options": {"g": "25", "bf": "2"}},
    "plain.flv": {"options": {"g": "25", "bf": "2"}},
    "program.mpg": {"codec": "mpeg2video", "options": {"g": "12", "bf": "2"}},
    "open.mp4": {"options": OPEN_GOP},
    "open.ts": {"options": OPEN_GOP},
    "hevc.mp4": {"codec": "libx265", "options": HEVC},
    "hevc.ts": {"codec": "libx265", "options": HEVC},
    "hevc10.mkv": {"codec": "libx265", "options": HEVC, "pixel_format": "yuv420p10le"},
    "refresh.ts": {"options": REFRESH},
    "refresh.mp4": {"options": REFRESH},
    "onekey.mp4": {"options": {"g": "999"}},
    "onekey.ts": {"options": {"g": "999"}},
    "irregular.mp4": {"options": {"g": "30", "bf": "2"}, "pts": IRREGULAR, "time_base": TICK},
    "irregular.mkv": {"options": {"g": "30", "bf": "2"}, "pts": IRREGULAR, "time_base": TICK},
    "wrapping.ts": {"options": {"g": "25", "bf": "2"}, "pts": WRAPPING, "time_base": TICK},
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"g": "25", "deadline": "realtime", "cpu-used": "8"}},
    "old.avi": {"codec": "mpeg4", "options": {"g": "25", "bf": "2"}},
    "reordered.avi": {"options": {"g": "25", "bf": "2"}},
    "moving.gif": {"codec": "gif", "pixel_format": "rgb8"},
    "full.mp4": {"options": {"g": "25"}, "pixel_format": "yuvj420p"},
    "odd.mkv": {"codec": "ffv1", "width": 35, "height": 21},
}


def plan_of(path: Path, context: int = 2, seconds: float = 1.0) -> Plan:
    spec = JobSpec(
        job="clip",
        input=str(path),
        output="out.mp4",
        plan=PlanSpec(segment_seconds=seconds, context_frames=context),
    )
    return build_plan(scan(spec.input, io.BytesIO()), spec, "")


def decode_order(path: Path, plan: Plan, order: list[int], warnings: Counter[str]) -> dict[int, str]:
    first, last = plan.segments[order[0]], plan.segments[order[-1]]
    found: dict[int, str] = {}
    with InputDecoder(str(path), plan) as decoder:
        for decoded in decoder.frames(first.first - first.context, last.first + last.frames, warnings):
            assert decoded.ordinal not in found
            assert list(found) == sorted(found)
            found[decoded.ordinal] = digest(frame_planes(decoded.frame, plan.format))
    return found


@pytest.mark.parametrize("name", CLIPS)
def test_orders_decoded_apart_give_the_frames_of_a_whole_decode(name: str, tmp_path: Path) -> None:
    path = make_clip(tmp_path / name, 120, **CLIPS[name])
    plan = plan_of(path)
    whole = decode_whole(path, plan.format)
    if name not in ("reordered.avi", "program.mpg"):  # whose own pts do not rise
        assert plan.pts == [pts for pts, _ in whole]
    assert plan.pts == sorted(set(plan.pts))
    assert len(plan.pts) == len(whole) == 120
    assert len(plan.segments) >= 3
    warnings: Counter[str] = Counter()
    for order in plan.orders:
        first, last = plan.segments[order[0]], plan.segments[order[-1]]
        found = decode_order(path, plan, order, warnings)
        assert list(found) == list(range(first.first - first.context, last.first + last.frames))
        assert [found[n] for n in found] == [whole[n][1] for n in found]
    assert +warnings == Counter()


def test_inputs_with_an_index_are_cut_into_several_orders(tmp_path: Path) -> None:
    assert len(plan_of(make_clip(tmp_path / "a.mp4", 120, options={"g": "25"})).orders) == 5
    assert len(plan_of(make_clip(tmp_path / "a.ts", 120, options={"g": "25"})).orders) == 5
    assert len(plan_of(make_clip(tmp_path / "a.mp4", 120, options={"g": "999"})).orders) == 1


def test_one_open_input_serves_orders_in_any_sequence(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.ts", 120, options=OPEN_GOP)
    plan = plan_of(path)
    whole = decode_whole(path, plan.format)
    with InputDecoder(str(path), plan) as decoder:
        for first, last in [(80, 90), (0, 5), (30, 60), (119, 120), (0, 120), (50, 51)]:
            frames = [
                (f.ordinal, digest(frame_planes(f.frame, plan.format)))
                for f in decoder.frames(first, last, Counter())
            ]
            assert frames == [(n, whole[n][1]) for n in range(first, last)]


def damage(path: Path, share: Fraction, size: int = 400) -> None:
    data = bytearray(path.read_bytes())
    at = int(len(data) * share)
    data[at : at + size] = bytes(np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8))
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["clip.ts", "clip.mkv", "clip.mpg"])
def test_damage_costs_a_few_frames_and_no_more(name: str, tmp_path: Path) -> None:
    codec = "mpeg2video" if name.endswith("mpg") else "libx264"
    path = make_clip(tmp_path / name, 120, codec=codec, options={"g": "25", "b": "2M"})
    damage(path, Fraction(1, 2), 2000)
    plan = plan_of(path)
    warnings: Counter[str] = Counter()
    found: set[int] = set()
    for order in plan.orders:
        found |= set(decode_order(path, plan, order, warnings))
    assert len(plan.pts) >= 110
    assert len(found) >= 100
    assert {0, len(plan.pts) - 1} <= found


@pytest.mark.parametrize("name", ["clip.mpg", "clip.mkv"])
def test_damage_is_concealed_in_the_same_way_every_time(name: str, tmp_path: Path) -> None:
    codec = "mpeg2video" if name.endswith("mpg") else "libx264"
    path = make_clip(tmp_path / name, 120, codec=codec, options={"g": "25", "b": "2M"})
    for share in (Fraction(1, 5), Fraction(2, 5), Fraction(11, 20), Fraction(4, 5)):
        damage(path, share, 600)
    plan = plan_of(path)

    def run() -> list[dict[int, str]]:
        return [decode_order(path, plan, order, Counter()) for order in plan.orders]

    first = run()
    assert all(run() == first for _ in range(5))


def test_frames_of_another_size_are_scaled_to_the_first_and_counted(tmp_path: Path) -> None:
    small = make_clip(tmp_path / "a.ts", 50, options={"g": "25"})
    large = make_clip(
        tmp_path / "b.ts", 50, width=128, height=96, options={"g": "25"},
        pts=range(50, 100), time_base=Fraction(1, 25),
    )  # fmt: skip
    path = tmp_path / "both.ts"
    path.write_bytes(small.read_bytes() + large.read_bytes())
    plan = plan_of(path)
    assert (plan.format.width, plan.format.height) == (96, 64)
    warnings: Counter[str] = Counter()
    with InputDecoder(str(path), plan) as decoder:
        frames = list(decoder.frames(0, len(plan.pts), warnings))
    assert {(f.frame.width, f.frame.height) for f in frames} == {(96, 64)}
    assert len(frames) == 100
    assert warnings["frames_scaled"] == 50


def test_nvdec_falls_back_to_the_cpu_where_there_is_no_gpu(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", 30)
    plan = plan_of(path)
    whole = decode_whole(path, plan.format)
    with InputDecoder(str(path), plan, nvdec=True) as decoder:
        frames = [digest(frame_planes(f.frame, plan.format)) for f in decoder.frames(0, 30, Counter())]
    assert frames == [name for _, name in whole]


def test_an_input_that_vanished_is_an_input_error(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", 30)
    plan = plan_of(path)
    path.unlink()
    with pytest.raises(InputError, match=re.escape("clip.mp4")):
        InputDecoder(str(path), plan)
