from __future__ import annotations

import hashlib
import os
from fractions import Fraction
from pathlib import Path

import av
import pytest

from assembler.encode import SegmentEncoder
from assembler.encoders import choose, probe_encoder
from ingest.fields import field_order
from schemas.errors import EncoderError
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec
from tests.support.segments import moving_picture

pytestmark = pytest.mark.media

VIDEO = VideoFormat(width=160, height=96, pixel_format="yuv420p")
FAST = {"preset": "veryfast"}


def encode(path: Path, video: VideoFormat, spec: EncodeSpec, frames: int = 24) -> str:
    """Encode into `path`; returns the hash of the file."""
    with SegmentEncoder(path, video, (1, 90000), (25, 1), spec) as encoder:
        for number in range(frames):
            picture = encoder.picture()
            for plane, source in zip(picture.planes, moving_picture(video, number), strict=True):
                plane[:] = source
            encoder.encode(picture, 450_000 + number * 3600 + number % 3 * 700)
        done = encoder.finish()
    assert done.bytes == path.stat().st_size
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1", "libvpx-vp9", "prores_ks", "ffv1"])
def test_the_same_spec_gives_the_same_bytes_twice(tmp_path: Path, encoder: str) -> None:
    spec = EncodeSpec.model_validate({"encoder": encoder, **FAST})
    assert encode(tmp_path / "a", VIDEO, spec) == encode(tmp_path / "b", VIDEO, spec)


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1"])
def test_no_thread_stays_a_real_time_one(tmp_path: Path, encoder: str) -> None:
    spec = EncodeSpec.model_validate({"encoder": encoder, **FAST})
    with SegmentEncoder(tmp_path / "a", VIDEO, (1, 90_000), (25, 1), spec) as made:
        made.encode(made.picture(), 0)
        policies = {os.sched_getscheduler(int(task.name)) for task in Path("/proc/self/task").iterdir()}
    assert policies == {os.SCHED_OTHER}


def test_threads_are_part_of_what_decides_the_bytes(tmp_path: Path) -> None:
    four, two = (EncodeSpec(threads=n, **FAST) for n in (4, 2))
    video = VideoFormat(width=320, height=256, pixel_format="yuv420p")  # x264 caps threads by the height
    assert encode(tmp_path / "a", video, four) != encode(tmp_path / "b", video, two)


def test_what_decides_the_bytes_is_recorded() -> None:
    line = choose(EncodeSpec(threads=3, quality=21, options={"bf": "1"}), VIDEO).describe()
    for part in ("libx264", "libavcodec", "threads=3", "crf=21", "cpu-independent=1", "bf=1"):
        assert part in line


@pytest.mark.parametrize(
    ("encoder", "name", "decoded"),
    [
        ("libx264", "yuv420p", "yuv420p"),
        ("libx264", "yuv422p", "yuv422p"),
        ("libx264", "yuv444p", "yuv444p"),
        ("libx264", "yuv420p10le", "yuv420p10le"),
        ("libx264", "gray", "yuv420p"),  # FFmpeg's decoder adds neutral chroma
        ("libx265", "gray", "gray"),
        ("libx265", "yuv422p10le", "yuv422p10le"),
        ("libx265", "yuv444p12le", "yuv444p12le"),
        ("ffv1", "yuv420p12le", "yuv420p12le"),
        ("ffv1", "gray10le", "gray10le"),
        ("libsvtav1", "yuv420p", "yuv420p"),
        ("libsvtav1", "yuv420p10le", "yuv420p10le"),
        ("libvpx-vp9", "yuv420p", "yuv420p"),
        ("libvpx-vp9", "yuv422p", "yuv422p"),
        ("libvpx-vp9", "yuv444p", "yuv444p"),
        ("prores_ks", "yuv422p10le", "yuv422p10le"),
        ("prores_ks", "yuv444p10le", "yuv444p12le"),  # so FFmpeg decodes all of 4444
    ],
)
def test_pixel_formats_are_encoded_as_they_are(tmp_path: Path, encoder: str, name: str, decoded: str) -> None:
    video = VIDEO.model_copy(update={"pixel_format": name})
    encode(tmp_path / "a", video, EncodeSpec.model_validate({"encoder": encoder, **FAST}), frames=3)
    with av.open(str(tmp_path / "a")) as container:
        frames = list(container.decode(video=0))
    assert [frame.format.name for frame in frames] == [decoded] * 3
    if encoder not in (
        "ffv1",
        "libvpx-vp9",
    ):  # matroska rounds to milliseconds; the checkpoint has the exact times
        assert [frame.pts * frame.time_base for frame in frames] == [
            Fraction(450_000 + n * 3600 + n % 3 * 700, 90_000) for n in range(3)
        ]


@pytest.mark.parametrize(
    ("encoder", "width", "height", "name", "reason"),
    [
        ("libx264", 64, 48, "yuv420p12le", "Encoders that take it: libx265, ffv1"),
        ("libvpx-vp9", 64, 48, "yuv420p10le", "Encoders that take it: libx264, libx265, libsvtav1"),
        ("libsvtav1", 64, 48, "yuv422p", "it takes yuv420p, yuv420p10le"),
        ("h264_nvenc", 64, 48, "yuv420p10le", "libx264, libx265"),
        ("libwebp_anim", 16384, 48, "yuv420p", "16383 pixels a side at most"),
    ],
)
def test_what_an_encoder_cannot_hold_is_refused_with_what_can(
    tmp_path: Path, encoder: str, width: int, height: int, name: str, reason: str
) -> None:
    video = VideoFormat(width=width, height=height, pixel_format=name)
    with pytest.raises(EncoderError) as caught:
        SegmentEncoder(
            tmp_path / "a", video, (1, 25), (25, 1), EncodeSpec.model_validate({"encoder": encoder})
        )
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("encoder", "width", "height", "name"),
    [("ffv1", 63, 47, "yuv420p"), ("libx264", 63, 47, "yuv444p"), ("libx265", 64, 47, "yuv422p"),
     ("libx264", 63, 47, "gray"), ("libvpx-vp9", 63, 47, "yuv420p"), ("libvpx-vp9", 63, 47, "yuv444p"),
     ("prores_ks", 63, 47, "yuv422p10le")],
)  # fmt: skip
def test_odd_sizes_keep_their_size(tmp_path: Path, encoder: str, width: int, height: int, name: str) -> None:
    video = VideoFormat(width=width, height=height, pixel_format=name)
    encode(tmp_path / "a", video, EncodeSpec.model_validate({"encoder": encoder, **FAST}), frames=2)
    with av.open(str(tmp_path / "a")) as container:
        frame = next(container.decode(video=0))
    assert (frame.width, frame.height) == (width, height)


@pytest.mark.parametrize("order", ["tt", "bb"])
@pytest.mark.parametrize("encoder", ["libx264", "prores_ks", "ffv1"])
def test_interlaced_pictures_say_which_field_is_shown_first(tmp_path: Path, encoder: str, order: str) -> None:
    video = VIDEO.model_copy(update={"field_order": order})
    encode(tmp_path / "a", video, EncodeSpec.model_validate({"encoder": encoder, **FAST}), frames=3)
    with av.open(str(tmp_path / "a")) as container:
        stream = container.streams.video[0]
        shown = [(frame.interlaced_frame, field_order(stream, frame)) for frame in container.decode(stream)]
    assert shown == [(True, order)] * 3


def test_times_must_rise(tmp_path: Path) -> None:
    with SegmentEncoder(tmp_path / "a", VIDEO, (1, 25), (0, 1), EncodeSpec(**FAST)) as encoder:
        encoder.encode(encoder.picture(), 5)
        with pytest.raises(EncoderError, match="pts 5 does not come after 5"):
            encoder.encode(encoder.picture(), 5)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1", "libvpx-vp9"])
def test_ticks_longer_than_a_frame_of_the_usual_rate_are_encoded(tmp_path: Path, encoder: str) -> None:
    spec = EncodeSpec.model_validate({"encoder": encoder, **FAST})
    with SegmentEncoder(tmp_path / "a", VIDEO, (1, 10), (0, 0), spec) as made:
        for pts in (0, 2, 4):
            picture = made.picture()
            for plane, source in zip(picture.planes, moving_picture(VIDEO, pts), strict=True):
                plane[:] = source
            made.encode(picture, pts)
        made.finish()
    with av.open(str(tmp_path / "a")) as container:
        times = [f.pts * f.time_base for f in container.decode(video=0) if f.pts is not None and f.time_base]
    assert times == [Fraction(n, 10) for n in (0, 2, 4)]


def test_a_segment_without_frames_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(EncoderError, match="without frames"),
        SegmentEncoder(tmp_path / "a", VIDEO, (1, 25), (0, 1), EncodeSpec(**FAST)) as encoder,
    ):
        encoder.finish()
    assert not (tmp_path / "a").exists()


def test_an_unknown_preset_is_an_encoder_error(tmp_path: Path) -> None:
    spec = EncodeSpec(preset="gentle")
    with (
        pytest.raises(EncoderError, match="libx264"),
        SegmentEncoder(tmp_path / "a", VIDEO, (1, 25), (0, 1), spec) as encoder,
    ):
        encoder.encode(encoder.picture(), 0)


def test_encoders_are_probed_by_opening_them() -> None:
    assert [probe_encoder(name) for name in ("libx264", "libx265", "ffv1")] == [None, None, None]
    assert probe_encoder("libx266") is not None
