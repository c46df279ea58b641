"""Into a pixel format that frames travel in, and into the size and format of the first frame.

Where a format is only another packing of the same samples (NV12, P010, big endian), samples keep their
values. RGB and palettes become 4:4:4 by the BT.709 matrix in limited range, and are tagged so.
"""

from __future__ import annotations

from collections import Counter

import av
from av.video.reformatter import ColorRange, Colorspace, Interpolation

from schemas.errors import InputError
from schemas.frames import VideoFormat
from schemas.pixels import PIXEL_FORMATS

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

    def normalise(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The frame itself where its planes already have the layout of the format, else a new one."""
        video, name = self._video, frame.format.name
        if name not in self._same_layout:
            twin = name.replace("yuvj", "yuv", 1).replace("yuva", "yuv", 1)
            self._same_layout[name] = twin == video.pixel_format
        if (frame.width, frame.height) != (video.width, video.height):
            self._warnings["frames_scaled"] += 1
        elif self._same_layout[name]:
            return frame
        elif travel_format(name) != video.pixel_format:
            self._warnings["frames_converted"] += 1
        return _converted(frame, video)


def _converted(frame: av.VideoFrame, video: VideoFormat) -> av.VideoFrame:
    if is_rgb(frame.format.name):
        return frame.reformat(
            video.width,
            video.height,
            video.pixel_format,
            dst_colorspace=Colorspace.ITU709,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            interpolation=Interpolation.BICUBIC,
        )
    return frame.reformat(video.width, video.height, video.pixel_format, interpolation=Interpolation.BICUBIC)
