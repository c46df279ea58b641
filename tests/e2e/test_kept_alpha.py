"""Swaps in pictures with alpha, through all services: the face changes, alpha does not."""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from demo.run import make_clip as make_face_clip
from runtime.alpha import alpha_of, copy_alpha, rescaled
from tests.support.assets import astronaut, carphone
from tests.support.cluster import Cluster

pytestmark = pytest.mark.broker
COUNT = 12


def pictures(folder: Path) -> list[np.ndarray]:
    """A face, cut out with a soft edge that moves: RGBA of 352x288."""
    make_face_clip(carphone(), folder / "clip.mp4", size=(352, 288))
    with av.open(str(folder / "clip.mp4")) as clip:
        frames = [
            f.to_ndarray(format="rgb24") for _, f in zip(range(COUNT), clip.decode(video=0), strict=False)
        ]
    cut_out = []
    for number, frame in enumerate(frames):
        y, x = np.mgrid[:288, :352]
        radius = np.hypot((x - 176 - number) / 160, (y - 144) / 135)
        alpha = np.clip((1.1 - radius) * 900, 0, 255).astype(np.uint8)
        cut_out.append(np.dstack([frame, alpha]))
    return cut_out


def save_clip(path: Path, codec: str, name: str, cut_out: list[np.ndarray], **options: str) -> None:
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 352, 288, name
        for number, picture in enumerate(cut_out):
            source = av.VideoFrame.from_ndarray(picture, format="rgba")
            frame = source.reformat(format=name)
            copy_alpha(source, frame)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def read(path: Path) -> list[np.ndarray]:
    """RGBA of each picture, alpha in 8 bit."""
    if path.suffix in (".webp", ".png"):
        found = []
        with Image.open(path) as image:
            for number in range(getattr(image, "n_frames", 1)):
                image.seek(number)
                found.append(np.asarray(image.convert("RGBA")).copy())
        return found
    with av.open(str(path)) as clip:
        return [
            np.dstack([f.to_ndarray(format="rgb24"), rescaled(*alpha_of(f), 8)]) for f in clip.decode(video=0)
        ]


def test_the_face_changes_and_alpha_does_not(cluster: Cluster, tmp_path: Path) -> None:
    cut_out = pictures(tmp_path)
    images = [Image.fromarray(picture) for picture in cut_out]
    images[0].save(tmp_path / "still.png")
    images[0].save(
        tmp_path / "moving.webp", save_all=True, append_images=images[1:], duration=40, lossless=True
    )
    save_clip(tmp_path / "ffv1.mkv", "ffv1", "yuva420p", cut_out)
    save_clip(tmp_path / "prores.mov", "prores_ks", "yuva444p10le", cut_out, profile="4444", alpha_bits="16")
    wanted = {
        "still.png": ("png", 0), "moving.webp": ("libwebp_anim", 0), "ffv1.mkv": ("ffv1", 0),
        "prores.mov": ("prores_ks", 1),
    }  # fmt: skip
    specs = [
        cluster.spec(
            tmp_path / name, tmp_path / f"out-{name}", astronaut(), encode={"encoder": encoder, "quality": 0}
        )
        for name, (encoder, _) in wanted.items()
    ]
    cluster.done(*specs)
    for name, (_, off) in wanted.items():
        before, after = read(tmp_path / name), read(tmp_path / f"out-{name}")
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            assert np.abs(one[..., 3].astype(int) - other[..., 3]).max() <= off, name
            moved = np.abs(one[..., :3].astype(int) - other[..., :3]).max(axis=2)
            shows = one[..., 3] == 255
            assert (moved[shows] > 24).mean() > 0.02, f"{name}: no face was swapped"
            outside = cv2.dilate((moved > 24).astype(np.uint8), np.ones((25, 25))) == 0
            assert moved[shows & outside].mean() < 3, f"{name}: changed outside the face"
