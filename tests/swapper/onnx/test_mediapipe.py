"""The engine `onnx` with the models of the engine `mesh`, BlazeFace and FaceMesh, on real faces."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from schemas.errors import ModelError, UsageError
from schemas.frames import VideoFormat
from swapper.engines.base import Frame, Work
from swapper.engines.onnx import facemesh
from swapper.engines.onnx.analyse import analyse
from swapper.engines.onnx.catalog import AREAS, IBUG_VERTICES, LANDMARKERS
from swapper.engines.onnx.detect import detect
from swapper.engines.onnx.engine import OnnxEngine
from swapper.engines.onnx.faces import Face, Hit
from swapper.engines.onnx.needs import licences, needed
from swapper.engines.onnx.options import DetectorOptions, LandmarkerOptions, Options
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Picture
from swapper.models.store import built
from swapper.sampling import unturned
from tests.support import faces
from tests.support.assets import astronaut, skimage_picture

pytestmark = pytest.mark.media

FORMAT = VideoFormat(width=640, height=524, pixel_format="yuv420p", color_range="tv", matrix="smpte170m")
BLAZE, MESH = DetectorOptions(model="blazeface"), LandmarkerOptions(model="facemesh")
BOTH = {"detector.model": "blazeface", "landmarker.model": "facemesh"}
INSWAPPER = {"swapper.model": "inswapper_128", **BOTH}


@pytest.fixture(scope="module")
def models() -> Models:
    return Models(faces.models())


@pytest.fixture(scope="module")
def clip() -> list[Frame]:
    return faces.clip(FORMAT)[::30]


@pytest.fixture(scope="module")
def pictures(clip: list[Frame]) -> list[faces.Bgr]:
    """The last with a mouth wide open."""
    return [faces.read(astronaut()), *(faces.bgr(one.planes, FORMAT) for one in clip)]


@pytest.fixture(scope="module")
def folder(standins: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stand-ins of recogniser and swapper, and the two real models; nothing else."""
    made = tmp_path_factory.mktemp("mediapipe")
    for name in ("arcface_w600k_r50", "inswapper_128", "2dfan4", "fan_68_5", "yoloface_8n"):
        shutil.copy(standins / f"{name}.onnx", made)
    for model in built():
        shutil.copy(faces.models() / model.file, made)
    return made


def found(models: Models, shown: Sequence[faces.Bgr], detector: DetectorOptions = BLAZE) -> list[list[Face]]:
    return analyse(models, [Picture(one) for one in shown], detector, MESH)


def wanted(picture: faces.Bgr) -> np.ndarray:
    """The 68 points of the engine `mesh`, which looks until nothing changes."""
    return faces.landmarks(picture)[list(IBUG_VERTICES), :2]


def between_eyes(outline: np.ndarray) -> float:
    return float(np.linalg.norm(outline[45] - outline[36]))


def five(outline: np.ndarray) -> np.ndarray:
    return np.stack([outline[36:42].mean(0), outline[42:48].mean(0), *outline[[30, 48, 54]]])


def test_points_are_those_of_the_engine_mesh(models: Models, pictures: list[faces.Bgr]) -> None:
    for picture, seen in zip(pictures, found(models, pictures), strict=True):
        (face,) = seen
        outline = wanted(picture)
        apart = between_eyes(outline)
        off = np.linalg.norm(face.outline - outline, axis=1)
        assert off.mean() < 0.04 * apart
        assert off.max() < 0.12 * apart
        np.testing.assert_allclose(face.points, five(face.outline))
        assert face.certainty > 0.99
        assert face.hit.score > 0.8
        assert face.angle == 0


def test_the_detectors_own_five_points_lie_on_the_face(models: Models, pictures: list[faces.Bgr]) -> None:
    """They align a face where the landmarks are not believed; corners of the mouth are a guess."""
    for picture, hits in zip(
        pictures, detect(models, [Picture(one) for one in pictures], BLAZE), strict=True
    ):
        (hit,) = hits
        outline = wanted(picture)
        off = np.linalg.norm(hit.points - five(outline), axis=1) / between_eyes(outline)
        assert off[:3].max() < 0.1
        assert off[3:].max() < 0.2
        low, high = outline.min(0), outline.max(0)
        assert (np.abs((hit.box[:2] + hit.box[2:]) / 2 - (low + high) / 2) < 0.2 * (high - low)).all()


def test_each_of_the_68_points_is_what_ibug_calls_it(pictures: list[faces.Bgr]) -> None:
    """On a face seen from the front: the order along each line, and what lies over what."""
    p = wanted(pictures[1])
    across = (p[45] - p[36]) / between_eyes(p)
    p = p @ np.array([[across[0], -across[1]], [across[1], across[0]]])
    assert len({*IBUG_VERTICES}) == 68
    rightwards = [range(17, 27), range(31, 36), range(36, 40), range(42, 46), range(48, 55), range(60, 65)]
    leftwards = [range(39, 42), range(45, 48), [*range(54, 60), 48], [*range(64, 68), 60]]
    assert all((np.diff(p[line, 0]) > 0).all() for line in rightwards)
    assert all((np.diff(p[line, 0]) < 0).all() for line in leftwards)
    for downwards in (range(9), range(16, 7, -1), range(27, 31)):
        assert (np.diff(p[downwards, 1]) > 0).all()
    upper, lower = [37, 38, 43, 44, 51, 62, 50, 52, 30, 33], [41, 40, 47, 46, 57, 66, 58, 56, 33, 51]
    assert (p[upper, 1] < p[lower, 1]).all()
    steps = np.linalg.norm(np.diff(p[:17], axis=0), axis=1)
    assert steps.max() < 3 * steps.min()


def test_many_pictures_at_once_give_what_each_gives_alone(models: Models, pictures: list[faces.Bgr]) -> None:
    for picture, (together,) in zip(pictures, found(models, pictures), strict=True):
        ((alone,),) = found(models, [picture])
        np.testing.assert_array_equal(together.outline, alone.outline)
        np.testing.assert_array_equal(together.hit.box, alone.hit.box)
    assert models["det_back"]._together[(("image", (256, 256, 3)),)]
    assert models["mesh"]._together[(("image", (192, 192, 3)),)]


@pytest.mark.parametrize("name", ["coffee.png", "chelsea.png", "motorcycle_left.png"])
def test_what_is_no_face_is_none_or_is_not_believed(models: Models, name: str) -> None:
    (seen,) = found(models, [faces.read(skimage_picture(name))])
    assert all(face.certainty < 0.95 for face in seen)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_angles_find_faces_that_are_turned(models: Models, pictures: list[faces.Bgr], quarters: int) -> None:
    upright = wanted(pictures[1])
    turned = np.ascontiguousarray(np.rot90(pictures[1], quarters))
    options = DetectorOptions(model="blazeface", angles=(0, 90, 180, 270))
    ((face,),) = found(models, [turned], options)
    back = unturned(face.outline.astype(np.float32), turned.shape[1], turned.shape[0], quarters)
    assert np.linalg.norm(back - upright, axis=1).mean() < 0.05 * between_eyes(upright)
    assert face.angle == 360 - 90 * quarters


def test_larger_canvases_find_smaller_faces_and_score_and_margin_count(
    models: Models, pictures: list[faces.Bgr]
) -> None:
    scene = np.full((1080, 1920, 3), 90, np.uint8)
    small = cv2.resize(pictures[1], (100, 82), interpolation=cv2.INTER_AREA)
    scene[500:582, 900:1000] = small
    assert found(models, [scene]) == [[]]
    ((face,),) = found(models, [scene], DetectorOptions(model="blazeface", size=640))
    assert 900 < face.points[2, 0] < 1000
    marks = faces.landmarks(pictures[1])[:, :2]
    low, high = marks.min(0), marks.max(0)
    x, y, right, bottom = (int(n) for n in (*(low + (high - low) * [0, 0.3]), *high))
    cut = np.ascontiguousarray(pictures[1][y:bottom, x:right])
    wide = DetectorOptions(model="blazeface", margin=(50, 50, 50, 50))
    assert len(found(models, [cut], wide)[0]) == 1
    strict = DetectorOptions(model="blazeface", score=0.999)
    assert found(models, [pictures[1]], strict) == [[]]
    (hits,) = detect(models, [Picture(pictures[1])], DetectorOptions(model="blazeface", score=0))
    assert len(hits) > 1


def test_boxes_of_other_detectors_serve_the_mesh_too(models: Models, pictures: list[faces.Bgr]) -> None:
    """Some are tight around eyes and mouth, some reach over the hair."""
    outline = wanted(pictures[1])
    low, high = outline.min(0), outline.max(0)
    for tight in (0.8, 1.0, 1.3):
        half = (high - low) / 2 * tight
        centre = (low + high) / 2 + [0, -0.1 * (high - low)[1]]
        hit = Hit(np.array([*(centre - half), *(centre + half)]), 0.9, five(outline).astype(np.float64))
        ((points, belief),) = facemesh.outlines(
            models, [(Picture(pictures[1]), hit)], LANDMARKERS["facemesh"]
        )
        assert belief > 0.99
        assert np.linalg.norm(points - outline, axis=1).mean() < 0.03 * between_eyes(outline)


@pytest.mark.parametrize("mask", ["box", "area"])
def test_a_real_face_is_swapped_where_it_is(folder: Path, clip: list[Frame], mask: str) -> None:
    """By stand-ins for recogniser and swapper: who is seen then is nobody, but where it is is right."""
    engine = OnnxEngine(folder)
    engine.warm()
    options = {**INSWAPPER, "mask.types": mask, "mask.areas": "lower-face,mouth"}
    face = engine.prepare([astronaut().read_bytes()], None, options)
    ((swap,),) = engine.swap([Work(engine.open(face, options), [clip[0]], last=True)])
    assert len(swap.patches) == 1
    before, after = (faces.bgr(planes, FORMAT) for planes in (clip[0].planes, faces.pasted(clip[0], swap)))
    touched = (np.abs(before.astype(int) - after) > 8).any(2)
    outline = wanted(before)
    points = [*range(68)] if mask == "box" else [*AREAS["lower-face"], *AREAS["mouth"]]
    hull = cv2.convexHull(outline[points].astype(np.int32))
    inside = cv2.fillConvexPoly(np.zeros(touched.shape, np.uint8), hull, 1) > 0
    assert touched[inside].mean() > 0.8
    if mask == "area":
        assert touched[inside].sum() > 0.9 * touched.sum()


def test_only_what_these_models_need_is_asked_for() -> None:
    swapping = Options.of(INSWAPPER)
    assert needed(swapping) == ["det_back", "mesh", "arcface_w600k_r50", "inswapper_128"]
    enhancing = Options.of({"processors": "face_enhancer", **BOTH})
    assert needed(enhancing) == ["det_back", "mesh", "gfpgan_1.4"]
    assert all(terms.commercial_use for terms in licences(enhancing).values())
    guessed = needed(Options.of({**INSWAPPER, "landmarker.score": 0}))
    assert guessed == ["det_back", "fan_68_5", "arcface_w600k_r50", "inswapper_128"]
    mixed = needed(Options.of({**INSWAPPER, "landmarker.model": "2dfan4"}))
    assert mixed == ["det_back", "fan_68_5", "2dfan4", "arcface_w600k_r50", "inswapper_128"]


def test_a_missing_or_damaged_file_is_named_with_the_command_that_helps(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        if file.name != "mesh.onnx":
            shutil.copy(file, tmp_path)
    engine = OnnxEngine(tmp_path)
    with pytest.raises(ModelError, match=r"model mesh in .*: missing; run: facestream models pull"):
        engine.prepare([astronaut().read_bytes()], None, INSWAPPER)
    (tmp_path / "mesh.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"model mesh in .*: wrong hash"):
        engine.prepare([astronaut().read_bytes()], None, INSWAPPER)


def test_sizes_that_blazeface_does_not_take_are_refused() -> None:
    with pytest.raises(UsageError, match="size of blazeface 320; there are: 128, 256, 384, 512, 640"):
        Options.of({**BOTH, "detector.size": 320})
