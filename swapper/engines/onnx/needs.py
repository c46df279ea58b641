"""Which model files the options of a job need."""

from __future__ import annotations

from collections.abc import Iterator

from swapper.engines.onnx import content
from swapper.engines.onnx.catalog import (
    CLASSIFIER,
    DETECTORS,
    LANDMARK_ESTIMATOR,
    LANDMARKERS,
    MANY_DETECTORS,
    OCCLUDERS,
    RECOGNISER,
    SWAPPERS,
    VectorSource,
)
from swapper.engines.onnx.options import ENHANCE, SWAP, Options


def needed(options: Options) -> list[str]:
    """Names of files without `.onnx`, each once."""
    return list(dict.fromkeys([*_finders(options), *_changers(options)]))


def _finders(options: Options) -> Iterator[str]:
    detector = options.detector.model
    yield from (DETECTORS[name].file for name in (MANY_DETECTORS if detector == "many" else (detector,)))
    yield LANDMARK_ESTIMATOR
    if options.landmarker.score > 0:
        landmarker = options.landmarker.model
        yield from LANDMARKERS if landmarker == "many" else (landmarker,)
    if SWAP in options.processors or options.selector.mode == "reference":
        yield RECOGNISER
    if options.selector.filters:
        yield CLASSIFIER
    if options.content_check:
        yield from content.FILES


def _changers(options: Options) -> Iterator[str]:
    if SWAP in options.processors:
        kind = SWAPPERS[options.swapper.model]
        yield kind.file
        if isinstance(kind.source, VectorSource) and kind.source.converter:
            yield kind.source.converter
    if ENHANCE in options.processors:
        yield options.enhancer.model
    if "occlusion" in options.mask.types:
        occluder = options.mask.occluder_model
        yield from OCCLUDERS if occluder == "many" else (occluder,)
    if "region" in options.mask.types and SWAP in options.processors:
        yield options.mask.parser_model
