"""Other tracks come out of the sides object as they went in."""

from __future__ import annotations

import io
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.stream import Stream

from runtime.sides import SidesReader, SidesSummary, SidesWriter
from schemas.errors import MalformedRecordError
from tests.support.media import make_clip

pytestmark = pytest.mark.media


def facts(packet: Any) -> tuple[Any, ...]:
    return (
        packet.pts,
        packet.dts,
        packet.duration,
        packet.time_base,
        packet.is_keyframe,
        bytes(packet),
        [(part.data_type, bytes(part)) for part in packet.iter_sidedata()],
    )


def others(container: Any) -> list[Stream]:
    return [stream for stream in container.streams if stream.type != "video"]


def store(path: Path) -> tuple[SidesSummary, io.BytesIO]:
    file = io.BytesIO()
    with av.open(str(path)) as container:
        writer = SidesWriter(file, others(container))
        for packet in container.demux():
            writer.write(packet)
        return writer.close(), file


def original(path: Path) -> list[tuple[Any, ...]]:
    with av.open(str(path)) as container:
        return [facts(packet) for packet in container.demux(others(container)) if packet.size]


def with_subtitles(path: Path, codec: str) -> Path:
    """A clip with sound and three subtitles, the second of which is on for a long time."""
    clip = make_clip(path.with_suffix(".base.mp4"), 50, sound="aac")
    text = path.with_suffix(".srt")
    text.write_text(
        "1\n00:00:00,100 --> 00:00:00,500\nOne\n\n2\n00:00:00,600 --> 00:00:01,900\nTwo\n\n"
        "3\n00:00:01,950 --> 00:00:02,000\nThree\n"
    )

    command = ["ffmpeg", "-v", "error", "-i", str(clip), "-i", str(text), "-map", "0", "-map", "1"]
    command += ["-c", "copy", "-c:s", codec, "-metadata:s:s:0", "language=deu", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.mark.parametrize(
    ("name", "sound"),
    [
        ("a.mp4", "aac"),
        ("a.ts", "aac"),
        ("a.mkv", "libopus"),
        ("a.mkv", "flac"),
        ("a.mov", "pcm_s24le"),
        ("a.mp4", "libmp3lame"),
        ("a.avi", "libmp3lame"),
        ("a.mpg", "mp2"),
    ],
)
def test_sound_keeps_every_bit_timestamp_and_side_data(tmp_path: Path, name: str, sound: str) -> None:
    codec = "mpeg2video" if name.endswith("mpg") else "libx264"
    path = make_clip(tmp_path / name, 50, codec=codec, sound=sound)
    summary, file = store(path)
    packets = original(path)
    assert len(packets) > 20
    with SidesReader(file) as reader:
        assert [facts(packet) for _, packet in reader.packets()] == packets
        ((track,)) = [reader.tracks]
        assert summary.tracks == reader.tracks
        assert summary.warnings == {}
        assert track[0].packets == len(packets)
        with av.open(str(path)) as container:
            source, copy = container.streams.audio[0], reader.template(0)
            assert track[0].codec == copy.codec_context.name == source.codec_context.name
            assert copy.codec_context.extradata == source.codec_context.extradata
            assert isinstance(copy, av.AudioStream)
            assert copy.codec_context.sample_rate == source.codec_context.sample_rate
            assert copy.codec_context.layout.nb_channels == source.codec_context.layout.nb_channels


def test_priming_of_sound_survives(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 50, sound="aac")
    _, file = store(path)
    with SidesReader(file) as reader:
        _, first = next(reader.packets())
        assert first.pts is not None
        assert first.pts < 0
        assert first.has_sidedata("skip_samples")


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "ass"), ("a.mkv", "srt"), ("b.mp4", "mov_text")])
def test_subtitles_keep_their_durations_and_language(tmp_path: Path, name: str, codec: str) -> None:
    path = with_subtitles(tmp_path / name, codec)
    summary, file = store(path)
    with SidesReader(file) as reader:
        assert [facts(packet) for _, packet in reader.packets()] == original(path)
        track = next(track for track in reader.tracks if track.kind == "subtitle")
        assert track.language in ("deu", "ger")
        shown = [p for number, p in reader.packets() if number == track.stream]
        assert any(Fraction(p.duration or 0) * p.time_base == Fraction(13, 10) for p in shown)
    assert summary.warnings == {}


def test_tracks_of_a_sides_object_can_be_muxed_again_bit_for_bit(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 50, sound="aac")
    _, file = store(path)
    out = tmp_path / "out.mp4"
    with SidesReader(file) as reader, av.open(str(out), "w") as output:
        target = output.add_stream_from_template(reader.template(0), opaque=True)
        for _, packet in reader.packets():
            packet.stream = target
            output.mux(packet)
    assert original(out) == original(path)


def test_fonts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    clip = make_clip(tmp_path / "clip.mp4", 10)
    with av.open(str(clip)) as source, av.open(str(path), "w") as output:
        target = output.add_stream_from_template(source.streams.video[0])
        output.add_attachment("font.ttf", "application/x-truetype-font", b"\x00\x01font" * 100)
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = target
                output.mux(packet)
    summary, file = store(path)
    assert summary.attachments == 1
    with SidesReader(file) as reader:
        (font,) = reader.attachments
        assert (font.name, font.data) == ("font.ttf", b"\x00\x01font" * 100)


def test_a_track_of_an_unknown_kind_is_named_once_not_once_a_packet(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "in.mp4"), "w") as output:
        sound, data = output.add_stream("aac", rate=48_000), output.add_data_stream("bin_data")
        for number in range(5):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 48_000, number * 1024
            output.mux(sound.encode(frame))
            packet: av.Packet[Stream] = av.Packet(b"position")
            packet.stream, packet.time_base = data, Fraction(1, 48_000)
            packet.pts = packet.dts = number * 1024
            output.mux(packet)
        output.mux(sound.encode(None))
    written = (tmp_path / "in.mp4").read_bytes()
    assert b"gpmd" in written
    (tmp_path / "in.mp4").write_bytes(written.replace(b"gpmd", b"zzzz"))
    with av.open(str(tmp_path / "in.mp4")) as source, (tmp_path / "sides").open("wb") as file:
        writer = SidesWriter(file, source.streams)
        for found in source.demux():
            writer.write(found)
        summary = writer.close()
    assert [track.kind for track in summary.tracks] == ["audio"]
    assert summary.warnings == {"track_dropped_data": 1}


def test_a_timecode_track_is_left_to_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "a.mov"
    clip = make_clip(tmp_path / "clip.mp4", 10)
    command = ["ffmpeg", "-v", "error", "-i", str(clip), "-c", "copy", "-timecode", "01:00:00:00", str(path)]
    subprocess.run(command, check=True)
    summary, file = store(path)
    assert summary.warnings == {}
    with SidesReader(file) as reader:
        assert reader.tracks == []


@pytest.mark.parametrize("data", [b"", b"short", b"\0" * 100, b"\xff" * 8 + b"FSSIDES1"])
def test_what_is_no_sides_object_is_told(data: bytes) -> None:
    with pytest.raises(MalformedRecordError):
        SidesReader(io.BytesIO(data))
