"""Into a pixel format that frames travel in, and into the size and format of the first frame.

Where a format is only another packing of the same samples (NV12, P010, big endian), samples keep their
values. RGB and palettes become 4:4:4 by the BT.709 matrix in limited range, and are tagged so: a colour
comes back within 2 of 255. Alpha travels as a plane of its own, sample for sample; where the job has no place
for it, pictures are laid on black. Frames of another size are stretched to that of the first, those of
another range converted to its; frames that tell of another matrix, primaries or transfer are only counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Colorspace

from ingest.colours import colours_of, range_of
from ingest.recast import SMOOTH
from runtime.alpha import alpha_of, copy_alpha, has_alpha
from runtime.payload import frame_planes
from schemas.errors import InputError
from schemas.frames import VideoFormat
from schemas.pixels import PIXEL_FORMATS, holding, opaque

Cover = npt.NDArray[np.float32]

_DEPTHS = (8, 9, 10, 12, 14, 16)
_GRID = 64
"""Any size that all chroma grids divide."""


def travel_format(name: str) -> str:
    """The format of `schemas.pixels` in which frames of an FFmpeg pixel format travel.

    Gray with alpha becomes 4:2:0 of full range.

    Raises InputError for samples that none of them holds (floating point).
    """
    twin = _twin(name)
    if twin in PIXEL_FORMATS:
        return twin
    layout = av.VideoFormat(name, _GRID, _GRID)
    colours = [part for part in layout.components if not part.is_alpha]
    bits = max(part.bits for part in colours)
    depth = next((d for d in _DEPTHS if d >= bits), None)
    if depth is None or "f16" in name:
        raise InputError(f"pixel format {name} is not supported: samples are integers, of 16 bits at most")
    if len(colours) == 1 and not layout.has_palette:
        if has_alpha(name):
            return holding(1, 1, depth, alpha=True)
        return "gray" if depth == 8 else f"gray{depth}le"
    shift = (_log2(layout.chroma_width(_GRID)), _log2(layout.chroma_height(_GRID)))
    return holding(*shift, depth, alpha=has_alpha(name))


def travels_as(frame: av.VideoFrame) -> str:
    """The format for frames like this one: those of a palette have alpha if its colours do."""
    name = travel_format(frame.format.name)
    if has_palette(frame.format.name) and cover_of(frame) is not None:
        return holding(0, 0, 8, alpha=True)
    return name


def _twin(name: str) -> str:
    return name.replace("yuvj", "yuv", 1)


def _log2(chroma: int) -> int:
    return (_GRID // chroma).bit_length() - 1


def has_palette(name: str) -> bool:
    return av.VideoFormat(name, _GRID, _GRID).has_palette


def is_gray_with_alpha(name: str) -> bool:
    return name.startswith("ya")


def is_rgb(name: str) -> bool:
    layout = av.VideoFormat(name, _GRID, _GRID)
    return layout.is_rgb or layout.has_palette


def is_full_range(name: str) -> bool:
    """yuvj*: the old names of full range."""
    return name.startswith("yuvj")


class Traveller:
    """Turns decoded frames into frames of one format; counts what that changed in `warnings`."""

    def __init__(self, video: VideoFormat, warnings: Counter[str]) -> None:
        self._video = video
        self._warnings = warnings
        self._same_layout: dict[str, bool] = {}
        self._covers: dict[str, bool] = {}

    def normalise(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The frame itself where its planes already have the layout of the format, else a new one."""
        video, name = self._video, frame.format.name
        if name not in self._same_layout:
            twin = _twin(name)
            self._same_layout[name] = video.pixel_format in (twin, opaque(twin))
            self._covers[name] = not video.pixels.alpha and (has_alpha(name) or has_palette(name))
        if not is_rgb(name) and colours_of(frame) != (video.matrix, video.primaries, video.transfer):
            self._warnings["colour_changed"] += 1
        cover = cover_of(frame) if self._covers[name] else None
        travelling = self._converted(frame)
        if cover is None:
            return travelling
        self._warnings["alpha_flattened"] += 1
        return _on_black(travelling, cover, video)

    def _converted(self, frame: av.VideoFrame) -> av.VideoFrame:
        video, name = self._video, frame.format.name
        same_size = (frame.width, frame.height) == (video.width, video.height)
        if not same_size:
            self._warnings["frames_scaled"] += 1
        elif self._same_layout[name] and _spans(frame, video)[0] == _spans(frame, video)[1]:
            return frame
        elif self._same_layout[name] or opaque(travel_format(name)) != opaque(video.pixel_format):
            self._warnings["frames_converted"] += 1
        converted = _converted(frame, video)
        if video.pixels.alpha and same_size:
            copy_alpha(frame, converted)
        return converted


def _converted(frame: av.VideoFrame, video: VideoFormat) -> av.VideoFrame:
    span, wanted = _spans(frame, video)
    size = (video.width, video.height, video.pixel_format)
    if is_rgb(frame.format.name):
        if max(part.bits for part in frame.format.components) < 8:
            frame = frame.reformat(format="rgb24")  # which spreads few bits over the whole scale
        return frame.reformat(
            *size,
            dst_colorspace=Colorspace.ITU709,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            interpolation=SMOOTH,
        )
    return frame.reformat(*size, interpolation=SMOOTH, src_color_range=span, dst_color_range=wanted)


def _spans(frame: av.VideoFrame, video: VideoFormat) -> tuple[ColorRange, ColorRange]:
    """Range of the frame's samples and of those that travel; what does not say is as the others are."""
    wanted = ColorRange.JPEG if video.color_range == "pc" else ColorRange.MPEG
    own = "pc" if is_full_range(frame.format.name) else range_of(frame)
    return {"pc": ColorRange.JPEG, "tv": ColorRange.MPEG, "unknown": wanted}[own], wanted


def cover_of(frame: av.VideoFrame) -> Cover | None:
    """How much of each pixel shows (height, width), 0 to 1; None where all of every pixel does."""
    samples, depth = alpha_of(frame)
    top = (1 << depth) - 1
    return None if samples.min() == top else samples.astype(np.float32) / np.float32(top)


def _on_black(frame: av.VideoFrame, cover: Cover, video: VideoFormat) -> av.VideoFrame:
    """Every sample between its own value and black, by alpha; chroma by the mean alpha of its samples."""
    if cover.shape != (video.height, video.width):
        grey = av.VideoFrame.from_ndarray(np.rint(cover * 255).astype(np.uint8), format="gray")
        cover = grey.reformat(video.width, video.height).to_ndarray().astype(np.float32) / np.float32(255)
    pixels, unit = video.pixels, 1 << (video.pixels.depth - 8)
    full = video.color_range == "pc" or (pixels.planes == 1 and video.color_range == "unknown")
    flat = av.VideoFrame(video.width, video.height, video.pixel_format)
    pairs = zip(frame_planes(frame, video), frame_planes(flat, video), strict=True)
    for number, (plane, out) in enumerate(pairs):
        black = 128 * unit if number else (0 if full else 16 * unit)
        share = _means(cover, 1 << pixels.chroma_y, 1 << pixels.chroma_x, plane.shape) if number else cover
        out[:] = np.rint(black + (plane.astype(np.float32) - black) * share)
    return flat


def _means(cover: Cover, rows: int, columns: int, shape: tuple[int, ...]) -> Any:
    """Means over blocks of rows x columns samples, those at the edge filled up with their neighbours."""
    missing = (shape[0] * rows - cover.shape[0], shape[1] * columns - cover.shape[1])
    padded = np.pad(cover, ((0, missing[0]), (0, missing[1])), mode="edge")
    return padded.reshape(shape[0], rows, shape[1], columns).mean(axis=(1, 3))
