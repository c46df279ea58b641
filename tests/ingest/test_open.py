"""Files of strangers: nothing but the file itself is read, and only within limits."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from ingest.scan import scan
from runtime.settings import InputSettings
from schemas.errors import InputError
from tests.support.media import make_clip

pytestmark = pytest.mark.media


def refusal(path: Path | str, **limits: int | float) -> str:
    with pytest.raises(InputError) as caught:
        scan(str(path), io.BytesIO(), limits=InputSettings(**limits))  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        (
            "list.m3u8",
            "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{clip}\n#EXT-X-ENDLIST\n",
            "HLS playlist",
        ),
        ("list.mp4", "#EXTM3U\n#EXTINF:1,\n{clip}\n", "HLS playlist"),
        ("list.ffconcat", "ffconcat version 1.0\nfile '{clip}'\n", "concat script"),
        ("list.mpd", '<?xml version="1.0"?><MPD xmlns="x"></MPD>', "DASH manifest"),
        ("list.sdp", "v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n", "SDP description"),
    ],
)
def test_files_that_name_other_files_are_refused_by_kind(
    tmp_path: Path, name: str, text: str, kind: str
) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 5)
    listing = tmp_path / name
    listing.write_text(text.format(clip=clip))
    assert kind in refusal(listing)


def test_protocols_and_patterns_in_a_name_mean_nothing(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.ts", 5)
    for name in (f"concat:{clip}|{clip}", f"subfile,,start,0,end,9,,:{clip}", f"{tmp_path}/%03d.ts"):
        assert "No such file" in refusal(name)
    odd = make_clip(tmp_path / "100%03d.ts", 5)
    assert len(scan(str(odd), io.BytesIO()).timeline.pts) == 5


def test_addresses_are_refused_unless_a_setting_allows_them() -> None:
    assert "input.network" in refusal("http://127.0.0.1:9/clip.mp4")


def test_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    assert "no regular file" in refusal(tmp_path / "pipe.mp4")
    assert "is a directory" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("width", 95),
        ("height", 63),
        ("pixels", 6000),
        ("seconds", 0.5),
        ("frames", 24),
        ("bytes", 1000),
        ("streams", 1),
    ],
)
def test_what_passes_a_limit_is_refused_by_the_settings_name(
    tmp_path: Path, limit: str, value: float
) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 25, sound="aac")
    assert f"input.{limit}" in refusal(clip, **{limit: value})
    enough = {"width": 96, "height": 64, "pixels": 1 << 20, "seconds": 2.0, "frames": 25, "streams": 2}
    assert len(scan(str(clip), io.BytesIO(), limits=InputSettings(**enough)).timeline.pts) == 25
