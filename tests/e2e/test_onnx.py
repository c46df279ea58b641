"""The engine `onnx` through the whole pipeline, with stand-in models: what one types, what comes out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from runtime.settings import Settings
from swapper.engines.onnx import pipeline, source
from swapper.engines.onnx.options import Options
from swapper.engines.onnx.pipeline import Item, Job
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Picture
from tests.golden.standins import build
from tests.golden.vectors import HERE, Bgr, picture
from tests.support.cluster import times
from tests.support.command import Command

pytestmark = pytest.mark.broker

FRAMES = 24
SOURCE = HERE / "sources" / "s1.png"
DESCRIPTION = """
kind = "swapper"
template = "arcface_112_v1"
size = 256
mean = 0.5
std = 0.5
output = "as input"
licence = "mine"
commercial_use = true
[source]
kind = "converter"
converter = "crossface_ghost"
normed = false
blend = "raw"
"""
ACCEPT = ("--accept-licence", "all")
EXACT = ("--encoder", "libx264", "--quality", "1", "--segment-seconds", "0.4")


@pytest.fixture(scope="module")
def standins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """And a copy of one as a model of the user's own."""
    folder = build(tmp_path_factory.mktemp("standins"))
    shutil.copy(folder / "ghost_1_256.onnx", folder / "mine.onnx")
    (folder / "mine.toml").write_text(DESCRIPTION)
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two painted faces; the picture moves by two pixels a frame. The first ten frames show a third face."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", 25, options={"crf": "1", "g": "10"})
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        for i in range(FRAMES):
            shown = picture("frames/f01_single.png" if i < 10 else "frames/f02_two.png")
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(np.roll(shown, 2 * (i % 10), 1)), "bgr24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def facestream(kafka: Settings) -> Command:
    return Command(kafka)


def decoded(path: Path) -> list[Bgr]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="bgr24") for frame in container.decode(video=0)]


def swapped(models: Models, frames: list[Bgr], options: dict[str, Any]) -> list[Bgr]:
    """What the pipeline makes of the decoded pictures."""
    chosen = Options.of(options)
    face = source.prepare(models, [Picture(picture("sources/s1.png"))], chosen)
    wanted = None
    if chosen.selector.mode == "reference":
        shown = Picture(frames[chosen.selector.reference_frame_number])
        wanted = pipeline.reference(models, shown, chosen, face)
    items = [Item(Picture(frame.copy()), Job(chosen, face, wanted)) for frame in frames]
    pipeline.run(models, items)
    return [item.surface.whole() for item in items]


def arguments(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in ("--engine-option", f"{name}={value}")]


@pytest.mark.parametrize(
    "options",
    [
        {"swapper.model": "inswapper_128", "mask.types": "box,occlusion"},
        {
            "swapper.model": "ghost_1_256",
            "selector.mode": "reference",
            "selector.reference_frame_number": 12,
            "selector.reference_face_distance": 0.1,
            "processors": "face_swapper,face_enhancer",
        },
        {"swapper.model": "mine", "swapper.weight": 0.7},
    ],
    ids=["all faces", "one person, enhanced", "a model of the user's own"],
)
def test_swap_makes_the_pictures_that_the_models_make(
    facestream: Command, standins: Path, clip: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    output = tmp_path / "out.mp4"
    where = ["-s", SOURCE, "-t", clip, "-o", output, "--engine", "onnx", "--models", standins]
    code, _, last = facestream("swap", *where, *EXACT, *ACCEPT, *arguments(options))
    assert (code, f"{FRAMES} frames" in last) == (0, True), last
    assert times(output) == times(clip)
    before, after = decoded(clip), decoded(output)
    built_in = options | {"swapper.model": options["swapper.model"].replace("mine", "ghost_1_256")}
    expected = swapped(Models(standins), before, built_in)
    changed = 0
    for old, new, want in zip(before, after, expected, strict=True):
        touched = (want != old).any(2)
        changed += bool(touched.any())
        assert np.abs(new.astype(int) - want).mean() < 1
        if touched.any():
            assert np.abs(new.astype(int) - want)[touched].mean() < 2.5
    assert changed == (FRAMES if "selector.mode" not in options else FRAMES - 10)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"swapper.modell": "x"}, 2, "no option 'swapper.modell'; swapper has: model, pixel_boost, weight"),
        ({"swapper.model": "magic"}, 2, "model 'magic'; there are: blendswap_256, ghost_1_256"),
        ({"swapper.model": "ghost_2_256"}, 1, "ghost_2_256.onnx is not in"),
        ({"selector.mode": "reference", "selector.reference_frame_number": 99}, 2, "has no frame 99"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    facestream: Command,
    standins: Path,
    clip: Path,
    tmp_path: Path,
    options: dict[str, Any],
    code: int,
    says: str,
) -> None:
    output = tmp_path / "out.mp4"
    where = ["-s", SOURCE, "-t", clip, "-o", output, "--engine", "onnx", "--models", standins]
    got, _, last = facestream("swap", *where, *ACCEPT, *arguments(options))
    assert got == code, last
    assert says in last
    assert not output.exists()


def test_licences_are_accepted_before_anything_is_decoded_and_kept_with_the_job(
    kafka: Settings, facestream: Command, standins: Path, clip: Path, tmp_path: Path
) -> None:
    """A target that no decoder opens shows that nobody tried."""
    torn, output = tmp_path / "torn.mp4", tmp_path / "out.mp4"
    torn.write_bytes(b"no video")
    engine = ["--engine", "onnx", "--models", standins, "--engine-option", "swapper.model=inswapper_128"]
    code, _, last = facestream("swap", "-s", SOURCE, "-t", torn, "-o", output, *engine)
    needed = "arcface_w600k_r50 (non-commercial), inswapper_128 (non-commercial)"
    assert (code, needed in last) == (2, True), last
    assert not (kafka.data / "logs").exists()
    advice = last[last.index("--accept-licence") :].split()
    code, _, last = facestream("swap", "-s", SOURCE, "-t", clip, "-o", output, *engine, *advice)
    assert code == 0, last
    (record,) = [json.loads(told) for told in facestream("status", "--json")[1].splitlines()]
    accepted = {"arcface_w600k_r50": "non-commercial", "inswapper_128": "non-commercial"}
    assert record["spec"]["swap"]["accepted"] == accepted
    assert f"accepted: {needed}" in facestream("status", record["job"])[1]
    again = ["replay", record["job"], "-o", tmp_path / "again.mp4", "--models", standins]
    code, _, last = facestream(*again)  # what the job accepted counts
    assert code == 0, last
    code, _, last = facestream(*again, "--engine-option", "swapper.model=simswap_256")
    assert (code, "simswap_256 (non-commercial), crossface_simswap (unknown)" in last) == (2, True), last
