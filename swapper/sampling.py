"""Small RGB pictures straight from planar YUV: the full frame is never converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.pixels import PixelFormat
from swapper.colour import Samples
from swapper.engines.base import Plane
from swapper.transfer import for_viewing, is_hdr

Rgb = npt.NDArray[np.uint8]
"""(height, width, 3), R'G'B' 0..255, of HDR as SDR would show it."""
Points = npt.NDArray[np.float32]


def scaled(planes: Sequence[Plane], meaning: Samples, width: int, height: int) -> Rgb:
    """The whole frame at another size."""
    return rgb([_resized(plane, width, height) for plane in coloured(planes)], meaning)


def warped(
    planes: Sequence[Plane],
    pixels: PixelFormat,
    meaning: Samples,
    matrix: npt.NDArray[np.float64],
    side: int,
) -> Rgb:
    """A square cut-out; `matrix` (2, 3) takes its pixels to luma samples. The frame's edge is repeated."""
    chroma = _chroma_matrix(matrix, pixels)
    return rgb(
        [_warped(plane, matrix if i == 0 else chroma, side) for i, plane in enumerate(coloured(planes))],
        meaning,
    )


def unturned(points: Points, width: int, height: int, quarters: int) -> Points:
    """Points (…, 2) x, y in a picture of `width` x `height` that `np.rot90` made by so many quarter
    turns, in the picture before it was turned."""
    x, y = points[..., 0], points[..., 1]
    before = {
        0: (x, y),
        1: (height - 1 - y, x),
        2: (width - 1 - x, height - 1 - y),
        3: (y, width - 1 - x),
    }
    return np.stack(before[quarters % 4], -1)


def coloured(planes: Sequence[Plane]) -> Sequence[Plane]:
    """Without a plane of alpha."""
    return planes[:3] if len(planes) >= 3 else planes[:1]


def _chroma_matrix(matrix: npt.NDArray[np.float64], pixels: PixelFormat) -> npt.NDArray[np.float64]:
    """Chroma samples lie in the middle of the luma samples they belong to."""
    step = np.array([[1 << pixels.chroma_x], [1 << pixels.chroma_y]], np.float64)
    scaled = matrix / step
    scaled[:, 2:] += 0.5 / step - 0.5
    return scaled


def _resized(plane: Plane, width: int, height: int) -> Plane:
    shrinks = width * 2 < plane.shape[1] or height * 2 < plane.shape[0]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(plane, (width, height), interpolation=method)


def _warped(plane: Plane, matrix: npt.NDArray[np.float64], side: int) -> Plane:
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(plane, matrix, (side, side), flags=flags, borderMode=cv2.BORDER_REPLICATE)


def rgb(planes: Sequence[Plane], meaning: Samples, *, reverse: bool = False) -> Rgb:
    """R G B of planes of one size, or B G R."""
    matrix = meaning.to_rgb()
    if reverse:
        matrix = matrix[::-1]
    if len(planes) == 1:
        matrix = np.column_stack([matrix[:, 0], matrix[:, 3] + matrix[:, 1:3].sum(1) * meaning.grey])
    wide: Any = cv2.transform(cv2.merge(list(planes)), matrix)
    small: Rgb = wide if wide.dtype == np.uint8 else cv2.convertScaleAbs(wide)
    if is_hdr(meaning.transfer):
        cv2.LUT(small, for_viewing(meaning.transfer), dst=small)
    return small
