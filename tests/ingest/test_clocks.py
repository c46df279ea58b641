"""The rule of `ingest.timeline` on real files: each frame at the right time, what was changed is counted."""

from __future__ import annotations

import io
import subprocess
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from ingest.decode import InputDecoder
from ingest.packets import decoded_frames
from ingest.scan import Scan, scan
from ingest.worker import build_plan
from runtime.payload import frame_planes
from runtime.sides import SidesReader
from schemas.errors import InputError
from schemas.job import JobSpec, PlanSpec
from tests.support.clocks import rewrite_clock, with_edits
from tests.support.media import decode_whole, digest, make_clip

pytestmark = pytest.mark.media

TICK = Fraction(1, 90_000)
STEP = 3600
START = 90_000
FRAMES = 100
KEY = 50
"""Number of the packet that begins the third group of pictures."""
X264 = {"g": "25", "bf": "2", "sc_threshold": "0"}
MPEG2 = {"g": "25", "bf": "2", "sc_threshold": "1000000000", "flags": "+cgop", "qmax": "2", "b": "8M"}
CLIPS: dict[str, dict[str, Any]] = {
    "clip.ts": {"options": X264, "pts": range(START, START + FRAMES * STEP, STEP), "time_base": TICK},
    "clip.mpg": {
        "options": MPEG2, "pts": range(25, 25 + FRAMES), "codec": "mpeg2video", "container_format": "vob",
        "width": 352, "height": 288,  # so that each packet of the container holds one picture
    },
}  # fmt: skip
EVEN = [n * STEP for n in range(FRAMES)]
GAP = 5 * 90_000
Change = Callable[[int, int, int], tuple[int, int] | None]


def shifted(by: int, first: int = KEY, last: int = FRAMES) -> Change:
    """The times of packets [first, last) moved by so many ticks."""
    return lambda n, pts, dts: (pts + by, dts + by) if first <= n < last else (pts, dts)


def without(number: Callable[[int], bool]) -> Change:
    return lambda n, pts, dts: None if number(n) else (pts, dts)


BROKEN: dict[str, tuple[Change, list[int], dict[str, int]]] = {
    # what was done to the packets, times that are right (from the first on), what is counted
    "wrap": (shifted(-START - 2 * 90_000, 0), EVEN, {}),
    "far-offset": (shifted(5000 * 90_000, 0), EVEN, {}),
    "gap": (shifted(GAP), [tick + (GAP if n >= KEY else 0) for n, tick in enumerate(EVEN)], {}),
    "restart": (shifted(-2 * 90_000), EVEN, {"clock_restarted": 1}),
    "leap": (shifted(5000 * 90_000), EVEN, {"clock_restarted": 1}),
    "outlier-ahead": (
        shifted(100 * 90_000, 40, 41), EVEN, {"timestamp_outliers": 1, "timestamps_repaired": 1},
    ),
    "outlier-back": (shifted(-85_000, 40, 41), EVEN, {"timestamp_outliers": 1, "timestamps_repaired": 1}),
}  # fmt: skip
UNTIMED: dict[str, tuple[Change, int]] = {
    "some": (without(lambda n: n % 7 == 0), 15),
    "most": (without(lambda n: n % 25 != 0), 96),
}


def look(path: Path) -> Scan:
    return scan(str(path), io.BytesIO())


def told(found: Scan) -> dict[str, int]:
    return {name: count for name, count in found.warnings.items() if name != "timeline_by_decoding"}


def broken_clip(folder: Path, name: str, change: Change) -> Path:
    path = make_clip(folder / name, FRAMES, **CLIPS[name])
    rewrite_clock(path, change)
    return path


def check_frames(path: Path, found: Scan) -> None:
    """Every frame that decodes is sent once, in order, as it comes out of one pass over the file."""
    spec = JobSpec(job="j", input=str(path), output="o.mkv", plan=PlanSpec(segment_seconds=1.0))
    plan = build_plan(found, spec, "")
    warnings: Counter[str] = Counter()
    got: dict[int, str] = {}
    with InputDecoder(str(path), plan) as decoder:
        for order in plan.orders:
            first, last = plan.segments[order[0]], plan.segments[order[-1]]
            for decoded in decoder.frames(first.first, last.first + last.frames, warnings):
                got[decoded.ordinal] = digest(frame_planes(decoded.frame, plan.format))
    assert list(got) == list(range(len(plan.pts)))
    assert list(got.values()) == [pixels for _, pixels in decode_whole(path, plan.format)]
    assert +warnings == Counter()


@pytest.mark.parametrize("name", CLIPS)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_clock_is_set_right_and_counted(tmp_path: Path, name: str, kind: str) -> None:
    change, right, counted = BROKEN[kind]
    path = broken_clip(tmp_path, name, change)
    found = look(path)
    first = found.timeline.pts[0]
    assert [tick - first for tick in found.timeline.pts] == right
    assert told(found) == counted
    check_frames(path, found)


def test_a_wrapped_clock_begins_where_it_begins(tmp_path: Path) -> None:
    found = look(broken_clip(tmp_path, "clip.ts", BROKEN["wrap"][0]))
    assert found.timeline.pts[0] == -2 * 90_000
    assert found.seekable


@pytest.mark.parametrize("name", CLIPS)
def test_equal_times_are_spread(tmp_path: Path, name: str) -> None:
    """Every tenth packet repeats the time of the one a frame before it."""
    path = broken_clip(tmp_path, name, lambda n, pts, dts: (pts, dts) if n % 10 else (pts - STEP, dts - STEP))
    found = look(path)
    pts = found.timeline.pts
    assert all(0 < b - a <= 2 * STEP for a, b in pairwise(pts))
    assert told(found) == {"timestamps_repaired": 9}
    assert sum(tick != START + n * STEP for n, tick in enumerate(pts)) <= 10
    check_frames(path, found)


@pytest.mark.parametrize("kind", UNTIMED)
def test_missing_times_are_put_between_those_that_are_there(tmp_path: Path, kind: str) -> None:
    change, missing = UNTIMED[kind]
    path = broken_clip(tmp_path, "clip.ts", change)
    found = look(path)
    assert found.timeline.pts == [START + tick for tick in EVEN]
    assert found.timeline.duration == [STEP] * FRAMES
    assert told(found) == {"timestamps_repaired": missing}
    check_frames(path, found)


def counted_cells(*pieces: bytes, jump: int) -> bytes:
    """Pieces of a transport stream, one after the other, with continuity counters (ISO/IEC 13818-1, 2.4.3.3)
    that go on from one to the next, or pass over `jump` cells at each joint."""
    counters: Counter[int] = Counter()
    made = bytearray()
    for piece in pieces:
        for at in range(0, len(piece), 188):
            cell = bytearray(piece[at : at + 188])
            track = (cell[1] & 0x1F) << 8 | cell[2]
            counters[track] += cell[3] >> 4 & 1  # cells without a payload do not count
            cell[3] = (cell[3] & 0xF0) | (counters[track] & 0x0F)
            made += cell
        for track in counters:
            counters[track] += jump
    return bytes(made)


@pytest.mark.parametrize(("jump", "damage"), [(0, {}), (5, {"corrupt_packets": 1, "degraded": 1})])
def test_a_sound_track_follows_the_clock_of_the_picture(
    tmp_path: Path, jump: int, damage: dict[str, int]
) -> None:
    """Two recordings of two seconds in one file: the second's sound begins where its picture does. Where the
    counters of cells break, nothing tells whether the last picture before was whole."""
    piece = make_clip(tmp_path / "piece.ts", 50, options=X264, sound="mp2").read_bytes()
    path = tmp_path / "both.ts"
    path.write_bytes(counted_cells(piece, piece, jump=jump))
    sides = io.BytesIO()
    found = scan(str(path), sides)
    assert told(found) == {"clock_restarted": 1} | damage
    sides.seek(0)
    with SidesReader(sides) as reader:
        times = [packet.pts * packet.time_base for _, packet in reader.packets() if packet.pts is not None]
    half = len(times) // 2
    pts = found.timeline.pts
    assert pts[50] - pts[0] == 50 * STEP
    assert times[half] - times[0] == (pts[50] - pts[0]) * TICK


def ffmpeg(*arguments: str | Path) -> None:
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


HEVC = {"x265-params": "log-level=none:keyint=25:min-keyint=25:bframes=3"}
VP9 = {"g": "25", "deadline": "realtime", "cpu-used": "8"}
SOURCES: dict[str, dict[str, Any]] = {
    "h264.mp4": {"options": X264},
    "hevc.mp4": {"codec": "libx265", "options": HEVC},
    "vp9.webm": {"codec": "libvpx-vp9", "options": VP9},
}
COPIES: dict[str, tuple[str, list[str], Fraction, dict[str, int]]] = {
    # what it is copied from, options of the muxer, time of the first frame in seconds, what is counted
    "clip.h264": ("h264.mp4", [], Fraction(0), {"timestamps_repaired": FRAMES}),
    "clip.265": ("hevc.mp4", ["-f", "hevc"], Fraction(0), {"timestamps_repaired": FRAMES}),
    "clip.ivf": ("vp9.webm", [], Fraction(0), {}),
    "clip.flv": ("h264.mp4", [], Fraction(2, 25), {}),
    "fragments.mp4": ("h264.mp4", ["-movflags", "frag_keyframe+empty_moov"], Fraction(2, 25), {}),
    "frames.mp4": ("h264.mp4", ["-movflags", "frag_every_frame+empty_moov"], Fraction(2, 25), {}),
    "delayed.mp4": ("h264.mp4", ["-use_editlist", "0"], Fraction(2, 25), {}),
    "early.mov": ("h264.mp4", ["-movflags", "negative_cts_offsets"], Fraction(0), {}),
    "live.mkv": ("h264.mp4", ["-live", "1"], Fraction(0), {}),
    "clip.nut": ("h264.mp4", [], Fraction(2, 25), {}),
}


@pytest.mark.parametrize("name", COPIES)
def test_each_container_gives_the_times_that_it_holds(tmp_path: Path, name: str) -> None:
    source, options, start, counted = COPIES[name]
    made = make_clip(tmp_path / source, FRAMES, **SOURCES[source])
    path = tmp_path / name
    ffmpeg("-i", made, "-c", "copy", *options, path)
    found = look(path)
    times = [tick * found.time_base for tick in found.timeline.pts]
    assert times == [start + Fraction(n, 25) for n in range(FRAMES)]
    assert told(found) == counted
    check_frames(path, found)


EDITS: dict[str, tuple[list[tuple[int, int]], Fraction, list[int]]] = {
    # (milliseconds, ticks of the media), time of the first frame, frames that are shown
    "late": ([(500, -1), (4000, 7200)], Fraction(1, 2), list(range(100))),
    "cut": ([(2000, 7200 + 10 * STEP)], Fraction(0), list(range(10, 60))),
    "cut-in-the-middle": (
        [(1000, 7200), (2000, 7200 + 50 * STEP)], Fraction(0), [*range(25), *range(50, 100)],
    ),
    "cut-between-keys": (
        [(1000, 7200), (1600, 7200 + 60 * STEP)], Fraction(0), [*range(25), *range(60, 100)],
    ),
    "repeated": ([(1000, 7200)] * 3, Fraction(0), list(range(25)) * 3),
    "turned-round": (
        [(1000, 7200 + 50 * STEP), (1000, 7200)], Fraction(0), [*range(50, 75), *range(25)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_list_says_what_is_shown_and_when(tmp_path: Path, kind: str) -> None:
    edits, start, shown = EDITS[kind]
    path = make_clip(tmp_path / "clip.mp4", FRAMES, options=X264)
    whole = [pixels for _, pixels in decode_whole(path, look(path).format)]
    with_edits(path, edits)
    found = look(path)
    times = [tick * found.time_base for tick in found.timeline.pts]
    assert times == [start + Fraction(n, 25) for n in range(len(shown))]
    assert told(found) == {}
    with av.open(str(path)) as container:
        frames = decoded_frames(container, container.streams.video[0], Counter())
        pixels = [digest(frame_planes(frame, found.format)) for frame in frames]
    assert pixels == [whole[number] for number in shown]
    check_frames(path, found)


@pytest.mark.parametrize(
    ("edits", "why"),
    [([(1000, 7200), (1000, -1), (2000, 97_200)], "pauses in the middle")],
)
def test_an_edit_list_that_would_be_misread_is_refused(
    tmp_path: Path, edits: list[tuple[int, int]], why: str
) -> None:
    path = make_clip(tmp_path / "clip.mp4", FRAMES, options=X264)
    with_edits(path, edits)
    with pytest.raises(InputError, match=why):
        look(path)


@pytest.mark.parametrize("frames", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi", "mov", "flv"])
def test_files_of_few_frames(tmp_path: Path, suffix: str, frames: int) -> None:
    path = make_clip(tmp_path / f"clip.{suffix}", frames, options={"bf": "2"})
    found = look(path)
    assert len(found.timeline.pts) == frames
    lengths = [length * found.time_base for length in found.timeline.duration]
    assert lengths == [pytest.approx(Fraction(1, 25), abs=0.001)] * frames
    check_frames(path, found)


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_a_recording_that_begins_between_key_frames_begins_with_the_first(tmp_path: Path, codec: str) -> None:
    options = X264 if codec == "libx264" else HEVC
    path = make_clip(tmp_path / "clip.ts", FRAMES, codec=codec, options=options)
    data = path.read_bytes()
    packets = len(data) // 188
    path.write_bytes(data[188 * (packets // 8) :])
    found = look(path)
    assert len(found.timeline.pts) == 75
    assert found.timeline.pts[0] == pytest.approx(25 * STEP + 7200, abs=3 * STEP)
    assert set(found.timeline.duration) == {STEP}
    lost = found.warnings["leading_frames_undecodable"]
    assert 0 < lost < 25
    assert found.warnings["degraded"] == lost
    check_frames(path, found)
