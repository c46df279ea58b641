"""FaceFusion's own frames: our pipeline makes the same, alone and in a batch, of any files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from swapper.engines.onnx import pipeline, source
from swapper.engines.onnx.align import fitted
from swapper.engines.onnx.analyse import analyse
from swapper.engines.onnx.catalog import ENHANCERS, SWAPPERS
from swapper.engines.onnx.pipeline import Item, Job
from swapper.engines.onnx.recognise import recognise
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Picture
from tests.golden.vectors import Bgr, Case, cases, picture, steps, verdict

pytestmark = pytest.mark.unit

CASES = cases()
WITH_STEPS = steps()


class Bench:
    """Golden cases through one set of models; results are kept."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._jobs: dict[str, Job] = {}
        self._alone: dict[str, Item] = {}

    def job(self, case: Case) -> Job:
        if case.id not in self._jobs:
            pictures = [Picture(picture(path)) for path in case.sources]
            face = source.prepare(self.models, pictures, case.options)
            wanted = None
            if case.options.selector.mode == "reference":
                frame = Picture(picture(case.reference))
                wanted = pipeline.reference(self.models, frame, case.options, face)
            self._jobs[case.id] = Job(case.options, face, wanted)
        return self._jobs[case.id]

    def item(self, case: Case) -> Item:
        return Item(Picture(picture(case.frame).copy()), self.job(case))

    def alone(self, case: Case) -> Item:
        if case.id not in self._alone:
            self._alone[case.id] = self.item(case)
            pipeline.run(self.models, [self._alone[case.id]])
        return self._alone[case.id]

    def together(self, names: list[str]) -> Mapping[str, Bgr]:
        items = [self.item(CASES[name]) for name in names]
        pipeline.run(self.models, items)
        return {name: pixels(item) for name, item in zip(names, items, strict=True)}


def pixels(item: Item) -> Bgr:
    assert isinstance(item.surface, Picture)
    return item.surface.pixels


@pytest.fixture(scope="module")
def bench(models: Models) -> Bench:
    return Bench(models)


@pytest.fixture(scope="module")
def fixed(fixed_standins: Path) -> Iterator[Mapping[str, Bgr]]:
    return Bench(Models(fixed_standins)).together(list(CASES))


def assert_as_expected(case: Case, ours: Bgr) -> None:
    frame, expected = picture(case.frame), picture(case.expected)
    assert verdict(frame, ours, expected).strict
    if np.array_equal(frame, expected):
        assert np.array_equal(ours, frame)


@pytest.mark.parametrize("name", CASES)
def test_frame_is_the_one_facefusion_makes(bench: Bench, name: str) -> None:
    item = bench.alone(CASES[name])
    assert len(item.faces) == CASES[name].faces
    assert_as_expected(CASES[name], pixels(item))


@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
def test_batch_of_all_frames_and_jobs_gives_the_same_bytes_as_each_alone(bench: Bench, order: int) -> None:
    for name, ours in bench.together(list(CASES)[::order]).items():
        np.testing.assert_array_equal(ours, pixels(bench.alone(CASES[name])), err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_files_for_one_item_give_the_frames_too(fixed: Mapping[str, Bgr], name: str) -> None:
    assert_as_expected(CASES[name], fixed[name])


@pytest.mark.parametrize("name", WITH_STEPS)
def test_faces_are_those_facefusion_finds(models: Models, name: str) -> None:
    case = CASES[name]
    surface = Picture(picture(case.frame))
    (faces,) = analyse(models, [surface], case.options.detector, case.options.landmarker)
    recognise(models, [(surface, face) for face in faces])
    for face, said in zip(faces, WITH_STEPS[name]["faces"], strict=True):
        np.testing.assert_allclose(face.hit.box, said["bounding_box"], atol=1e-5)
        np.testing.assert_allclose(face.hit.points, said["points_5"], atol=1e-3)
        np.testing.assert_allclose(face.outline, said["points_68"], atol=1e-3)
        np.testing.assert_allclose(face.points, said["points_5_68"], atol=1e-3)
        np.testing.assert_allclose(face.identity[:8], said["embedding_first8"], atol=1e-4)
        assert face.hit.score == pytest.approx(said["detector_score"], abs=1e-5)
        assert face.certainty == pytest.approx(said["landmarker_score"], abs=1e-5)
        assert face.angle == said["angle"]


@pytest.mark.parametrize("name", WITH_STEPS)
def test_faces_are_aligned_as_facefusion_aligns_them(bench: Bench, name: str) -> None:
    case = CASES[name]
    templates = SWAPPERS[case.options.swapper.model].template, ENHANCERS[case.options.enhancer.model].template
    for crop in WITH_STEPS[name]["crops"]:
        if crop["template"] in templates:
            faces = bench.alone(case).faces
            found = [fitted(face.points, crop["template"], crop["side"]) for face in faces]
            assert min(np.abs(matrix - np.array(crop["affine"])).max() for matrix in found) < 1e-3
