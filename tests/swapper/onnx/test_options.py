"""What a job may ask for, and how a wrong wish is answered."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import UsageError
from swapper.engines.onnx.align import TEMPLATES
from swapper.engines.onnx.catalog import (
    DETECTORS,
    ENHANCERS,
    LANDMARKERS,
    MANY_DETECTORS,
    OCCLUDERS,
    PARSERS,
    SWAPPERS,
    PictureSource,
)
from swapper.engines.onnx.needs import licences, needed
from swapper.engines.onnx.options import Options

pytestmark = pytest.mark.unit


def test_names_with_dots_and_groups_say_the_same() -> None:
    dotted = Options.of(
        {"swapper.model": "ghost_1_256", "detector.angles": "0, 90", "mask.types": "box,area", "mask.blur": 0}
    )
    grouped = Options.of(
        {
            "swapper": {"model": "ghost_1_256"},
            "detector": {"angles": [0, 90]},
            "mask": {"types": ["box", "area"], "blur": 0.0},
        }
    )
    assert dotted == grouped
    assert Options.of({"detector.angles": 90}).detector.angles == (90,)
    assert (
        Options.of({"swapper.model": "inswapper_128", "swapper.pixel_boost": "512x512"}).swapper.side == 512
    )
    assert Options.of({}).swapper.side == 256


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"modell": 1}, "has no option 'modell'; it has: processors, detector, landmarker"),
        ({"mask.kinds": "box"}, "has no option 'mask.kinds'; mask has: types, blur, padding"),
        ({"swapper.model": "x"}, "option swapper of engine onnx: model 'x'; there are: blendswap_256"),
        (
            {"swapper.model": "inswapper_128", "swapper.pixel_boost": 200},
            "128, 256, 384, 512, 768, 1024",
        ),
        ({"swapper.model": "simswap_unofficial_512", "swapper.pixel_boost": 768}, "there are: 512, 1024"),
        ({"detector.size": 320}, "size of yolo_face 320; there are: 640"),
        (
            {"detector.model": "many", "detector.size": 99},
            "size of many 99; there are: 160, 320, 480, 512, 640",
        ),
        ({"detector.angles": "45"}, "angle 45; there are: 0, 90, 180, 270"),
        ({"detector.angles": "90,90"}, "each once"),
        ({"detector.margin": "1,2"}, "option detector.margin"),
        ({"detector.score": 2}, "option detector.score of engine onnx: .*less than or equal to 1"),
        ({"selector.mode": "some"}, "'many', 'one' or 'reference'"),
        ({"selector.age_start": 3}, "age_start and age_end are given together"),
        ({"selector.age_start": 30, "selector.age_end": 20}, "not below"),
        ({"selector.race": "martian"}, "race 'martian'; there are: auto, white, black"),
        ({"mask.types": ""}, "types names none of: box, occlusion, area, region"),
        ({"mask.regions": "skin,tail"}, "regions 'tail'; there are: skin"),
        ({"processors": "face_enhancer,face_enhancer"}, "each at most once"),
        ({"processors": "lip_syncer"}, "'face_swapper' or 'face_enhancer'"),
        ({"enhancer": 3}, "option enhancer of engine onnx"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Options.of(given)


def test_every_model_can_be_asked_for() -> None:
    for name, detector in DETECTORS.items():
        for side in detector.sides:
            Options.of({"detector.model": name, "detector.size": side})
    for name, swapper in SWAPPERS.items():
        for side in swapper.boosts:
            assert side % swapper.side == 0
            Options.of({"swapper.model": name, "swapper.pixel_boost": side})
    assert len(SWAPPERS) == 13
    for group, names in (
        ("landmarker.model", LANDMARKERS),
        ("enhancer.model", ENHANCERS),
        ("mask.occluder_model", OCCLUDERS),
        ("mask.parser_model", PARSERS),
    ):
        for name in names:
            Options.of({group: name})
    Options.of({"detector.model": "many", "landmarker.model": "many", "mask.occluder_model": "many"})


def test_tables_name_what_exists() -> None:
    assert set(MANY_DETECTORS) <= set(DETECTORS)
    used = {swapper.template for swapper in SWAPPERS.values()} | {one.template for one in ENHANCERS.values()}
    used |= {one.source.template for one in SWAPPERS.values() if isinstance(one.source, PictureSource)}
    assert used <= set(TEMPLATES)


def test_no_default_names_weights_that_forbid_commercial_use() -> None:
    """But the recogniser, for which there is no other; docs/models.md says so."""
    options = Options.of({"processors": "face_swapper,face_enhancer", "mask.types": "occlusion,region"})
    refused = [name for name, terms in licences(options).items() if not terms.commercial_use]
    assert refused == ["arcface_w600k_r50"]


def test_only_the_files_that_options_need_are_asked_for() -> None:
    plain = needed(Options.of({"swapper.model": "inswapper_128"}))
    assert plain == ["yoloface_8n", "fan_68_5", "2dfan4", "arcface_w600k_r50", "inswapper_128"]
    enhancing = needed(
        Options.of({"processors": "face_enhancer", "landmarker.score": 0, "mask.types": "region"})
    )
    assert enhancing == ["yoloface_8n", "fan_68_5", "gfpgan_1.4"]
    everything = needed(
        Options.of(
            {
                "detector.model": "many",
                "landmarker.model": "many",
                "selector.gender": "auto",
                "mask.types": "occlusion,region",
                "mask.occluder_model": "many",
            }
        )
    )
    assert {"retinaface_10g", "peppa_wutz", "fairface", "crossface_ghost", "xseg_3", "bisenet_resnet_34"} <= {
        *everything
    }
