"""The engine `mesh` in PQ and HLG: a swapped face is as bright as the face that was there."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from swapper.engines.base import SourceFace, Work
from swapper.engines.mesh.engine import MeshEngine
from swapper.engines.mesh.topology import FACE_OVAL
from tests.support import faces, light
from tests.support.assets import astronaut

pytestmark = pytest.mark.media

TRANSFERS = ["smpte2084", "arib-std-b67"]


def face_of(picture: faces.Bgr) -> np.ndarray:
    """Inside of the face's oval."""
    marks = faces.landmarks(picture)[FACE_OVAL, :2]
    shrunk = (marks - marks.mean(0)) * 0.8 + marks.mean(0)
    mask = np.zeros(picture.shape[:2], np.uint8)
    return cv2.fillPoly(mask, [shrunk.astype(np.int32)], 1) > 0


@pytest.mark.parametrize("gain", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("transfer", TRANSFERS)
def test_swapped_face_is_neither_dull_nor_glowing(
    engine: MeshEngine, source: SourceFace, transfer: str, gain: float
) -> None:
    form = light.form(transfer)
    clip = light.clip(form, 8, gain)
    (swaps,) = engine.swap([Work(engine.open(source, {}), clip, last=True)])
    for one, swap in list(zip(clip, swaps, strict=True))[::3]:
        assert len(swap.patches) == 1
        after = faces.pasted(one, swap)
        face = face_of(faces.bgr(one.planes, form))
        old, new = light.luminance(one.planes, form)[face], light.luminance(after, form)[face]
        assert np.abs(new - old).mean() > 0.02 * old.mean()
        assert new.mean() == pytest.approx(old.mean(), rel=0.1)
        assert new.std() == pytest.approx(old.std(), rel=0.35)
        assert np.percentile(new, 99.5) < 1.25 * np.percentile(old, 99.5)
        assert after[0][face].max() < 940


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_identity_moves_to_the_source_in_hdr(engine: MeshEngine, source: SourceFace, transfer: str) -> None:
    portrait = faces.read(astronaut())
    wanted = faces.identity(portrait, faces.landmarks(portrait))
    form = light.form(transfer)
    clip = light.clip(form, 4)
    (swaps,) = engine.swap([Work(engine.open(source, {}), clip, last=True)])
    before, after = (faces.bgr(planes, form) for planes in (clip[3].planes, faces.pasted(clip[3], swaps[3])))
    old, new = (faces.identity(picture, faces.landmarks(picture)) for picture in (before, after))
    assert faces.distance(new, wanted) < 0.6
    assert faces.distance(new, wanted) < faces.distance(old, wanted) - 0.1


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_hdr_is_followed_as_well_as_sdr(engine: MeshEngine, transfer: str) -> None:
    """Landmarks of the tone-mapped picture that the models see lie where those of the SDR picture do."""
    form = light.form(transfer)
    plain = light.form("bt709", pixels="yuv420p")
    one = faces.clip(plain, 1)[0]
    picture = faces.bgr(one.planes, plain)
    marks = faces.landmarks(faces.bgr(light.coded(picture, form), form))
    off = np.linalg.norm((marks - faces.landmarks(picture))[:, :2], axis=1).mean()
    assert off < 0.01 * np.ptp(marks[:, 1])
