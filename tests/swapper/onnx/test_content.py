"""The content check votes as the original does; the stand-ins react to a magenta test picture only."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from schemas.errors import ContentRefusedError, ModelError
from swapper.engines.base import Frame, SourceFace, Work
from swapper.engines.onnx.content import refused, votes
from swapper.engines.onnx.engine import OnnxEngine
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Picture
from tests.golden.vectors import HERE, picture
from tests.support.painted import frame

pytestmark = pytest.mark.unit

SAID = json.loads((HERE / "content_check.json").read_text())
OPTIONS = {"processors": "face_enhancer", "content_check": True}


def test_votes_are_the_originals(models: Models) -> None:
    surfaces = [Picture(picture(path)) for path in SAID]
    assert [list(row) for row in votes(models, surfaces)] == [said["votes"] for said in SAID.values()]
    assert refused(models, surfaces) == [said["flagged"] for said in SAID.values()]


def shown(path: str, number: int, at: int) -> Frame:
    """A frame that lasts a tenth of a second, from so many tenths on."""
    one = frame(picture(path), number=number)
    return replace(one, tick=Fraction(1, 10), info=replace(one.info, pts=at, duration=1))


@pytest.mark.parametrize(
    ("number", "at", "seen"), [(0, 3, True), (5, 10, True), (5, 11, False), (5, 9, False)]
)
def test_first_frame_of_a_segment_and_one_a_second_are_looked_at(
    standins: Path, number: int, at: int, seen: bool
) -> None:
    engine = OnnxEngine(standins)
    state = engine.open(SourceFace("onnx"), OPTIONS)
    work = [Work(state, [shown("frames/f14_flag.png", number, at)])]
    if seen:
        with pytest.raises(ContentRefusedError):
            engine.swap(work)
    else:
        assert len(engine.swap(work)[0]) == 1


def test_without_the_option_nothing_is_looked_at(standins: Path) -> None:
    engine = OnnxEngine(standins)
    state = engine.open(SourceFace("onnx"), {"processors": "face_enhancer"})
    engine.swap([Work(state, [shown("frames/f14_flag.png", 0, 0)])])
    assert "nsfw" not in engine.model_id


def test_classifiers_that_are_not_there_are_named(standins: Path, tmp_path: Path) -> None:
    for file in standins.iterdir():
        if not file.name.startswith("nsfw"):
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(ModelError, match=r"nsfw_1\.onnx"):
        OnnxEngine(tmp_path).open(SourceFace("onnx"), OPTIONS)
