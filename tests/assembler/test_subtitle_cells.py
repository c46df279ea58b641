"""Every container with every kind of subtitles: the table of docs/media.md, cell by cell."""

from __future__ import annotations

import re
import struct
import subprocess
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest
from av.stream import Disposition
from av.subtitles.subtitle import AssSubtitle
from structlog.testing import capture_logs

from assembler.holds import CONTAINERS, Fate, fate_of
from assembler.mux import Muxed, Part, mux
from runtime.sides import SidesReader
from schemas.frames import Rational, VideoFormat
from schemas.job import EncodeSpec
from tests.support.segments import encode_parts, plan_of, store_sides

pytestmark = pytest.mark.media

VIDEO = VideoFormat(width=64, height=48, pixel_format="yuv420p")
BASE: Rational = (1, 12800)
PTS = [512 * n for n in range(25)]
END = 512 * 25
ENCODERS = {"webm": "libvpx-vp9", "avi": "mjpeg"}
CUES = [
    (100, 400, "Hallo <i>Welt</i>\nzweite Zeile"),
    (300, 600, "überlappt & mehr"),
    (700, 800, "gleich"),
    (800, 900, "darauf"),
    (900, 1000, "folgend"),
    (1500, 2500, "nach dem Bild"),
]
"""First and last millisecond, and text."""
KINDS = {"subrip": "mkv", "ass": "mkv", "mov_text": "mp4", "webvtt": "mkv"}
BITMAPS = ["dvd_subtitle", "dvb_subtitle", "hdmv_pgs_subtitle"]
FOR = Disposition.default | Disposition.forced | Disposition.hearing_impaired
READ_BACK = {
    "mp4": FOR | Disposition.captions,
    "mov": Disposition.default,
    "mkv": FOR,
    "webm": Disposition.default | Disposition.forced | Disposition.captions,
}

Shown = list[tuple[int, int, str]]
"""First and last millisecond, and text."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Part]]:
    found = {}
    for container in CONTAINERS:
        encoder = ENCODERS.get(container, "libx264")
        spec = EncodeSpec(encoder=encoder, preset="veryfast" if encoder == "libx264" else "medium")
        found[container] = encode_parts(tmp_path_factory.mktemp(container), VIDEO, BASE, PTS, [], spec, END)
    return found


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("clips")
    found = {kind: text_clip(folder, CUES, kind) for kind in KINDS}
    (folder / "in.sup").write_bytes(pgs([(100, 400), (500, 800)]))
    found["hdmv_pgs_subtitle"] = ffmpeg(folder / "in.sup", folder / "pgs.mkv", "copy")
    for encoder, kind in (("dvdsub", "dvd_subtitle"), ("dvbsub", "dvb_subtitle")):
        made = ffmpeg(folder / "in.sup", folder / f"{encoder}.mkv", encoder)
        found[kind] = retimed(made, folder / f"{kind}.mkv", [100, 500])
    return found


def text_clip(folder: Path, cues: Shown, kind: str) -> Path:
    """A file of these cues in one kind of text, German, for the hard of hearing, default and forced."""
    clock = [
        f"{n}\n{stamp(first)} --> {stamp(last)}\n{text}\n" for n, (first, last, text) in enumerate(cues, 1)
    ]
    (folder / "in.srt").write_text("\n".join(clock), encoding="utf-8")
    return ffmpeg(folder / "in.srt", folder / f"{kind}.{KINDS[kind]}", kind)


def stamp(at: int) -> str:
    return f"00:{at // 60_000:02}:{at // 1000 % 60:02},{at % 1000:03}"


def ffmpeg(source: Path, target: Path, encoder: str) -> Path:
    command = [
        "ffmpeg", "-v", "error", "-copyts", "-i", str(source), "-c:s", encoder,
        "-metadata:s:s:0", "language=deu", "-metadata:s:s:0", "title=Gehörlose",
        "-disposition:s:0", "default+forced+hearing_impaired", str(target),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return target


def retimed(source: Path, target: Path, times: list[int]) -> Path:
    """The first packets of a file of bitmaps at times in milliseconds: the ffmpeg tool gives no length."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        stream = new.add_stream_from_template(old.streams[0], opaque=True)
        stream.disposition, stream.metadata["language"] = FOR, "deu"
        for at, packet in zip(times, old.demux(), strict=False):
            packet.stream, packet.time_base = stream, Fraction(1, 1000)
            packet.pts = packet.dts = at
            packet.duration = 300
            new.mux(packet)
    return target


def pgs(spans: list[tuple[int, int]]) -> bytes:
    """Blu-ray subtitles, which no encoder here makes: a white bar of 16 by 8 pixels in each span of
    milliseconds (layout: US patent 2009/0185789, as FFmpeg's pgssubdec reads it)."""
    lines = b"\x00\x90\x01\x00\x00" * 8  # each: 16 pixels of colour 1, end of line
    window = struct.pack(">BBHHHH", 1, 0, 24, 36, 16, 8)
    bar = (
        struct.pack(">HBB", 0, 0, 0xC0)
        + (len(lines) + 4).to_bytes(3, "big")
        + struct.pack(">HH", 16, 8)
        + lines
    )
    made = b""
    for n, (first, last) in enumerate(spans):
        place = struct.pack(">HBBHH", 0, 0, 0, 24, 36)
        made += segment(0x16, first, struct.pack(">HHBHBBBB", 64, 48, 16, 2 * n, 128, 0, 0, 1) + place)
        made += segment(0x17, first, window) + segment(0x14, first, bytes([0, 0, 1, 235, 128, 128, 255]))
        made += segment(0x15, first, bar) + segment(0x80, first, b"")
        made += segment(0x16, last, struct.pack(">HHBHBBBB", 64, 48, 16, 2 * n + 1, 0, 0, 0, 0))
        made += segment(0x17, last, window) + segment(0x80, last, b"")
    return made


def segment(kind: int, at: int, body: bytes) -> bytes:
    return b"PG" + struct.pack(">IIBH", at * 90, 0, kind, len(body)) + body


def joined(target: Path, parts: list[Part], source: Path, **more: Any) -> Muxed:
    tracks = store_sides(source, target.with_suffix(".sides"))
    assert tracks, "the track is not stored"
    plan = plan_of(VIDEO, BASE, PTS, END, tracks=tracks, **more)
    with target.with_suffix(".sides").open("rb") as file, SidesReader(file) as sides:
        return mux(target, target.suffix[1:], plan, parts, sides)


def shown(path: Path) -> Shown:
    """What text is shown when, without style; empty texts, mp4's way to say that nothing is, left out."""
    found = []
    with av.open(str(path)) as container:
        stream = container.streams.subtitles[0]
        for packet in container.demux(stream):
            if packet.size and packet.pts is not None:
                first = round(packet.pts * packet.time_base * 1000)
                texts = [t for t in stream.codec_context.decode2(packet) or () if isinstance(t, AssSubtitle)]
                text = re.sub(r"\{.*?\}", "", "\n".join(t.dialogue.decode() for t in texts))
                last = first + round((packet.duration or 0) * packet.time_base * 1000)
                found += [(first, last, text)] if text else []
    return found


def plain(cues: Shown) -> Shown:
    return [(first, last, text.replace("<i>", "").replace("</i>", "")) for first, last, text in cues]


def one_at_a_time(cues: Shown) -> Shown:
    """Spans in which the same cues are shown, with all their text."""
    edges = sorted({edge for first, last, _ in cues for edge in (first, last)})
    spans = [
        (first, last, "\n".join(t for a, b, t in cues if a <= first and last <= b))
        for first, last in pairwise(edges)
    ]
    return [span for span in spans if span[2]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_text_is_copied_converted_or_named(
    tmp_path: Path, pictures: dict[str, list[Part]], clips: dict[str, Path], container: str, kind: str
) -> None:
    target = tmp_path / f"out.{container}"
    result = joined(target, pictures[container], clips[kind])
    fate, _ = fate_of(container, "subtitle", kind)
    assert result.warnings.get(f"subtitles_converted_{kind}", 0) == (fate is Fate.CONVERT)
    assert result.warnings.get(f"track_dropped_{kind}", 0) == (fate is Fate.DROP)
    with av.open(str(target)) as file:
        assert len(file.streams.subtitles) == (fate is not Fate.DROP)
        if fate is Fate.DROP:
            return
        stream = file.streams.subtitles[0]
        assert stream.language == ("ger" if container == "mov" else "deu")
        assert stream.metadata["name" if container in ("mp4", "mov") else "title"] == "Gehörlose"
        assert stream.disposition == READ_BACK[container]
    assert result.warnings.get("dispositions_dropped", 0) == (container == "mov")
    before = plain(shown(clips[kind]))
    if kind != "mov_text":
        assert before == plain(CUES)
    solo = container in ("mp4", "mov") and fate is Fate.CONVERT
    assert plain(shown(target)) == (one_at_a_time(before) if solo else before)


@pytest.mark.parametrize("kind", BITMAPS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_bitmaps_are_copied_or_named(
    tmp_path: Path, pictures: dict[str, list[Part]], clips: dict[str, Path], container: str, kind: str
) -> None:
    target = tmp_path / f"out.{container}"
    result = joined(target, pictures[container], clips[kind])
    fate, _ = fate_of(container, "subtitle", kind)
    assert result.warnings.get(f"track_dropped_{kind}", 0) == (fate is Fate.DROP)
    before, after = pieces(clips[kind]), pieces(target)
    assert [payload for _, payload in after] == ([] if fate is Fate.DROP else [p for _, p in before])
    with av.open(str(target)) as file:
        zero = 0 if container != "ts" else file.start_time / 1000
    assert all(abs(now - was - zero) <= 1 for (was, _), (now, _) in zip(before, after, strict=False))


def pieces(path: Path) -> list[tuple[float, bytes]]:
    """Milliseconds and payload of each packet of subtitles with anything in it."""
    with av.open(str(path)) as container:
        packets = [p for s in container.streams.subtitles for p in container.demux(s)]
        return [(float((p.pts or 0) * p.time_base * 1000), bytes(p)) for p in packets if p.size > 2]


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "webm"])
def test_styled_text_loses_no_word(tmp_path: Path, pictures: dict[str, list[Part]], container: str) -> None:
    source = tmp_path / "in.ass"
    source.write_text(
        "[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\n"
        "Format: Name, Fontname, Fontsize, PrimaryColour, Bold, Alignment\n"
        "Style: Default,Arial,16,&Hffffff,0,2\nStyle: Sign,Impact,30,&H0000ff,-1,8\n\n[Events]\n"
        "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
        "Dialogue: 0,0:00:00.10,0:00:00.30,Sign,Anna,0,0,0,,"
        "{\\pos(10,20)\\c&H00ff00&}Eins, {\\b1}zwei{\\b0}, drei\n"
        "Dialogue: 1,0:00:00.20,0:00:00.40,Default,,0,0,0,,{\\k20}Vier {\\k30}fünf\\Nsechs\n"
        "Dialogue: 0,0:00:00.50,0:00:00.60,Default,,0,0,0,,\n"
        "Dialogue: 0,0:00:00.70,0:00:00.90,Default,,0,0,0,,Sieben\n",
        encoding="utf-8",
    )
    target = tmp_path / f"out.{container}"
    joined(target, pictures[container], source)
    first, second = "Eins, zwei, drei", "Vier fünf\nsechs"
    spans = [(100, 300, first), (200, 400, second), (700, 900, "Sieben")]
    assert shown(target) == (one_at_a_time(spans) if container in ("mp4", "mov") else spans)


@pytest.mark.parametrize("container", ["mp4", "mkv", "webm"])
def test_trim_cuts_text_to_the_span(
    tmp_path: Path, pictures: dict[str, list[Part]], clips: dict[str, Path], container: str
) -> None:
    target = tmp_path / f"out.{container}"
    span = ((35, 100), (3, 4))
    joined(target, pictures[container], clips["subrip"], span=span, origin=(35, 100))
    cues = [(max(a, 350) - 350, min(b, 750) - 350, t) for a, b, t in plain(CUES) if b > 350 and a < 750]
    assert plain(shown(target)) == (one_at_a_time(cues) if container == "mp4" else cues)


def test_text_an_hour_apart_and_many_at_once_keep_their_times(
    tmp_path: Path, pictures: dict[str, list[Part]]
) -> None:
    cues = [(n * 40, n * 40 + 40, f"Wort {n}") for n in range(200)] + [(3_500_000, 3_501_000, "spät")]
    source = text_clip(tmp_path, cues, "subrip")
    joined(tmp_path / "out.mp4", pictures["mp4"], source)
    assert shown(tmp_path / "out.mp4") == cues


def test_the_log_says_which_track_became_what(
    tmp_path: Path, pictures: dict[str, list[Part]], clips: dict[str, Path]
) -> None:
    source = tmp_path / "in.mkv"
    command = [
        "ffmpeg", "-v", "error", "-i", str(clips["subrip"]), "-i", str(clips["hdmv_pgs_subtitle"]),
        "-map", "0", "-map", "1", "-c", "copy", "-metadata:s:s:1", "language=fra", str(source),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    with capture_logs() as logs:
        joined(tmp_path / "out.mp4", pictures["mp4"], source)
    told = [(line["event"], line["track"], line["language"], line["became"]) for line in logs]
    assert told == [
        ("subtitles_converted_subrip", 0, "deu", "mov_text"),
        ("track_dropped_hdmv_pgs_subtitle", 1, "fra", "nothing"),
    ]
