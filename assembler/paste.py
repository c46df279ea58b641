"""Paste patches into frames, and make the pictures that stand in for failed batches.

A picture is a list of planes, each (height, width) of uint8, or of uint16 above 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import MalformedRecordError
from schemas.frames import VideoFormat
from schemas.framing import Buffer
from schemas.swaps import Patch

Plane = npt.NDArray[Any]

BLUR_CELLS = 12
"""Cells along the shorter side of a blurred frame: too few to tell a face by."""


def paste(planes: Sequence[Plane], video: VideoFormat, patches: Sequence[Patch], body: Buffer) -> None:
    """Overwrite the patches' rectangles, in order, in place. Alpha and every other sample stay as they are.

    Raises MalformedRecordError, before anything is written, for a rectangle that leaves the frame or
    the chroma grid, or whose planes are not in the body.
    """
    for patch in patches:
        check_patch(patch, video, len(body))
    dtype = np.uint8 if video.pixels.sample_bytes == 1 else np.dtype("<u2")
    for patch in patches:
        at = patch.offset
        for index, plane in enumerate(planes[: video.pixels.colours]):
            x, y, width, height = _rectangle(patch, video, index)
            block = np.frombuffer(body, dtype, width * height, at).reshape(height, width)
            plane[y : y + height, x : x + width] = block
            at += block.nbytes


def check_patch(patch: Patch, video: VideoFormat, body_bytes: int) -> None:
    """Raises MalformedRecordError if the patch does not fit the frame, the chroma grid or the body."""
    right, bottom = patch.x + patch.width, patch.y + patch.height
    where = f"patch {patch.width}x{patch.height} at {patch.x},{patch.y}"
    if right > video.width or bottom > video.height:
        raise MalformedRecordError(f"{where} leaves the frame of {video.width}x{video.height}")
    step_x, step_y = 1 << video.pixels.chroma_x, 1 << video.pixels.chroma_y
    on_grid = (
        patch.x % step_x == 0
        and patch.y % step_y == 0
        and (right % step_x == 0 or right == video.width)
        and (bottom % step_y == 0 or bottom == video.height)
    )
    if not on_grid:
        raise MalformedRecordError(f"{where} is off the chroma grid of {video.pixel_format}")
    needed = video.pixels.patch_bytes(patch.width, patch.height)
    if patch.offset + needed > body_bytes:
        raise MalformedRecordError(
            f"{where} needs {needed} bytes from {patch.offset}, the record has {body_bytes}"
        )


def _rectangle(patch: Patch, video: VideoFormat, plane: int) -> tuple[int, int, int, int]:
    """(x, y, width, height) of the patch in samples of a plane."""
    width, height = video.pixels.plane_size(plane, patch.width, patch.height)
    if plane == 0:
        return patch.x, patch.y, width, height
    return patch.x >> video.pixels.chroma_x, patch.y >> video.pixels.chroma_y, width, height


def blur(planes: Sequence[Plane]) -> None:
    """Blur a picture's colour planes in place until no face can be told: means of cells, interpolated
    linearly."""
    height, width = planes[0].shape
    cells = BLUR_CELLS / min(height, width)
    rows, columns = (max(2, min(round(size * cells), size // 2)) for size in (height, width))
    for plane in planes[: 3 if len(planes) == 4 else None]:
        down, across = _means(plane.shape[0], rows), _means(plane.shape[1], columns)
        small = down @ plane.astype(np.float32) @ across.T
        smooth = _weights(plane.shape[0], rows) @ small @ _weights(plane.shape[1], columns).T
        plane[:] = np.rint(smooth).astype(plane.dtype)


def _edges(size: int, cells: int) -> npt.NDArray[np.int64]:
    return np.arange(cells + 1) * size // cells


def _means(size: int, cells: int) -> npt.NDArray[np.float32]:
    """(cells, size): row i averages the samples of cell i. Cells of a tiny plane hold at least one."""
    cell = np.zeros((cells, size), np.float32)
    edges = _edges(size, cells)
    for i in range(cells):
        first = min(int(edges[i]), size - 1)
        cell[i, first : max(int(edges[i + 1]), first + 1)] = 1
    cell /= cell.sum(axis=1, keepdims=True)
    return cell


def _weights(size: int, cells: int) -> npt.NDArray[np.float32]:
    """(size, cells): linear interpolation between cell centres, constant beyond the outer ones."""
    at = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
    low = np.minimum(at.astype(np.int64), cells - 2)
    weights = np.zeros((size, cells), np.float32)
    rows = np.arange(size)
    weights[rows, low] = 1 - (at - low)
    weights[rows, low + 1] = at - low
    return weights
