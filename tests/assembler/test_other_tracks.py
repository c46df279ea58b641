"""What a file has beside picture, sound and subtitles: kept in each container, or named in a warning."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from av.stream import Disposition

from tests.support.through import Through, run_through

pytestmark = pytest.mark.media

PICTURE = ["-f", "lavfi", "-i", "testsrc=s=64x48:r=25:d=0.4"]
NTSC = ["-f", "lavfi", "-i", "testsrc=s=64x48:r=30000/1001:d=0.8"]
X264 = ["-c:v:0", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]


def ffmpeg(target: Path, *options: str) -> Path:
    subprocess.run(["ffmpeg", "-v", "error", "-y", *options, str(target)], check=True, cwd=target.parent)
    return target


def through(source: Path, container: str, **fields: Any) -> tuple[Path, Through]:
    target = source.parent / f"out.{container}"
    return target, run_through(source, target, source.parent, **fields)


def tags_of(path: Path) -> dict[str, str]:
    with av.open(str(path)) as file:
        return {name.lower(): value for name, value in file.metadata.items()}


@pytest.mark.parametrize("suffix", ["mov", "mkv"])
@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "webm", "avi", "ts"])
@pytest.mark.parametrize(
    ("trim", "shown"),
    [({}, "00:00:59;20"), ({"trim_start": (51, 100)}, "00:01:00;08")],
    ids=["whole", "trim"],
)
def test_drop_frame_timecode_counts_on_or_is_named(
    tmp_path: Path, suffix: str, container: str, trim: dict[str, Any], shown: str
) -> None:
    source = ffmpeg(tmp_path / f"in.{suffix}", *NTSC, *X264, "-timecode", "00:00:59;20")
    target, done = through(source, container, plan=trim)
    if container == "ts":
        assert done.warnings["timecode_dropped"] == 1
        return
    assert "timecode_dropped" not in done.warnings
    with av.open(str(target)) as file:
        where = file.streams.video[0] if container in ("mp4", "mov") else file
        assert {name.lower(): value for name, value in where.metadata.items()}["timecode"] == shown


def test_a_timecode_that_the_new_rate_has_not_is_named(tmp_path: Path) -> None:
    source = ffmpeg(tmp_path / "in.mov", *NTSC, *X264, "-timecode", "01:00:00;00")
    _, done = through(source, "mov", plan={"fps": (25, 1)})
    assert done.warnings["timecode_dropped"] == 1


COMMON = {"title": "Ein Film", "artist": "Ich", "comment": "schön", "genre": "Kurzfilm"}
OTHER = {"album_artist": "Wir", "lyrics": "la la", "keywords": "a,b"}
OWN = {"com.apple.quicktime.make": "Apple", "my_own": "x"}
MADE = {"creation_time": "2024-05-06T07:08:09.000000Z"}
KEPT = {
    "mp4": COMMON | OTHER | MADE,
    "mov": COMMON | OTHER | OWN | MADE,
    "mkv": COMMON | OTHER | OWN | MADE,
    "webm": COMMON | OTHER | OWN | MADE,
    "avi": COMMON,
    "ts": {},
}


@pytest.mark.parametrize("suffix", ["mov", "mkv"])
@pytest.mark.parametrize("container", KEPT)
def test_every_tag_is_kept_or_counted(tmp_path: Path, suffix: str, container: str) -> None:
    given = COMMON | OTHER | OWN | MADE
    told = [part for name, value in given.items() for part in ("-metadata", f"{name}={value}")]
    source = ffmpeg(tmp_path / f"in.{suffix}", *PICTURE, *X264, "-movflags", "use_metadata_tags", *told)
    assert given.items() <= tags_of(source).items()
    target, done = through(source, container)
    found = tags_of(target)
    assert {name: value for name, value in found.items() if name in given} == KEPT[container]
    assert done.warnings.get("tags_dropped", 0) == len(given) - len(KEPT[container])
    assert not [value for value in found.values() if "Lavf59" in value or "Lavc" in value]


def test_usual_tags_in_mov_stay_where_every_reader_looks(tmp_path: Path) -> None:
    told = [part for name, value in COMMON.items() for part in ("-metadata", f"{name}={value}")]
    target, _ = through(ffmpeg(tmp_path / "in.mkv", *PICTURE, *X264, *told), "mov")
    assert COMMON.items() <= tags_of(target).items()
    assert b"\xa9nam" in target.read_bytes()


@pytest.mark.parametrize(
    ("container", "kept"),
    [
        ("mp4", {"language": "deu", "name": "Ton"}),
        ("mov", {"language": "ger", "name": "Ton"}),
        ("mkv", {"language": "deu", "title": "Ton", "comment": "Satz"}),
        ("webm", {"language": "deu", "title": "Ton", "comment": "Satz"}),
        ("ts", {"language": "deu"}),
        ("avi", {"title": "Ton"}),
    ],
)
def test_tags_of_sound_are_kept_or_counted(tmp_path: Path, container: str, kept: dict[str, str]) -> None:
    sound = ["-f", "lavfi", "-i", "sine=d=0.4", "-metadata:s:1", "title=Ton", "-metadata:s:1", "language=deu"]
    source = ffmpeg(tmp_path / "in.mkv", *PICTURE, *sound, *X264, "-metadata:s:1", "comment=Satz")
    target, done = through(source, container)
    with av.open(str(target)) as file:
        found = {name.lower(): value for name, value in file.streams.audio[0].metadata.items()}
    ours = {"language", "title", "name", "comment", "encoder"}
    assert {name: value for name, value in found.items() if name in ours} == kept
    assert done.warnings.get("tags_dropped", 0) == 3 - len(kept)


CHAPTERS = [(0, 120, "Eins ä"), (120, 280, "Zwei"), (280, 400, "Drei")]


@pytest.mark.parametrize("container", KEPT)
def test_chapters_are_cut_and_shifted_or_counted(tmp_path: Path, container: str) -> None:
    rows = [f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={a}\nEND={b}\ntitle={t}\n" for a, b, t in CHAPTERS]
    (tmp_path / "in.txt").write_text(";FFMETADATA1\n" + "".join(rows), encoding="utf-8")
    source = ffmpeg(tmp_path / "in.mp4", *PICTURE, "-i", "in.txt", *X264, "-map_chapters", "1")
    target, done = through(source, container, plan={"trim_start": (1, 5), "trim_end": (9, 25)})
    with av.open(str(target)) as file:
        edges = [
            [round(c[edge] * c["time_base"] * 1000) for edge in ("start", "end")] for c in file.chapters()
        ]
        titles = [c["metadata"]["title"] for c in file.chapters()]
    lost = container in ("ts", "avi")
    assert titles == ([] if lost else ["Zwei", "Drei"])
    assert edges == ([] if lost else [[0, 80], [80, 160]])
    assert done.warnings.get("chapters_dropped", 0) == 2 * lost


@pytest.mark.parametrize("container", KEPT)
def test_covers_are_kept_or_counted(tmp_path: Path, container: str) -> None:
    for name, colour in (("a.jpg", "red"), ("b.png", "blue"), ("c.jpg", "green")):
        ffmpeg(tmp_path / name, "-f", "lavfi", "-i", f"color={colour}:s=32x32", "-frames:v", "1")
    options = [part for n in (1, 2, 3) for part in ("-map", str(n), f"-c:v:{n}", "copy")]
    options += [part for n in (1, 2, 3) for part in (f"-disposition:v:{n}", "attached_pic")]
    given = ["-i", "a.jpg", "-i", "b.png", "-i", "c.jpg", "-map", "0:v"]
    source = ffmpeg(tmp_path / "in.mp4", *PICTURE, *given, *X264, *options)
    target, done = through(source, container)
    kept = container in ("mp4", "mkv")
    assert covers_of(target) == (covers_of(source) if kept else [])
    assert done.warnings.get("cover_dropped", 0) == 3 * (not kept)


def covers_of(path: Path) -> list[bytes]:
    with av.open(str(path)) as file:
        packets = [packet for packet in file.demux() if packet.size]
        return [bytes(p) for p in packets if p.stream.disposition & Disposition.attached_pic]


@pytest.mark.parametrize("container", KEPT)
def test_fonts_are_kept_or_counted(tmp_path: Path, container: str) -> None:
    fonts = [("a.ttf", "application/x-truetype-font", b"eins"), ("b.otf", "font/otf", b"zwei")]
    options = []
    for number, (name, mimetype, data) in enumerate(fonts, 1):
        (tmp_path / name).write_bytes(data)
        options += ["-attach", name, f"-metadata:s:{number}", f"mimetype={mimetype}"]
    source = ffmpeg(tmp_path / "in.mkv", *PICTURE, *X264, *options)
    target, done = through(source, container)
    with av.open(str(target)) as file:
        found = [(s.name, s.mimetype, s.data) for s in file.streams.attachments]
    assert found == (fonts if container == "mkv" else [])
    assert done.warnings.get("attachment_dropped", 0) == 2 * (container != "mkv")


DATA = [
    ("klv", "ts", "klv", {"ts"}),
    ("timed_id3", "ts", "timed_id3", {"ts"}),
    ("scte_35", "ts", "bin_data", set()),
    ("bin_data", "mp4", "gpmd", {"mp4", "mov"}),
]
"""What is written, into what, what it is known as, and what holds it."""


@pytest.mark.parametrize(("codec", "suffix", "known", "holders"), DATA)
@pytest.mark.parametrize("container", KEPT)
def test_data_are_copied_or_named(
    tmp_path: Path, codec: str, suffix: str, known: str, holders: set[str], container: str
) -> None:
    source = with_data(ffmpeg(tmp_path / "plain.mp4", *PICTURE, *X264), tmp_path / f"in.{suffix}", codec)
    target, done = through(source, container, plan={"trim_start": (1, 5)})
    kept = [(at - 200, payload) for at, payload in data_of(source) if at >= 200]
    found = data_of(target)
    zero = found[0][0] if found and container == "ts" else 0  # all tracks begin later, together
    assert [(at - zero, payload) for at, payload in found] == (kept if container in holders else [])
    assert done.warnings.get(f"track_dropped_{known}", 0) == (container not in holders)


def with_data(plain: Path, target: Path, codec: str) -> Path:
    """The picture, and data of one kind at every fifth frame."""
    with av.open(str(plain)) as old, av.open(str(target), "w") as new:
        picture = new.add_stream_from_template(old.streams.video[0], opaque=True)
        data = new.add_data_stream(codec)
        data.time_base = Fraction(1, 90_000)
        for number, packet in enumerate(p for p in old.demux(video=0) if p.size):
            packet.stream = picture
            new.mux(packet)
            if number % 5 == 0:
                beside: av.Packet[av.stream.Stream] = av.Packet(b"\x06\x0e+4%02d" % number)
                beside.stream, beside.time_base, beside.is_keyframe = data, Fraction(1, 25), True
                beside.pts = beside.dts = number
                beside.duration = 5
                new.mux(beside)
    return target


def data_of(path: Path) -> list[tuple[int, bytes]]:
    """Milliseconds and payload of each packet of data."""
    with av.open(str(path)) as file:
        packets = [p for s in file.streams.data for p in file.demux(s) if p.size]
        return [(round((p.pts or 0) * p.time_base * 1000), bytes(p)) for p in packets]
