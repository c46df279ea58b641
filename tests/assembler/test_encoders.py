"""What each encoder does with the picture: richer formats, odd sizes, tags, HDR, caps, wrong specs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from av.sidedata.sidedata import Type
from av.video.frame import VideoFrame

from assembler.encode import EncodedSegment, SegmentEncoder
from assembler.encoders import PLAIN, Target, cap_of, choose, in_units, validate
from runtime.payload import frame_planes
from schemas.containers import ENCODER_TABLE
from schemas.errors import UsageError
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec
from tests.support.segments import Planes, moving_picture

pytestmark = pytest.mark.media

SOFTWARE = ("libx264", "libx265", "libsvtav1", "libvpx-vp9", "prores_ks", "ffv1")
CAPPED = ("libx264", "libx265", "libsvtav1", "libvpx-vp9")
MASTERING = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"


def spec_of(encoder: str, **more: object) -> EncodeSpec:
    return EncodeSpec.model_validate({"encoder": encoder, "preset": "veryfast", "threads": 2} | more)


def encode(
    path: Path, video: VideoFormat, spec: EncodeSpec, pictures: list[Planes], target: Target = PLAIN
) -> EncodedSegment:
    with SegmentEncoder(path, video, (1, 25), (25, 1), spec, target) as encoder:
        for number, source in enumerate(pictures):
            picture = encoder.picture()
            for plane, samples in zip(picture.planes, source, strict=True):
                plane[:] = samples
            encoder.encode(picture, number)
        return encoder.finish(len(pictures))


def decoded(path: Path) -> Iterator[VideoFrame]:
    with av.open(str(path)) as container:
        yield from container.decode(video=0)


def luma(frame: VideoFrame, video: VideoFormat) -> np.ndarray:
    """Luma of a decoded frame, of its top left corner of the size of `video`: black 0, white 1."""
    depth = frame.format.components[0].bits
    form = video.model_copy(update={"pixel_format": "gray" if depth == 8 else f"gray{depth}le"})
    return light(frame_planes(frame, form)[0], depth, frame.color_range == 2)


def light(samples: np.ndarray, depth: int, full: bool) -> np.ndarray:
    return samples / ((1 << depth) - 1) if full else (samples / (1 << (depth - 8)) - 16) / 219


def light_of(source: Planes, video: VideoFormat) -> np.ndarray:
    return light(source[0], video.pixels.depth, video.color_range == "pc")


@pytest.mark.parametrize(
    ("encoder", "name", "stored"),
    [
        ("prores_ks", "yuv420p", "yuv422p10le"),
        ("prores_ks", "yuv444p", "yuv444p12le"),  # so FFmpeg decodes all of 4444
        ("libx264", "yuv411p", "yuv422p"),
        ("libx264", "yuv440p", "yuv444p"),
        ("libx264", "yuv420p9le", "yuv420p10le"),
        ("libvpx-vp9", "gray", "yuv420p"),
        ("libsvtav1", "gray10le", "yuv420p10le"),
    ],
)
@pytest.mark.parametrize("color_range", ["tv", "pc"])
def test_a_format_that_an_encoder_does_not_take_becomes_the_nearest_richer_one(
    tmp_path: Path, encoder: str, name: str, stored: str, color_range: str
) -> None:
    video = VideoFormat.model_validate(
        {"width": 96, "height": 64, "pixel_format": name, "color_range": color_range}
    )
    pictures = [moving_picture(video, number) for number in range(3)]
    encode(tmp_path / "a", video, spec_of(encoder, quality=5), pictures)
    frames = list(decoded(tmp_path / "a"))
    assert [frame.format.name.replace("yuvj", "yuv") for frame in frames] == [stored] * 3
    for frame, source in zip(frames, pictures, strict=True):
        difference = luma(frame, video) - light_of(source, video)
        assert abs(difference.mean()) < 0.002
        assert np.abs(difference).mean() < 0.02
        if name == "gray":
            chroma = frame_planes(frame, video.model_copy(update={"pixel_format": stored}))[1]
            assert abs(float(chroma.mean()) - 128) < 1


@pytest.mark.parametrize(
    ("encoder", "name", "coded"),
    [
        ("libx264", "yuv420p", (64, 48)),
        ("libx265", "yuv420p10le", (64, 48)),
        ("libx264", "yuv422p", (64, 47)),
        ("libsvtav1", "yuv420p", (64, 48)),
    ],
)
def test_odd_sizes_are_padded_with_their_own_edge_where_a_codec_counts_in_chroma(
    tmp_path: Path, encoder: str, name: str, coded: tuple[int, int]
) -> None:
    video = VideoFormat(width=63, height=47, pixel_format=name, sample_aspect=(4, 3))
    pictures = [moving_picture(video, number) for number in range(3)]
    done = encode(tmp_path / "a", video, spec_of(encoder, quality=4), pictures)
    assert done.warnings == {"padded_to_even": 3}
    frames = list(decoded(tmp_path / "a"))
    assert [(frame.width, frame.height) for frame in frames] == [coded] * 3
    for frame, source in zip(frames, pictures, strict=True):
        wide = video.model_copy(update={"width": coded[0], "height": coded[1]})
        edge = luma(frame, wide)
        expected = np.pad(light_of(source, video), ((0, coded[1] - 47), (0, coded[0] - 63)), "edge")
        assert np.abs(edge - expected).mean() < 0.02
        assert np.abs(edge - expected)[:, -1].mean() < 0.03


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_padding_is_at_the_right_and_the_bottom_as_pictures_are_shown(tmp_path: Path, rotation: int) -> None:
    """Chroma, which is moved by half a sample, stays where luma is: both are the same slope."""
    video = VideoFormat(width=63, height=47, pixel_format="yuv420p", rotation=rotation)
    slope = (np.add.outer(2 * np.arange(48), 2 * np.arange(64)) + 10).astype(np.uint8)
    planes: Planes = (slope[:47, :63], slope[::2, ::2], slope[::2, ::2])
    encode(tmp_path / "a", video, spec_of("libx264", quality=0), [planes])
    frame = next(decoded(tmp_path / "a"))
    whole = video.model_copy(update={"width": 64, "height": 48})
    coded, blue, _ = frame_planes(frame, whole)
    shown, given = (np.rot90(plane, rotation // 90) for plane in (coded, slope[:47, :63]))
    assert np.array_equal(shown[: given.shape[0], : given.shape[1]], given)
    assert np.array_equal(blue[1:, 1:], coded[2::2, 2::2])


@pytest.mark.parametrize(("name", "stored"), [("yuv410p", "yuv420p"), ("yuv411p", "yuv422p")])
def test_pictures_are_padded_to_what_the_encoder_counts_in(tmp_path: Path, name: str, stored: str) -> None:
    video = VideoFormat(width=162, height=90, pixel_format=name)
    done = encode(tmp_path / "a", video, spec_of("libx264"), [moving_picture(video, 0)])
    assert done.warnings == {}
    frame = next(decoded(tmp_path / "a"))
    assert (frame.width, frame.height, frame.format.name) == (162, 90, stored)


def test_interlaced_pictures_are_padded_to_whole_lines_of_both_fields(tmp_path: Path) -> None:
    video = VideoFormat(width=64, height=46, pixel_format="yuv420p", field_order="tt")
    done = encode(tmp_path / "a", video, spec_of("libx264"), [moving_picture(video, 0)])
    assert done.warnings == {"padded_to_even": 1}
    frame = next(decoded(tmp_path / "a"))
    assert (frame.height, frame.interlaced_frame) == (48, True)


def test_prores_says_that_its_pictures_are_interlaced(tmp_path: Path) -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p", field_order="tt")
    done = encode(tmp_path / "a", video, spec_of("prores_ks"), [moving_picture(video, 0)])
    assert done.warnings == {}
    assert next(decoded(tmp_path / "a")).interlaced_frame


def test_encoders_that_cannot_say_so_are_warned_of(tmp_path: Path) -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p", field_order="tt")
    done = encode(tmp_path / "a", video, spec_of("libvpx-vp9"), [moving_picture(video, 0)] * 2)
    assert done.warnings == {"interlacing_dropped": 2}


TAGS = {
    "bt709": ("bt709", "bt709", "bt709", (1, 1, 1)),
    "bt601": ("smpte170m", "smpte170m", "smpte170m", (6, 6, 6)),
    "bt2020": ("bt2020nc", "bt2020", "bt2020-10", (9, 9, 14)),
}


@pytest.mark.parametrize("color_range", ["tv", "pc"])
@pytest.mark.parametrize("tags", TAGS)
@pytest.mark.parametrize("encoder", SOFTWARE)
def test_range_and_colour_tags_are_read_back_with_the_samples_as_they_were(
    tmp_path: Path, encoder: str, tags: str, color_range: str
) -> None:
    matrix, primaries, transfer, codes = TAGS[tags]
    name = "yuv422p10le" if encoder == "prores_ks" else "yuv420p"
    video = VideoFormat.model_validate(
        {"width": 64, "height": 64, "pixel_format": name, "matrix": matrix, "primaries": primaries,
         "transfer": transfer, "color_range": color_range}
    )  # fmt: skip
    source = moving_picture(video, 0)
    encode(tmp_path / "a", video, spec_of(encoder, quality=5), [source])
    frame = next(decoded(tmp_path / "a"))
    assert (frame.colorspace, frame.color_primaries, frame.color_trc) == codes
    if encoder == "prores_ks":
        assert frame.color_range != 2  # ProRes is limited
    else:
        assert frame.color_range == (2 if color_range == "pc" else 1)
    assert abs(luma(frame, video).mean() - light_of(source, video).mean()) < 0.003


def rationals(data: bytes) -> list[float]:
    values = struct.unpack(f"<{len(data) // 4}i", data)
    return [a / b for a, b in zip(values[::2], values[1::2], strict=False) if b]


@pytest.mark.parametrize("transfer", ["smpte2084", "arib-std-b67"])
@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1"])
def test_hdr_stays_hdr_with_mastering_display_and_light_level(
    tmp_path: Path, encoder: str, transfer: str
) -> None:
    video = VideoFormat(
        width=64, height=64, pixel_format="yuv420p10le", color_range="tv", matrix="bt2020nc",
        primaries="bt2020", transfer=transfer, mastering_display=MASTERING, light_level=(1000, 400),
    )  # fmt: skip
    done = encode(tmp_path / "a", video, spec_of(encoder), [moving_picture(video, n) for n in range(3)])
    assert done.warnings == {}
    for number, frame in enumerate(decoded(tmp_path / "a")):
        assert frame.format.name == "yuv420p10le"
        assert (frame.colorspace, frame.color_primaries) == (9, 9)
        assert frame.color_trc == (16 if transfer == "smpte2084" else 18)
        if number:  # FFmpeg's H.264 decoder hands them out with key frames only
            continue
        level = bytes(frame.side_data[Type.CONTENT_LIGHT_LEVEL])
        assert struct.unpack("<2I", level[:8]) == (1000, 400)
        mastering = rationals(bytes(frame.side_data[Type.MASTERING_DISPLAY_METADATA])[:80])
        red_green_blue_white = [0.68, 0.32, 0.265, 0.69, 0.15, 0.06, 0.3127, 0.329]
        np.testing.assert_allclose(mastering[:8], red_green_blue_white, atol=1e-4)
        np.testing.assert_allclose(mastering[8:], [0.005, 1000], rtol=0.02)


def test_encoders_without_a_place_for_it_warn_that_hdr_metadata_are_dropped(tmp_path: Path) -> None:
    video = VideoFormat(width=64, height=64, pixel_format="yuv420p10le", transfer="smpte2084",
                        mastering_display=MASTERING)  # fmt: skip
    done = encode(tmp_path / "a", video, spec_of("ffv1"), [moving_picture(video, 0)] * 2)
    assert done.warnings == {"hdr_metadata_dropped": 2}


def test_mastering_displays_are_turned_into_units() -> None:
    assert in_units(MASTERING) == ("G(0.265,0.69)B(0.15,0.06)R(0.68,0.32)WP(0.3127,0.329)L(1000,0.005)")


@pytest.mark.parametrize("encoder", CAPPED)
def test_a_segment_passes_its_cap_by_a_tenth_at_most(tmp_path: Path, encoder: str) -> None:
    video = VideoFormat(width=320, height=180, pixel_format="yuv420p")
    rng = np.random.default_rng(1)
    pictures = [
        [rng.integers(16, 235, plane.shape, np.uint8) for plane in moving_picture(video, 0)]
        for _ in range(50)
    ]
    free = encode(tmp_path / "free", video, spec_of(encoder, quality=20), pictures)
    cap = 1_500_000
    target = Target(cap=cap)
    done = encode(tmp_path / "capped", video, spec_of(encoder, quality=20), pictures, target)
    assert free.bytes * 8 > 1.5 * cap * 2  # else nothing is capped
    assert done.bytes * 8 <= 1.1 * cap * 2
    assert done.bytes * 8 > 0.5 * cap * 2
    assert done.warnings == {}


@pytest.mark.parametrize("encoder", [*CAPPED, "prores_ks", "mjpeg"])
def test_a_larger_number_is_a_smaller_file_and_zero_is_the_best(tmp_path: Path, encoder: str) -> None:
    video = VideoFormat(width=128, height=96, pixel_format="yuv420p")
    rng = np.random.default_rng(1)
    noise = [[rng.integers(16, 235, p.shape, np.uint8) for p in moving_picture(video, 0)] for _ in range(3)]
    worst = ENCODER_TABLE[encoder].worst
    sizes = [
        encode(tmp_path / "a", video, spec_of(encoder, quality=quality), noise).bytes
        for quality in (0, worst // 3, worst * 2 // 3, worst)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[-1]


def test_a_cap_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    video = VideoFormat(width=320, height=180, pixel_format="yuv420p")
    rng = np.random.default_rng(1)
    noise = [[rng.integers(16, 235, p.shape, np.uint8) for p in moving_picture(video, 0)] for _ in range(5)]
    done = encode(tmp_path / "a", video, spec_of("libx264"), noise, Target(cap=20_000))
    assert done.warnings == {"bitrate_exceeded": 1}


def test_the_lower_of_a_bit_rate_and_that_of_the_input_is_the_cap() -> None:
    assert cap_of(EncodeSpec(), 5_000) == 0
    assert cap_of(EncodeSpec(bitrate=7_000), 5_000) == 7_000
    assert cap_of(EncodeSpec(bitrate=7_000, like_source=True), 5_000) == 5_000
    assert cap_of(EncodeSpec(like_source=True), 0) == 0


def test_avi_loses_the_meaning_of_colours_and_says_so(tmp_path: Path) -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p", primaries="bt2020", matrix="bt2020nc")
    for encoder in ("ffv1", "mjpeg"):
        done = encode(tmp_path / encoder, video, spec_of(encoder), [moving_picture(video, 0)], Target("avi"))
        assert done.warnings == {"colour_tags_dropped": 1}
    usual = VideoFormat(width=64, height=48, pixel_format="yuv420p", primaries="bt709", matrix="bt709")
    done = encode(tmp_path / "usual", usual, spec_of("mjpeg"), [moving_picture(usual, 0)], Target("avi"))
    assert done.warnings == {}


@pytest.mark.parametrize(
    ("fields", "container", "reason"),
    [
        ({"preset": "gentle"}, "mp4", "preset 'gentle' of libx264 is none of ultrafast, superfast"),
        ({"encoder": "libsvtav1", "preset": "14"}, "mp4", "none of .*, 0, 1, .*13"),
        ({"encoder": "h264_nvenc", "preset": "placebo"}, "mp4", "none of fast, medium, slow, p1"),
        ({"quality": 52}, "mp4", "quality 52 of libx264 is not in 0..51"),
        ({"encoder": "ffv1", "bitrate": 1000}, "mkv", "ffv1 takes no bit rate; encoders that do: libx264"),
        ({"encoder": "prores_ks", "like_source": True}, "mov", "takes no bit rate"),
        ({"encoder": "ffv1"}, "mp4", r"does not go into \.mp4, which takes libx264"),
        ({"encoder": "libx264"}, "avi", r"does not go into \.avi, which takes mjpeg, ffv1"),
        ({"encoder": "libx266"}, "mp4", "is none of libx264"),
    ],
)
def test_wrong_specs_are_refused_with_what_is_possible(
    fields: dict[str, object], container: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        validate(EncodeSpec.model_validate(fields), container)


@pytest.mark.parametrize(
    ("quality", "name", "profile"),
    [(10, "yuv420p", "hq"), (20, "yuv422p10le", "standard"), (35, "yuv420p", "lt"), (50, "yuv420p", "proxy"),
     (50, "yuv444p", "4444")],
)  # fmt: skip
def test_the_profile_of_prores_follows_from_chroma_and_quality(quality: int, name: str, profile: str) -> None:
    video = VideoFormat(width=64, height=64, pixel_format=name)
    assert choose(spec_of("prores_ks", quality=quality), video).options["profile"] == profile
