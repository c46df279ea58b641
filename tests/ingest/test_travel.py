"""Odd pixel formats become planar ones; where only the packing differs, every sample stays."""

from __future__ import annotations

from collections import Counter

import av
import numpy as np
import pytest

from ingest.travel import Traveller, travel_format, travels_as
from runtime.alpha import alpha_depth, alpha_samples
from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.frames import VideoFormat
from schemas.pixels import opaque

pytestmark = pytest.mark.unit

REPACKED = {
    "nv12": "yuv420p",
    "nv21": "yuv420p",
    "nv16": "yuv422p",
    "nv24": "yuv444p",
    "yuyv422": "yuv422p",
    "uyvy422": "yuv422p",
    "p010le": "yuv420p10le",
    "p012le": "yuv420p12le",
    "p016le": "yuv420p16le",
    "p210le": "yuv422p10le",
    "y210le": "yuv422p10le",
    "yuv420p10be": "yuv420p10le",
    "yuv422p16be": "yuv422p16le",
    "gray10be": "gray10le",
    "gray16be": "gray16le",
}


def noise(video: VideoFormat) -> av.VideoFrame:
    frame = av.VideoFrame(video.width, video.height, video.pixel_format)
    rng = np.random.default_rng(5)
    for plane in frame_planes(frame, video):
        plane[:] = rng.integers(0, 1 << video.pixels.depth, plane.shape)
    return frame


@pytest.mark.parametrize("name", REPACKED)
def test_other_packings_keep_every_sample(name: str) -> None:
    video = VideoFormat(width=64, height=48, pixel_format=REPACKED[name])
    original = noise(video)
    warnings: Counter[str] = Counter()
    back = Traveller(video, warnings).normalise(original.reformat(format=name))
    for got, sent in zip(frame_planes(back, video), frame_planes(original, video), strict=True):
        assert np.array_equal(got, sent)
    assert travel_format(name) == REPACKED[name]
    assert +warnings == Counter()


def test_planar_frames_are_passed_on_as_they_are() -> None:
    for name, span in (("yuv420p", "unknown"), ("yuv420p", "tv"), ("yuvj420p", "pc")):
        video = VideoFormat.model_validate(
            {"width": 35, "height": 21, "pixel_format": "yuv420p", "color_range": span}
        )
        frame = av.VideoFrame(35, 21, name)
        assert Traveller(video, Counter()).normalise(frame) is frame


@pytest.mark.parametrize("name", ["rgb24", "bgra", "gbrp"])
@pytest.mark.parametrize(
    ("rgb", "yuv"),
    [((255, 255, 255), (235, 128, 128)), ((0, 0, 0), (16, 128, 128)), ((255, 0, 0), (63, 102, 240))],
)
def test_rgb_becomes_limited_range_bt709(
    name: str, rgb: tuple[int, int, int], yuv: tuple[int, int, int]
) -> None:
    """Expected: ITU-R BT.709, 8 bit: Y = 16 + 219 (0.2126 R + 0.7152 G + 0.0722 B), chroma to 240."""
    image = np.broadcast_to(np.array(rgb, np.uint8), (48, 64, 3))
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24").reformat(format=name)
    video = VideoFormat(width=64, height=48, pixel_format=travel_format(name))
    assert opaque(video.pixel_format) == "yuv444p"
    planes = frame_planes(Traveller(video, Counter()).normalise(frame), video)
    for plane, value in zip(planes[:3], yuv, strict=True):
        assert np.abs(plane.astype(int) - value).max() <= 1


WITH_ALPHA = {
    "yuva420p": "yuva420p",
    "yuva422p10le": "yuva422p10le",
    "yuva444p12le": "yuva444p12le",
    "yuva444p16be": "yuva444p16le",
    "rgba": "yuva444p",
    "bgra": "yuva444p",
    "argb": "yuva444p",
    "abgr": "yuva444p",
    "gbrap": "yuva444p",
    "gbrap10le": "yuva444p10le",
    "gbrap12be": "yuva444p12le",
    "rgba64le": "yuva444p16le",
    "rgba64be": "yuva444p16le",
    "ya8": "yuva420p",
    "ya16be": "yuva420p16le",
}


@pytest.mark.parametrize("name", WITH_ALPHA)
def test_alpha_travels_sample_for_sample(name: str) -> None:
    frame = av.VideoFrame(64, 48, name)
    for plane in frame.planes:
        plane.update(np.random.default_rng(7).integers(0, 4, plane.buffer_size, np.uint8).tobytes())
    samples = alpha_samples(frame)
    assert samples is not None
    top = (1 << alpha_depth(frame)) - 1
    samples[:] = np.linspace(0, top, samples.size).reshape(samples.shape)
    video = VideoFormat(width=64, height=48, pixel_format=travel_format(name), color_range="pc")
    assert video.pixel_format == WITH_ALPHA[name]
    warnings: Counter[str] = Counter()
    planes = frame_planes(Traveller(video, warnings).normalise(frame), video)
    assert np.array_equal(planes[3], samples)
    assert +warnings == Counter()


def test_gray_with_alpha_keeps_its_gray() -> None:
    frame = av.VideoFrame(64, 48, "ya8")
    gray = np.arange(64 * 48 * 2, dtype=np.uint32).astype(np.uint8).reshape(48, 128)
    plane = frame.planes[0]
    plane.update(np.pad(gray, ((0, 0), (0, plane.line_size - 128))).tobytes())
    video = VideoFormat(width=64, height=48, pixel_format="yuva420p", color_range="pc")
    luma, cb, cr, alpha = frame_planes(Traveller(video, Counter()).normalise(frame), video)
    assert np.array_equal(luma, gray[:, ::2])
    assert np.array_equal(alpha, gray[:, 1::2])
    assert set(np.unique([cb, cr])) == {128}


def test_frames_without_alpha_among_frames_with_alpha_are_opaque() -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuva444p10le")
    warnings: Counter[str] = Counter()
    for name in ("yuv420p", "gray", "rgb24", "yuv444p10le"):
        planes = frame_planes(Traveller(video, warnings).normalise(av.VideoFrame(64, 48, name)), video)
        assert set(np.unique(planes[3])) == {1023}


@pytest.mark.parametrize(("opacity", "name"), [(255, "yuv444p"), (90, "yuva444p")])
def test_a_palette_has_alpha_if_its_colours_do(opacity: int, name: str) -> None:
    frame = av.VideoFrame(16, 16, "pal8")
    frame.planes[0].update(bytes(frame.planes[0].buffer_size))
    frame.planes[1].update(bytes([10, 20, 200, opacity]) * 256)  # B, G, R, A
    assert travels_as(frame) == name
    video = VideoFormat(width=16, height=16, pixel_format="yuva444p")
    assert set(np.unique(frame_planes(Traveller(video, Counter()).normalise(frame), video)[3])) == {opacity}


@pytest.mark.parametrize("name", ["rgba", "bgra", "argb"])
def test_alpha_is_laid_on_black_and_counted_where_there_is_no_place_for_it(name: str) -> None:
    image = np.zeros((48, 64, 4), np.uint8)
    image[:] = (255, 255, 255, 255)
    image[:24] = (255, 255, 255, 0)
    image[24:36] = (255, 255, 255, 128)
    frame = av.VideoFrame.from_ndarray(image, format="rgba").reformat(format=name)
    video = VideoFormat(width=64, height=48, pixel_format="yuv444p", color_range="tv")
    warnings: Counter[str] = Counter()
    luma = frame_planes(Traveller(video, warnings).normalise(frame), video)[0]
    assert set(np.unique(luma[:24])) == {16}
    assert set(np.unique(luma[24:36])) == {126}
    assert set(np.unique(luma[36:])) == {235}
    assert warnings == {"alpha_flattened": 1}


def test_opaque_alpha_changes_nothing() -> None:
    video = VideoFormat(width=35, height=21, pixel_format="yuv420p")
    original = noise(video)
    frame = original.reformat(format="yuva420p")
    warnings: Counter[str] = Counter()
    assert Traveller(video, warnings).normalise(frame) is frame
    assert +warnings == Counter()


@pytest.mark.parametrize("name", ["yuv420p", "yuvj420p"])
def test_samples_of_full_range_keep_it_when_they_are_scaled(name: str) -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p", color_range="pc")
    frame = av.VideoFrame(128, 96, name)
    for plane, value in zip(frame.planes, (255, 128, 128), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    luma = frame_planes(Traveller(video, Counter()).normalise(frame), video)[0]
    assert set(np.unique(luma)) == {255}


def test_changes_of_size_and_format_are_counted() -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p")
    warnings: Counter[str] = Counter()
    traveller = Traveller(video, warnings)
    for frame in (av.VideoFrame(128, 96, "yuv420p"), av.VideoFrame(64, 48, "yuv422p")):
        changed = traveller.normalise(frame)
        assert (changed.width, changed.height, changed.format.name) == (64, 48, "yuv420p")
    assert warnings == {"frames_scaled": 1, "frames_converted": 1}


@pytest.mark.parametrize(("first", "later"), [("tv", "yuvj420p"), ("pc", "yuv420p")])
def test_a_change_of_range_in_the_stream_is_converted_and_counted(first: str, later: str) -> None:
    video = VideoFormat.model_validate(
        {"width": 64, "height": 48, "pixel_format": "yuv420p", "color_range": first}
    )
    frame = av.VideoFrame(64, 48, later)
    for plane, value in zip(
        frame.planes, (255, 128, 128) if later == "yuvj420p" else (235, 128, 128), strict=True
    ):
        plane.update(bytes([value]) * plane.buffer_size)
    if later == "yuv420p":
        frame.color_range = 1
    warnings: Counter[str] = Counter()
    luma = frame_planes(Traveller(video, warnings).normalise(frame), video)[0]
    assert set(np.unique(luma)) == {235 if first == "tv" else 255}
    assert warnings == {"frames_converted": 1}


def test_frames_that_tell_of_other_colours_are_counted() -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p", matrix="bt709", transfer="bt709")
    warnings: Counter[str] = Counter()
    traveller = Traveller(video, warnings)
    for matrix in (1, 9):
        frame = av.VideoFrame(64, 48, "yuv420p")
        frame.colorspace, frame.color_trc = matrix, 1
        assert traveller.normalise(frame) is frame
    assert warnings == {"colour_changed": 1}


def test_floating_point_samples_are_refused() -> None:
    for name in ("gbrpf32le", "gbrpf16le", "yaf16le"):
        with pytest.raises(InputError, match=name):
            travel_format(name)
