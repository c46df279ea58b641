"""What each model must take and give: by that a file is told, and refused under the name of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

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
    Enhancer,
    Layout,
    PictureSource,
    Swapper,
    VectorSource,
)
from swapper.models.inspection import Axis, Graph, Tensor

Sizes = tuple[int | None, ...]
"""Of axes; None: any. A file that leaves an axis open fits too."""
_LENGTH = 512
"""Of an embedding."""
_MAPPED = (_LENGTH, _LENGTH)


@dataclass(frozen=True, slots=True)
class Signature:
    """`inputs`: all that there must be, of float32, with their sizes. `weight`: whether there must be an
    input of that name, one float64; None: there may. `outputs`: of each of the first ones, its last axes in
    the ways that it can have them. `emap`: the last initializer is 512 x 512."""

    kind: str
    inputs: Mapping[str, Sizes]
    outputs: Sequence[Sequence[Sizes]]
    weight: bool | None = False
    emap: bool = field(default=False)

    def misfit(self, graph: Graph) -> str:
        """Why a file cannot be this; empty if it can."""
        return next(self._misfits(graph), "")

    def _misfits(self, graph: Graph) -> Iterator[str]:
        there = {one.name: one for one in graph.inputs}
        if self.weight is not False and "weight" in there:
            weight = there.pop("weight")
            if weight.kind != "double" or not _fits(weight.shape, (1,)):
                yield f"input {weight}, not weight double (1)"
        elif self.weight:
            yield "there is no input weight"
        if set(there) != set(self.inputs):
            names = ", ".join(str(one) for one in there.values()) or "none"
            yield f"its inputs are {names}, not {', '.join(self.inputs)}"
            return
        for name, sizes in self.inputs.items():
            one = there[name]
            if one.kind != "float" or len(one.shape) != len(sizes) or not _fits(one.shape, sizes):
                yield f"input {one}, not {Tensor(name, 'float', sizes)}"
        if len(graph.outputs) < len(self.outputs):
            yield f"it has {len(graph.outputs)} outputs, not {len(self.outputs)}"
        for one, ways in zip(graph.outputs, self.outputs, strict=False):
            if not any(_fits(one.shape, sizes) for sizes in ways):
                told = " or ".join("(…, " + ", ".join(map(str, sizes)) + ")" for sizes in ways)
                yield f"output {one}, not {told}"
        if self.emap and graph.last != _MAPPED:
            yield f"its last initializer is {graph.last or 'not of floats'}, not {_MAPPED}"


def _fits(shape: Sequence[Axis], sizes: Sizes) -> bool:
    """Whether the last axes can have these sizes; a shape without axes says nothing."""
    if not shape or not sizes:
        return True
    if len(shape) < len(sizes):
        return False
    pairs = zip(shape[-len(sizes) :], sizes, strict=True)
    return all(size is None or not isinstance(axis, int) or axis == size for axis, size in pairs)


def of_swapper(kind: Swapper) -> Signature:
    """Of one that is built in or described."""
    picture = (None, 3, kind.side, kind.side)
    source: Sizes = (None, _LENGTH)
    if isinstance(kind.source, PictureSource):
        source = (None, 3, kind.source.side, kind.source.side)
    emap = isinstance(kind.source, VectorSource) and kind.source.emap
    return Signature("swapper", {"source": source, "target": picture}, [[picture[1:]]], emap=emap)


def of_enhancer(kind: Enhancer) -> Signature:
    """Of one that is built in or described; what is described may have a weight."""
    weight = None if kind.terms is not None else kind.weighted
    return _plain("enhancer", (None, 3, kind.side, kind.side), [(3, kind.side, kind.side)], weight)


def _plain(kind: str, size: Sizes, outputs: Sequence[Sizes], weight: bool | None = False) -> Signature:
    return Signature(kind, {"input": size}, [[one] for one in outputs], weight)


def _thrice(*widths: int) -> list[Sizes]:
    return [(width,) for width in widths for _ in range(3)]


_DETECTORS: Mapping[Layout, Sequence[Sizes]] = {
    Layout.YOLO: [(20, 8400)],
    Layout.ANCHORS: _thrice(1, 4, 10),
    Layout.CENTRES: _thrice(1, 1, 4, 10),
}


@cache
def signatures() -> Mapping[str, Signature]:
    """By model."""
    single = {
        LANDMARK_ESTIMATOR: _plain("estimator of landmarks", (None, 5, 2), [(68, 2)]),
        RECOGNISER: _plain("recogniser", (None, 3, 112, 112), [(_LENGTH,)]),
        CLASSIFIER: _plain("classifier", (None, 3, 224, 224), [(), (), ()]),
        "nsfw_1": _plain("content check", (None, 3, 640, 640), [(None, None)]),
        "nsfw_2": _plain("content check", (None, 3, 384, 384), [(2,)]),
        "nsfw_3": _plain("content check", (None, 3, 448, 448), [(4,)]),
    }
    single |= {name: _plain("converter", (None, _LENGTH), [(_LENGTH,)]) for name in CONVERTERS}
    for detector in (one for one in DETECTORS.values() if one.layout in _DETECTORS):  # others are built here
        side = detector.sides[0] if len(detector.sides) == 1 else None
        single[detector.file] = _plain("detector", (None, 3, side, side), _DETECTORS[detector.layout])
    for one in (one for one in LANDMARKERS.values() if not one.vertices):
        outputs: list[list[Sizes]] = [[(68, 3)], [(68, 64, 64)]] if one.heatmaps else [[(68, 3), (204,)]]
        single[one.file] = Signature("landmarker", {"input": (None, 3, 256, 256)}, outputs)
    single |= {name: of_swapper(kind) for name, kind in SWAPPERS.items()}
    single |= {name: of_enhancer(kind) for name, kind in ENHANCERS.items()}
    single |= {
        name: _plain("occluder", (None, one.side, one.side, 3), [(one.side, one.side, 1)])
        for name, one in OCCLUDERS.items()
    }
    single |= {
        name: _plain("parser", (None, 3, one.side, one.side), [(19, one.side, one.side)])
        for name, one in PARSERS.items()
    }
    return MappingProxyType(single)
