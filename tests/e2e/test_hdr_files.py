"""HDR10 and HLG in real files: bits, tags and metadata come out as they went in, or are warned of."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.sidedata.sidedata import Type

from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.frames import VideoFormat
from tests.support import light
from tests.support.faces import Bgr
from tests.support.through import run_through

pytestmark = pytest.mark.media

MASTERING = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"
LEVEL = (1000, 400)
FRAMES = 50
CODES = {"smpte2084": (9, 9, 16), "arib-std-b67": (9, 9, 18)}


def chart() -> Bgr:
    """Soft patches of many colours with a dark and a bright corner, sRGB."""
    y, x = np.mgrid[:96, :160] / [[[96]], [[160]]]
    image = np.dstack([0.5 + 0.4 * np.sin(6 * x + 2), 0.5 + 0.4 * np.sin(5 * y), x * y])
    image *= np.clip(x + y, 0.15, 1)[..., None]
    return (image * 255).astype(np.uint8)


def make(
    path: Path, transfer: str, encoder: str = "libx265", metadata: bool = True
) -> tuple[Path, VideoFormat]:
    """A clip of the chart, moving, as a camera or a mastering tool makes it."""
    video = light.form(transfer, 160, 96)
    params = (
        ["log-level=none", "hdr10=1", "repeat-headers=1"] if transfer == "smpte2084" else ["log-level=none"]
    )
    if metadata:
        params += [f"master-display={MASTERING}", f"max-cll={LEVEL[0]},{LEVEL[1]}"]
    options = {
        "crf": "8", "preset": "superfast", "g": "25", "color_range": "tv", "colorspace": "bt2020nc",
        "color_primaries": "bt2020", "color_trc": transfer, "x265-params": ":".join(params),
    }  # fmt: skip
    planes = light.coded(chart(), video)
    with av.open(str(path), "w") as output:
        stream = output.add_stream(encoder, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = video.width, video.height, video.pixel_format
        for number in range(FRAMES):
            frame = av.VideoFrame(video.width, video.height, video.pixel_format)
            for out, samples in zip(frame_planes(frame, video), planes, strict=True):
                out[:] = np.roll(samples, number * 2 // (160 // samples.shape[1]), axis=1)
            frame.pts, frame.time_base = number, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path, video


def metadata(frame: av.VideoFrame) -> tuple[list[float], tuple[int, ...]]:
    """(mastering display as fractions, light level)."""
    display = bytes(frame.side_data[Type.MASTERING_DISPLAY_METADATA])
    numbers = struct.unpack("<20i", display[:80])
    level = struct.unpack("<2I", bytes(frame.side_data[Type.CONTENT_LIGHT_LEVEL])[:8])
    return [a / b for a, b in zip(numbers[::2], numbers[1::2], strict=True)], level


def luma_error(one: av.VideoFrame, other: av.VideoFrame, video: VideoFormat) -> float:
    a, b = (frame_planes(frame, video)[0].astype(float) for frame in (one, other))
    return float(np.abs(a - b).mean())


@pytest.mark.parametrize("transfer", CODES)
@pytest.mark.parametrize(
    ("output", "encoder"),
    [("out.mp4", "libx265"), ("out.mkv", "libx265"), ("out.ts", "libx265"), ("out.mp4", "libx264"),
     ("out.mkv", "libsvtav1"), ("out.webm", "libsvtav1"), ("out.mov", "libx265")],
)  # fmt: skip
def test_hdr_stays_hdr_with_its_metadata(tmp_path: Path, output: str, encoder: str, transfer: str) -> None:
    source, video = make(tmp_path / "in.mp4", transfer)
    preset = "10" if encoder == "libsvtav1" else "veryfast"
    spec = {"encoder": encoder, "quality": 10, "preset": preset}
    done = run_through(source, tmp_path / output, tmp_path, encode=spec)
    assert len(done.plan.segments) == 2
    assert set(done.warnings) <= {"start_shifted"}
    with av.open(str(source)) as given, av.open(str(tmp_path / output)) as made:
        pairs = list(zip(given.decode(video=0), made.decode(video=0), strict=True))
    assert len(pairs) == FRAMES
    for number, (before, after) in enumerate(pairs):
        assert after.format.name == "yuv420p10le"
        assert (after.colorspace, after.color_primaries, after.color_trc) == CODES[transfer]
        assert after.color_range == 1
        assert luma_error(before, after, video) < 6  # of 1023
        if after.key_frame or number == 0:
            wanted, got = metadata(before if before.key_frame else pairs[0][0]), metadata(after)
            np.testing.assert_allclose(got[0], wanted[0], rtol=0.02, atol=1e-4)
            assert got[1] == wanted[1] == LEVEL


def test_hlg_without_metadata_gets_none(tmp_path: Path) -> None:
    source, _ = make(tmp_path / "in.mov", "arib-std-b67", metadata=False)
    done = run_through(source, tmp_path / "out.mp4", tmp_path, encode={"encoder": "libx265"})
    assert done.warnings == {}
    with av.open(str(tmp_path / "out.mp4")) as made:
        frame = next(made.decode(video=0))
    assert Type.MASTERING_DISPLAY_METADATA not in frame.side_data
    assert (frame.colorspace, frame.color_primaries, frame.color_trc) == CODES["arib-std-b67"]


@pytest.mark.parametrize(("output", "encoder"), [("out.mov", "prores_ks"), ("out.mkv", "ffv1")])
def test_codecs_without_a_place_for_the_metadata_keep_the_tags_and_say_so(
    tmp_path: Path, output: str, encoder: str
) -> None:
    source, _ = make(tmp_path / "in.mp4", "smpte2084")
    done = run_through(source, tmp_path / output, tmp_path, encode={"encoder": encoder})
    assert done.warnings == {"hdr_metadata_dropped": FRAMES}
    with av.open(str(tmp_path / output)) as made:
        frame = next(made.decode(video=0))
    assert (frame.colorspace, frame.color_primaries, frame.color_trc) == CODES["smpte2084"]


@pytest.mark.parametrize("output", ["out.gif", "out.webp", "out.avi", "out.webm"])
def test_where_hdr_cannot_be_said_it_is_refused_before_work_starts(tmp_path: Path, output: str) -> None:
    source, _ = make(tmp_path / "in.mp4", "smpte2084")
    with pytest.raises(InputError, match=r"HDR|does not take yuv420p10le"):
        run_through(source, tmp_path / output, tmp_path)
    assert not (tmp_path / output).exists()


@pytest.mark.parametrize("output", ["out.mp4", "out.gif", "out.webm"])
@pytest.mark.parametrize("transfer", CODES)
def test_tone_mapped_it_looks_like_the_sdr_master(tmp_path: Path, transfer: str, output: str) -> None:
    """The chart's white is 203 cd/m2, which the EETF takes a little below SDR white: within 8 % of full scale
    on average; within 4 % in the shadows and middle tones, which it leaves alone (GIF, whose palette is
    dithered: 6 %)."""
    source, _ = make(tmp_path / "in.mp4", transfer)
    spec = {"encode": {"quality": 4}, "plan": {"hdr": "tonemap"}}
    done = run_through(source, tmp_path / output, tmp_path, **spec)
    assert "hdr_metadata_dropped" not in done.warnings
    with av.open(str(tmp_path / output)) as made:
        first = next(made.decode(video=0))
        picture = first.to_ndarray(format="rgb24").astype(float)
    if output != "out.gif":
        assert (first.colorspace, first.color_primaries, first.color_trc) == (1, 1, 1) or output == "out.webm"
    master = chart()[..., ::-1].astype(float)
    error = np.abs(picture - master)
    assert error.mean() < 0.08 * 255
    dark = master.max(axis=2) < 110
    assert error[dark].mean() < (0.06 if output == "out.gif" else 0.04) * 255
