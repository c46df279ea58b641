"""Every container with every kind of sound that people upload: the table of docs/media.md, cell by cell."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from assembler.holds import CONTAINERS, Fate, fate_of
from assembler.mux import Muxed, Part, mux
from runtime.sides import SidesReader
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec
from tests.support.heard import Heard, apart, first_picture, heard
from tests.support.segments import encode_parts, packets_of, plan_of, store_sides

pytestmark = pytest.mark.media

VIDEO = VideoFormat(width=64, height=48, pixel_format="yuv420p")
BASE: Rational = (1, 12800)
PTS = [512 * n for n in range(25)]
END = 512 * 25
ENCODERS = {"webm": "libvpx-vp9", "avi": "mjpeg"}
SECONDS = 0.9


@dataclass(frozen=True, slots=True)
class Clip:
    """How a file of sound is made."""

    encoder: str
    suffix: str
    rate: int
    layout: str

    def __str__(self) -> str:
        return f"{self.encoder}-{self.suffix}-{self.rate}-{self.layout}"


CLIPS = [
    Clip("aac", "mp4", 48_000, "stereo"),
    Clip("aac", "mkv", 44_100, "5.1"),
    Clip("aac", "ts", 48_000, "mono"),
    Clip("aac", "mov", 96_000, "7.1"),
    Clip("libmp3lame", "mp4", 44_100, "stereo"),
    Clip("libmp3lame", "avi", 44_100, "mono"),
    Clip("ac3", "ts", 48_000, "5.1"),
    Clip("eac3", "mp4", 48_000, "5.1"),
    Clip("libopus", "mkv", 48_000, "stereo"),
    Clip("libopus", "webm", 48_000, "7.1"),
    Clip("libvorbis", "ogg", 48_000, "stereo"),
    Clip("flac", "mkv", 96_000, "stereo"),
    Clip("flac", "mkv", 48_000, "7.1"),
    Clip("alac", "mov", 44_100, "stereo"),
    Clip("pcm_s16le", "mov", 8_000, "mono"),
    Clip("pcm_s16le", "avi", 44_100, "stereo"),
    Clip("pcm_s24le", "mov", 96_000, "stereo"),
    Clip("pcm_f32le", "mkv", 48_000, "stereo"),
    Clip("pcm_mulaw", "mov", 8_000, "mono"),
    Clip("pcm_u8", "avi", 8_000, "mono"),
    Clip("wavpack", "mkv", 44_100, "stereo"),
    Clip("dca", "mkv", 48_000, "5.1"),
    Clip("wmav2", "asf", 44_100, "stereo"),
]


@dataclass(frozen=True, slots=True)
class Source:
    """A file of sound, and what is heard of it."""

    path: Path
    codec: str
    channels: int
    heard: Heard


@pytest.fixture(scope="module", params=CLIPS, ids=str)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    clip: Clip = request.param
    path = tmp_path_factory.mktemp("clip") / f"in.{clip.suffix}"
    channels = av.AudioLayout(clip.layout).nb_channels
    command = [
        "ffmpeg", "-v", "error", "-f", "f32le", "-ar", str(clip.rate), "-channel_layout", clip.layout,
        "-i", "-", "-c:a", clip.encoder, "-strict", "-2", "-output_ts_offset", "0", str(path),
    ]  # fmt: skip
    subprocess.run(command, input=wave(clip.rate, channels).T.tobytes(), check=True)
    with av.open(str(path)) as container:
        codec = container.streams.audio[0].codec_context.codec.canonical_name
    return Source(path, codec, channels, heard(path))


def wave(rate: int, channels: int) -> np.ndarray:
    """Rising tones, another in each channel; the fourth of six and more is deep, as a subwoofer's is."""
    at = np.arange(int(SECONDS * rate)) / rate
    pitch = [200 * (1 + 0.12 * c) * (0.3 if channels > 5 and c == 3 else 1) for c in range(channels)]
    tones = [np.sin(2 * np.pi * f * at * (1 + 0.2 * at)) + np.sin(2 * np.pi * f * 1.37 * at) for f in pitch]
    return np.stack([tone * 0.2 * (1 + 0.5 * np.sin(9 * at + c)) for c, tone in enumerate(tones)]).astype(
        "<f4"
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Part]]:
    found = {}
    for container in CONTAINERS:
        encoder = ENCODERS.get(container, "libx264")
        spec = EncodeSpec(encoder=encoder, preset="veryfast" if encoder == "libx264" else "medium")
        found[container] = encode_parts(tmp_path_factory.mktemp(container), VIDEO, BASE, PTS, [], spec, END)
    return found


def joined(target: Path, parts: list[Part], source: Path, container: str) -> Muxed:
    tracks = store_sides(source, target.with_suffix(".sides"))
    assert tracks, "the track is not stored"
    plan = plan_of(VIDEO, BASE, PTS, END, tracks=tracks)
    with target.with_suffix(".sides").open("rb") as file, SidesReader(file) as sides:
        return mux(target, container, plan, parts, sides)


@pytest.mark.parametrize("container", CONTAINERS)
def test_sound_is_copied_or_converted_in_step(
    tmp_path: Path, pictures: dict[str, list[Part]], source: Source, container: str
) -> None:
    target = tmp_path / f"out.{container}"
    result = joined(target, pictures[container], source.path, container)
    fate, _ = fate_of(container, "audio", source.codec)
    if fate is Fate.COPY:
        assert set(_counted(result)) <= {"start_shifted", "timestamps_rounded"}
        compare_packets(source.path, target, container, source.codec)
    else:
        lossless = container == "avi" and source.codec == "pcm_s16le"
        assert result.warnings.get(f"sound_converted_{source.codec}", 0) == (not lossless)
    after = heard(target)
    assert after.samples.shape[0] == source.channels
    assert after.rate in (
        source.heard.rate,
        48_000 if CONTAINERS[container].sound_encoder == "libopus" else 0,
    )
    late, likeness = apart(source.heard, after)
    assert abs(late) < 1e-3
    assert likeness > 0.9
    for channel in range(source.channels if source.channels > 2 else 0):
        assert apart(source.heard, after, channel)[1] > 0.8, f"channel {channel}"
    before_end = source.heard.start + source.heard.samples.shape[1] / source.heard.rate
    after_end = after.start + after.samples.shape[1] / after.rate
    assert -0.002 < after_end - before_end < 0.02 + 1024 / after.rate
    assert complaints(target) == ""


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_vorbis_in_ogg_goes_on_evenly_where_its_blocks_change(
    tmp_path: Path, pictures: dict[str, list[Part]], container: str
) -> None:
    rate = 48_000
    clicks = np.tile(wave(rate, 1) * 0.2, 3)
    for at in range(2000, clicks.shape[1] - 500, 5003):  # each makes the encoder take short blocks
        clicks[0, at : at + 20] = 0.9
    path = tmp_path / "in.ogg"
    command = ["ffmpeg", "-v", "error", "-f", "f32le", "-ar", str(rate), "-i", "-", "-c:a", "libvorbis", path]
    subprocess.run(command, input=clicks.tobytes(), check=True)
    assert uneven(path), "the demuxer tells no uneven times of this file"
    target = tmp_path / f"out.{container}"
    joined(target, pictures[container], path, container)
    late, likeness = apart(Heard(0.0, clicks, rate), heard(target))
    assert abs(late) < 1e-3
    assert likeness > 0.95


def uneven(path: Path) -> bool:
    """Whether a packet begins later than the one before it ends."""
    with av.open(str(path)) as container:
        packets = [(p.pts, p.duration) for p in container.demux(audio=0) if p.pts is not None and p.duration]
    return any(at > before + length for (before, length), (at, _) in pairwise(packets))


def _counted(result: Muxed) -> dict[str, int]:
    return {name: count for name, count in result.warnings.items() if count}


def compare_packets(source: Path, target: Path, container: str, codec: str) -> None:
    """Same bytes, at the same time from the first picture, to a tick of the coarser clock."""
    before, after = packets_of(source, "audio"), packets_of(target, "audio")
    same = [bare(payload) for _, payload in before]
    now_in = [bare(payload) for _, payload in after]
    if codec.startswith("pcm_"):  # demuxers cut PCM into packets as they like
        same, now_in, before, after = [b"".join(same)], [b"".join(now_in)], before[:1], after[:1]
    assert now_in == same
    zero = first_picture(target)
    with av.open(str(source)) as file:
        coarse = max(file.streams.audio[0].time_base or 0, CONTAINERS[container].tick or Fraction(0))
    for (was, _), (now, _) in zip(before, after, strict=True):
        assert was is not None
        assert now is not None
        assert abs(now - zero - was) <= coarse


def bare(payload: bytes) -> bytes:
    """AAC without the header that a transport stream gives each packet."""
    return payload[7:] if payload[:2] in (b"\xff\xf1", b"\xff\xf9") else payload


def complaints(path: Path) -> str:
    """What the ffmpeg tool says of a file that it decodes."""
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-map", "0:a", "-f", "null", "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr
