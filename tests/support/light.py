"""Light of HDR frames for tests, by the formulas of the standards and apart from the product's code."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat
from swapper.engines.base import Frame, Plane
from tests.support import faces

Light = npt.NDArray[np.float64]

_BT2020 = np.array([[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]])
"""ITU-R BT.2087."""
_KR, _KB = 0.2627, 0.0593
_HLG = (0.17883277, 0.28466892, 0.55991073)


def form(transfer: str, width: int = 640, height: int = 524, pixels: str = "yuv420p10le") -> VideoFormat:
    """BT.2020, limited range."""
    return VideoFormat(
        width=width,
        height=height,
        pixel_format=pixels,
        color_range="tv",
        matrix="bt2020nc",
        primaries="bt2020",
        transfer=transfer,
    )


def eotf(code: Light, transfer: str) -> Light:
    """PQ (SMPTE ST 2084): cd/m2. HLG (ITU-R BT.2100): the scene's light, 0..1."""
    code = np.clip(code, 0, 1)
    if transfer == "arib-std-b67":
        a, b, c = _HLG
        return np.where(code <= 0.5, code**2 / 3, (np.exp((code - c) / a) + b) / 12)
    m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
    root = code ** (1 / m2)
    return 10000 * (np.maximum(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1)


def coded(picture: faces.Bgr, like: VideoFormat, gain: float = 1.0) -> list[Plane]:
    """Planes that show an sRGB picture with white at 203 cd/m2 (HLG 75 %), times `gain`."""
    rgb = cv2.resize(picture, (like.width, like.height), interpolation=cv2.INTER_CUBIC)[..., ::-1] / 255
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ _BT2020.T
    ramp = np.linspace(0, 1, 4097)
    white = 203.0 if like.transfer == "smpte2084" else float(eotf(np.array(0.75), like.transfer))
    code = np.interp(light * white * gain, eotf(ramp, like.transfer), ramp)
    y = code @ [_KR, 1 - _KR - _KB, _KB]
    cb, cr = (code[..., 2] - y) / (2 * (1 - _KB)), (code[..., 0] - y) / (2 * (1 - _KR))
    pixels = like.pixels
    unit = 1 << (pixels.depth - 8)
    planes = []
    for i, (zero, scale, part) in enumerate(((16, 219, y), (128, 224, cb), (128, 224, cr))):
        size = pixels.plane_size(i, like.width, like.height)
        small = cv2.resize(part, size, interpolation=cv2.INTER_AREA)
        planes.append(np.round((zero + scale * small) * unit).astype(np.uint16))
    return planes


def luminance(planes: Sequence[Plane], like: VideoFormat) -> Light:
    """Linear, (height, width)."""
    unit, size = 1 << (like.pixels.depth - 8), (like.width, like.height)
    y, cb, cr = (cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR).astype(float) for plane in planes)
    y, cb, cr = (y / unit - 16) / 219, (cb / unit - 128) / 224, (cr / unit - 128) / 224
    red, blue = y + 2 * (1 - _KR) * cr, y + 2 * (1 - _KB) * cb
    green = (y - _KR * red - _KB * blue) / (1 - _KR - _KB)
    light = eotf(np.dstack([red, green, blue]), like.transfer)
    return np.asarray(light @ [_KR, 1 - _KR - _KB, _KB])


def clip(like: VideoFormat, count: int, gain: float = 1.0) -> list[Frame]:
    """Carphone as HDR."""
    plain = VideoFormat(width=like.width, height=like.height, pixel_format="yuv420p")
    pictures = [faces.bgr(one.planes, plain) for one in faces.clip(plain, count)]
    return [faces.frame(coded(picture, like, gain), like, i) for i, picture in enumerate(pictures)]
