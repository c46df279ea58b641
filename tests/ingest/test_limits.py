"""Small files that would unpack to something huge are refused before they do."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import av
import pytest

from ingest.scan import scan
from runtime.settings import InputSettings
from schemas.errors import InputError
from tests.support.media import make_clip

pytestmark = pytest.mark.media


def refusal(path: Path, **limits: int | float) -> str:
    with pytest.raises(InputError) as caught:
        scan(str(path), io.BytesIO(), limits=InputSettings(**limits))  # type: ignore[arg-type]
    text = str(caught.value)
    assert path.name in text
    assert "\n" not in text
    return text


def png(width: int, height: int, rows: int) -> bytes:
    """An RGB picture whose data end after some rows."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * (rows * (1 + 3 * width)), 9)
    chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def gif(width: int, height: int) -> bytes:
    """A canvas of that size with a picture of one pixel."""
    screen = b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + b"\0\0\0\xff\xff\xff"
    return screen + b"\x2c" + struct.pack("<HHHH", 0, 0, 1, 1) + b"\0\x02\x02\x44\x01\0\x3b"


@pytest.mark.parametrize("rows", [1, 3000])
def test_a_png_of_thirty_thousand_pixels_a_side(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png(30_000, 30_000, rows))
    assert path.stat().st_size < 1 << 20
    refusal(path)


@pytest.mark.parametrize("size", [(65_535, 65_535), (16_000, 16_000)])
def test_a_gif_with_a_huge_canvas(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "bomb.gif"
    path.write_bytes(gif(*size))
    refusal(path)


def test_a_stream_that_grows_on_the_way_is_no_way_past_the_limit(tmp_path: Path) -> None:
    """The frames that are too large do not decode; the others are there."""
    small = make_clip(tmp_path / "a.ts", 25, options={"g": "25"})
    large = make_clip(tmp_path / "b.ts", 25, width=640, height=480, options={"g": "25"}, pts=range(60, 85))
    path = tmp_path / "both.ts"
    path.write_bytes(small.read_bytes() + large.read_bytes())
    found = scan(str(path), io.BytesIO(), limits=InputSettings(pixels=100_000))
    assert (found.format.width, found.format.height) == (96, 64)
    assert "degraded" in found.warnings or len(found.timeline.pts) <= 50


def test_a_duration_of_years_in_a_header_says_nothing(tmp_path: Path) -> None:
    """Frames are counted, not believed: Matroska's duration is a number in its head."""
    path = make_clip(tmp_path / "clip.mkv", 25)
    data = bytearray(path.read_bytes())
    at = data.find(b"\x44\x89\x88") + 3
    assert at > 3
    data[at : at + 8] = struct.pack(">d", 1e12)
    path.write_bytes(data)
    with av.open(str(path)) as container:
        assert container.duration is None or container.duration > 1e12
    assert len(scan(str(path), io.BytesIO()).timeline.pts) == 25


def test_a_time_of_years_in_a_packet_is_refused_by_the_settings_name(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mkv", pts=[0, 1, 2, 10_000_000])
    assert "input.seconds" in refusal(path)


def test_a_table_that_claims_a_billion_frames_is_no_reason_for_as_much_memory(tmp_path: Path) -> None:
    """stsz of an mp4: one size for all samples, and their number."""
    path = make_clip(tmp_path / "clip.mp4", 25)
    data = bytearray(path.read_bytes())
    at = data.find(b"stsz") + 4
    data[at + 4 : at + 12] = struct.pack(">II", 16, 1_000_000_000)
    path.write_bytes(data)
    with pytest.raises(InputError):
        scan(str(path), io.BytesIO(), limits=InputSettings(frames=1000))
