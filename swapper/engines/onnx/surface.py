"""What stages look at and paste on: a whole picture of B G R here, planes of Y'CbCr in `planes`."""

from __future__ import annotations

from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.align import Matrix, inverse, reach, shifted
from swapper.engines.onnx.tensors import Bgr

Floats = npt.NDArray[np.floating[Any]]
Crop = npt.NDArray[np.uint8] | Floats
"""(side, side, 3) B G R, 0..255."""
Mask = npt.NDArray[np.float32]
"""(side, side), 0..1."""


class Surface(Protocol):
    """A picture that faces are cut from and pasted on, in pixels of its own."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    def whole(self) -> Bgr:
        """All of it, not to be written to."""

    def shrunk(self, width: int, height: int) -> Bgr:
        """All of it at another size, bilinear."""

    def cut(self, matrix: Matrix, side: int, *, repeat: bool = True) -> Bgr:
        """A square that `matrix` takes pixels to, bilinear. Beyond the border: its last pixel, or black."""

    def paste(self, crop: Crop, mask: Mask, matrix: Matrix, share: float = 1.0) -> None:
        """Put a square back from where `matrix` took it, as far as `mask` says; `share` 0..1 of it."""


class Picture:
    """B G R of 8 bit, pasted on in place. To the bit what FaceFusion does with one."""

    def __init__(self, pixels: Bgr) -> None:
        self.pixels = pixels

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    def whole(self) -> Bgr:
        return self.pixels

    def shrunk(self, width: int, height: int) -> Bgr:
        if (width, height) == (self.width, self.height):
            return self.pixels
        return _bytes(cv2.resize(self.pixels, (width, height)))

    def cut(self, matrix: Matrix, side: int, *, repeat: bool = True) -> Bgr:
        border = cv2.BORDER_REPLICATE if repeat else cv2.BORDER_CONSTANT
        return _bytes(cv2.warpAffine(self.pixels, matrix, (side, side), borderMode=border))

    def paste(self, crop: Crop, mask: Mask, matrix: Matrix, share: float = 1.0) -> None:
        back = inverse(matrix)
        place = reach(back, *crop.shape[1::-1]).within(self.width, self.height)
        if place.empty:
            return
        size = place.right - place.x, place.bottom - place.y
        back = shifted(back, place.x, place.y)
        region = self.pixels[place.y : place.bottom, place.x : place.right]
        weight: Any = cv2.warpAffine(mask, back, size)
        weight = np.clip(weight, 0, 1, out=weight)[..., None]
        warped = cv2.warpAffine(crop, back, size, borderMode=cv2.BORDER_REPLICATE)
        mixed: Any = region * (1 - weight) + warped * weight
        mixed = mixed.astype(np.uint8)  # cut off, not rounded
        region[:] = mixed if share == 1 else cv2.addWeighted(region, 1 - share, mixed, share, 0)


def _bytes(picture: Any) -> Bgr:
    """OpenCV's stubs say any array."""
    result: Bgr = picture
    return result
