"""Every cell of the table of containers, encoders and pixel formats: joined files, decoded back twice."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from assembler.encoders import Target, probe_encoder, validate
from assembler.mux import Part, mux
from ingest.decoders import decoder_of
from runtime.payload import frame_planes
from schemas.containers import CONTAINERS, ENCODER_TABLE, ENCODERS, check_picture, stored_as
from schemas.errors import InputError, UsageError
from schemas.frames import VideoFormat
from schemas.job import EncodeSpec, JobSpec
from schemas.pixels import PIXEL_FORMATS
from tests.conftest import has_gpu
from tests.support.segments import encode_parts, moving_picture, plan_of

pytestmark = pytest.mark.media

GPU = ("h264_nvenc", "hevc_nvenc")
VIDEOS = {name: c for name, c in CONTAINERS.items() if not c.pictures}
FORMATS = [
    *("yuv420p", "yuv422p", "yuv444p", "gray", "yuva420p"),
    *("yuv420p10le", "yuv422p10le", "yuv444p10le", "gray10le", "yuva444p10le"),
    *("yuv420p12le", "yuv422p12le", "yuv444p12le", "gray12le", "yuva444p12le"),
]
CELLS = [
    (container, encoder, name)
    for container, entry in VIDEOS.items()
    for encoder in entry.encoders
    for name in FORMATS
    if encoder not in GPU and (name in ENCODER_TABLE[encoder].takes or name in ENCODER_TABLE[encoder].rounds)
    if not (encoder == "libvpx-vp9" and PIXEL_FORMATS[name].alpha and not entry.beside)
]
BASE = (1, 1000)
PTS = [2000 + 40 * n + (80 if n > 13 else 0) for n in range(22)]
"""25 frames a second with a pause, from two seconds on, in ticks of every container's clock."""
CUTS, END = [9], PTS[-1] + 40
PRESETS = {"libsvtav1": "8", "libvpx-vp9": "ultrafast"}
DECODED = {
    ("libx264", "gray"): "yuv420p", ("libx264", "gray10le"): "yuv420p10le",
    ("prores_ks", "yuv444p10le"): "yuv444p12le", ("prores_ks", "yuva444p10le"): "yuva444p12le",
    ("mjpeg", "yuv420p"): "yuvj420p", ("mjpeg", "yuv422p"): "yuvj422p", ("mjpeg", "yuv444p"): "yuvj444p",
}  # fmt: skip
"""Where FFmpeg decodes to another format than what was encoded."""


UNKNOWN_TO_THE_TOOL = {("ffv1", "yuva444p12le")}
"""Its FFmpeg is too old."""
CODES = {"bt709": (1, 1, 1), "bt2020": (9, 9, 14)}


def video_of(encoder: str, name: str) -> VideoFormat:
    deep = PIXEL_FORMATS[name].depth > 8
    tags = ("bt2020nc", "bt2020", "bt2020-10") if deep else ("bt709", "bt709", "bt709")
    if encoder == "mjpeg":
        tags = ("smpte170m", "smpte170m", "smpte170m")  # so that only the range is another
    return VideoFormat(
        width=64, height=48, pixel_format=name, color_range="tv", matrix=tags[0], primaries=tags[1],
        transfer=tags[2],
    )  # fmt: skip


class Segments:
    """Two segments of each encoder and format, encoded once for all containers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str, bool], list[Part]] = {}

    def of(self, encoder: str, name: str, container: str) -> list[Part]:
        key = encoder, name, CONTAINERS[container].tags
        if key not in self._made:
            folder = self._folder / "-".join(map(str, key))
            folder.mkdir()
            spec = EncodeSpec.model_validate(
                {"encoder": encoder, "quality": 8, "preset": PRESETS.get(encoder, "medium"), "threads": 2}
            )
            target = Target(container)
            self._made[key] = encode_parts(
                folder, video_of(encoder, name), BASE, PTS, CUTS, spec, END, target
            )
        return self._made[key]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Segments:
    return Segments(tmp_path_factory.mktemp("segments"))


@pytest.mark.parametrize(("container", "encoder", "name"), CELLS)
def test_what_a_cell_holds_is_read_back(
    segments: Segments, tmp_path: Path, container: str, encoder: str, name: str
) -> None:
    video, path = video_of(encoder, name), tmp_path / f"out.{container}"
    parts = segments.of(encoder, name, container)
    done = mux(path, container, plan_of(video, BASE, PTS, END, rate=(25, 1)), parts, None)
    assert done.frames == len(PTS)
    if encoder in ("libx264", "libx265"):
        assert all(part.checkpoint.reorder > 0 for part in parts), "no B-frames: nothing is tried here"
    base, frames = decoded(path)
    start = 0 if container == "avi" else PTS[0]
    times = [frame.pts * base for frame in frames]
    assert times == [Fraction(at - PTS[0] + start, 1000) for at in PTS]
    stored = stored_as(encoder, name) or ""
    assert {frame.format.name for frame in frames} == {DECODED.get((encoder, stored), stored)}
    for number, frame in enumerate(frames):
        assert psnr(frame, video, number) > 32
    if CONTAINERS[container].tags:
        tags = frames[0].colorspace, frames[0].color_primaries, frames[0].color_trc
        assert tags[name.startswith("gray") :] == CODES[video.primaries][name.startswith("gray") :]
        assert frames[0].color_range == 1 or name.startswith("gray") or encoder == "prores_ks"
    if (encoder, name) not in UNKNOWN_TO_THE_TOOL:
        by_tool(path, [time - times[0] for time in times])


def decoded(path: Path) -> tuple[Fraction, list[av.VideoFrame]]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoder = decoder_of(stream)
        packets = list(container.demux(stream))
        dts = [packet.dts for packet in packets if packet.dts is not None]
        assert all(a < b for a, b in itertools.pairwise(dts))
        frames = [frame for packet in packets for frame in decoder.decode(packet if packet.size else None)]
    assert not any(frame.is_corrupt for frame in frames)
    return stream.time_base, frames


def psnr(frame: av.VideoFrame, video: VideoFormat, number: int) -> float:
    """Of all planes, as far as both have them, in dB."""
    name = frame.format.name.replace("yuvj", "yuv")
    form = VideoFormat(width=video.width, height=video.height, pixel_format=name)
    depths = form.pixels.depth - video.pixels.depth
    errors = []
    for got, sent in zip(frame_planes(frame, form), moving_picture(video, number), strict=False):
        wanted, top = sent.astype(float) * 2.0**depths, (1 << form.pixels.depth) - 1
        if "yuvj" in frame.format.name:
            wanted = (wanted - 128) * 255 / 224 + 128 if errors else (wanted - 16) * 255 / 219
        errors.append(np.mean(((got.astype(float) - wanted.clip(0, top)) / top) ** 2))
    return float(-10 * np.log10(max(max(errors), 1e-12)))


def by_tool(path: Path, times: list[Fraction]) -> None:
    """The ffmpeg tool, of another version than PyAV's, must see the same frames at the same times."""
    ffprobe = shutil.which("ffprobe")
    assert ffprobe, "ffprobe is missing"
    entries = "frame=best_effort_timestamp:stream=time_base"
    command = [ffprobe, "-v", "warning", "-select_streams", "v", "-show_entries", entries, "-of", "json"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    base = Fraction(found["streams"][0]["time_base"])
    shown = [frame["best_effort_timestamp"] * base for frame in found["frames"]]
    assert [time - shown[0] for time in shown] == times


@pytest.mark.parametrize("container", VIDEOS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_an_encoder_that_a_container_does_not_take_is_refused_with_those_that_it_takes(
    container: str, encoder: str
) -> None:
    spec, able = EncodeSpec(encoder=encoder, preset="medium"), VIDEOS[container].encoders
    if encoder in able:
        validate(spec, container)
    else:
        with pytest.raises(UsageError, match=f"{encoder} does not go into .{container}") as caught:
            validate(spec, container)
        assert ", ".join(able) in str(caught.value)


@pytest.mark.parametrize("name", PIXEL_FORMATS)
@pytest.mark.parametrize(
    ("container", "encoder"), [(c, e) for c, entry in CONTAINERS.items() for e in entry.encoders]
)
def test_a_format_that_an_encoder_cannot_hold_is_refused_with_encoders_that_can(
    container: str, encoder: str, name: str
) -> None:
    """Before any frame is decoded; what is not refused is stored with no less chroma, depth or alpha."""
    spec = JobSpec(job="j", input="in", output=f"out.{container}", encode=EncodeSpec(encoder=encoder))
    video, own = VideoFormat(width=64, height=48, pixel_format=name), PIXEL_FORMATS[name]
    stored = stored_as(encoder, name, container)
    if stored is None:
        with pytest.raises(InputError, match=f"{encoder} does not take {name}") as caught:
            check_picture(spec, video, 1)
        able = str(caught.value).split("that take it: ")[1].split(", ")
        assert able
        assert all(stored_as(other, name) for other in able)
    else:
        check_picture(spec, video, 1)
        kept = PIXEL_FORMATS[stored]
        assert kept.alpha == own.alpha
        assert kept.depth >= own.depth or name in ENCODER_TABLE[encoder].rounds
        assert own.planes == 1 or (kept.chroma_x <= own.chroma_x and kept.chroma_y <= own.chroma_y)


@pytest.mark.parametrize("transfer", ["smpte2084", "arib-std-b67"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_hdr_is_refused_where_it_cannot_be_said(container: str, transfer: str) -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv422p10le", transfer=transfer)
    for encoder in CONTAINERS[container].encoders:
        spec = JobSpec(job="j", input="in", output=f"out.{container}", encode=EncodeSpec(encoder=encoder))
        if CONTAINERS[container].tags and encoder in ("libx264", "libx265", "prores_ks", "ffv1"):
            check_picture(spec, video, 1)
        elif encoder not in GPU and encoder != "libsvtav1":  # these refuse the format already
            with pytest.raises(InputError, match=r"HDR|does not take"):
                check_picture(spec, video, 1)


@pytest.mark.parametrize("encoder", GPU)
def test_an_encoder_of_the_gpu_is_refused_by_name_without_one(encoder: str) -> None:
    reason = probe_encoder(encoder)
    assert (reason is None) == has_gpu()
    assert reason is None or encoder in reason
