from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import av
import av.logging
import numpy as np
import pytest

from assembler.mux import Part, mux
from runtime.payload import frame_planes
from runtime.sides import SidesReader
from schemas.errors import EncoderError
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec
from tests.support.segments import encode_parts, make_sound, moving_picture, packets_of, plan_of, store_sides

pytestmark = pytest.mark.media

VIDEO = VideoFormat(width=96, height=64, pixel_format="yuv420p")
FAST = {"preset": "veryfast"}

STEPS = [3003, 3003, 1501, 6006, 3003, 40, 9000, 3000]
TIMES: dict[str, tuple[Rational, list[int]]] = {
    "25 frames a second": ((1, 12800), [512 * n for n in range(60)]),
    "24000/1001": ((1, 24000), [1001 * n for n in range(60)]),
    "a time base of 1001/30000": ((1001, 30000), list(range(7, 67))),
    "variable rate, start offset": (
        (1, 90000),
        [123_457, *(123_457 + t for t in itertools.accumulate(STEPS[n % 8] for n in range(59)))],
    ),
}
CUTS = [17, 18, 40]
"""One segment of a single frame among them."""


def end_of(pts: list[int]) -> int:
    return pts[-1] + pts[1] - pts[0]


def decoded(path: Path) -> tuple[list[Fraction], list[tuple[int, str, str]]]:
    """Exact times of all frames of a file, and what the decoder had to say."""
    av.logging.set_level(av.logging.WARNING)
    try:
        with av.logging.Capture() as messages, av.open(str(path)) as container:
            container.streams.video[0].thread_count = 1  # Capture hears its own thread only
            times = [frame.pts * frame.time_base for frame in container.decode(video=0)]
    finally:
        av.logging.set_level(None)
    return times, messages


@pytest.mark.parametrize("container", ["mp4", "mov"])
@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
@pytest.mark.parametrize("times", TIMES)
def test_joined_segments_have_exactly_the_pts_of_the_input(
    tmp_path: Path, times: str, encoder: str, container: str
) -> None:
    base, pts = TIMES[times]
    spec = EncodeSpec.model_validate({"encoder": encoder, **FAST})
    parts = encode_parts(tmp_path, VIDEO, base, pts, CUTS, spec, end_of(pts))
    assert max(part.checkpoint.reorder for part in parts) > 0  # else nothing is tried here
    target = tmp_path / f"out.{container}"
    result = mux(target, container, plan_of(VIDEO, base, pts, end_of(pts)), parts, None)
    shown, messages = decoded(target)
    assert shown == [value * Fraction(*base) for value in pts]
    assert messages == []
    assert result.frames == len(pts)
    assert result.warnings == {}
    with av.open(str(target)) as file:
        video = file.streams.video[0]
        packets = [packet for packet in file.demux(video) if packet.size]
        assert all(a.dts < b.dts for a, b in itertools.pairwise(packets))
        assert all(packet.dts <= packet.pts for packet in packets)
        assert video.duration * video.time_base == (end_of(pts) - pts[0]) * Fraction(*base)
        assert sum(packet.is_keyframe for packet in packets) >= len(CUTS) + 1


def test_mkv_says_how_many_timestamps_it_rounds(tmp_path: Path) -> None:
    base, pts = TIMES["24000/1001"]
    parts = encode_parts(tmp_path, VIDEO, base, pts, CUTS, EncodeSpec(**FAST), end_of(pts))
    target = tmp_path / "out.mkv"
    result = mux(target, "mkv", plan_of(VIDEO, base, pts, end_of(pts)), parts, None)
    shown, messages = decoded(target)
    off = [abs(a - value * Fraction(*base)) for a, value in zip(shown, pts, strict=True)]
    assert max(off) <= Fraction(1, 2000)
    assert result.warnings == {"timestamps_rounded": sum(1 for value in off if value)}
    assert messages == []


def test_hevc_goes_into_mkv_too(tmp_path: Path) -> None:
    base, pts = (1, 1000), [40 * n for n in range(30)]
    spec = EncodeSpec.model_validate({"encoder": "libx265", **FAST})
    parts = encode_parts(tmp_path, VIDEO, base, pts, [11], spec, end_of(pts))
    result = mux(tmp_path / "out.mkv", "mkv", plan_of(VIDEO, base, pts, end_of(pts)), parts, None)
    shown, messages = decoded(tmp_path / "out.mkv")
    assert shown == [Fraction(value, 1000) for value in pts]
    assert messages == []
    assert result.warnings == {}


@pytest.mark.parametrize(
    ("encoder", "container", "name"),
    [("ffv1", "mkv", "yuv420p10le"), ("ffv1", "mkv", "gray"), ("libx264", "mp4", "yuv420p"),
     ("libx264", "mov", "yuv444p10le")],
)  # fmt: skip
def test_lossless_encoders_give_back_every_sample(
    tmp_path: Path, encoder: str, container: str, name: str
) -> None:
    video = VideoFormat(width=70, height=46, pixel_format=name)
    base, pts = TIMES["25 frames a second"][0], [512 * n for n in range(12)]
    spec = EncodeSpec.model_validate({"encoder": encoder, "quality": 0, **FAST})
    parts = encode_parts(tmp_path, video, base, pts, [5], spec, end_of(pts))
    target = tmp_path / f"out.{container}"
    mux(target, container, plan_of(video, base, pts, end_of(pts)), parts, None)
    with av.open(str(target)) as file:
        for number, frame in enumerate(file.decode(video=0)):
            for plane, source in zip(frame_planes(frame, video), moving_picture(video, number), strict=True):
                np.testing.assert_array_equal(plane, source)
        assert number == len(pts) - 1


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv"])
def test_odd_sizes_and_tags_of_the_picture_are_kept(tmp_path: Path, container: str) -> None:
    video = VideoFormat(
        width=64, height=48, pixel_format="yuv420p", color_range="tv", matrix="bt709", primaries="bt709",
        transfer="bt709", sample_aspect=(4, 3), rotation=90,
    )  # fmt: skip
    base, pts = TIMES["25 frames a second"][0], [512 * n for n in range(6)]
    parts = encode_parts(tmp_path, video, base, pts, [3], EncodeSpec(**FAST), end_of(pts))
    target = tmp_path / f"out.{container}"
    mux(target, container, plan_of(video, base, pts, end_of(pts)), parts, None)
    with av.open(str(target)) as file:
        stream = file.streams.video[0]
        frame = next(file.decode(video=0))
        assert stream.sample_aspect_ratio == Fraction(4, 3)
        assert frame.rotation % 360 == 90
        assert (frame.color_range, frame.colorspace) == (1, 1)
        assert (frame.color_primaries, frame.color_trc) == (1, 1)


@pytest.mark.parametrize(
    ("container", "codec", "suffix"),
    [("mp4", "aac", "mp4"), ("mov", "aac", "mp4"), ("mov", "pcm_s16le", "mov"), ("mkv", "pcm_s16le", "mov")],
)
def test_sound_is_copied_bit_for_bit_at_its_own_times(
    tmp_path: Path, container: str, codec: str, suffix: str
) -> None:
    sound = tmp_path / f"sound.{suffix}"
    make_sound(sound, codec)
    tracks = store_sides(sound, tmp_path / "sides")
    base, pts = TIMES["variable rate, start offset"]
    parts = encode_parts(tmp_path, VIDEO, base, pts, CUTS, EncodeSpec(**FAST), end_of(pts))
    target = tmp_path / f"out.{container}"
    plan = plan_of(VIDEO, base, pts, end_of(pts), tracks=tracks)
    with (tmp_path / "sides").open("rb") as file, SidesReader(file) as sides:
        mux(target, container, plan, parts, sides)
    before, after = packets_of(sound, "audio"), packets_of(target, "audio")
    assert [payload for _, payload in after] == [payload for _, payload in before]
    if container != "mkv":
        assert [time for time, _ in after] == [time for time, _ in before]
        assert packets_of(target, "video")[0][0] == pts[0] * Fraction(*base)
    if codec == "aac":
        assert before[0][0] == Fraction(-1024, 48_000)  # priming, cut by the edit list


def test_the_sound_sounds_the_same(tmp_path: Path) -> None:
    sound = tmp_path / "sound.mp4"
    make_sound(sound)
    tracks = store_sides(sound, tmp_path / "sides")
    base, pts = TIMES["25 frames a second"]
    parts = encode_parts(tmp_path, VIDEO, base, pts, CUTS, EncodeSpec(**FAST), end_of(pts))
    plan = plan_of(VIDEO, base, pts, end_of(pts), tracks=tracks)
    with (tmp_path / "sides").open("rb") as file, SidesReader(file) as sides:
        mux(tmp_path / "out.mp4", "mp4", plan, parts, sides)

    def samples(path: Path) -> tuple[Fraction, np.ndarray]:
        with av.open(str(path)) as container:
            frames = list(container.decode(audio=0))
            first = frames[0].pts * frames[0].time_base
            return first, np.concatenate([frame.to_ndarray() for frame in frames], axis=1)

    (start, was), (same, now) = samples(sound), samples(tmp_path / "out.mp4")
    assert start == same
    np.testing.assert_array_equal(was, now)


def test_language_disposition_metadata_and_chapters_are_kept(tmp_path: Path) -> None:
    make_sound(tmp_path / "sound.mp4")
    tracks = store_sides(tmp_path / "sound.mp4", tmp_path / "sides")
    named = [track.model_copy(update={"language": "nld", "disposition": 1}) for track in tracks]
    base, pts = TIMES["25 frames a second"]
    parts = encode_parts(tmp_path, VIDEO, base, pts, [], EncodeSpec(**FAST), end_of(pts))
    plan = plan_of(
        VIDEO, base, pts, end_of(pts), tracks=named,
        metadata={"title": "A film", "major_brand": "mp42"},
        chapters=[(0, 1200, 1, 1000, "One"), (1200, 2400, 1, 1000, "Two")],
    )  # fmt: skip
    with (tmp_path / "sides").open("rb") as file, SidesReader(file) as sides:
        mux(tmp_path / "out.mp4", "mp4", plan, parts, sides)
    with av.open(str(tmp_path / "out.mp4")) as out:
        assert out.streams.audio[0].language == "nld"
        assert out.streams.audio[0].disposition & 1
        assert out.metadata["title"] == "A film"
        chapters = [(c["start"] * c["time_base"], c["metadata"]["title"]) for c in out.chapters()]
        assert chapters == [(0, "One"), (Fraction(6, 5), "Two")]


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "webm"])
def test_languages_of_sound_and_subtitles_read_back_as_they_were(tmp_path: Path, container: str) -> None:
    make_sound(tmp_path / "sound.mkv", "libopus")
    tracks = store_sides(tmp_path / "sound.mkv", tmp_path / "sides")
    base, pts = TIMES["25 frames a second"]
    spec = EncodeSpec(encoder="libvpx-vp9") if container == "webm" else EncodeSpec(**FAST)
    parts = encode_parts(tmp_path, VIDEO, base, pts[:5], [], spec, pts[5])
    for code in ("nld", "deu", "ger", "eng", "zho"):
        named = [track.model_copy(update={"language": code}) for track in tracks]
        plan = plan_of(VIDEO, base, pts[:5], pts[5], tracks=named)
        target = tmp_path / f"out.{container}"
        with (tmp_path / "sides").open("rb") as file, SidesReader(file) as sides:
            mux(target, container, plan, parts, sides)
        with av.open(str(target)) as out:
            assert same_language(out.streams.audio[0].language) == same_language(code)


def same_language(code: str | None) -> str:
    """ISO 639-2 has two codes for some languages; either names it."""
    return {"ger": "deu", "dut": "nld", "chi": "zho"}.get(code or "", code or "")


def test_a_track_that_the_container_cannot_hold_is_named_in_the_warnings(tmp_path: Path) -> None:
    subtitles = tmp_path / "in.srt"
    subtitles.write_text("1\n00:00:00,100 --> 00:00:00,900\nhello\n\n")
    tracks = store_sides(subtitles, tmp_path / "sides")
    base, pts = TIMES["25 frames a second"]
    parts = encode_parts(tmp_path, VIDEO, base, pts, [], EncodeSpec(**FAST), end_of(pts))
    plan = plan_of(VIDEO, base, pts, end_of(pts), tracks=tracks)
    with (tmp_path / "sides").open("rb") as file, SidesReader(file) as sides:
        refused = mux(tmp_path / "out.ts", "ts", plan, parts, sides)
        kept = mux(tmp_path / "out.mkv", "mkv", plan, parts, sides)
    assert "track_dropped_subrip" in refused.warnings
    assert not [name for name in kept.warnings if name.startswith("track_dropped")]
    assert packets_of(tmp_path / "out.mkv", "subtitle")[0][1] == b"hello"


def test_segments_of_other_encoder_parameters_are_refused(tmp_path: Path) -> None:
    base, pts = TIMES["25 frames a second"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = encode_parts(tmp_path / "a", VIDEO, base, pts[:9], [], EncodeSpec(**FAST), pts[9])
    taller = VIDEO.model_copy(update={"height": 80})
    two = encode_parts(tmp_path / "b", taller, base, pts[9:], [], EncodeSpec(**FAST), end_of(pts))
    with pytest.raises(EncoderError, match="other encoder parameters"):
        mux(tmp_path / "o.mp4", "mp4", plan_of(VIDEO, base, pts, end_of(pts)), [*one, *two], None)


def test_segments_that_overlap_or_lack_packets_are_refused(tmp_path: Path) -> None:
    base, pts = TIMES["25 frames a second"]
    parts = encode_parts(tmp_path, VIDEO, base, pts, [20], EncodeSpec(**FAST), end_of(pts))
    plan = plan_of(VIDEO, base, pts, end_of(pts))
    with pytest.raises(EncoderError, match="overlap"):
        mux(tmp_path / "o.mp4", "mp4", plan, parts[::-1], None)
    short = parts[0].checkpoint.model_copy(update={"pts": parts[0].checkpoint.pts[:-1]})
    with pytest.raises(EncoderError, match="20 packets for 19 frames"):
        mux(tmp_path / "o.mp4", "mp4", plan, [Part(short, parts[0].path)], None)
