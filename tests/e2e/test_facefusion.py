"""The engine `facefusion` through the whole pipeline, on a stand-in checkout."""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from runtime.settings import FaceFusionSettings, Settings
from tests.support import checkout
from tests.support.command import Command

pytestmark = pytest.mark.broker

FRAMES = 30
ENGINE = ("--engine", "facefusion", "--accept-licence", "all")
GREEN = (40, 200, 40)


def clip(path: Path, colour: tuple[int, int, int]) -> Path:
    shown = np.empty((96, 128, 3), np.uint8)
    shown[:] = colour
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", 25, options={"crf": "1"})
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for _ in range(FRAMES):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(shown, "bgr24")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return checkout.build(tmp_path / "checkout")


@pytest.fixture
def facestream(kafka: Settings, home: Path) -> Command:
    return Command(kafka.model_copy(update={"facefusion": FaceFusionSettings(home=home)}))


@pytest.fixture
def face(tmp_path: Path) -> Path:
    picture = np.empty((32, 32, 3), np.uint8)
    picture[:] = GREEN
    path = tmp_path / "face.png"
    cv2.imwrite(str(path), picture)
    return path


def test_a_checkout_changes_every_frame(facestream: Command, home: Path, face: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    source = clip(tmp_path / "clip.mp4", (90, 90, 90))
    code, _, told = facestream("swap", *ENGINE, "-s", face, "-t", source, "-o", output)
    assert code == 0, told
    with av.open(str(output)) as container:
        pictures = [one.to_ndarray(format="bgr24") for one in container.decode(video=0)]
    assert len(pictures) == FRAMES
    for picture in pictures:
        assert np.abs(picture[16:32, 16:32].reshape(-1, 3).mean(0) - GREEN).max() < 8
        assert np.abs(picture[60:, 60:].reshape(-1, 3).mean(0) - 90).max() < 8
    assert "test" in (home / "events").read_text()


def test_refused_content_fails_the_job_though_its_policy_is_to_pass(
    facestream: Command, face: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.mp4"
    source = clip(tmp_path / "clip.mp4", (250, 20, 20))
    job = ["swap", *ENGINE, "--on-failure", "pass", "-s", face, "-t", source, "-o", output]
    code, out, told = facestream(*job)
    assert code == 1
    assert "ContentRefusedError" in out + told
    assert not output.exists()
