"""What a scan finds out about inputs, good and bad."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
import pytest
from PIL import Image, ImageCms

from assembler.convert import FilterChain, tagged
from ingest.scan import Scan, scan
from schemas.errors import InputError
from schemas.frames import VideoFormat
from tests.support.media import make_clip

pytestmark = pytest.mark.media


def look(path: Path) -> Scan:
    return scan(str(path), io.BytesIO())


def test_times_are_the_containers_own_and_the_last_frame_lasts_as_its_packet_says(tmp_path: Path) -> None:
    pts = [9000, 12_000, 12_500, 20_000]
    found = look(make_clip(tmp_path / "a.mp4", pts=pts, time_base=Fraction(1, 90_000)))
    assert found.time_base == Fraction(1, 90_000)
    assert found.timeline.pts == pts
    assert found.timeline.duration[:3] == [3000, 500, 7500]
    assert found.timeline.duration[3] > 0
    assert found.timeline.keys == [0]
    assert found.seekable


def test_an_edit_list_takes_frames_away(tmp_path: Path) -> None:
    """A cut without encoding: packets from the key frame on are kept, the edit list hides the first."""
    source = make_clip(tmp_path / "a.mp4", 75, options={"g": "25", "bf": "0"})
    cut = tmp_path / "cut.mp4"
    with av.open(str(source)) as container, av.open(str(cut), "w") as output:
        stream = container.streams.video[0]
        target = output.add_stream_from_template(stream)
        assert stream.time_base is not None
        begin = int(Fraction(10, 25) / stream.time_base)
        for packet in container.demux(stream):
            if packet.size:
                assert packet.pts is not None
                assert packet.dts is not None
                packet.pts, packet.dts = packet.pts - begin, packet.dts - begin
                packet.stream = target
                output.mux(packet)
    found = look(cut)
    assert len(found.timeline.pts) == 65
    assert found.timeline.pts[0] == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("unknown", "unknown", "unknown", "unknown")),
        (
            {"color_range": "pc", "colorspace": "bt709", "color_primaries": "bt709", "color_trc": "bt709"},
            ("pc", "bt709", "bt709", "bt709"),
        ),
        (
            {"colorspace": "bt2020nc", "color_primaries": "bt2020", "color_trc": "smpte2084"},
            ("unknown", "bt2020nc", "bt2020", "smpte2084"),
        ),
    ],
)
def test_colour_tags_are_read(tmp_path: Path, options: dict[str, str], expected: tuple[str, ...]) -> None:
    fmt = look(make_clip(tmp_path / "a.mkv", 3, options=options)).format
    got = (fmt.color_range, fmt.matrix, fmt.primaries, fmt.transfer)
    assert got[1:] == expected[1:]
    assert got[0] in (expected[0], "tv")


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_rotation_is_read_from_the_display_matrix(tmp_path: Path, degrees: int) -> None:
    assert look(make_clip(tmp_path / "a.mp4", 3, rotation=degrees)).format.rotation == degrees


@pytest.mark.parametrize(
    ("pixel_format", "codec", "expected"),
    [
        ("yuv422p10le", "prores_ks", "yuv422p10le"),
        ("yuva444p10le", "prores_ks", "yuva444p12le"),
        ("rgba", "png", "yuva444p"),
        ("bgr0", "ffv1", "yuv444p"),
        ("gray", "ffv1", "gray"),
        ("gray16le", "ffv1", "gray16le"),
        ("yuvj420p", "libx264", "yuv420p"),
        ("nv12", "rawvideo", "yuv420p"),
        ("yuv410p", "ffv1", "yuv410p"),
        ("uyvy422", "rawvideo", "yuv422p"),
    ],
)
def test_each_pixel_format_has_one_that_travels(
    tmp_path: Path, pixel_format: str, codec: str, expected: str
) -> None:
    path = tmp_path / "a.mov"
    if codec in ("ffv1", "rawvideo"):
        path = tmp_path / "a.nut"
    found = look(make_clip(path, 3, codec=codec, pixel_format=pixel_format))
    assert found.format.pixel_format == expected
    if pixel_format == "yuvj420p":
        assert found.format.color_range == "pc"
    if pixel_format in ("rgba", "bgr0"):
        assert (found.format.color_range, found.format.matrix) == ("tv", "bt709")


@pytest.mark.parametrize("stated", [1, 2, 4])
@pytest.mark.parametrize("order", ["tt", "bb"])
def test_sample_aspect_and_field_order(tmp_path: Path, order: Literal["tt", "bb"], stated: int) -> None:
    """Pictures know their fields better than the container does."""
    path = tmp_path / "a.mkv"
    video = VideoFormat(width=96, height=64, pixel_format="yuv420p", field_order=order)
    flagged = FilterChain(video, Fraction(1, 25), [tagged(video)])
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=25, options={"flags": "+ildct"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(4, 3)
        stream.codec_context.field_order = stated
        for number in range(5):
            frame = av.VideoFrame(96, 64, "yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            output.mux(stream.encode(flagged(frame)))
        output.mux(stream.encode(None))
    fmt = look(path).format
    assert fmt.sample_aspect == (4, 3)
    assert fmt.field_order == order


def test_dv_is_interlaced_though_its_container_does_not_say_so(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.dv", 3, width=720, height=576, codec="dvvideo", container_format="dv")
    assert look(path).format.field_order == "bb"


def test_a_cover_picture_is_not_the_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    clip = make_clip(tmp_path / "clip.mp4", 10)
    cover = make_clip(
        tmp_path / "cover.mov", 1, codec="mjpeg", pixel_format="yuvj420p", width=640, height=480
    )
    with av.open(str(clip)) as a, av.open(str(cover)) as b, av.open(str(path), "w") as output:
        picture = output.add_stream_from_template(b.streams.video[0])
        picture.disposition = av.stream.Disposition.attached_pic
        video = output.add_stream_from_template(a.streams.video[0])
        for source, target in ((b, picture), (a, video)):
            for packet in source.demux(source.streams.video[0]):
                if packet.size:
                    packet.stream = target
                    output.mux(packet)
    found = look(path)
    assert (found.format.width, found.format.height) == (96, 64)
    assert len(found.timeline.pts) == 10


def test_sound_alone_is_refused(tmp_path: Path) -> None:
    clip = make_clip(tmp_path / "clip.mp4", 25, sound="aac")
    path = tmp_path / "sound.m4a"
    with av.open(str(clip)) as source, av.open(str(path), "w", format="mp4") as output:
        target = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.size:
                packet.stream = target
                output.mux(packet)
    with pytest.raises(InputError, match=r"sound\.m4a: has no video stream"):
        look(path)


def write_text(path: Path) -> None:
    path.write_text("It was a dark and stormy night.\n" * 40)


BAD: dict[str, Any] = {
    "missing.mp4": lambda path: None,
    "empty.mp4": lambda path: path.touch(),
    "folder.mp4": lambda path: path.mkdir(),
    "text.txt": write_text,
    "text.mp4": write_text,
    "noise.bin": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "zeros.mp4": lambda path: path.write_bytes(bytes(100_000)),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_video_is_refused_in_one_line_that_names_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    BAD[name](path)
    with pytest.raises(InputError) as caught:
        look(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def truncate(path: Path, share: Fraction) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(99, 100)])
@pytest.mark.parametrize("name", ["clip.mkv", "clip.ts"])
def test_a_truncated_file_is_used_as_far_as_it_goes(tmp_path: Path, name: str, share: Fraction) -> None:
    path = make_clip(tmp_path / name, 100, options={"g": "25"})
    truncate(path, share)
    assert share * 100 - 30 < len(look(path).timeline.pts) <= 100


def test_a_file_whose_index_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "clip.mp4", 100, options={"g": "25"})
    truncate(path, Fraction(99, 100))
    with pytest.raises(InputError, match=r"clip\.mp4"):
        look(path)


def test_timestamps_that_do_not_rise_are_repaired_and_counted(tmp_path: Path) -> None:
    found = look(make_clip(tmp_path / "a.avi", 60, options={"bf": "2"}))
    assert found.warnings["timeline_by_decoding"] == 1
    assert found.warnings["timestamps_sorted"] > 0
    assert not found.seekable
    assert len(set(found.timeline.duration)) <= 2
    assert len(found.timeline.pts) == 60


def test_metadata_and_chapters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    clip = make_clip(tmp_path / "clip.mp4", 50)
    with av.open(str(clip)) as source, av.open(str(path), "w") as output:
        output.metadata["title"] = "Grüße"
        output.set_chapters(
            [{"id": 1, "start": 0, "end": 1000, "time_base": Fraction(1, 1000), "metadata": {"title": "One"}}]
        )
        target = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = target
                output.mux(packet)
    found = look(path)
    assert found.metadata["title"] == "Grüße"
    ((start, end, numerator, denominator, title),) = found.chapters
    assert (Fraction(numerator, denominator) * start, Fraction(numerator, denominator) * end) == (0, 1)
    assert title == "One"


def test_a_scan_can_be_stopped(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with pytest.raises(Stop):
        scan(str(make_clip(tmp_path / "a.mp4", 10)), io.BytesIO(), stop)


@pytest.mark.parametrize(("name", "told"), [("sRGB", {}), ("LAB", {"colour_profile_dropped": 1})])
def test_a_colour_profile_other_than_srgb_is_warned_of(
    tmp_path: Path, name: str, told: dict[str, int]
) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile(name)).tobytes()  # type: ignore[arg-type]
    Image.new("RGB", (64, 48), (90, 30, 200)).save(tmp_path / "a.jpg", icc_profile=profile)
    found = look(tmp_path / "a.jpg")
    assert {key: value for key, value in found.warnings.items() if "profile" in key} == told
