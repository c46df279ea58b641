"""Where an input is cut does not show: one segment or many, the same frames at the same times.

Through the functions of ingest and assembler that the services call, without the broker in between.
"""

from __future__ import annotations

import io
import subprocess
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from assembler.encode import SegmentEncoder
from assembler.encoders import Target
from assembler.mux import Part, mux
from ingest.decode import InputDecoder
from ingest.scan import scan
from ingest.streams import FrameRun
from ingest.worker import build_plan
from runtime.payload import frame_planes
from schemas.checkpoint import Checkpoint
from schemas.job import EncodeSpec, JobSpec, PlanSpec
from schemas.plan import Plan, Segment
from tests.support.media import decode_whole, make_clip

pytestmark = pytest.mark.media

X264 = "keyint=25:min-keyint=25:scenecut=0"
X265 = "log-level=none:keyint=25:min-keyint=25:scenecut=0"
TICK = Fraction(1, 90_000)
IRREGULAR = [450_000 + 3600 * n + (n * n * 97) % 3000 for n in range(120)]
VP9 = {"g": "40", "deadline": "good", "cpu-used": "5", "auto-alt-ref": "1", "lag-in-frames": "16"}
MPEG2: dict[str, Any] = {"codec": "mpeg2video", "options": {"g": "12", "bf": "2"}}

INPUTS: dict[str, dict[str, Any]] = {
    "closed-gop.mp4": {"options": {"x264-params": f"{X264}:bframes=2"}},
    "open-gop.mp4": {"options": {"x264-params": f"{X264}:bframes=3:open-gop=1"}},
    "open-gop.ts": {"options": {"x264-params": f"{X264}:bframes=3:open-gop=1"}},
    "pyramid.mkv": {"options": {"x264-params": f"{X264}:bframes=7:b-pyramid=normal:b-adapt=0"}},
    "rasl.mp4": {"codec": "libx265", "options": {"x265-params": f"{X265}:open-gop=1:bframes=4"}},
    "rasl.ts": {"codec": "libx265", "options": {"x265-params": f"{X265}:open-gop=1:bframes=4"}},
    "pyramid-hevc.mkv": {
        "codec": "libx265",
        "options": {"x265-params": f"{X265}:open-gop=0:bframes=7:b-pyramid=1:b-adapt=0"},
    },
    "ten-seconds.mp4": {"options": {"x264-params": "keyint=250:min-keyint=250:scenecut=0:bframes=3"}},
    "ten-seconds.ts": {"options": {"x264-params": "keyint=250:min-keyint=250:scenecut=0:bframes=3"}},
    "all-intra.mp4": {"options": {"g": "1"}},
    "all-intra.mov": {"codec": "mjpeg", "pixel_format": "yuvj420p"},
    "all-intra-10.mov": {"codec": "prores_ks", "pixel_format": "yuv422p10le"},
    "refreshed.mp4": {"options": {"x264-params": "intra-refresh=1:keyint=25"}},
    "refreshed.ts": {"options": {"x264-params": "intra-refresh=1:keyint=25"}},
    "alt-ref.webm": {"codec": "libvpx-vp9", "options": VP9},
    "av1.mkv": {
        "codec": "libsvtav1",
        "options": {"preset": "10", "g": "40", "svtav1-params": "lp=1:enable-overlays=1"},
    },
    "open-mpeg2.ts": MPEG2,
    "open-mpeg2.mpg": MPEG2 | {"container_format": "vob"},
    "variable.mp4": {"options": {"g": "30", "bf": "2"}, "pts": IRREGULAR, "time_base": TICK},
    "variable.mkv": {"options": {"g": "30", "bf": "2"}, "pts": IRREGULAR, "time_base": TICK},
}
DEEP = ("yuv422p10le",)
LOSSLESS = EncodeSpec(quality=0, preset="veryfast", options={"bf": "3", "b_strategy": "0"})
"""With B-frames, so that the joins are those of every H.264 result."""


@dataclass(frozen=True)
class Result:
    path: Path
    plan: Plan


def made_in(segment_seconds: float, path: Path, folder: Path) -> Result:
    """The result of a job with engine `none` and an encoder without loss."""
    spec = JobSpec(job="j", input=str(path), output="out.mkv", plan=PlanSpec(segment_seconds=segment_seconds))
    plan = build_plan(scan(spec.input, io.BytesIO()), spec, "")
    deep = plan.format.pixel_format in DEEP
    encode = EncodeSpec(encoder="ffv1") if deep else LOSSLESS
    suffix = "mkv" if deep else "mp4"
    parts: list[Part] = []
    with InputDecoder(str(path), plan) as decoder:
        for order in plan.orders:
            segments = [plan.segments[index] for index in order]
            first, last = segments[0].first, segments[-1].first + segments[-1].frames
            warnings: Counter[str] = Counter()
            run = FrameRun(decoder.frames(first, last, warnings), 0)
            parts += [encoded(folder, plan, segment, run, encode, suffix) for segment in segments]
            assert +warnings == Counter()
    output = folder / f"out.{suffix}"
    assert mux(output, suffix, plan, parts, None).frames == len(plan.pts)
    return Result(output, plan)


def encoded(
    folder: Path, plan: Plan, segment: Segment, run: FrameRun, spec: EncodeSpec, container: str
) -> Part:
    path = folder / f"segment-{segment.index}"
    with SegmentEncoder(path, plan.format, plan.time_base, plan.rate, spec, Target(container)) as encoder:
        for decoded in run.of(segment):
            picture = encoder.picture()
            for target, source in zip(picture.planes, frame_planes(decoded.frame, plan.format), strict=True):
                np.copyto(target, source)
            encoder.encode(picture, plan.pts[decoded.ordinal])
        done = encoder.finish(segment.end)
    checkpoint = Checkpoint(
        job="j", stream=f"j/{segment.index}", segment=segment.index, object="", time_base=plan.time_base,
        pts=done.pts, end=segment.end, reorder=done.reorder, bytes=done.bytes, encoder=done.encoder,
    )  # fmt: skip
    return Part(checkpoint, path)


@pytest.mark.parametrize("name", INPUTS)
def test_one_segment_or_many_give_the_same_frames_at_the_same_times(name: str, tmp_path: Path) -> None:
    path = make_clip(tmp_path / name, 120, **INPUTS[name])
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one, many = made_in(60, path, tmp_path / "one"), made_in(1.0, path, tmp_path / "many")
    assert len(one.plan.segments) == 1
    assert len(many.plan.segments) >= 3
    video = one.plan.format
    given = [pixels for _, pixels in decode_whole(path, video)]
    for result in (one, many):
        shown = decode_whole(result.path, video)
        assert [pixels for _, pixels in shown] == given
        check_times(result, [tick for tick, _ in shown])
        check_packets(result.path)


def check_times(result: Result, shown: list[int | None]) -> None:
    """Exact, but where the container counts milliseconds."""
    with av.open(str(result.path)) as clip:
        base = clip.streams.video[0].time_base
    assert base is not None
    wanted = [tick * Fraction(*result.plan.time_base) for tick in result.plan.pts]
    for tick, at in zip(shown, wanted, strict=True):
        assert tick is not None
        if result.path.suffix == ".mp4":
            assert tick * base == at
        else:
            assert abs(tick * base - at) <= base / 2


def check_packets(path: Path) -> None:
    """Decode times rise, none passes its presentation time, and no decoder complains."""
    with av.open(str(path)) as clip:
        times = [(packet.pts, packet.dts) for packet in clip.demux(video=0) if packet.size]
    for (_, before), (pts, after) in pairwise(times):
        assert before is not None
        assert after is not None
        assert pts is not None
        assert before < after <= pts
    decode = ["ffmpeg", "-nostdin", "-v", "warning", "-i", str(path)]
    whole = ["-fps_mode", "passthrough", "-enc_time_base", "-1", "-f", "null", "-"]
    told = subprocess.run([*decode, *whole], capture_output=True, text=True, check=True)
    assert told.stderr == ""
