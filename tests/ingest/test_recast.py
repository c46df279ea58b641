"""Scaling, turning and tone-mapping before frames travel."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest

from ingest.recast import Recast, formats, lost, target_format
from ingest.tonemap import SDR_WHITE, eetf, light_to_pq, pq_to_light
from runtime.payload import frame_planes
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec, JobSpec, PlanSpec

pytestmark = pytest.mark.unit


def video(width: int = 64, height: int = 48, name: str = "yuv420p", **more: Any) -> VideoFormat:
    return VideoFormat(width=width, height=height, pixel_format=name, **more)


def filled(form: VideoFormat, seed: int = 3) -> av.VideoFrame:
    frame = av.VideoFrame(form.width, form.height, form.pixel_format)
    rng = np.random.default_rng(seed)
    for plane in frame_planes(frame, form):
        plane[:] = rng.integers(0, 1 << form.pixels.depth, plane.shape)
    return frame


def flat(form: VideoFormat, *values: int) -> av.VideoFrame:
    frame = av.VideoFrame(form.width, form.height, form.pixel_format)
    for plane, value in zip(frame_planes(frame, form), values, strict=True):
        plane[:] = value
    return frame


@pytest.mark.parametrize(
    ("source", "scale", "size", "aspect"),
    [
        (video(640, 480), (320, 0), (320, 240), (1, 1)),
        (video(640, 480), (0, 360), (480, 360), (1, 1)),
        (video(427, 241), (0, 120), (212, 120), (1, 1)),
        (video(640, 480), (640, 360), (640, 360), (3, 4)),
        (video(427, 240), (854, 480), (854, 480), (1, 1)),
        (video(1281, 720), (1280, 720), (1280, 720), (1, 1)),
        (video(720, 480, sample_aspect=(32, 27)), (1280, 720), (1280, 720), (1, 1)),
        (video(720, 480, sample_aspect=(32, 27)), (360, 0), (360, 240), (32, 27)),
        (video(640, 360, rotation=90), (180, 320), (320, 180), (1, 1)),
        (video(640, 360, rotation=90), (180, 0), (320, 180), (1, 1)),
    ],
)
def test_scaling_keeps_the_shape_that_is_shown(
    source: VideoFormat, scale: tuple[int, int], size: tuple[int, int], aspect: tuple[int, int]
) -> None:
    target = target_format(source, PlanSpec(scale=scale))
    assert (target.width, target.height) == size
    assert target.sample_aspect == aspect
    frame = Recast(source, target).apply(filled(source))
    assert (frame.width, frame.height, frame.format.name) == (*size, "yuv420p")


@pytest.mark.parametrize("depth", ["", "10le"])
@pytest.mark.parametrize("span", ["tv", "pc"])
def test_scaling_keeps_every_flat_colour(depth: str, span: Any) -> None:
    unit = 4 if depth else 1
    source = video(64, 48, f"yuv420p{depth}", color_range=span, matrix="bt709")
    target = target_format(source, PlanSpec(scale=(32, 24)))
    values = (251 * unit, 90 * unit, 240 * unit)
    frame = Recast(source, target).apply(flat(source, *values))
    for plane, value in zip(frame_planes(frame, target), values, strict=True):
        assert set(np.unique(plane)) == {value}


@pytest.mark.parametrize(("height", "scaled"), [(48, 36), (46, 30), (47, 33), (576, 720)])
@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "gray", "yuva444p"])
def test_fields_stay_apart_when_scaled(name: str, height: int, scaled: int) -> None:
    source = video(64, height, name, field_order="tt")
    target = target_format(source, PlanSpec(scale=(48, scaled)))
    frame = av.VideoFrame(source.width, source.height, name)
    for plane in frame_planes(frame, source):
        plane[::2], plane[1::2] = 40, 200
    for plane in frame_planes(Recast(source, target).apply(frame), target):
        assert (set(np.unique(plane[::2])), set(np.unique(plane[1::2]))) == ({40}, {200})


@pytest.mark.parametrize(("height", "order"), [(48, "bb"), (47, "tt")])
def test_upside_down_the_other_field_is_first(height: int, order: str) -> None:
    source = video(64, height, rotation=180, field_order="tt")
    assert target_format(source, PlanSpec(upright=True)).field_order == order


@pytest.mark.parametrize(("rotation", "dropped"), [(90, 7), (180, 0), (270, 7)])
def test_fields_turned_to_columns_are_counted(rotation: int, dropped: int) -> None:
    source = video(64, 48, rotation=rotation, field_order="tt")
    warnings = lost(source, target_format(source, PlanSpec(upright=True)), frames=7)
    assert warnings.get("interlacing_dropped", 0) == dropped


@pytest.mark.parametrize("rotation", [90, 180, 270])
@pytest.mark.parametrize("name", ["yuv420p", "yuv444p10le", "gray"])
def test_turning_moves_samples_and_changes_none(rotation: int, name: str) -> None:
    source = video(35, 21, name, rotation=rotation, sample_aspect=(4, 3))
    target = target_format(source, PlanSpec(upright=True))
    assert target.rotation == 0
    sideways = rotation != 180
    assert (target.width, target.height) == ((21, 35) if sideways else (35, 21))
    assert target.sample_aspect == ((3, 4) if sideways else (4, 3))
    frame = filled(source)
    before = [plane.copy() for plane in frame_planes(frame, source)]
    after = frame_planes(Recast(source, target).apply(frame), target)
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(np.rot90(one, rotation // 90), other)


@pytest.mark.parametrize(
    ("name", "turned"),
    [("yuv422p", "yuv444p"), ("yuv422p10le", "yuv444p10le"), ("yuv440p", "yuv444p"), ("yuv411p", "yuv444p")],
)
def test_chroma_of_one_direction_is_widened_before_it_is_turned(name: str, turned: str) -> None:
    source = video(64, 48, name, rotation=90)
    target = target_format(source, PlanSpec(upright=True))
    assert target.pixel_format == turned
    unit = 1 << (source.pixels.depth - 8)
    values = (50 * unit, 90 * unit, 200 * unit)
    frame = Recast(source, target).apply(flat(source, *values))
    for plane, value in zip(frame_planes(frame, target), values, strict=True):
        assert set(np.unique(plane)) == {value}


def test_a_mirrored_picture_is_turned_and_mirrored_back() -> None:
    source = video(64, 48, "gray", rotation=90)
    target = target_format(source, PlanSpec(), mirrored=True)
    frame = filled(source)
    before = frame_planes(frame, source)[0].copy()
    after = frame_planes(Recast(source, target, mirrored=True).apply(frame), target)[0]
    assert np.array_equal(after, np.rot90(before)[:, ::-1])


def test_what_is_not_hdr_is_not_mapped() -> None:
    source = video(transfer="bt709", matrix="bt709")
    assert target_format(source, PlanSpec(hdr="tonemap")) == source
    frame = filled(source)
    assert Recast(source, source).apply(frame) is frame


def hdr(transfer: str, name: str = "yuv420p10le", **more: Any) -> VideoFormat:
    return video(
        32, 16, name, transfer=transfer, matrix="bt2020nc", primaries="bt2020", color_range="tv", **more
    )


def mapped(source: VideoFormat, *values: int, **spec: Any) -> list[int]:
    target = target_format(source, PlanSpec(hdr="tonemap", **spec))
    assert (target.matrix, target.primaries, target.transfer) == ("bt709", "bt709", "bt709")
    assert target.pixels.depth == 8
    frame = Recast(source, target).apply(flat(source, *values))
    planes = frame_planes(frame, target)
    assert all(plane.min() == plane.max() for plane in planes)
    return [int(plane[0, 0]) for plane in planes]


def pq_code(light: float) -> int:
    """10-bit luma of gray of so many cd/m2."""
    return round(64 + 876 * float(light_to_pq(np.array(light))))


def test_pq_follows_its_definition() -> None:
    """Values of SMPTE ST 2084 as ITU-R BT.2408 quotes them: 203 cd/m2 is 58 %, 1000 is 75 %, 100 is 51 %."""
    for light, share in ((203, 0.58), (1000, 0.75), (100, 0.51), (10_000, 1.0)):
        assert abs(float(light_to_pq(np.array(light))) - share) < 0.005
    values = np.linspace(0, 1, 50)
    assert np.allclose(light_to_pq(pq_to_light(values)), values, atol=1e-5)


def test_dark_light_stays_and_the_peak_becomes_white() -> None:
    dark = np.array([0.0, 1.0, 10.0, 60.0])
    assert np.allclose(eetf(dark, 1000), dark, rtol=1e-6)
    assert np.isclose(eetf(np.array(1000.0), 1000), SDR_WHITE)
    light = eetf(np.linspace(0, 1000, 200), 1000)
    assert (np.diff(light) > 0).all()


@pytest.mark.parametrize(("light", "share"), [(0.0, 0.0), (20.3, 0.1), (50.75, 0.25)])
def test_gray_below_the_knee_keeps_its_light(light: float, share: float) -> None:
    luma, cb, cr = mapped(hdr("smpte2084"), pq_code(light), 512, 512)
    assert abs(luma - (16 + 219 * share ** (1 / 2.4))) <= 1
    assert (cb, cr) == (128, 128)


def test_the_peak_of_the_content_becomes_white() -> None:
    assert mapped(hdr("smpte2084", light_level=(1000, 400)), pq_code(1000), 512, 512)[0] == 235
    assert mapped(hdr("smpte2084", light_level=(4000, 400)), pq_code(4000), 512, 512)[0] == 235
    assert mapped(hdr("smpte2084", light_level=(4000, 400)), pq_code(1000), 512, 512)[0] < 234
    mastering = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(40000000,1)"
    assert mapped(hdr("smpte2084", mastering_display=mastering), pq_code(1000), 512, 512)[0] < 234


def test_hlg_white_is_white_and_reference_white_is_near_it() -> None:
    assert mapped(hdr("arib-std-b67"), 64 + 876, 512, 512)[0] == 235
    assert 210 < mapped(hdr("arib-std-b67"), 64 + round(876 * 0.75), 512, 512)[0] < 235


@pytest.mark.parametrize("name", ["yuv420p10le", "yuv422p10le", "yuv444p12le", "yuv420p12le"])
def test_every_sampling_and_depth_is_mapped_alike(name: str) -> None:
    source = hdr("smpte2084", name)
    unit = 1 << (source.pixels.depth - 8)
    luma, cb, cr = mapped(source, 110 * unit, 120 * unit, 140 * unit)
    expected = mapped(hdr("smpte2084"), 440, 480, 560)
    assert [luma, cb, cr] == pytest.approx(expected, abs=1)


def test_hdr_is_mapped_turned_and_scaled_in_one_go() -> None:
    source = hdr("smpte2084", rotation=270)
    target = target_format(source, PlanSpec(hdr="tonemap", upright=True, scale=(8, 0)))
    assert (target.width, target.height, target.pixel_format) == (8, 16, "yuv420p")
    frame = Recast(source, target).apply(flat(source, pq_code(20.3), 512, 512))
    assert abs(int(frame_planes(frame, target)[0][3, 3]) - 100) <= 1


def job(output: str, encoder: str, **plan: Any) -> JobSpec:
    return JobSpec(
        job="j", input="in", output=output, encode=EncodeSpec(encoder=encoder), plan=PlanSpec(**plan)
    )


@pytest.mark.parametrize(
    ("output", "encoder", "name", "given", "travels"),
    [
        ("a.mkv", "ffv1", "yuva422p12le", "yuva422p12le", "yuva422p12le"),
        ("a.mov", "prores_ks", "yuva444p12le", "yuva444p12le", "yuva444p12le"),
        ("a.mov", "prores_ks", "yuva420p", "yuva420p", "yuva420p"),
        ("a.mov", "libx264", "yuva444p", "yuv444p", "yuv444p"),
        ("a.mkv", "libx265", "yuva420p10le", "yuv420p10le", "yuv420p10le"),
        ("a.webm", "libvpx-vp9", "yuva420p", "yuva420p", "yuva420p"),
        ("a.webm", "libvpx-vp9", "yuva444p", "yuva444p", "yuva420p"),
        ("a.webm", "libvpx-vp9", "yuva444p10le", "yuv444p10le", "yuv444p10le"),
        ("a.mp4", "libvpx-vp9", "yuva420p", "yuv420p", "yuv420p"),
        ("a.avi", "ffv1", "yuva444p", "yuva444p", "yuva444p"),
        ("a.avi", "mjpeg", "yuva444p", "yuv444p", "yuv444p"),
        ("a.jpg", "mjpeg", "yuva444p", "yuv444p", "yuv444p"),
        ("a.png", "png", "yuva444p16le", "yuva444p16le", "yuva444p16le"),
        ("a.gif", "gif", "yuva444p", "yuva444p", "yuva444p"),
        ("a.webp", "libwebp_anim", "yuva420p", "yuva420p", "yuva420p"),
    ],
)
def test_alpha_travels_where_the_result_holds_it(
    output: str, encoder: str, name: str, given: str, travels: str
) -> None:
    found = formats(video(name=name), job(output, encoder))
    assert [form.pixel_format for form in found] == [given, travels]
    assert bool(lost(*found, frames=3)) == (given != travels)
    in_jpeg = formats(video(name=name), job(output, encoder, payload="jpeg"))
    assert not any(form.pixels.alpha for form in in_jpeg)


def test_alpha_goes_along_when_frames_are_scaled_turned_and_tone_mapped() -> None:
    source = hdr("smpte2084", "yuva444p12le", rotation=90)
    target = target_format(source, PlanSpec(hdr="tonemap", upright=True))
    assert (target.pixel_format, target.width, target.height) == ("yuva444p", 16, 32)
    frame = flat(source, pq_code(20.3) * 4, 2048, 2048, 0)
    alpha = frame_planes(frame, source)[3]
    alpha[:] = np.linspace(0, 4095, alpha.size).reshape(alpha.shape)
    planes = frame_planes(Recast(source, target).apply(frame), target)
    wanted = np.rot90(np.rint(alpha / 4095 * 255))
    assert np.abs(planes[3] - wanted).max() <= 0.5
    assert abs(int(planes[0][3, 3]) - 100) <= 1
    small = target_format(source, PlanSpec(scale=(8, 0)))
    faint = Recast(source, small).apply(flat(source, 100, 2048, 2048, 1000))
    assert np.abs(frame_planes(faint, small)[3].astype(int) - 1000).max() <= 1
