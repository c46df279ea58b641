"""Pictures that lie on their side or are mirrored: EXIF in stills, display matrices in clips."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from av.sidedata.sidedata import Type

from ingest.framedata import side_data
from tests.support.media import make_clip
from tests.support.pictures import encoded, png_with_orientation, with_orientation
from tests.support.through import run_through

pytestmark = pytest.mark.media

Array = np.ndarray[Any, Any]

UPRIGHT: dict[int, Callable[[Array], Array]] = {
    1: lambda p: p,
    2: lambda p: p[:, ::-1],
    3: lambda p: np.rot90(p, 2),
    4: lambda p: p[::-1],
    5: lambda p: p.transpose(1, 0, 2),
    6: lambda p: np.rot90(p, -1),
    7: lambda p: np.rot90(p, 2).transpose(1, 0, 2),
    8: lambda p: np.rot90(p, 1),
}
"""How a picture of each EXIF orientation is to be turned (TIFF 6.0, tag 274)."""


def quarters() -> Array:
    """Four colours, one for each corner, BGR: no turn or mirroring leaves it as it is."""
    picture = np.zeros((64, 96, 3), np.uint8)
    for n, (y, x) in enumerate([(0, 0), (0, 48), (32, 0), (32, 48)]):
        picture[y : y + 32, x : x + 48] = [(40, 40, 200), (40, 200, 40), (200, 60, 40), (180, 180, 60)][n]
    return picture


def shown(path: Path) -> Array:
    """The first picture as a player shows it, BGR: the display matrix is applied here, by its definition."""
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    picture = frame.to_ndarray(format="bgr24")
    data = side_data(frame, Type.DISPLAYMATRIX)
    if not data:
        return picture
    a, b, _, c, d = struct.unpack_from("=5i", data)
    turn = np.array([[a, c], [b, d]]) // (1 << 16)  # (x, y) of a sample to (x, y) on the screen
    height, width = picture.shape[:2]
    y, x = np.mgrid[:height, :width]
    to = np.stack([turn[0, 0] * x + turn[0, 1] * y, turn[1, 0] * x + turn[1, 1] * y])
    to -= to.min(axis=(1, 2), keepdims=True)
    screen = np.zeros((to[1].max() + 1, to[0].max() + 1, 3), np.uint8)
    screen[to[1], to[0]] = picture
    return screen


def assert_same(one: Array, other: Array) -> None:
    assert one.shape == other.shape
    assert np.abs(one.astype(float) - other).mean() < 6


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize(
    ("kind", "output"), [("jpg", "jpg"), ("jpg", "webp"), ("png", "png"), ("jpg", "mp4")]
)
def test_a_still_comes_out_upright(tmp_path: Path, kind: str, output: str, orientation: int) -> None:
    source, target = tmp_path / f"in.{kind}", tmp_path / f"out.{output}"
    mark = with_orientation if kind == "jpg" else png_with_orientation
    source.write_bytes(mark(encoded(quarters(), f".{kind}"), orientation))
    run_through(source, target, tmp_path, plan={"upright": output != "mp4"})
    assert_same(UPRIGHT[orientation](quarters()), shown(target))
    if output in ("jpg", "png"):
        assert_same(cv2.imread(str(target)), shown(target))  # no orientation is left for a reader to apply


MATRICES = {
    "mirrored": (-1, 0, 0, 1),
    "flipped": (1, 0, 0, -1),
    "turned and mirrored": (0, 1, 1, 0),
    "turned back and mirrored": (0, -1, -1, 0),
    "turned": (0, 1, -1, 0),
    "turned back": (0, -1, 1, 0),
    "upside down": (-1, 0, 0, -1),
}


def with_matrix(source: Path, target: Path, matrix: tuple[int, int, int, int]) -> Path:
    """A copy of an mp4 or mov with another display matrix in the header of its only track."""
    data = bytearray(source.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # version 0: flags, times, id, duration, reserved, layer, volume
    a, b, c, d = (value << 16 for value in matrix)
    struct.pack_into(">9i", data, at, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("output", ["out.mp4", "out.mov", "out.mkv", "out.webm", "out.gif"])
@pytest.mark.parametrize("suffix", ["mp4", "mov"])
@pytest.mark.parametrize("name", MATRICES)
def test_a_clip_is_shown_as_it_was(tmp_path: Path, name: str, suffix: str, output: str) -> None:
    plain = make_clip(tmp_path / f"plain.{suffix}", 5, options={"crf": "5"}, pixel_format="yuv444p")
    source = with_matrix(plain, tmp_path / f"in.{suffix}", MATRICES[name])
    target = tmp_path / output
    upright = output in ("out.webm", "out.gif")
    run_through(source, target, tmp_path, encode={"quality": 8}, plan={"upright": upright})
    before, after = shown(source), shown(target)
    assert before.shape == after.shape
    assert np.abs(before.astype(float) - after).mean() < (14 if output == "out.gif" else 6)
    with av.open(str(target)) as clip:
        times = [frame.pts * frame.time_base for frame in clip.decode(video=0)]
    assert times == [Fraction(n, 25) for n in range(5)]
