"""Faces as films have them, made of plain portraits: turned."""

from __future__ import annotations

import cv2
import numpy as np

from tests.support.faces import Bgr


def rolled(picture: Bgr, degrees: float, border: int = 0) -> Bgr:
    """Turned clockwise about its middle, with its edge repeated `border` samples outwards before."""
    wide = cv2.copyMakeBorder(picture, border, border, border, border, cv2.BORDER_REPLICATE)
    height, width = wide.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), -degrees, 1)
    turned = cv2.warpAffine(
        wide, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return turned.astype(np.uint8)
