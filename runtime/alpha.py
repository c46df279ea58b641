"""The alpha samples of frames, planar or packed, and copies of them that are exact.

swscale is off by one where it packs and unpacks alpha, and fills more bits with zeros, so that what was
opaque no longer is. Alpha is therefore copied apart from the colours: the largest value stays the largest.
"""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[Any]

_PACKED = {
    "rgba": (3, 4, "u1"), "bgra": (3, 4, "u1"), "argb": (0, 4, "u1"), "abgr": (0, 4, "u1"),
    "ya8": (1, 2, "u1"), "rgba64le": (3, 4, "<u2"), "rgba64be": (3, 4, ">u2"), "bgra64le": (3, 4, "<u2"),
    "bgra64be": (3, 4, ">u2"), "ya16le": (1, 2, "<u2"), "ya16be": (1, 2, ">u2"),
}  # fmt: skip
"""Place of alpha, samples of a pixel, and their type."""


def has_alpha(name: str) -> bool:
    """Whether an FFmpeg pixel format has alpha of its own; palettes count apart."""
    return any(part.is_alpha for part in av.VideoFormat(name, 64, 64).components)


def alpha_depth(frame: av.VideoFrame) -> int:
    """Bits of a frame's alpha samples."""
    return next(part.bits for part in frame.format.components if part.is_alpha)


def alpha_samples(frame: av.VideoFrame) -> Samples | None:
    """A view (height, width) of the alpha samples; None where the format packs them in some other way."""
    name = frame.format.name
    if name in _PACKED:
        first, count, kind = _PACKED[name]
        plane, size = frame.planes[0], np.dtype(kind).itemsize
        shape, steps = (frame.height, frame.width), (plane.line_size, count * size)
        return np.ndarray(shape, kind, memoryview(plane), first * size, steps)
    if len(frame.planes) != 4 or not has_alpha(name):
        return None
    plane, kind = (
        frame.planes[3],
        "u1" if alpha_depth(frame) == 8 else ">u2" if name.endswith("be") else "<u2",
    )
    steps = (plane.line_size, np.dtype(kind).itemsize)
    return np.ndarray((frame.height, frame.width), kind, memoryview(plane), 0, steps)


def alpha_of(frame: av.VideoFrame) -> tuple[Samples, int]:
    """Alpha of any frame, palettes included, and its depth; opaque where the frame has none."""
    found = alpha_samples(frame)
    if found is not None:
        return found, alpha_depth(frame)
    deep = has_alpha(frame.format.name) and alpha_depth(frame) > 8
    unpacked = frame.reformat(format="rgba64le" if deep else "rgba")
    found = alpha_samples(unpacked)
    assert found is not None
    return found.copy(), 16 if deep else 8


def copy_alpha(source: av.VideoFrame, target: av.VideoFrame) -> None:
    """Write the alpha of one frame into another of the same size, which has alpha at a known place."""
    samples, depth = alpha_of(source)
    out = alpha_samples(target)
    assert out is not None
    out[:] = rescaled(samples, depth, alpha_depth(target))


def rescaled(samples: Samples, depth: int, wanted: int) -> Samples:
    """Samples of a depth in another, full scale to full scale, rounded."""
    if depth == wanted:
        return samples
    top, most = (1 << depth) - 1, (1 << wanted) - 1
    return (samples.astype(np.uint64) * (2 * most) + top) // (2 * top)
