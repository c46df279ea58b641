"""Sound that is encoded anew, and PCM that mov copies: marks, gaps, offsets and lengths stay as they were."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from assembler.holds import AudioMode
from assembler.mux import Muxed, Part, mux
from runtime.sides import SidesReader
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec
from tests.support.heard import Heard, heard
from tests.support.segments import encode_parts, plan_of, store_sides

pytestmark = pytest.mark.media

VIDEO = VideoFormat(width=64, height=48, pixel_format="yuv420p")
BASE: Rational = (1, 12_800)
FRAMES, STEP = 10, 2560
END = FRAMES * STEP
"""Two seconds of picture."""
ENCODERS = {"webm": "libvpx-vp9", "avi": "mjpeg"}

Span = tuple[float, float]
Packets = list[Any]
Samples = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A track of sound: what is heard of it (seconds), and how the job shows it."""

    name: str
    spans: list[Span]
    rate: int = 48_000
    layout: str = "mono"
    codec: str = "pcm_s16le"
    picture: int = 0
    """Tick of the first picture."""
    trim: tuple[Rational, Rational] | None = None
    audio: AudioMode = "encode"
    marks: tuple[float, ...] = ()
    """Seconds of the result at which more is listened to."""
    suffix: str = "mkv"
    edit: Callable[[Packets], Packets] = list
    into: tuple[str, ...] = ("mp4", "mkv", "webm", "ts", "avi")

    def __str__(self) -> str:
        return self.name


def broken(packets: Packets) -> Packets:
    """Noise instead of what lies in the middle."""
    middle = packets[len(packets) // 2]
    memoryview(middle)[:] = np.random.default_rng(1).bytes(middle.size)
    return packets


def repeated(packets: Packets) -> Packets:
    """One packet in the middle has the time of the one before it."""
    middle = len(packets) // 2
    packets[middle].pts = packets[middle].dts = packets[middle - 1].pts
    return packets


CUT: tuple[Rational, Rational] = ((3, 10), (19, 10))
GAP: list[Span] = [(0, 0.6), (1.6, 2.4)]
CASES = [
    Case("starts late", [(0.7, 2)]),
    Case("starts before the picture", [(0, 2.5)], picture=6400),
    Case("gap", GAP),
    Case("gap copied", GAP, into=("mov",), audio="copy"),
    Case("longer", [(0, 3.5)]),
    Case("shorter", [(0, 0.7)]),
    Case("trim in sound", [(0, 2)], trim=CUT),
    Case("trim in gap", GAP, trim=((1, 1), (22, 10))),
    Case("trim in gap copied", GAP, trim=((1, 1), (22, 10)), into=("mov",), audio="copy"),
    Case("8 kHz", [(0, 1)], 8_000, into=("mp4", "webm")),
    Case("22.05 kHz", [(0, 1)], 22_050, into=("ts", "webm")),
    Case("96 kHz", [(0, 1)], 96_000, "stereo", into=("mp4", "mkv", "webm")),
    Case("192 kHz", [(0, 1)], 192_000, "stereo", "flac", into=("mkv", "mov")),
    Case("AAC with a gap", GAP, 44_100, codec="aac", suffix="mp4"),
    Case("AAC trimmed", [(0, 2)], 44_100, codec="aac", suffix="mp4", trim=CUT),
    Case("2.1", [(0, 1)], layout="2.1", into=("mkv", "webm", "avi")),
    Case("5.1", [(0, 1)], layout="5.1", into=("mov", "webm")),
    Case("7.1", [(0, 1)], layout="7.1", into=("mp4", "webm")),
    Case("broken packet", [(0, 2)], codec="aac", suffix="mp4", edit=broken, into=("mkv", "avi")),
    Case("repeated time", [(0, 2)], edit=repeated, marks=(0.95, 1.0), into=("mp4", "avi")),
    Case("repeated time copied", [(0, 2)], edit=repeated, marks=(0.95, 1.0), into=("mov",), audio="copy"),
]


def tone(at: Samples, channel: int) -> Samples:
    """What channel `channel` plays at `at` seconds: never twice the same."""
    rng = np.random.default_rng(channel)
    pitches, phases = rng.uniform(200, 2500, 30), rng.uniform(0, 1, 30)
    tones: Samples = np.sin(2 * np.pi * (pitches[:, None] * at + phases[:, None]))
    return np.asarray(0.05 * tones.sum(0))


def deep(layout: str) -> int:
    """Number of the channel for a subwoofer; -1 without."""
    names = [channel.name for channel in av.AudioLayout(layout).channels]
    return names.index("LFE") if "LFE" in names else -1


def make(path: Path, case: Case) -> None:
    """The case's file: its first span's sound on to the last one's end, packets between spans left out."""
    start, end = case.spans[0][0], case.spans[-1][1]
    at = start + np.arange(round((end - start) * case.rate)) / case.rate
    count = av.AudioLayout(case.layout).nb_channels
    wave = np.stack([tone(at, c) for c in range(count)]).astype("<f4")
    whole = path.with_stem(f"{path.stem}-whole")
    command = [
        "ffmpeg", "-v", "error", "-y", "-f", "f32le", "-ar", str(case.rate), "-channel_layout", case.layout,
        "-itsoffset", str(start), "-i", "-", "-c:a", case.codec, "-avoid_negative_ts", "disabled", str(whole),
    ]  # fmt: skip
    subprocess.run(command, input=wave.T.tobytes(), check=True)
    remux(whole, path, lambda packets: case.edit([p for p in packets if _inside(p, case.spans)]))


def _inside(packet: Any, spans: list[Span]) -> bool:
    begin, end = packet.pts * packet.time_base, (packet.pts + packet.duration) * packet.time_base
    return not any(end > a + 0.001 and begin < b - 0.001 for (_, a), (b, _) in pairwise(spans))


def remux(source: Path, target: Path, edit: Callable[[Packets], Packets]) -> None:
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        stream = new.add_stream_from_template(old.streams.audio[0], opaque=True)
        for packet in edit([p for p in old.demux(audio=0) if p.size]):
            packet.stream = stream
            new.mux_one(packet)


Pictures = Callable[[str, int], list[Part]]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    @cache
    def parts(container: str, first: int) -> list[Part]:
        encoder = ENCODERS.get(container, "libx264")
        spec = EncodeSpec(encoder=encoder, preset="ultrafast" if encoder == "libx264" else "medium")
        pts = shown(first)
        return encode_parts(tmp_path_factory.mktemp(container), VIDEO, BASE, pts, [], spec, pts[-1] + STEP)

    return parts


def shown(first: int) -> list[int]:
    return [first + STEP * n for n in range(FRAMES)]


def joined(target: Path, container: str, parts: list[Part], case: Case, source: Path) -> Muxed:
    tracks = store_sides(source, target.with_suffix(".sides"))
    pts = shown(case.picture)
    span, origin = case.trim or (None, None), case.trim[0] if case.trim else (0, 1)
    plan = plan_of(VIDEO, BASE, pts, pts[-1] + STEP, tracks=tracks, span=span, origin=origin)
    with target.with_suffix(".sides").open("rb") as file, SidesReader(file) as sides:
        return mux(target, container, plan, parts, sides, case.audio)


def expected(case: Case, container: str) -> tuple[float, list[Span]]:
    """Seconds of the input's clock at which the picture begins, and the spans that are heard after it.
    AVI has no times: it begins with the picture."""
    low, high = (n / d for n, d in case.trim) if case.trim else (-9.0, 9.0)
    zero = low if case.trim else case.picture / BASE[1]
    low = zero if container == "avi" else low
    cut = [(max(a, low), min(b, high)) for a, b in case.spans]
    return zero, [(a - zero, b - zero) for a, b in cut if a < b]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_heard_stays_where_it_was(tmp_path: Path, pictures: Pictures, case: Case) -> None:
    source = tmp_path / f"in.{case.suffix}"
    make(source, case)
    for container in case.into:
        target = tmp_path / f"out.{container}"
        joined(target, container, pictures(container, case.picture), case, source)
        assert differences(heard(target), case, container) == []
        assert complaints(target) == "", container


def differences(after: Heard, case: Case, container: str) -> list[str]:
    """Where the result is not as it should be."""
    zero, spans = expected(case, container)
    channels = av.AudioLayout(case.layout).nb_channels
    if after.samples.shape[0] != channels:
        return [f"{container}: {after.samples.shape[0]} channels"]
    lead, frame = 1024 / after.rate + 0.0015, 2048 / after.rate + 0.003
    start, end = after.start, after.start + after.samples.shape[1] / after.rate
    problems = []
    if container != "avi" and not -lead < start - spans[0][0] < 0.0015:
        problems.append(f"{container}: starts {start - spans[0][0]:+.4f}")
    if not -0.002 < end - spans[-1][1] < frame:
        problems.append(f"{container}: ends {end - spans[-1][1]:+.4f}")
    for channel in sorted({*range(channels)} - {deep(case.layout)}):
        for at in (at for a, b in spans for at in (a + 0.03, *case.marks, b - 0.1)):
            late, likeness = found(after, at, zero, channel)
            if abs(late) > 1e-3 or likeness < 0.9:
                problems.append(f"{container}: {channel} at {at:.2f}: {late:+.4f}, like {likeness:.2f}")
    for (_, a), (b, _) in pairwise(spans):
        quiet = part(after, a + frame, b - frame)
        if np.abs(quiet).max() > 0.02:
            problems.append(f"{container}: the gap is filled")
    return problems


def part(after: Heard, a: float, b: float) -> Samples:
    """What is heard from `a` to `b` seconds."""
    first = round((a - after.start) * after.rate)
    return after.samples[:, max(first, 0) : max(round((b - after.start) * after.rate), 0)]


def found(after: Heard, at: float, zero: float, channel: int) -> tuple[float, float]:
    """(seconds by which the known signal is heard late around `at`, likeness)."""
    window = part(after, at, at + 0.06)[channel]
    first = round((at - after.start) * after.rate) / after.rate + after.start + zero
    reach = round(0.004 * after.rate)
    known = tone(first + np.arange(-reach, len(window) + reach) / after.rate, channel)
    products = np.correlate(known, window, "valid")
    best = int(np.argmax(products))
    same = known[best : best + len(window)]
    return (reach - best) / after.rate, float(
        products[best] / np.sqrt((same @ same) * (window @ window) + 1e-12)
    )


def complaints(path: Path) -> str:
    """What the ffmpeg tool says of a file that it decodes."""
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-map", "0:a", "-f", "null", "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr
