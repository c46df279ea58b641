"""Pictures as files: GIF, WebP, JPEG, PNG out of segments."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from assembler.animate import completed, encode_pictures
from assembler.encoders import Target
from schemas.errors import EncoderError
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec, JobSpec
from tests.support.segments import encode_parts, moving_picture, plan_of

pytestmark = pytest.mark.media

ENCODERS = {"gif": "gif", "webp": "libwebp_anim", "jpg": "mjpeg", "png": "png"}
END = 5
"""Ticks that the last picture is shown."""


def make(
    folder: Path, container: str, video: VideoFormat, base: Rational, pts: list[int], **more: object
) -> tuple[Path, dict[str, int]]:
    """Encode moving pictures into a file; its path and warnings."""
    spec = EncodeSpec.model_validate({"encoder": ENCODERS[container]} | more)
    job = JobSpec(job="j", input="in", output=f"out.{container}", encode=spec)
    cuts = [len(pts) // 2] if len(pts) > 1 else []
    end = pts[-1] + END
    parts = encode_parts(folder, video, base, pts, cuts, spec, end, Target(container))
    target = folder / f"out.{container}"
    result = encode_pictures(target, job, plan_of(video, base, pts, end), parts)
    assert result.frames == len(pts)
    return target, result.warnings


def video_of(name: str = "yuv420p", **more: Any) -> VideoFormat:
    tags = {"matrix": "bt709", "color_range": "tv", "primaries": "bt709", "transfer": "bt709"}
    return VideoFormat.model_validate({"width": 64, "height": 48, "pixel_format": name} | tags | more)


def rgb_of(video: VideoFormat, number: int) -> np.ndarray:
    """RGB of the n-th moving picture, 0 to 1, by the formulas of its matrix and range."""
    depth = video.pixels.depth
    y, *chroma = (plane.astype(float) for plane in moving_picture(video, number))
    full = video.color_range == "pc"
    unit = 1 << (depth - 8)
    y = y / ((1 << depth) - 1) if full else (y / unit - 16) / 219
    if not chroma:
        return np.repeat(y[..., None], 3, 2).clip(0, 1)
    spread = ((1 << depth) - 1) if full else 224 * unit
    b, r = ((c - (128 * unit)) / spread for c in chroma)
    grow = (1 << video.pixels.chroma_y, 1 << video.pixels.chroma_x)
    b, r = (np.kron(c, np.ones(grow))[: y.shape[0], : y.shape[1]] for c in (b, r))
    kr, kb = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114)}[video.matrix]
    red, blue = y + 2 * (1 - kr) * r, y + 2 * (1 - kb) * b
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.stack([red, green, blue], 2).clip(0, 1)


def shown(path: Path) -> list[tuple[Fraction, np.ndarray]]:
    """(time, RGB from 0 to 1) of all pictures of a file."""
    deep = path.suffix == ".png"  # in 16 bit, swscale mistakes JPEG's odd sizes
    form, top = ("rgb48le", 65535) if deep else ("rgb24", 255)
    with av.open(str(path)) as container:
        return [
            (frame.pts * frame.time_base, frame.to_ndarray(format=form) / top)
            for frame in container.decode(video=0)
        ]


def webp_pictures(path: Path) -> list[int]:
    """Milliseconds of each picture of an animated WebP, read from its chunks."""
    data, at, lengths = path.read_bytes(), 12, []
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"ANMF":
            lengths.append(int.from_bytes(data[at + 20 : at + 23], "little"))
        at += 8 + size + size % 2
    return lengths


CLOSE = {"gif": 0.03, "webp": 0.03, "jpg": 0.03, "png": 0.02}
"""Mean difference that is let pass: palettes, and chroma that is interpolated here and repeated there."""
FORMATS = [
    video_of(), video_of("yuv444p", matrix="smpte170m"), video_of(color_range="pc"), video_of("yuv422p10le"),
    video_of("gray"), video_of("gray", color_range="pc"), video_of(width=63, height=47),
]  # fmt: skip


@pytest.mark.parametrize("video", FORMATS, ids=lambda v: f"{v.pixel_format}-{v.color_range}-{v.width}")
@pytest.mark.parametrize("container", ["gif", "png", "jpg"])
def test_colours_come_out_right(tmp_path: Path, container: str, video: VideoFormat) -> None:
    pts = [0] if container != "gif" else [0, 4, 8]
    path, _ = make(tmp_path, container, video, (1, 100), pts)
    pictures = shown(path)
    assert len(pictures) == len(pts)
    for number, (_, picture) in enumerate(pictures):
        difference = picture - rgb_of(video, number)
        assert picture.shape == (video.height, video.width, 3)
        assert np.abs(difference).mean() < CLOSE[container]
        assert np.abs(difference.mean((0, 1))).max() < 0.01


@pytest.mark.parametrize("video", FORMATS, ids=lambda v: f"{v.pixel_format}-{v.color_range}-{v.width}")
def test_colours_of_webp_come_out_right(tmp_path: Path, video: VideoFormat) -> None:
    path, _ = make(tmp_path, "webp", video, (1, 100), [0], quality=0)
    [(_, picture)] = shown(path)
    difference = picture - rgb_of(video, 0)
    assert np.abs(difference).mean() < CLOSE["webp"]
    assert np.abs(difference.mean((0, 1))).max() < 0.01


def test_gif_keeps_times_to_the_hundredth_and_says_what_it_rounds(tmp_path: Path) -> None:
    base, pts = (1, 1000), [500, 540, 663, 700, 1700]
    path, warnings = make(tmp_path, "gif", video_of(), base, pts)
    assert [time for time, _ in shown(path)] == [Fraction(t, 100) for t in (0, 4, 16, 20, 120)]
    assert warnings == {"timestamps_rounded": 1}


def test_rounding_never_adds_up(tmp_path: Path) -> None:
    pts = [1001 * n for n in range(40)]
    path, _ = make(tmp_path, "gif", video_of(), (1, 24000), pts)
    for (time, _), value in zip(shown(path), pts, strict=True):
        assert abs(time - Fraction(value, 24000)) <= Fraction(1, 200)


def test_a_gif_shows_its_last_picture_as_long_as_the_input(tmp_path: Path) -> None:
    path, _ = make(tmp_path, "gif", video_of(), (1, 10), [0, 1, 2])
    blocks = path.read_bytes().split(b"\x21\xf9\x04")[1:]  # graphic control extensions
    assert [int.from_bytes(block[1:3], "little") for block in blocks] == [10, 10, 50]


def test_webp_keeps_times_to_the_millisecond(tmp_path: Path) -> None:
    path, warnings = make(tmp_path, "webp", video_of(), (1, 1000), [500, 540, 663, 700, 1700])
    assert webp_pictures(path) == [40, 123, 37, 1000, END]
    assert warnings == {}
    path, warnings = make(tmp_path, "webp", video_of(), (1, 24000), [1001 * n for n in range(5)])
    assert webp_pictures(path)[:4] == [42, 41, 42, 42]
    assert warnings == {"timestamps_rounded": 4}


def test_one_picture_is_a_still_webp(tmp_path: Path) -> None:
    path, _ = make(tmp_path, "webp", video_of(), (1, 25), [0])
    assert b"ANIM" not in path.read_bytes()
    assert completed(path.read_bytes(), 40) == path.read_bytes()


@pytest.mark.parametrize("container", ["gif", "webp", "jpg", "png"])
def test_the_same_spec_gives_the_same_file(tmp_path: Path, container: str) -> None:
    pts = [0, 4, 8] if container in ("gif", "webp") else [0]
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.append(make(tmp_path / name, container, video_of(), (1, 100), pts)[0].read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("container", ["jpg", "png"])
def test_a_still_of_several_pictures_is_refused(tmp_path: Path, container: str) -> None:
    with pytest.raises(EncoderError, match="holds one picture, the input has 2"):
        make(tmp_path, container, video_of(), (1, 25), [0, 1])


def test_what_pictures_lose_is_said(tmp_path: Path) -> None:
    deep = video_of("yuv420p10le", sample_aspect=(4, 3))
    assert make(tmp_path, "webp", deep, (1, 25), [0])[1] == {"depth_reduced": 1, "sample_aspect_dropped": 1}
    assert make(tmp_path, "jpg", deep, (1, 25), [0])[1] == {"depth_reduced": 1}
    path, warnings = make(tmp_path, "png", deep, (1, 25), [0])
    assert warnings == {}
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        assert frame.format.name == "rgb48be"
        assert container.streams.video[0].sample_aspect_ratio == Fraction(4, 3)
