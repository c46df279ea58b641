"""Files that were cut off are known as such, whole ones never are."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ingest.ends import ends_early
from ingest.scan import scan
from tests.support.media import make_clip, picture

pytestmark = pytest.mark.media

X264 = {"g": "25", "bf": "2"}
CLIPS: dict[str, tuple[dict[str, Any], list[str]]] = {
    # how it is encoded, options of the muxer it is copied by
    "clip.mkv": ({"options": X264, "sound": "aac"}, []),
    "live.mkv": ({"options": X264, "sound": "aac"}, ["-live", "1"]),
    "clip.webm": ({"codec": "libvpx-vp9", "options": {"deadline": "realtime", "cpu-used": "8"}}, []),
    "clip.mp4": ({"options": X264, "sound": "aac"}, ["-movflags", "faststart"]),
    "fragments.mp4": ({"options": X264, "sound": "aac"}, ["-movflags", "frag_keyframe+empty_moov"]),
    "clip.mov": ({"codec": "prores_ks", "pixel_format": "yuv422p10le"}, ["-movflags", "faststart"]),
    "clip.avi": ({"codec": "mjpeg", "pixel_format": "yuvj420p"}, []),
    "clip.gif": ({"codec": "gif", "pixel_format": "bgr8"}, []),
}
STILLS: dict[str, dict[str, Any]] = {
    "still.png": {},
    "still.jpg": {},
    "steps.jpg": {"progressive": True},
    "still.webp": {"lossless": True},
    "moving.webp": {"save_all": True},
    "moving.png": {"save_all": True},
}


@pytest.fixture(params=[*CLIPS, *STILLS])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    if path.name in STILLS:
        images = [Image.fromarray(picture(number, 96, 64)) for number in range(10)]
        more = {"append_images": images[1:]} if "moving" in path.name else {}
        images[0].save(path, **STILLS[path.name], **more)
        return path
    options, muxing = CLIPS[path.name]
    made = make_clip(tmp_path / f"made{path.suffix}", 50, **options)
    subprocess.run(["ffmpeg", "-v", "error", "-i", made, "-c", "copy", *muxing, path], check=True)
    return path


def test_a_whole_file_has_its_end_and_a_part_of_it_has_not(file: Path) -> None:
    data = file.read_bytes()
    assert not ends_early(str(file))
    for size in (len(data) // 3, len(data) // 2, len(data) * 9 // 10, len(data) - 9):
        file.write_bytes(data[:size])
        assert ends_early(str(file)), size
    file.write_bytes(data + bytes(5))
    assert not ends_early(str(file)), "what was appended is not missing"


USED = ["clip.mkv", "live.mkv", "clip.webm", "clip.gif", "moving.png", "clip.avi", "moving.webp", "still.jpg"]


@pytest.mark.parametrize("file", USED, indirect=True)
def test_what_is_there_of_a_file_is_used_and_counts_as_degraded(file: Path) -> None:
    whole = scan(str(file), io.BytesIO())
    assert {"truncated", "degraded"}.isdisjoint(whole.warnings)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 7 // 10])
    part = scan(str(file), io.BytesIO())
    assert set(part.timeline.pts) <= set(whole.timeline.pts)
    assert part.warnings["truncated"] == 1
    assert part.warnings["degraded"] >= 1
