"""Source pictures of the case log: however the picture is stored, the same person comes out."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from schemas.errors import NoFaceError
from schemas.job import Lane
from tests.support.cases import cases
from tests.support.cluster import Cluster
from tests.support.faces import distance, identity, landmarks
from tests.support.streams import messages

pytestmark = pytest.mark.media
TARGET = "M31"
Identity = npt.NDArray[np.float64]


def identities(path: Path) -> list[Identity]:
    """Of the face on every 20th frame."""
    with av.open(str(path)) as clip:
        pictures = [bgr(frame) for n, frame in enumerate(clip.decode(video=0)) if n % 20 == 10]
    return [identity(picture, landmarks(picture)) for picture in pictures]


def swapped(cluster: Cluster, name: str, folder: Path) -> list[Identity]:
    output = folder / f"{name}.mp4"
    cluster.done(cluster.spec(cases()[TARGET].path, output, cases()[name].path))
    return identities(output)


@pytest.fixture(scope="module")
def plain(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    """What the plain picture (S01) makes of the target."""
    return swapped(cluster, "S01", tmp_path_factory.mktemp("plain"))


def test_s01_the_plain_picture_moves_the_identity(plain: list[Identity]) -> None:
    (source,) = (identity(p, landmarks(p)) for p in [read_bgr(cases()["S01"].path)])
    for before, after in zip(identities(cases()[TARGET].path), plain, strict=True):
        assert distance(after, source) < distance(before, source) - 0.1


@pytest.mark.parametrize(("name", "least"), [("S02", 0.9), ("S03", 0.6), ("S07", 0.9)])
def test_however_it_is_stored_the_same_person_comes_out(
    cluster: Cluster, plain: list[Identity], tmp_path: Path, name: str, least: float
) -> None:
    for one, other in zip(plain, swapped(cluster, name, tmp_path), strict=True):
        assert cosine(one, other) >= least


def test_s05_a_picture_without_a_face_is_refused_before_any_frame_is_made(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.settings.topic_set.frames(Lane.BATCH)
    before = len(list(messages(cluster.settings, topic)))
    with pytest.raises(NoFaceError, match=rf"source picture 1 \(.*{cases()['S05'].file}\) shows no face"):
        cluster.spec(cases()[TARGET].path, tmp_path / "out.mp4", cases()["S05"].path)
    assert len(list(messages(cluster.settings, topic))) == before
    assert list(tmp_path.iterdir()) == []


def cosine(a: Identity, b: Identity) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def read_bgr(path: Path) -> npt.NDArray[np.uint8]:
    with av.open(str(path)) as picture:
        return bgr(next(picture.decode(video=0)))


def bgr(frame: av.VideoFrame) -> npt.NDArray[np.uint8]:
    return frame.to_ndarray(format="bgr24").astype(np.uint8, copy=False)
