"""Damaged inputs: every frame that decodes is kept at its time, and the damage is told."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from ingest.decode import InputDecoder
from ingest.packets import decoded_frames, use_one_thread
from ingest.scan import Scan, scan
from ingest.travel import Traveller
from ingest.worker import build_plan
from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.job import JobSpec, PlanSpec
from schemas.plan import Plan
from tests.support.media import digest, make_clip

pytestmark = pytest.mark.media

FRAMES = 100
X264 = {"g": "25", "bf": "2", "sc_threshold": "0"}
X265 = {"x265-params": "log-level=none:keyint=25:min-keyint=25:bframes=3:open-gop=1"}
VP9 = {"g": "25", "deadline": "good", "cpu-used": "8", "auto-alt-ref": "1", "lag-in-frames": "16"}
CLIPS: dict[str, dict[str, Any]] = {
    "h264.mkv": {"options": X264},
    "h264.mp4": {"options": X264},
    "h264.ts": {"options": X264},
    "hevc.mkv": {"codec": "libx265", "options": X265},
    "hevc.ts": {"codec": "libx265", "options": X265},
    "av1.mp4": {"codec": "libsvtav1", "options": {"preset": "10", "g": "25", "svtav1-params": "lp=1"}},
    "vp9.webm": {"codec": "libvpx-vp9", "options": VP9},
    "mpeg2.ts": {"codec": "mpeg2video", "options": {"g": "12", "bf": "2"}},
    "mpeg2.mpg": {
        "codec": "mpeg2video", "options": {"g": "12", "bf": "2", "qmax": "2", "b": "8M"},
        "width": 352, "height": 288, "container_format": "vob",
    },
    "mjpeg.mov": {"codec": "mjpeg", "pixel_format": "yuvj420p"},
    "mjpeg.avi": {"codec": "mjpeg", "pixel_format": "yuvj420p"},
    "prores.mov": {"codec": "prores_ks", "pixel_format": "yuv422p10le"},
}  # fmt: skip
INDEXED = ("h264.mp4", "av1.mp4", "mjpeg.mov", "prores.mov")
"""Their index lies at the end: without it they are refused."""


def look(path: Path) -> Scan:
    return scan(str(path), io.BytesIO())


def plan_of(path: Path, found: Scan | None = None) -> Plan:
    spec = JobSpec(job="j", input=str(path), output="o.mkv", plan=PlanSpec(segment_seconds=1.0))
    return build_plan(found or look(path), spec, "")


def packets(path: Path) -> list[tuple[int, int]]:
    """(place in the file, size) of each packet of the picture."""
    with av.open(str(path)) as container:
        return [(p.pos or 0, p.size) for p in container.demux(video=0) if p.size]


def spoil(path: Path, numbers: range | tuple[int, ...], share: Fraction = Fraction(1, 2)) -> None:
    """Write noise over the second part of some packets; in ts over what two of its cells carry."""
    data, rng = bytearray(path.read_bytes()), random.Random(5)
    found = packets(path)
    for number in numbers:
        at, size = found[number]
        if path.suffix == ".ts":
            for cell in (at // 188 + 1, at // 188 + 2):
                data[cell * 188 + 30 : cell * 188 + 180] = rng.randbytes(150)
        else:
            begin = at + max(int(size * share), 4)
            length = max(min(at + size - begin - 1, 400), 0)
            data[begin : begin + length] = rng.randbytes(length)
    path.write_bytes(data)


def decoded(path: Path, plan: Plan) -> tuple[dict[int, tuple[str, bool]], Counter[str]]:
    """{pts: (digest, corrupt)} of all orders, and what was counted."""
    warnings: Counter[str] = Counter()
    got: dict[int, tuple[str, bool]] = {}
    with InputDecoder(str(path), plan) as decoder:
        for order in plan.orders:
            first, last = plan.segments[order[0]], plan.segments[order[-1]]
            for frame in decoder.frames(first.first, last.first + last.frames, warnings):
                tick = plan.pts[frame.ordinal]
                assert tick not in got
                got[tick] = digest(frame_planes(frame.frame, plan.format)), frame.corrupt
    return got, warnings


def whole(path: Path, plan: Plan) -> list[tuple[int | None, str]]:
    """What one pass over the file decodes, as the decoder of ingest does: in one thread, past errors."""
    traveller = Traveller(plan.format, Counter())
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        use_one_thread(stream)
        frames = decoded_frames(container, stream, Counter())
        return [(f.pts, digest(frame_planes(traveller.normalise(f), plan.format))) for f in frames]


def check(path: Path, found: Scan, least: int) -> Counter[str]:
    """Every frame that decodes is there, at its time, in the same samples twice; how often each was wrong."""
    plan = plan_of(path, found)
    got, warnings = decoded(path, plan)
    assert decoded(path, plan) == (got, warnings)
    assert len(got) >= least
    once = whole(path, plan)
    if plan.seekable:
        assert {tick for tick, _ in once if tick is not None} <= set(got)
    else:
        assert [pixels for pixels, _ in got.values()] == [pixels for _, pixels in once]
    warnings["frames_corrupt"] = sum(corrupt for _, corrupt in got.values())
    warnings["frames_missing"] = len(plan.pts) - len(got)
    return warnings


@pytest.mark.parametrize("name", CLIPS)
def test_damaged_packets_cost_what_hangs_on_them_and_no_more(tmp_path: Path, name: str) -> None:
    path = make_clip(tmp_path / name, FRAMES, **CLIPS[name])
    good = look(path)
    spoil(path, (40, 41, 60, 87))
    found = look(path)
    assert set(found.timeline.pts) <= set(good.timeline.pts)
    warnings = check(path, found, 70)
    assert found.timeline.pts[-1] == good.timeline.pts[-1]
    lost = len(good.timeline.pts) - len(found.timeline.pts)
    if name not in ("vp9.webm", "hevc.mkv"):  # whose decoders may take noise for a picture
        assert lost + sum(warnings.values()) > 0


@pytest.mark.parametrize("name", CLIPS)
def test_a_broken_first_group_of_pictures_costs_that_group(tmp_path: Path, name: str) -> None:
    path = make_clip(tmp_path / name, FRAMES, **CLIPS[name])
    good = look(path)
    spoil(path, range(8), Fraction(1, 20))
    found = look(path)
    check(path, found, 65)
    late = {tick: n for n, tick in enumerate(good.timeline.pts)}
    assert [late[tick] for tick in found.timeline.pts[-60:]] == list(range(40, 100))


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("name", [name for name in CLIPS if name not in INDEXED])
def test_what_is_left_of_a_file_is_used(tmp_path: Path, name: str, share: Fraction) -> None:
    path = make_clip(tmp_path / name, FRAMES, **CLIPS[name])
    good = look(path).timeline.pts
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    found = look(path)
    check(path, found, int(share * FRAMES) - 30)
    assert set(found.timeline.pts) <= set(good)


def test_a_file_with_its_index_in_front_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    clip = make_clip(tmp_path / "made.mp4", FRAMES, options=X264)
    with av.open(str(clip)) as source, av.open(str(path), "w", options={"movflags": "faststart"}) as output:
        target = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = target
                output.mux(packet)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    found = look(path)
    assert found.warnings["degraded"] > 0
    warnings = check(path, found, 40)
    assert warnings["decode_errors"] + warnings["frames_missing"] > 0


def pieces(path: Path, *parts: dict[str, Any]) -> Path:
    """A ts of pieces of two seconds, each made with other options, one after the other."""
    made = b""
    for number, options in enumerate(parts):
        piece = path.with_name(f"piece-{number}.ts")
        start = number * 60  # more than the frames of a piece: clocks do not overlap
        ticks = {"pts": range(start, start + 50), "time_base": Fraction(1, 25)}
        make_clip(piece, **{"options": X264, **options, **ticks})
        made += piece.read_bytes()
    path.write_bytes(made)
    return path


CHANGES: dict[str, tuple[list[dict[str, Any]], dict[str, int]]] = {
    "larger": ([{}, {"width": 192, "height": 128}], {"frames_scaled": 50}),
    "smaller": ([{}, {"width": 48, "height": 32}], {"frames_scaled": 50}),
    "often": (
        [{}, {"width": 192, "height": 128}, {"width": 48, "height": 96}, {}],
        {"frames_scaled": 100},
    ),
    "10 bit": ([{}, {"pixel_format": "yuv420p10le"}], {"frames_converted": 50}),
    "8 bit": ([{"pixel_format": "yuv420p10le"}, {}], {"frames_converted": 50}),
    "4:4:4": ([{}, {"pixel_format": "yuv444p"}], {"frames_converted": 50}),
    "4:2:0": ([{"pixel_format": "yuv444p"}, {}], {"frames_converted": 50}),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_the_picture_may_change_its_size_and_format(tmp_path: Path, kind: str) -> None:
    parts, counted = CHANGES[kind]
    path = pieces(tmp_path / "clip.ts", *parts)
    plan = plan_of(path)
    got, warnings = decoded(path, plan)
    assert list(got) == plan.pts
    steps = Counter(b - a for a, b in pairwise(plan.pts))
    assert steps[3600] == 49 * len(parts)
    assert set(steps) <= {3600, 9 * 3600, 11 * 3600}  # muxers begin at the first dts
    assert +warnings == counted


HEVC = {"codec": "libx265", "options": {"x265-params": "log-level=none:keyint=25"}}
MPEG2 = {"codec": "mpeg2video", "options": {"g": "12"}}


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([{}, HEVC], "from h264 to hevc"),
        ([HEVC, {}], "from hevc to h264"),
        ([MPEG2, {}], "from mpeg2video to h264"),
        ([{}, MPEG2], "from h264 to mpeg2video"),
    ],
)
def test_a_change_of_codec_is_refused_by_name(
    tmp_path: Path, parts: list[dict[str, Any]], names: str
) -> None:
    with pytest.raises(InputError, match=names):
        look(pieces(tmp_path / "clip.ts", *parts))


def garbage(data: bytes, rng: random.Random) -> bytes:
    """Noise between the cells of a ts."""
    third = len(data) // 188 // 3 * 188
    return (
        data[:third] + rng.randbytes(777) + data[third : 2 * third] + rng.randbytes(3000) + data[2 * third :]
    )


def loss(data: bytes, rng: random.Random) -> bytes:
    """Every now and then a cell of a ts is gone."""
    return b"".join(data[at : at + 188] for at in range(0, len(data), 188) if at == 0 or rng.random() > 0.02)


@pytest.mark.parametrize("harm", [garbage, loss])
@pytest.mark.parametrize("codec", ["libx264", "libx265", "mpeg2video"])
def test_a_bad_line_marks_the_job_as_degraded(
    tmp_path: Path, codec: str, harm: Callable[[bytes, random.Random], bytes]
) -> None:
    options = {"libx264": X264, "libx265": X265, "mpeg2video": {"g": "12", "bf": "2", "qmax": "2"}}[codec]
    path = make_clip(tmp_path / "clip.ts", FRAMES, codec=codec, options=options)
    good = look(path).timeline.pts
    path.write_bytes(harm(path.read_bytes(), random.Random(3)))
    found = look(path)
    assert found.warnings["degraded"] > 0
    check(path, found, 60)
    assert set(found.timeline.pts) <= set(good)


def test_pictures_that_end_long_before_the_sound(tmp_path: Path) -> None:
    path = tmp_path / "clip.mkv"
    short = make_clip(tmp_path / "short.mp4", 25, options=X264)
    long = make_clip(tmp_path / "long.mp4", 250, options=X264, sound="aac")
    with av.open(str(short)) as a, av.open(str(long)) as b, av.open(str(path), "w") as output:
        video = output.add_stream_from_template(a.streams.video[0])
        audio = output.add_stream_from_template(b.streams.audio[0])
        for source, kind, target in ((a, a.streams.video[0], video), (b, b.streams.audio[0], audio)):
            for packet in source.demux(kind):
                if packet.size:
                    packet.stream = target
                    output.mux(packet)
    sides = io.BytesIO()
    found = scan(str(path), sides)
    assert len(found.timeline.pts) == 25
    assert found.sides.tracks[0].packets > 400
    assert +found.warnings == Counter()
