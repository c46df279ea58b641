"""Segments begin at scene cuts, whoever decodes them and wherever that begins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ingest.decode import InputDecoder
from ingest.scan import scan
from ingest.scenes import windows
from ingest.streams import FrameRun
from ingest.worker import build_plan
from runtime.settings import InputSettings
from schemas.job import JobSpec
from schemas.plan import Plan
from tests.support.media import make_scenes

pytestmark = pytest.mark.media
CUTS = (17, 40, 44, 90, 99)
"""Of 125 frames at 25 a second, planned in seconds: 17 and 40 lie in a second half, so does 44 but later."""
STARTS = [0, 17, 40, 75, 90]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_scenes(tmp_path_factory.mktemp("scenes") / "in.mp4", 125, CUTS)


@pytest.fixture(scope="module")
def plan(clip: Path) -> Plan:
    spec = JobSpec.model_validate(
        {
            "job": "j",
            "input": str(clip),
            "output": "o.mp4",
            "plan": {"segment_seconds": 1, "context_frames": 3, "split": "scenes"},
        }
    )
    with (clip.parent / "sides").open("wb") as sides:
        found = scan(str(clip), sides, lambda: None, InputSettings())
    plan = build_plan(found, spec, "")
    assert [s.first for s in plan.segments] == [0, 25, 50, 75, 100]
    assert plan.orders == [[0, 1, 2, 3, 4]]
    return plan


def cut(clip: Path, plan: Plan, indices: list[int], decode_from: int = 0) -> list[list[int]]:
    """Numbers of the frames of segments, context included, decoded in one pass."""
    with InputDecoder(str(clip), plan) as decoder:
        last = plan.segments[indices[-1]]
        frames = decoder.frames(decode_from, last.first + last.frames, Counter())
        run = FrameRun(frames, 3, windows(plan))
        return [[f.ordinal for f in run.of(run.placed(plan.segments[index]))] for index in indices]


def test_a_segment_begins_at_the_first_cut_in_the_second_half_of_the_one_before(
    clip: Path, plan: Plan
) -> None:
    found = cut(clip, plan, [0, 1, 2, 3, 4])
    assert [numbers[0] for numbers in found] == [0, 17, 40, 72, 90]
    assert found[3][:3] == [72, 73, 74], "context where there is no cut"
    kept = [n for numbers, start in zip(found, STARTS, strict=True) for n in numbers if n >= start]
    assert kept == list(range(125))


@pytest.mark.parametrize("index", range(5))
def test_a_segment_decoded_alone_begins_and_ends_at_the_same_frames(
    clip: Path, plan: Plan, index: int
) -> None:
    whole = cut(clip, plan, [0, 1, 2, 3, 4])[index]
    window = windows(plan).get(index, range(1, 1))
    for decode_from in (0, min(window.start - 1, plan.segments[index].first - 3) if index else 0):
        assert cut(clip, plan, [index], decode_from) == [whole]
