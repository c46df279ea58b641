"""Golden pictures as frames of planes, and what planes show, without rounding in between."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.frames import FrameFlag, FrameInfo, VideoFormat
from swapper.colour import samples
from swapper.engines.base import Frame, FrameSwap, Plane

Bgr = npt.NDArray[np.uint8]


def frame(picture: Bgr, name: str = "yuv420p", number: int = 0, **form: Any) -> Frame:
    """A frame that shows a picture of its own size; its planes cannot be written to."""
    height, width = picture.shape[:2]
    video = VideoFormat(width=width, height=height, pixel_format=name, **form)
    info = FrameInfo(number, number, 1, FrameFlag(0))
    return Frame(info, number, video, Fraction(1, 25), tuple(planes(picture, video)))


def planes(picture: Bgr, video: VideoFormat) -> list[Plane]:
    meaning, pixels = samples(video), video.pixels
    colours: Any = cv2.transform(picture[..., ::-1].astype(np.float32) / 255, meaning.from_rgb())
    made = []
    for i in range(pixels.planes):
        size = pixels.plane_size(i, video.width, video.height)
        if i == 3:
            plane = np.full(size[::-1], 255.0)
        else:
            scale, zero = (meaning.chroma, meaning.grey) if i else (meaning.luma, meaning.black)
            plane = cv2.resize(colours[..., i], size, interpolation=cv2.INTER_AREA) * scale + zero
        kind = np.uint8 if pixels.depth == 8 else np.uint16
        coded = np.clip(np.round(plane), 0, (1 << pixels.depth) - 1).astype(kind)
        coded.flags.writeable = False
        made.append(coded)
    return made


def shown(of: Sequence[Plane], video: VideoFormat) -> Bgr:
    """The picture that planes show, as stored."""
    size = (video.width, video.height)
    parts: list[Any] = [cv2.resize(plane.astype(np.float32), size) for plane in of[: video.pixels.colours]]
    matrix = samples(video).to_rgb()
    if len(parts) == 1:
        parts += [np.full_like(parts[0], samples(video).grey)] * 2
    colours: Any = cv2.transform(cv2.merge(parts), matrix)
    return np.clip(np.round(colours[..., ::-1]), 0, 255).astype(np.uint8)


def pasted(one: Frame, swap: FrameSwap) -> list[Plane]:
    """The frame's planes with the patches on them."""
    result, pixels = [np.array(plane) for plane in one.planes], one.format.pixels
    for patch in swap.patches:
        assert len(patch.planes) == pixels.colours
        for i, part in enumerate(patch.planes):
            across, down = (pixels.chroma_x, pixels.chroma_y) if i else (0, 0)
            x, y = patch.x >> across, patch.y >> down
            assert part.shape[::-1] == pixels.plane_size(i, patch.width, patch.height)
            assert part.dtype == result[i].dtype
            result[i][y : y + part.shape[0], x : x + part.shape[1]] = part
    return result


def result(one: Frame, swap: FrameSwap) -> Bgr:
    """The picture after a swap."""
    return shown(pasted(one, swap), one.format)
