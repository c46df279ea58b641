"""The shape of a pixel in Matroska and WebM, and that the file around it stays whole."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path

import av
import pytest

from assembler.display import show_at
from assembler.encoders import Target
from assembler.mux import mux
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec
from tests.support.segments import encode_parts, plan_of

pytestmark = pytest.mark.media

CHAPTERS = [(n * 400, (n + 1) * 400, 1, 1000, f"part {n}") for n in range(3)]
PTS = list(range(40))


def joined(folder: Path, container: str, encoder: str, aspect: tuple[int, int]) -> Path:
    """A clip of forty frames with chapters and a title."""
    video = VideoFormat(width=352, height=288, pixel_format="yuv420p", sample_aspect=aspect)
    spec = EncodeSpec(encoder=encoder, preset="veryfast")
    parts = encode_parts(folder, video, (1, 25), PTS, [20], spec, 40, Target(container))
    plan = plan_of(video, (1, 25), PTS, 40, chapters=CHAPTERS, metadata={"title": "t"})
    target = folder / f"out.{container}"
    assert mux(target, container, plan, parts, None).warnings == {}
    return target


@pytest.mark.parametrize("aspect", [(12, 11), (3, 4), (64, 45)])
@pytest.mark.parametrize(
    ("container", "encoder"),
    [("mkv", "libx264"), ("mkv", "ffv1"), ("mkv", "libsvtav1"), ("mkv", "prores_ks"), ("webm", "libvpx-vp9")],
)
def test_the_shape_of_a_pixel_is_stated(
    tmp_path: Path, container: str, encoder: str, aspect: tuple[int, int]
) -> None:
    path = joined(tmp_path, container, encoder, aspect)
    with av.open(str(path)) as file:
        told = file.streams.video[0].sample_aspect_ratio
        assert told is not None
        assert abs(told / Fraction(*aspect) - 1) < Fraction(1, 500)
        assert (len(file.chapters()), file.metadata["title"]) == (3, "t")
        assert [frame.pts for frame in file.decode(video=0)] == [40 * n for n in PTS]
        file.seek(800_000)
        assert next(file.demux(video=0)).pts == 800, "the index leads elsewhere"
    command: list[str | Path] = [
        "ffmpeg",
        "-nostdin",
        "-v",
        "warning",
        "-err_detect",
        "crccheck+explode",
        "-i",
    ]
    ran = subprocess.run([*command, path, "-f", "null", "-"], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


@pytest.mark.parametrize("data", [b"", b"\x1a\x45\xdf\xa3\x80", b"no Matroska at all"])
def test_a_file_without_room_for_it_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    assert not show_at(path, Fraction(4, 3))
    assert path.read_bytes() == data
