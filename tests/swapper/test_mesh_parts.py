"""The arithmetic under the engine `mesh`: samples and colours, turns, triangles, smoothing, light."""

from __future__ import annotations

import av
import cv2
import numpy as np
import pytest

from schemas.frames import VideoFormat
from swapper.colour import samples
from swapper.engines.mesh import kernels
from swapper.engines.mesh.colour import SIDE, Light
from swapper.engines.mesh.smooth import Smoother
from swapper.engines.mesh.topology import TRIANGLES, UV
from swapper.sampling import scaled, unturned

pytestmark = pytest.mark.unit


def form(name: str, height: int = 64, **meaning: str) -> VideoFormat:
    return VideoFormat(width=64, height=height, pixel_format=name, **meaning)  # type: ignore[arg-type]


@pytest.mark.parametrize("color_range", ["tv", "pc"])
@pytest.mark.parametrize("matrix", ["bt709", "smpte170m", "bt2020nc"])
@pytest.mark.parametrize("name", ["yuv444p", "yuv444p10le"])
def test_samples_mean_what_ffmpeg_makes_of_them(name: str, matrix: str, color_range: str) -> None:
    picture = np.random.default_rng(3).integers(40, 216, (64, 64, 3), np.uint8)
    spaces = {"bt709": "ITU709", "smpte170m": "ITU601", "bt2020nc": "BT2020"}
    ranges = {"tv": "MPEG", "pc": "JPEG"}
    made = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(
        format=name,
        dst_colorspace=spaces[matrix],
        dst_color_range=ranges[color_range],
        interpolation="ACCURATE_RND",
    )
    kind = np.uint8 if name == "yuv444p" else np.uint16
    planes = [np.frombuffer(plane, kind).reshape(64, -1)[:, :64] for plane in made.planes]
    meant = samples(form(name, matrix=matrix, color_range=color_range))
    back = scaled(planes, meant, 64, 64)
    assert np.abs(back.astype(int) - picture).max() <= 4


def test_what_a_format_does_not_say_follows_the_rule() -> None:
    assert samples(form("yuv420p", 720)) == samples(form("yuv420p", 720, matrix="bt709", color_range="tv"))
    assert samples(form("yuv420p", 576)) == samples(
        form("yuv420p", 576, matrix="smpte170m", color_range="tv")
    )
    assert samples(form("gray")) == samples(form("gray", color_range="pc"))
    assert samples(form("gray", color_range="tv")).black == 16


def test_grey_frames_are_seen_as_grey() -> None:
    ramp = np.arange(0, 256, dtype=np.uint8).reshape(16, 16)
    rgb = scaled([ramp], samples(form("gray")), 16, 16)
    np.testing.assert_array_equal(rgb, np.dstack([ramp] * 3))


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_points_are_turned_back_as_pictures_were_turned(quarters: int) -> None:
    picture = np.zeros((5, 8), int)
    picture[1, 6] = 1
    turned = np.rot90(picture, quarters)
    y, x = np.argwhere(turned)[0]
    back = unturned(np.float32([x, y]), turned.shape[1], turned.shape[0], quarters)
    np.testing.assert_array_equal(back, [6, 1])


def test_raster_is_the_linear_map_of_each_triangle() -> None:
    """The mesh drawn at its own coordinates gives each pixel its own coordinates."""
    size = 200
    points = np.ascontiguousarray(UV * np.float32(size))
    raster = np.empty((size, size, 3), np.float32)
    kernels.rasterise(points, np.zeros(468, np.float32), UV, TRIANGLES, raster)
    hit = raster[..., 2] < kernels.EMPTY
    y, x = np.nonzero(hit)
    np.testing.assert_allclose(raster[hit][:, 0] * size, x, atol=0.01)
    np.testing.assert_allclose(raster[hit][:, 1] * size, y, atol=0.01)
    outline = cv2.convexHull(np.round(points).astype(np.int32))
    filled = cv2.fillPoly(np.zeros((size, size), np.uint8), [outline], 1)
    assert abs(int(hit.sum()) - int(filled.sum())) < 0.03 * filled.sum()


def test_nearer_triangle_hides_the_farther() -> None:
    points = np.float32([[0, 0], [9, 0], [0, 9], [0, 0], [9, 0], [0, 9]])
    uv = np.float32([[0.2, 0.2]] * 3 + [[0.8, 0.8]] * 3)
    triangles = np.int32([[0, 1, 2], [3, 4, 5]])
    for near, expected in ((0, 0.2), (1, 0.8)):
        depth = np.full(6, 5, np.float32)
        depth[3 * near : 3 * near + 3] = 1
        raster = np.empty((10, 10, 3), np.float32)
        kernels.rasterise(points, depth, uv, triangles, raster)
        assert raster[2, 2, 0] == pytest.approx(expected)
        assert raster[9, 9, 2] == kernels.EMPTY


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_blend_lays_the_texture_on_by_its_alpha(kind: type[np.unsignedinteger]) -> None:
    unit = 1 if kind is np.uint8 else 4
    raster = np.zeros((8, 8, 3), np.float32)
    raster[..., :2] = 0.5
    raster[:2, :, 2] = kernels.EMPTY
    gain = np.ones((4, 4, 3), np.float32)
    cover = np.full((4, 4), 255, np.uint8)
    for alpha, expected in ((0, 50), (255, 16 + 219 * 100 / 255), (128, None)):
        plane = np.full((8, 8), 50 * unit, kind)
        texture = np.empty((8, 8, 2), np.uint8)
        texture[...] = 100, alpha
        black, scale = np.float32(16 * unit), np.float32(219 / 255 * unit)
        kernels.blend_luma(plane, raster, texture, gain, cover, black, scale)
        assert (plane[:2] == 50 * unit).all()
        drawn = np.unique(plane[2:])
        assert len(drawn) == 1
        if expected is None:
            expected = 50 + (16 + 219 * 100 / 255 - 50) * 128 / 255
        assert abs(int(drawn[0]) - expected * unit) <= 1


def test_smoothing_follows_a_moving_head_without_lag_and_quietens_trembling() -> None:
    rng = np.random.default_rng(5)
    face = np.column_stack([UV * 200, np.zeros(468)]).astype(np.float32)
    smoother, errors, raw = Smoother(), [], []
    for i in range(40):
        angle = 0.01 * i
        turn = np.float32([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        true = face.copy()
        true[:, :2] = face[:, :2] @ turn + np.float32([5 * i, 3 * i])
        noise = rng.normal(0, 0.7, (468, 2)).astype(np.float32)
        marks = true.copy()
        marks[:, :2] += noise
        out = smoother(marks, 1 / 30, 300)
        if i > 10:
            errors.append(np.linalg.norm((out - true)[:, :2], axis=1).mean())
            raw.append(np.linalg.norm(noise, axis=1).mean())
    assert np.mean(errors) < 0.7 * np.mean(raw)


def test_light_of_equal_pictures_changes_nothing() -> None:
    picture = np.random.default_rng(7).uniform(0.2, 0.8, (SIDE, SIDE, 3)).astype(np.float32)
    picture[..., 1:] -= 0.5
    light = Light()(picture, picture, np.ones((SIDE, SIDE), np.float32), 0.9)
    np.testing.assert_allclose(light[..., 0], 1, atol=0.01)
    np.testing.assert_allclose(light[..., 1:], 0, atol=0.01)


def test_light_of_a_cut_counts_at_once_and_slow_change_is_smoothed() -> None:
    source = np.full((SIDE, SIDE, 3), [0.6, 0, 0], np.float32)
    weight = np.ones((SIDE, SIDE), np.float32)
    light = Light()
    for _ in range(20):
        light(source, source, weight, 0.0)
    step = source - np.float32([0.05, 0, 0])
    cut = source - np.float32([0.3, 0, 0])
    gain = light(step, source, weight, 0.0)[SIDE // 2, SIDE // 2, 0]
    assert 0.98 < gain < 1
    gain = light(cut, source, weight, 0.0)[SIDE // 2, SIDE // 2, 0]
    assert gain == pytest.approx(0.3 / 0.6, abs=0.01)
