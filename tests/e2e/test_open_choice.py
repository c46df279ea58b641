"""Without an encoder named, the first of the container that holds the input's pixels is taken."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from schemas.errors import InputError
from tests.support.media import make_clip
from tests.support.through import run_through

pytestmark = pytest.mark.media


@pytest.mark.parametrize(
    ("codec", "pixels", "given", "made", "chosen", "stored"),
    [
        ("libx264", "yuv420p", "mp4", "mp4", "libx264", "yuv420p"),
        ("libx264", "yuv422p10le", "mkv", "mov", "libx264", "yuv422p10le"),
        ("libx265", "yuv444p12le", "mp4", "mp4", "libx265", "yuv444p12le"),
        ("ffv1", "yuv422p12le", "mkv", "mkv", "libx265", "yuv422p12le"),
        ("ffv1", "yuv444p16le", "mkv", "mkv", "ffv1", "yuv444p16le"),
        ("prores_ks", "yuva444p10le", "mov", "mov", "prores_ks", "yuva444p12le"),
        ("ffv1", "yuva420p", "mkv", "mkv", "ffv1", "yuva420p"),
        ("ffv1", "yuva420p", "mkv", "mp4", "libx264", "yuv420p"),
        ("libx264", "yuv420p10le", "mp4", "webm", "libsvtav1", "yuv420p10le"),
        ("libx264", "yuv420p", "mp4", "webm", "libvpx-vp9", "yuv420p"),
    ],
)
def test_the_first_that_holds_the_pixels_is_taken(
    tmp_path: Path, codec: str, pixels: str, given: str, made: str, chosen: str, stored: str
) -> None:
    clip = make_clip(tmp_path / f"in.{given}", 6, codec=codec, pixel_format=pixels)
    through = run_through(clip, tmp_path / f"out.{made}", tmp_path, encode={"encoder": "auto"})
    assert through.plan.encoder == chosen
    with av.open(str(tmp_path / f"out.{made}")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 6
        assert video.streams.video[0].format.name == stored


def test_a_bit_rate_asks_for_an_encoder_that_takes_one(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mkv", 6, codec="ffv1", pixel_format="yuva420p")
    encode = {"encoder": "auto", "bitrate": 1_000_000}
    through = run_through(clip, tmp_path / "out.mkv", tmp_path, encode=encode)
    assert through.plan.encoder == "libvpx-vp9"


def test_pixels_that_none_holds_are_refused_by_name(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "in.mkv", 6, codec="ffv1", pixel_format="yuv444p16le")
    with pytest.raises(InputError, match="libx264 does not take yuv444p16le"):
        run_through(clip, tmp_path / "out.mp4", tmp_path, encode={"encoder": "auto"})
