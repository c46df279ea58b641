"""Which model files the options of a job need, and under which licences they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swapper.engines.onnx import content
from swapper.engines.onnx.catalog import (
    CLASSIFIER,
    DETECTORS,
    LANDMARK_ESTIMATOR,
    LANDMARKERS,
    MANY_DETECTORS,
    MANY_LANDMARKERS,
    OCCLUDERS,
    RECOGNISER,
    VectorSource,
)
from swapper.engines.onnx.options import ENHANCE, SWAP, DetectorOptions, LandmarkerOptions, Options
from swapper.models.manifest import Terms, manifest

_Need = tuple[str, Terms | None]
"""A file; terms are those of a custom model, else the manifest has them."""


def needed(options: Options) -> list[str]:
    """Names of files without `.onnx`, each once."""
    return list(licences(options))


def licences(options: Options) -> Mapping[str, Terms]:
    """By needed file."""
    needs: dict[str, Terms | None] = dict.fromkeys(_finders(options))
    for name, terms in _changers(options):
        needs[name] = needs.get(name) or terms
    return {name: terms or manifest()[name].terms for name, terms in needs.items()}


def of_detector(options: DetectorOptions) -> list[str]:
    """Files that faces are found by."""
    names = MANY_DETECTORS if options.model == "many" else (options.model,)
    return [DETECTORS[name].file for name in names]


def of_landmarker(options: LandmarkerOptions) -> list[str]:
    """Files that give the points of faces."""
    names = MANY_LANDMARKERS if options.model == "many" else (options.model,)
    files = [LANDMARKERS[name].file for name in names if options.score > 0]
    return files if options.by_mesh else [LANDMARK_ESTIMATOR, *files]


def _finders(options: Options) -> Iterator[str]:
    yield from of_detector(options.detector)
    yield from of_landmarker(options.landmarker)
    if SWAP in options.processors or options.selector.mode == "reference":
        yield RECOGNISER
    if options.selector.filters:
        yield CLASSIFIER
    if options.content_check:
        yield from content.FILES


def _changers(options: Options) -> Iterator[_Need]:
    if SWAP in options.processors:
        kind = options.swapper.kind
        yield kind.file, kind.terms
        if isinstance(kind.source, VectorSource) and kind.source.converter:
            converter = kind.source.converter
            yield converter, None if converter in manifest() else kind.terms
    if ENHANCE in options.processors:
        enhancer = options.enhancer.kind
        yield enhancer.file, enhancer.terms
    if "occlusion" in options.mask.types:
        occluder = options.mask.occluder_model
        yield from ((name, None) for name in (OCCLUDERS if occluder == "many" else (occluder,)))
    if "region" in options.mask.types and SWAP in options.processors:
        yield options.mask.parser_model, None
