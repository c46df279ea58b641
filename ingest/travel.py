"""Into a pixel format that frames travel in, and into the size and format of the first frame.

Where a format is only another packing of the same samples (NV12, P010, big endian), samples keep their
values. RGB and palettes become 4:4:4 by the BT.709 matrix in limited range, and are tagged so: a colour
comes back within 2 of 255. Alpha is laid on black, for no frame travels with it. Frames of another size are
stretched to that of the first.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Colorspace

from ingest.recast import SMOOTH
from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.frames import VideoFormat
from schemas.pixels import PIXEL_FORMATS

Alpha = npt.NDArray[np.uint8]

_DEPTHS = (8, 9, 10, 12, 14, 16)
_CHROMA = {(1, 1): "420", (1, 0): "422", (0, 0): "444", (0, 1): "440", (2, 0): "411", (2, 2): "410"}
_GRID = 64
"""Any size that all chroma grids divide."""


def travel_format(name: str) -> str:
    """The format of `schemas.pixels` in which frames of an FFmpeg pixel format travel.

    Raises InputError for samples that none of them holds (floating point).
    """
    twin = name.replace("yuvj", "yuv", 1).replace("yuva", "yuv", 1)
    if twin in PIXEL_FORMATS:
        return twin
    layout = av.VideoFormat(name, _GRID, _GRID)
    colours = [part for part in layout.components if not part.is_alpha]
    bits = max(part.bits for part in colours)
    depth = next((d for d in _DEPTHS if d >= bits), None)
    if depth is None:
        raise InputError(f"pixel format {name} has samples of {bits} bits; 16 is the most that is supported")
    suffix = "" if depth == 8 else f"{depth}le"
    if len(colours) == 1 and not layout.has_palette:
        return f"gray{suffix}"
    shift = (_log2(layout.chroma_width(_GRID)), _log2(layout.chroma_height(_GRID)))
    planar = f"yuv{_CHROMA[shift]}p{suffix}"
    return planar if planar in PIXEL_FORMATS else f"yuv444p{suffix}"


def _log2(chroma: int) -> int:
    return (_GRID // chroma).bit_length() - 1


def is_rgb(name: str) -> bool:
    layout = av.VideoFormat(name, _GRID, _GRID)
    return layout.is_rgb or layout.has_palette


def has_alpha(name: str) -> bool:
    return any(part.is_alpha for part in av.VideoFormat(name, _GRID, _GRID).components)


def is_full_range(name: str) -> bool:
    """yuvj*: the old names of full range."""
    return name.startswith("yuvj")


class Traveller:
    """Turns decoded frames into frames of one format; counts what that changed in `warnings`."""

    def __init__(self, video: VideoFormat, warnings: Counter[str]) -> None:
        self._video = video
        self._warnings = warnings
        self._same_layout: dict[str, bool] = {}
        self._alpha: dict[str, bool] = {}

    def normalise(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The frame itself where its planes already have the layout of the format, else a new one."""
        video, name = self._video, frame.format.name
        if name not in self._same_layout:
            twin = name.replace("yuvj", "yuv", 1).replace("yuva", "yuv", 1)
            self._same_layout[name] = twin == video.pixel_format
            self._alpha[name] = has_alpha(name)
        alpha = _alpha_of(frame) if self._alpha[name] else None
        travelling = self._converted(frame)
        if alpha is None:
            return travelling
        self._warnings["alpha_flattened"] += 1
        return _on_black(travelling, alpha, video)

    def _converted(self, frame: av.VideoFrame) -> av.VideoFrame:
        video, name = self._video, frame.format.name
        if (frame.width, frame.height) != (video.width, video.height):
            self._warnings["frames_scaled"] += 1
        elif self._same_layout[name]:
            return frame
        elif travel_format(name) != video.pixel_format:
            self._warnings["frames_converted"] += 1
        return _converted(frame, video)


def _converted(frame: av.VideoFrame, video: VideoFormat) -> av.VideoFrame:
    full = is_full_range(frame.format.name) or (video.color_range == "pc" and not is_rgb(frame.format.name))
    span = ColorRange.JPEG if full else ColorRange.MPEG
    size = (video.width, video.height, video.pixel_format)
    if is_rgb(frame.format.name):
        return frame.reformat(
            *size,
            dst_colorspace=Colorspace.ITU709,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            interpolation=SMOOTH,
        )
    return frame.reformat(*size, interpolation=SMOOTH, src_color_range=span, dst_color_range=span)


def _alpha_of(frame: av.VideoFrame) -> Alpha | None:
    """Alpha of 8 bits (height, width); None where every sample is opaque."""
    packed = frame.reformat(format="rgba").planes[0]
    samples = np.frombuffer(memoryview(packed), np.uint8).reshape(frame.height, packed.line_size)
    alpha = samples[:, 3 : 4 * frame.width : 4]
    return None if alpha.min() == 255 else alpha


def _on_black(frame: av.VideoFrame, alpha: Alpha, video: VideoFormat) -> av.VideoFrame:
    """Every sample between its own value and black, by alpha; chroma by the mean alpha of its samples."""
    if alpha.shape != (video.height, video.width):
        grey = av.VideoFrame.from_ndarray(np.ascontiguousarray(alpha), format="gray")
        alpha = grey.reformat(video.width, video.height).to_ndarray().astype(np.uint8)
    pixels, unit = video.pixels, 1 << (video.pixels.depth - 8)
    full = video.color_range == "pc" or (pixels.planes == 1 and video.color_range == "unknown")
    flat = av.VideoFrame(video.width, video.height, video.pixel_format)
    pairs = zip(frame_planes(frame, video), frame_planes(flat, video), strict=True)
    for number, (plane, out) in enumerate(pairs):
        black = 128 * unit if number else (0 if full else 16 * unit)
        cover = alpha.astype(np.float32) / np.float32(255)
        if number:
            cover = _means(cover, 1 << pixels.chroma_y, 1 << pixels.chroma_x, plane.shape)
        out[:] = np.rint(black + (plane.astype(np.float32) - black) * cover)
    return flat


def _means(cover: npt.NDArray[np.float32], rows: int, columns: int, shape: tuple[int, ...]) -> Any:
    """Means over blocks of rows x columns samples, those at the edge filled up with their neighbours."""
    missing = (shape[0] * rows - cover.shape[0], shape[1] * columns - cover.shape[1])
    padded = np.pad(cover, ((0, missing[0]), (0, missing[1])), mode="edge")
    return padded.reshape(shape[0], rows, shape[1], columns).mean(axis=(1, 3))
