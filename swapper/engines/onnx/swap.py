"""Crops of many faces through a swapper in one run, tiles of boosted crops among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.align import Matrix, moved
from swapper.engines.onnx.catalog import ZERO, Blend, PictureSource, Scale, Swapper, VectorSource
from swapper.engines.onnx.faces import Face, Vector
from swapper.engines.onnx.masks import Cut, masks
from swapper.engines.onnx.options import MaskOptions, SwapperOptions
from swapper.engines.onnx.recognise import normed
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.source import Source
from swapper.engines.onnx.surface import Floats, Surface
from swapper.engines.onnx.tensors import Tensor, fill, stacked

_MIX = 0.35
"""How much of the target's embedding goes in at weight 0, and comes off at weight 1."""
_PLAIN = Scale(mean=ZERO)


@dataclass(frozen=True, slots=True)
class Task:
    """A face to change. `matrix` takes the surface's pixels to the crop."""

    surface: Surface
    face: Face
    matrix: Matrix


def swap(
    models: Models, work: Sequence[tuple[Task, Source]], options: SwapperOptions, mask: MaskOptions
) -> None:
    """Put sources on faces, none of which lies over another; all are of the same options."""
    if not work:
        return
    kind, side = options.kind, options.side
    tasks = [task for task, _ in work]
    before = [task.surface.cut(task.matrix, side) for task in tasks]
    tiles = np.concatenate([_tiles(crop, kind) for crop in before])
    each = len(tiles) // len(tasks)
    sources = np.stack([_source(models, task.face, source, kind, options.weight) for task, source in work])
    (made, *_) = models[options.model]({"source": sources.repeat(each, 0), "target": tiles})
    after = [_whole(made[i * each : (i + 1) * each], side, kind) for i in range(len(tasks))]
    cuts = [
        Cut(old, new, moved(task.face.outline, task.matrix))
        for task, old, new in zip(tasks, before, after, strict=True)
    ]
    for task, cut, one in zip(tasks, cuts, masks(models, cuts, mask), strict=True):
        task.surface.paste(cut.after, one, task.matrix)


def blends(options: SwapperOptions) -> bool:
    """Whether the target's own embedding goes in too."""
    source = options.kind.source
    return isinstance(source, VectorSource) and options.weight != 0.5


def _tiles(crop: npt.NDArray[np.uint8], kind: Swapper) -> Tensor:
    """(k * k, 3, side, side): tile (i, j) holds every k-th pixel from row i, column j."""
    side = len(crop)
    tensor = np.empty((3, side, side), np.float32)
    fill(tensor, crop, kind.scale)
    k = side // kind.side
    return (
        tensor.reshape(3, kind.side, k, kind.side, k)
        .transpose(2, 4, 0, 1, 3)
        .reshape(k * k, 3, kind.side, kind.side)
    )


def _whole(tiles: Tensor, side: int, kind: Swapper) -> Floats:
    """(side, side, 3) B G R 0..255 of a model's tiles; not rounded. In float64 where the original is in it:
    OpenCV warps that with coarser steps."""
    k = side // kind.side
    planes: list[Floats] = []
    for channel in (2, 1, 0) if kind.scale.rgb else (0, 1, 2):
        plane: Floats = tiles[:, channel].reshape(k, k, kind.side, kind.side)
        plane = plane.transpose(2, 0, 3, 1).reshape(side, side)
        if kind.restore:
            plane = plane.astype(np.float64) * kind.scale.deviation[channel] + kind.scale.mean[channel]
        planes.append(np.clip(plane, 0, 1) * 255)
    crop: Any = cv2.merge(planes)
    return np.asarray(crop)


def _source(models: Models, face: Face, source: Source, kind: Swapper, weight: float) -> Tensor:
    """What goes in as `source`, for one item."""
    if isinstance(kind.source, PictureSource):
        picture: Tensor = stacked([source.crops[kind.source]], _PLAIN)[0]
        return picture
    if kind.file not in source.vectors:
        source.vectors[kind.file] = _vector(models, source, kind, kind.source)
    vector = source.vectors[kind.file]
    if weight == 0.5:
        return vector
    own = face.identity
    own = normed(own) if kind.source.blend is Blend.NORMED else own
    share = np.float32(_MIX * (1 - 2 * weight))
    mixed: Tensor = vector * (1 - share) + own * share
    return mixed


def _vector(models: Models, source: Source, kind: Swapper, how: VectorSource) -> Vector:
    if how.emap:
        mapped: Vector = source.raw @ models.emap(kind.file) / np.linalg.norm(source.raw)
        return mapped
    if not how.converter:
        return source.normed if how.normed else source.raw
    (vector, *_) = models[how.converter]({"input": source.raw[None]})
    return normed(vector[0]) if how.normed else vector[0]
