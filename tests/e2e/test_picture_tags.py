"""The picture track's own language and title."""

from __future__ import annotations

import subprocess
from pathlib import Path

import av
import pytest

from tests.support.media import make_clip
from tests.support.through import run_through

pytestmark = pytest.mark.media


def tagged(folder: Path, suffix: str, language: str) -> Path:
    plain, path = make_clip(folder / "plain.mp4", 5), folder / f"in.{suffix}"
    tags = ["-metadata:s:v:0", f"language={language}", "-metadata:s:v:0", "title=Camera A"]
    command = ["ffmpeg", "-v", "error", "-i", str(plain), "-c", "copy", *tags, str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.mark.parametrize("output", ["mp4", "mov", "mkv", "webm"])
@pytest.mark.parametrize("source", ["mp4", "mkv"])
def test_language_and_title_of_the_picture_are_kept(tmp_path: Path, source: str, output: str) -> None:
    target = tmp_path / f"out.{output}"
    done = run_through(tagged(tmp_path, source, "deu"), target, tmp_path)
    assert done.warnings == {}
    with av.open(str(target)) as clip:
        tags = clip.streams.video[0].metadata
    assert tags["language"] == ("ger" if output == "mov" else "deu")  # QuickTime's list has the older codes
    assert tags.get("title", tags.get("name")) == "Camera A"


def test_where_they_cannot_be_held_they_are_counted(tmp_path: Path) -> None:
    done = run_through(tagged(tmp_path, "mkv", "deu"), tmp_path / "out.ts", tmp_path)
    assert done.warnings["tags_dropped"] == 2


def test_a_picture_without_them_gets_none(tmp_path: Path) -> None:
    run_through(make_clip(tmp_path / "in.mp4", 5), tmp_path / "out.mkv", tmp_path)
    with av.open(str(tmp_path / "out.mkv")) as clip:
        assert not {"language", "title"} & set(clip.streams.video[0].metadata)
