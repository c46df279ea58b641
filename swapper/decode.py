"""Decodes a source picture of any kind, upright, after its header says that it is not too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from schemas.errors import InputError
from swapper.headers import size_of

Picture = npt.NDArray[np.uint8]
"""(height, width, 3) B G R."""

_LONGEST = 3072
"""Larger pictures are shrunk: no engine makes use of more, and every view of a picture costs time."""
_MOST_PIXELS = 1 << 27
"""400 MB decoded; more than nearly any phone or camera makes."""
_GREY = np.float32(128)
_JPEG = b"\xff\xd8"


def decode(data: bytes, number: int) -> Picture:
    """B G R, 8 bit, upright after its EXIF tag, sides at most 3072; what is transparent becomes grey;
    of an animation the first picture.

    Raises InputError for what is no picture, or one of more than 2^27 pixels.
    """
    size = size_of(data)
    if size is None:
        kinds = "JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF"
        raise InputError(f"source picture {number} is no picture that can be read ({kinds})")
    if size[0] * size[1] > _MOST_PIXELS:
        limit = f"{size[0]} x {size[1]}, more than {_MOST_PIXELS >> 20} megapixels"
        raise InputError(f"source picture {number} is too large: {limit}")
    try:
        picture = _decoded(np.frombuffer(data, np.uint8))
    except cv2.error:
        picture = None
    if picture is None:
        raise InputError(f"source picture {number} is damaged: no picture can be read from it")
    scale = _LONGEST / max(picture.shape[:2])
    if scale < 1:
        shape = (round(picture.shape[1] * scale) or 1, round(picture.shape[0] * scale) or 1)
        picture = cv2.resize(picture, shape, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
    return picture


def _decoded(data: npt.NDArray[np.uint8]) -> Picture | None:
    upright = cv2.imdecode(data, cv2.IMREAD_COLOR)
    if upright is None:
        return None
    picture = upright.astype(np.uint8, copy=False)
    stored = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data[:2].tobytes() != _JPEG else None
    if stored is None or stored.ndim != 3 or stored.shape[2] != 4:
        return picture
    full = 255 if stored.dtype == np.uint8 else 65535
    alpha = stored[..., 3:].astype(np.float32) / np.float32(full)
    if alpha.min() == 1:
        return picture
    lying: Any = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    turn = next((t for t in _TURNS if np.array_equal(t(lying), upright)), None)
    if turn is None:
        return picture
    mixed: Picture = (picture * turn(alpha) + _GREY * (1 - turn(alpha)) + 0.5).astype(np.uint8)
    return mixed


def _turned(quarters: int, *, mirrored: bool) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    def turn(picture: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.rot90(picture[:, ::-1] if mirrored else picture, quarters)

    return turn


_TURNS = [_turned(quarters, mirrored=mirrored) for mirrored in (False, True) for quarters in range(4)]
"""All that an EXIF tag can ask for: OpenCV turns colours by it, but not alpha."""
