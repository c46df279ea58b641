"""What a file has beside picture, sound and subtitles: kept in each container, or named in a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import av
import pytest

from tests.support.through import Through, run_through

pytestmark = pytest.mark.media

PICTURE = ["-f", "lavfi", "-i", "testsrc=s=64x48:r=25:d=0.4"]
NTSC = ["-f", "lavfi", "-i", "testsrc=s=64x48:r=30000/1001:d=0.8"]
X264 = ["-c:v:0", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]


def ffmpeg(target: Path, *options: str) -> Path:
    subprocess.run(["ffmpeg", "-v", "error", "-y", *options, str(target)], check=True, cwd=target.parent)
    return target


def through(source: Path, container: str, **fields: Any) -> tuple[Path, Through]:
    target = source.parent / f"out.{container}"
    return target, run_through(source, target, source.parent, **fields)


def tags_of(path: Path) -> dict[str, str]:
    with av.open(str(path)) as file:
        return {name.lower(): value for name, value in file.metadata.items()}


@pytest.mark.parametrize("suffix", ["mov", "mkv"])
@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "webm", "avi", "ts"])
@pytest.mark.parametrize(
    ("trim", "shown"),
    [({}, "00:00:59;20"), ({"trim_start": (51, 100)}, "00:01:00;08")],
    ids=["whole", "trim"],
)
def test_drop_frame_timecode_counts_on_or_is_named(
    tmp_path: Path, suffix: str, container: str, trim: dict[str, Any], shown: str
) -> None:
    source = ffmpeg(tmp_path / f"in.{suffix}", *NTSC, *X264, "-timecode", "00:00:59;20")
    target, done = through(source, container, plan=trim)
    if container == "ts":
        assert done.warnings["timecode_dropped"] == 1
        return
    assert "timecode_dropped" not in done.warnings
    with av.open(str(target)) as file:
        where = file.streams.video[0] if container in ("mp4", "mov") else file
        assert {name.lower(): value for name, value in where.metadata.items()}["timecode"] == shown


def test_a_timecode_that_the_new_rate_has_not_is_named(tmp_path: Path) -> None:
    source = ffmpeg(tmp_path / "in.mov", *NTSC, *X264, "-timecode", "01:00:00;00")
    _, done = through(source, "mov", plan={"fps": (25, 1)})
    assert done.warnings["timecode_dropped"] == 1
