"""Pictures to model inputs, by a table of 256 values a channel: exact, and without float pictures."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.catalog import Scale

Bgr = npt.NDArray[np.uint8]
"""(height, width, 3)."""
Tensor = npt.NDArray[np.float32]


def fill(out: Tensor, picture: Bgr, scale: Scale) -> None:
    """Write a picture as channels of a model's input: `out` (3, height, width)."""
    planes = cv2.split(picture)
    for channel, table in enumerate(_tables(scale)):
        cv2.LUT(planes[2 - channel if scale.rgb else channel], table, dst=out[channel])


def stacked(pictures: list[Bgr], scale: Scale) -> Tensor:
    """(n, 3, height, width) of pictures of one size."""
    out = np.empty((len(pictures), 3, *pictures[0].shape[:2]), np.float32)
    for tensor, picture in zip(out, pictures, strict=True):
        fill(tensor, picture, scale)
    return out


def black(scale: Scale) -> Tensor:
    """(3, 1, 1): what a black pixel is to the model."""
    return np.array([table[0] for table in _tables(scale)], np.float32).reshape(3, 1, 1)


def scaled(picture: npt.NDArray[Any], scale: Scale) -> Tensor:
    """(3, height, width) of a picture of floats 0..255."""
    ordered = picture[..., ::-1] if scale.rgb else picture
    mean, deviation = np.array(scale.mean, np.float32), np.array(scale.deviation, np.float32)
    return ((ordered * np.float32(1 / 255) - mean) / deviation).transpose(2, 0, 1)


@lru_cache
def _tables(scale: Scale) -> tuple[npt.NDArray[np.float32], ...]:
    levels = np.arange(256)
    pairs = zip(scale.mean, scale.deviation, strict=True)
    return tuple(((levels - mean * 255) / (deviation * 255)).astype(np.float32) for mean, deviation in pairs)
