"""What a job is refused for before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from control.admission import check_output, prepare
from runtime.settings import Settings
from schemas.errors import InputError, UsageError
from swapper.engines.registry import open_engine
from tests.support.faces import models

pytestmark = pytest.mark.unit


def test_an_output_name_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "film.mp4"
    target.write_bytes(b"")
    check_output(tmp_path / ("n" * 251 + ".mp4"), target)
    with pytest.raises(UsageError, match="longer than 255 bytes"):
        check_output(tmp_path / ("ü" * 126 + ".mp4"), target)


def test_a_pipe_as_source_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "face.png"
    os.mkfifo(pipe)
    engine = open_engine("mesh", models())
    with pytest.raises(UsageError, match="is not a file"):
        prepare(Settings(), engine, [pipe])


def test_what_is_wrong_with_a_source_is_told_with_the_name_of_its_file(tmp_path: Path) -> None:
    text = tmp_path / "face 2.png"
    text.write_text("no picture")
    with pytest.raises(InputError, match=r"^source picture 1 \(.*/face 2\.png\) is no picture"):
        prepare(Settings(), open_engine("mesh", models()), [text])
