"""Engines are opened by name."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import UsageError
from schemas.frames import FrameFlag, FrameInfo, VideoFormat
from swapper.engines.base import Frame, FrameSwap, SourceFace, Work
from swapper.engines.registry import ENGINES, open_engine

pytestmark = pytest.mark.unit


def frame(seq: int) -> Frame:
    form = VideoFormat(width=2, height=2, pixel_format="gray")
    info = FrameInfo(seq, seq, 1, FrameFlag(0))
    return Frame(info, seq, form, Fraction(1, 25), (np.zeros((2, 2), np.uint8),))


def test_each_name_opens_the_engine_of_that_name(tmp_path: Path) -> None:
    for name in ENGINES:
        assert open_engine(name, tmp_path).name == name


def test_unknown_name_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mesh, none, onnx"):
        open_engine("magic", tmp_path)


def test_none_decides_each_frame_at_once_without_patches(tmp_path: Path) -> None:
    engine = open_engine("none", tmp_path)
    state = engine.open(engine.prepare([b"no picture"]), {})
    work = [Work(state, [frame(3), frame(4)]), Work(state, [frame(0)], last=True)]
    assert engine.swap(work) == [[FrameSwap(3), FrameSwap(4)], [FrameSwap(0)]]


def test_none_refuses_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shade"):
        open_engine("none", tmp_path).open(SourceFace("none"), {"shade": 1})
