"""Where a swapped crop counts: box, occlusion, area and region, the least of those asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from swapper.engines.onnx.align import Points
from swapper.engines.onnx.catalog import (
    AREAS,
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    OCCLUDERS,
    PARSERS,
    REGIONS,
    Scale,
)
from swapper.engines.onnx.options import MaskOptions
from swapper.engines.onnx.session import Models
from swapper.engines.onnx.surface import Crop, Mask
from swapper.engines.onnx.tensors import Bgr, scaled

_SOFT = 5
"""Sigma, in pixels of the crop."""
_PARSED = Scale(IMAGENET_MEAN, IMAGENET_DEVIATION)


@dataclass(frozen=True, slots=True)
class Cut:
    """A crop before and after the swap, and its 68 points, in pixels of the crop."""

    before: Bgr
    after: Crop
    outline: Points


def masks(models: Models, cuts: Sequence[Cut], options: MaskOptions) -> list[Mask]:
    """A mask for each crop; all crops are of one size. Not to be written to."""
    side = cuts[0].before.shape[0]
    kinds: list[list[Mask]] = []
    if "box" in options.types:
        kinds.append([_box(side, options.blur, options.padding)] * len(cuts))
    if "occlusion" in options.types:
        names = tuple(OCCLUDERS) if options.occluder_model == "many" else (options.occluder_model,)
        kinds.append(list(_unoccluded(models, cuts, names)))
    if "area" in options.types:
        kinds.append([_area(cut.outline, side, options.areas) for cut in cuts])
    if "region" in options.types:
        kinds.append(list(_regions(models, cuts, options)))
    return [_least(row) for row in zip(*kinds, strict=True)]


def _least(row: Sequence[Mask]) -> Mask:
    least = row[0]
    for other in row[1:]:
        least = np.minimum(least, other)
    return least


@lru_cache(maxsize=64)
def _box(side: int, blur: float, padding: tuple[int, int, int, int]) -> Mask:
    """A square whose edge fades; the same for all faces."""
    width = int(side * 0.5 * blur)
    edge = max(width // 2, 1)
    top, right, bottom, left = (max(edge, int(side * percent / 100)) for percent in padding)
    mask = np.ones((side, side), np.float32)
    mask[:top] = 0
    mask[side - bottom :] = 0
    mask[:, :left] = 0
    mask[:, side - right :] = 0
    if width:
        mask = np.asarray(cv2.GaussianBlur(mask, (0, 0), width * 0.25), np.float32)
    mask.flags.writeable = False
    return mask


def _unoccluded(models: Models, cuts: Sequence[Cut], names: Sequence[str]) -> Iterator[Mask]:
    """1 where, as each model says, nothing lies before the face; by the crop as it was."""
    side, small = cuts[0].before.shape[0], OCCLUDERS[names[0]].side
    pictures: list[Any] = [cv2.resize(cut.before, (small, small)) for cut in cuts]
    tensor = np.stack(pictures).astype(np.float32) / np.float32(255)
    found = [models[name]({"input": tensor})[0].reshape(-1, small, small) for name in names]
    for row in zip(*found, strict=True):
        shown = [cv2.resize(np.clip(one, 0, 1), (side, side)) for one in row]
        yield _softened(_least(shown))


def _area(outline: Points, side: int, names: Sequence[str]) -> Mask:
    """The hull of the chosen points, drawn from whole numbers."""
    chosen = [index for name in names for index in AREAS[name]]
    hull = cv2.convexHull(outline[chosen].astype(np.int32))
    mask = np.zeros((side, side), np.float32)
    cv2.fillConvexPoly(mask, hull, 1.0)
    return _softened(mask)


def _regions(models: Models, cuts: Sequence[Cut], options: MaskOptions) -> Iterator[Mask]:
    """Parts of the face that are kept, by the crop after the swap."""
    side, large = cuts[0].before.shape[0], PARSERS[options.parser_model].side
    pictures: list[Any] = [cv2.resize(cut.after, (large, large)) for cut in cuts]
    tensor = np.stack([scaled(picture, _PARSED) for picture in pictures])
    (found, *_) = models[options.parser_model]({"input": tensor})
    wanted = np.isin(np.arange(found.shape[1]), [REGIONS[name] for name in options.regions])
    for one in found:
        kept = wanted[one.argmax(0)].astype(np.float32)
        yield _softened(cv2.resize(kept, (side, side)))


def _softened(mask: Any) -> Mask:
    """Blurred, with an edge that lies inside."""
    blurred: Any = cv2.GaussianBlur(np.clip(mask, 0, 1), (0, 0), _SOFT)
    soft: Mask = (np.clip(blurred, 0.5, 1) - 0.5) * 2
    return soft
