"""Pixel formats of every kind in real files: out comes the nearest richer one, or a refusal by name."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.frames import VideoFormat
from tests.support.through import run_through

pytestmark = pytest.mark.media

FRAMES, WIDTH, HEIGHT = 3, 64, 48

STORED = {
    "yuvj420p": ("mjpeg", "avi", "yuv420p", "yuv420p"),
    "yuvj444p": ("libx264", "mp4", "yuv444p", "yuv444p"),
    "nv12": ("rawvideo", "nut", "yuv420p", "yuv420p"),
    "uyvy422": ("rawvideo", "nut", "yuv422p", "yuv422p"),
    "yuv411p": ("dvvideo", "dv", "yuv411p", "yuv422p"),
    "yuv410p": ("ffv1", "mkv", "yuv410p", "yuv420p"),
    "yuv440p": ("ffv1", "mkv", "yuv440p", "yuv444p"),
    "yuv440p10le": ("ffv1", "mkv", "yuv444p10le", "yuv444p10le"),
    "yuv444p12le": ("ffv1", "mkv", "yuv444p12le", ""),
    "yuv422p14le": ("ffv1", "mkv", "yuv422p14le", ""),
    "yuv420p9le": ("ffv1", "mkv", "yuv420p9le", "yuv420p10le"),
    "gray": ("ffv1", "mkv", "gray", "yuv420p"),
    "gray10le": ("ffv1", "mkv", "gray10le", "yuv420p10le"),
    "gray12le": ("ffv1", "mkv", "gray12le", ""),
    "gray16le": ("ffv1", "mkv", "gray16le", ""),
    "gray16be": ("png", "png", "gray16le", ""),
    "monob": ("png", "png", "gray", "yuv420p"),
    "pal8": ("png", "png", "yuv444p", "yuv444p"),
    "rgb24": ("png", "png", "yuv444p", "yuv444p"),
    "rgb48be": ("png", "png", "yuv444p16le", ""),
    "bgr0": ("ffv1", "mkv", "yuv444p", "yuv444p"),
    "gbrp": ("magicyuv", "nut", "yuv444p", "yuv444p"),
    "gbrp10le": ("ffv1", "mkv", "yuv444p10le", "yuv444p10le"),
    "gbrp12le": ("ffv1", "mkv", "yuv444p12le", ""),
    "gbrp16le": ("ffv1", "mkv", "yuv444p16le", ""),
    "rgb565le": ("rawvideo", "nut", "yuv444p", "yuv444p"),
    "rgb555le": ("rawvideo", "nut", "yuv444p", "yuv444p"),
    "ya8": ("png", "png", "yuva420p", "yuv420p"),
    "ya16be": ("png", "png", "yuva420p16le", ""),
    "rgba": ("png", "png", "yuva444p", "yuv444p"),
    "yuva420p": ("ffv1", "mkv", "yuva420p", "yuv420p"),
    "yuva422p10le": ("ffv1", "mkv", "yuva422p10le", "yuv422p10le"),
    "gbrap12le": ("ffv1", "mkv", "yuva444p12le", ""),
}
"""By the format in the file: codec, container, the format FFV1 stores it in, that of H.264 ("": refused)."""


def make(path: Path, codec: str, name: str) -> Path:
    count = 1 if path.suffix == ".png" else FRAMES
    width, height, rate = (720, 480, Fraction(30000, 1001)) if codec == "dvvideo" else (WIDTH, HEIGHT, 25)
    with av.open(str(path), "w", format="image2" if path.suffix == ".png" else None) as output:
        stream = output.add_stream(codec, rate=rate, options={"qmin": "2", "qmax": "2"})
        stream.width, stream.height, stream.pix_fmt = width, height, name
        for number in range(count):
            y, x = np.mgrid[:height, :width] / np.array([height, width])[:, None, None]
            shade = 40 + 170 * np.abs(np.sin(2 * x + y + number))
            image = np.dstack([shade, shade * 0.8 + 20, 250 - shade]).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            if name == "pal8":
                frame = palettised(image[..., 0])
            else:
                frame = frame.reformat(format=name)
            frame.pts, frame.time_base = number, 1 / Fraction(rate)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def palettised(shade: np.ndarray) -> av.VideoFrame:
    frame = av.VideoFrame(WIDTH, HEIGHT, "pal8")
    step = frame.planes[0].line_size
    frame.planes[0].update(np.pad(shade, ((0, 0), (0, step - WIDTH))).tobytes())
    colours = np.arange(256, dtype=np.uint8)
    opaque = np.full(256, 255, np.uint8)
    frame.planes[1].update(np.column_stack([255 - colours, colours, colours, opaque]).tobytes())
    return frame


def pictures(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def rgb(frame: av.VideoFrame) -> np.ndarray:
    return frame.to_ndarray(format="rgb24").astype(float)


@pytest.mark.parametrize("name", STORED)
def test_what_ffv1_stores_is_what_was_there(tmp_path: Path, name: str) -> None:
    codec, suffix, stored, _ = STORED[name]
    source, output = make(tmp_path / f"in.{suffix}", codec, name), tmp_path / "out.mkv"
    done = run_through(source, output, tmp_path, encode={"encoder": "ffv1"})
    before, after = pictures(source), pictures(output)
    assert {frame.format.name for frame in before} == {name}
    assert {frame.format.name for frame in after} == {stored}
    assert done.plan.format.pixel_format == stored
    assert len(before) == len(after)
    for given, made in zip(before, after, strict=True):
        assert np.abs(rgb(given) - rgb(made)).mean() < 2.5
        if name in (stored, f"{stored}le"):
            video = VideoFormat(width=given.width, height=given.height, pixel_format=stored)
            for one, other in zip(frame_planes(given, video), frame_planes(made, video), strict=True):
                assert np.array_equal(one, other)


@pytest.mark.parametrize("name", STORED)
def test_h264_holds_it_in_the_nearest_richer_format_or_it_is_refused(tmp_path: Path, name: str) -> None:
    codec, suffix, _, held = STORED[name]
    source, output = make(tmp_path / f"in.{suffix}", codec, name), tmp_path / "out.mp4"
    spec = {"quality": 4, "preset": "veryfast"}
    if not held:
        with pytest.raises(InputError, match=r"libx264 does not take .* Encoders that take it: .*ffv1"):
            run_through(source, output, tmp_path, encode=spec)
        assert not output.exists()
        return
    run_through(source, output, tmp_path, encode=spec)
    after = pictures(output)
    assert {frame.format.name.replace("yuvj", "yuv") for frame in after} == {held}
    for given, made in zip(pictures(source), after, strict=True):
        assert np.abs(rgb(given) - rgb(made)).mean() < 4


@pytest.mark.parametrize("name", ["gbrpf32le"])
def test_floating_point_is_refused_by_name(tmp_path: Path, name: str) -> None:
    source = make(tmp_path / "in.nut", "rawvideo", name)
    with pytest.raises(InputError, match=name):
        run_through(source, tmp_path / "out.mkv", tmp_path, encode={"encoder": "ffv1"})
