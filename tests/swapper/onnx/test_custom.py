"""Models that a file describes work as those that are built in; a wrong description says what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from schemas.errors import ModelError, UsageError
from swapper.engines.base import FrameSwap, SourceFace, Work
from swapper.engines.onnx.catalog import (
    CLASSIFIER,
    CONVERTERS,
    DETECTORS,
    ENHANCERS,
    LANDMARK_ESTIMATOR,
    LANDMARKERS,
    OCCLUDERS,
    PARSERS,
    RECOGNISER,
    SWAPPERS,
)
from swapper.engines.onnx.content import FILES
from swapper.engines.onnx.custom import Catalogue, described, found
from swapper.engines.onnx.engine import OnnxEngine
from swapper.engines.onnx.needs import licences
from swapper.engines.onnx.options import Options
from swapper.models.manifest import Terms, manifest
from tests.golden.vectors import HERE, picture
from tests.support.painted import frame

pytestmark = pytest.mark.unit

SOURCE = (HERE / "sources/s1.png").read_bytes()
LICENCE = 'licence = "mine"\ncommercial_use = true\n'
HALF = "mean = 0.5\nstd = [0.5, 0.5, 0.5]\n"
SWAPPER = f'kind = "swapper"\n{LICENCE}'
TABLES = {
    "inswapper_128": f'{SWAPPER}template = "arcface_128"\nsize = 128\noutput = "0..1"\nboosts = [256]\n'
    '[source]\nkind = "emap"\n',
    "hyperswap_1a_256": f'{SWAPPER}{HALF}template = "arcface_128"\nsize = 256\noutput = "as input"\n'
    '[source]\nkind = "normed"\n',
    "ghost_1_256": f'{SWAPPER}{HALF}template = "arcface_112_v1"\nsize = 256\noutput = "as input"\n'
    '[source]\nkind = "converter"\nconverter = "crossface_ghost"\nnormed = false\nblend = "raw"\n',
    "simswap_256": f'{SWAPPER}template = "arcface_112_v1"\nsize = 256\noutput = "0..1"\n'
    "mean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\n"
    '[source]\nkind = "converter"\nconverter = "crossface_simswap"\n',
    "blendswap_256": f'{SWAPPER}template = "ffhq_512"\nsize = 256\noutput = "0..1"\n'
    '[source]\nkind = "picture"\ntemplate = "arcface_112_v2"\nsize = 112\n',
}
ENHANCER = f'kind = "enhancer"\n{LICENCE}{HALF}template = "ffhq_512"\nsize = 512\noutput = "as input"\n'


@pytest.fixture
def folder(standins: Path, tmp_path: Path) -> Path:
    """A folder of its own with all stand-ins."""
    made = tmp_path / "models"
    made.mkdir()
    for file in standins.iterdir():
        (made / file.name).symlink_to(file)
    return made


def run(folder: Path, options: dict[str, Any]) -> list[FrameSwap]:
    engine = OnnxEngine(folder)
    wants = engine.wants(options)
    face = engine.prepare([SOURCE], None, options) if wants else SourceFace("onnx")
    face = SourceFace.from_bytes(face.to_bytes())
    (swaps,) = engine.swap([Work(engine.open(face, options), [frame(picture("frames/f02_two.png"))])])
    return swaps


def assert_the_same(one: list[FrameSwap], other: list[FrameSwap]) -> None:
    assert one[0].patches
    for a, b in zip(one[0].patches, other[0].patches, strict=True):
        assert (a.x, a.y, a.width, a.height) == (b.x, b.y, b.width, b.height)
        for ours, theirs in zip(a.planes, b.planes, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", TABLES)
def test_a_described_swapper_does_to_the_bit_what_the_same_built_in_one_does(folder: Path, name: str) -> None:
    shutil.copy(folder / f"{name}.onnx", folder / "mine.onnx")
    (folder / "mine.toml").write_text(TABLES[name])
    for more in ({}, {"swapper.weight": 0.8}):
        assert_the_same(
            run(folder, {"swapper.model": "mine", **more}), run(folder, {"swapper.model": name, **more})
        )


def test_boosts_of_a_described_swapper_are_those_it_names(folder: Path) -> None:
    shutil.copy(folder / "inswapper_128.onnx", folder / "mine.onnx")
    (folder / "mine.toml").write_text(TABLES["inswapper_128"])
    boosted = {"swapper.pixel_boost": 256}
    assert_the_same(
        run(folder, {"swapper.model": "mine", **boosted}),
        run(folder, {"swapper.model": "inswapper_128", **boosted}),
    )
    with pytest.raises(UsageError, match="pixel_boost of mine 512; there are: 128, 256"):
        run(folder, {"swapper.model": "mine", "swapper.pixel_boost": 512})


@pytest.mark.parametrize("name", ["gfpgan_1.4", "codeformer"])
def test_a_described_enhancer_does_to_the_bit_what_the_same_built_in_one_does(
    folder: Path, name: str
) -> None:
    shutil.copy(folder / f"{name}.onnx", folder / "clear.onnx")
    (folder / "clear.toml").write_text(ENHANCER)
    common = {"processors": "face_enhancer", "enhancer.weight": 0.9}
    assert_the_same(
        run(folder, {"enhancer.model": "clear", **common}), run(folder, {"enhancer.model": name, **common})
    )


def test_raw_embeddings_go_in_as_the_recogniser_says_them(folder: Path) -> None:
    """As through a converter that gives back what it gets."""
    _saved(folder / "same.onnx", "input", ["n", 512])
    shutil.copy(folder / "hyperswap_1a_256.onnx", folder / "mine.onnx")
    start = TABLES["hyperswap_1a_256"].removesuffix('kind = "normed"\n')
    (folder / "mine.toml").write_text(f'{start}kind = "converter"\nconverter = "same"\nnormed = false\n')
    through = run(folder, {"swapper.model": "mine"})
    (folder / "mine.toml").write_text(f'{start}kind = "raw"\n')
    assert_the_same(run(folder, {"swapper.model": "mine"}), through)
    normed = run(folder, {"swapper.model": "hyperswap_1a_256"})
    assert not np.array_equal(normed[0].patches[0].planes[0], through[0].patches[0].planes[0])


def test_the_order_of_channels_is_the_models(folder: Path) -> None:
    """One that keeps its first channel: red where R G B go in, blue where B G R do."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [1, 3, 1, 1], [1, 0, 0])
    _saved(folder / "mine.onnx", "target", ["n", 3, 256, 256], weights)
    text = TABLES["hyperswap_1a_256"].replace(HALF, "").replace("as input", "0..1")
    (folder / "mine.toml").write_text(text)
    red = run(folder, {"swapper.model": "mine"})
    (folder / "mine.toml").write_text(f"rgb = false\n{text}")
    blue = run(folder, {"swapper.model": "mine"})
    ours, other = red[0].patches[0].planes, blue[0].patches[0].planes
    assert ours[2].mean() > other[2].mean() + 10
    assert ours[1].mean() < other[1].mean() - 10


def test_a_face_prepared_without_the_crop_of_a_described_swapper_is_refused(folder: Path) -> None:
    shutil.copy(folder / "blendswap_256.onnx", folder / "mine.onnx")
    (folder / "mine.toml").write_text(TABLES["blendswap_256"].replace("size = 112", "size = 96"))
    engine = OnnxEngine(folder)
    plain = engine.prepare([SOURCE], None, {"swapper.model": "ghost_1_256"})
    with pytest.raises(UsageError, match=r"swapper\.model mine: prepare the face with that option"):
        engine.open(plain, {"swapper.model": "mine"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("size = 128", "size = 0"), r"mine\.toml: size: .*greater than or equal to 16"),
        (("size = 128", "side = 128"), r"mine\.toml: size: Field required"),
        (("arcface_128", "square"), r"template 'square'; there are: arcface_112_v1"),
        (("[256]", "[200]"), "boosts: 200 is not a multiple of size 128"),
        (('"emap"', '"magic"'), r"source: .*'raw', 'normed', 'emap', 'converter', 'picture'"),
        (('kind = "emap"', 'kind = "converter"\nconverter = "../x"'), r"source\.converter: '\.\./x' is no"),
        (("commercial_use = true", ""), "commercial_use: Field required"),
        (('"swapper"', '"detector"'), "'swapper', 'enhancer'"),
        (("size = 128", "size ="), r"mine\.toml is no TOML"),
        (("size = 128", "size = 128\nstd = 0"), "std"),
        (("size = 128", "size = 128\nlayers = 3"), "layers: Extra inputs"),
        (("size = 128", "size = " + "[" * 20_000), "is no TOML"),
        (("size = 128", "# " + "x" * 70_000), "larger than 64 KiB"),
    ],
)
def test_a_wrong_description_is_refused_by_file_place_and_reason(
    folder: Path, change: tuple[str, str], says: str
) -> None:
    (folder / "mine.toml").write_text(TABLES["inswapper_128"].replace(*change))
    with pytest.raises(ModelError, match=says) as error:
        Options.of({"swapper.model": "mine"}, Catalogue(folder))
    assert str(folder / "mine.toml") in str(error.value)
    Options.of({"swapper.model": "inswapper_128"}, Catalogue(folder))


def test_a_described_model_cannot_take_the_place_of_a_known_one(folder: Path) -> None:
    (folder / "ghost_1_256.toml").write_text(TABLES["inswapper_128"])
    assert Catalogue(folder).swapper("ghost_1_256") is SWAPPERS["ghost_1_256"]
    with pytest.raises(ModelError, match="is a model that is known"):
        described(folder / "ghost_1_256.toml")


@pytest.mark.parametrize("name", ["../mine", "", "sub/mine", ".mine"])
def test_a_name_never_leads_out_of_the_folder(folder: Path, name: str) -> None:
    (folder.parent / "mine.toml").write_text(TABLES["inswapper_128"])
    with pytest.raises(UsageError, match="there are: blendswap_256"):
        Options.of({"swapper.model": name}, Catalogue(folder))


def test_those_that_are_described_are_among_the_names_that_are_offered(folder: Path) -> None:
    (folder / "mine.toml").write_text(TABLES["inswapper_128"])
    (folder / "clear.toml").write_text(ENHANCER)
    (folder / "other.toml").write_text("[tool]\nx = 1\n")
    with pytest.raises(UsageError, match=r"uniface_256, mine; .* has no magic\.toml$"):
        Options.of({"swapper.model": "magic"}, Catalogue(folder))
    with pytest.raises(UsageError, match=r"'clear': .*clear\.toml describes no swapper"):
        Options.of({"swapper.model": "clear"}, Catalogue(folder))
    models, wrong = found(folder)
    assert [model.name for model in models] == ["clear", "mine"]
    assert [str(folder / "other.toml") in str(error) for error in wrong] == [True]


def test_a_described_model_whose_file_is_missing_is_named(folder: Path) -> None:
    (folder / "mine.toml").write_text(TABLES["inswapper_128"])
    with pytest.raises(ModelError, match=r"mine\.onnx is not in"):
        run(folder, {"swapper.model": "mine"})


def test_licences_of_described_models_are_those_of_their_descriptions(folder: Path) -> None:
    text = TABLES["ghost_1_256"].replace("crossface_ghost", "own")
    (folder / "mine.toml").write_text(text.replace('"mine"', '"house only"').replace("true", "false", 1))
    told = licences(Options.of({"swapper.model": "mine"}, Catalogue(folder)))
    assert told["mine"] == told["own"] == Terms("house only", False)
    assert told["yoloface_8n"] == manifest()["yoloface_8n"].terms


def test_every_file_of_the_catalogue_is_in_the_manifest_and_no_other() -> None:
    single = [LANDMARK_ESTIMATOR, RECOGNISER, CLASSIFIER, *CONVERTERS, *FILES]
    tables = (DETECTORS, LANDMARKERS, SWAPPERS, ENHANCERS, OCCLUDERS, PARSERS)
    files = [*single, *(kind.file for table in tables for kind in table.values())]
    assert len(files) == len(set(files))
    assert {*files} == {*manifest()}
    assert all(model.licence and model.source and model.purpose for model in manifest().values())


def _saved(file: Path, name: str, shape: list[int | str], weights: onnx.TensorProto | None = None) -> None:
    """Gives back its input, or its input times `weights`; a swapper's source goes in unseen."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
    if weights is None:
        nodes, stored = [helper.make_node("Identity", [name], ["output"])], []
    else:
        nodes, stored = [helper.make_node("Mul", [name, "w"], ["output"])], [weights]
        inputs.append(helper.make_tensor_value_info("source", TensorProto.FLOAT, ["n", 512]))
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "test", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(file))
