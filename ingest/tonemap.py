"""HDR to SDR: PQ (SMPTE ST 2084) and HLG (ARIB STD-B67) to BT.709 in 8 bit.

Light of the source, in cd/m2, by the PQ EOTF, or by the HLG inverse OETF and the OOTF of a 1000 cd/m2
display (ITU-R BT.2100); compressed by the EETF of ITU-R BT.2390 (section 5.4.1), applied to the largest of
R, G and B so that hues stay, from the peak of the content to SDR_WHITE; turned to BT.709 primaries (matrices
from the chromaticities); colours outside them are mixed with gray of the same luminance until they fit;
encoded for a display of gamma 2.4 (BT.1886).

All of it goes into one table over (Y, Cb, Cr), which is then read with linear interpolation for each sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from schemas.frames import VideoFormat

Array = npt.NDArray[Any]

HDR_TRANSFERS = ("smpte2084", "arib-std-b67")
SDR_WHITE = 203.0
"""cd/m2 of reference white in HDR production (ITU-R BT.2408)."""
USUAL_PEAK = 1000.0
"""cd/m2, where the input says nothing."""
_LUMA, _CHROMA = 129, 33
"""Nodes of the table."""

_PRIMARIES = {
    "bt2020": ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    "smpte432": ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
    "bt709": ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
}
_D65 = (0.3127, 0.3290)
_WEIGHTS = {"bt709": (0.2126, 0.0722), "bt2020nc": (0.2627, 0.0593)}
"""(Kr, Kb) of the luma."""


def is_hdr(video: VideoFormat) -> bool:
    return video.transfer in HDR_TRANSFERS


class ToneMap:
    """Maps planes of one HDR format to planes of 8-bit BT.709 in limited range, same chroma sampling."""

    def __init__(self, video: VideoFormat) -> None:
        self._table = np.ascontiguousarray(_table(video), np.float32)
        self._scales = 1 / ((1 << video.pixels.depth) - 1), 1 / (1 << video.pixels.depth)

    def apply(self, planes: Sequence[Array], out: Sequence[Array]) -> None:
        """Write the mapped planes into `out` (uint8)."""
        _luma(planes[0], planes[1], planes[2], self._table, *self._scales, out[0])
        _chroma(planes[0], planes[1], planes[2], self._table, *self._scales, out[1], out[2])


def _table(video: VideoFormat) -> Array:
    """(_LUMA, _CHROMA, _CHROMA, 3) codes of Y, Cb, Cr in 8 bit."""
    y, cb, cr = np.meshgrid(
        np.linspace(0, 1, _LUMA), np.linspace(0, 1, _CHROMA), np.linspace(0, 1, _CHROMA), indexing="ij"
    )
    light = _light(_rgb(np.stack([y, cb, cr]), video), video.transfer)
    top = light.max(axis=0)
    ratio = eetf(top, peak(video)) / np.maximum(top, 1e-9)
    linear = np.clip(light * ratio / SDR_WHITE, 0, None)
    source = _PRIMARIES.get(video.primaries, _PRIMARIES["bt2020"])
    matrix = np.linalg.inv(_to_xyz(_PRIMARIES["bt709"])) @ _to_xyz(source)
    fitted = _fit(np.tensordot(matrix, linear, axes=1))
    return np.moveaxis(_codes(fitted ** (1 / 2.4)), 0, -1)


def peak(video: VideoFormat) -> float:
    """Largest light of the content, cd/m2: its light level, else its mastering display's, else the usual."""
    if video.transfer == "arib-std-b67":
        return USUAL_PEAK
    if video.light_level[0] > 0:
        return max(float(video.light_level[0]), SDR_WHITE)
    _, _, luminance = video.mastering_display.partition("L(")
    if luminance:
        return max(float(luminance.split(",")[0]) / 10_000, SDR_WHITE)
    return USUAL_PEAK


def _rgb(ycc: Array, video: VideoFormat) -> Array:
    """Non-linear RGB of codes: luma as a share of the largest code, chroma of the number of codes, so that
    one node of the table is exactly gray."""
    top = (1 << video.pixels.depth) - 1
    if video.color_range == "pc":
        y, cb, cr = ycc[0], (ycc[1] - 0.5) * (top + 1) / top, (ycc[2] - 0.5) * (top + 1) / top
    else:
        luma = ycc[0] * top / (top + 1) * 256
        y, cb, cr = (luma - 16) / 219, (ycc[1] * 256 - 128) / 224, (ycc[2] * 256 - 128) / 224
    kr, kb = _WEIGHTS.get(video.matrix, _WEIGHTS["bt2020nc"])
    r, b = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    rgb: Array = np.clip(np.stack([r, (y - kr * r - kb * b) / (1 - kr - kb), b]), 0, 1)
    return rgb


def _light(rgb: Array, transfer: str) -> Array:
    if transfer == "smpte2084":
        return pq_to_light(rgb)
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    scene = np.where(rgb <= 0.5, rgb**2 / 3, (np.exp((rgb - c) / a) + b) / 12)
    luminance = 0.2627 * scene[0] + 0.6780 * scene[1] + 0.0593 * scene[2]
    light: Array = USUAL_PEAK * np.maximum(luminance, 1e-12) ** 0.2 * scene
    return light


_M1, _M2 = 2610 / 16384, 2523 / 4096 * 128
_C1, _C2, _C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32


def pq_to_light(value: Array) -> Array:
    """PQ EOTF: [0, 1] to cd/m2."""
    power = np.power(value, 1 / _M2)
    light: Array = 10_000 * np.power(np.maximum(power - _C1, 0) / (_C2 - _C3 * power), 1 / _M1)
    return light


def light_to_pq(light: Array) -> Array:
    """Inverse of `pq_to_light`."""
    power = np.power(np.maximum(light, 0) / 10_000, _M1)
    return np.power((_C1 + _C2 * power) / (1 + _C3 * power), _M2)


def eetf(light: Array, source: float) -> Array:
    """BT.2390: light of a display of `source` cd/m2 for one of SDR_WHITE, both with a black of 0."""
    most: Array = light_to_pq(np.array(source))
    target = light_to_pq(np.array(SDR_WHITE)) / most
    value = np.minimum(light_to_pq(light) / most, 1)
    knee = 1.5 * target - 0.5
    t = np.clip((value - knee) / np.maximum(1 - knee, 1e-9), 0, 1)
    curve = (
        (2 * t**3 - 3 * t**2 + 1) * knee
        + (t**3 - 2 * t**2 + t) * (1 - knee)
        + (-2 * t**3 + 3 * t**2) * target
    )
    return pq_to_light(np.where(value < knee, value, curve) * most)


def _to_xyz(primaries: Sequence[tuple[float, float]]) -> Array:
    """Linear RGB to XYZ, from chromaticities and D65 white (SMPTE RP 177)."""
    columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in primaries]).T
    white = np.array([_D65[0] / _D65[1], 1, (1 - _D65[0] - _D65[1]) / _D65[1]])
    scaled: Array = columns * np.linalg.solve(columns, white)
    return scaled


def _fit(rgb: Array) -> Array:
    """Mix with gray of the same luminance, as little as brings all three into [0, 1]."""
    gray = np.clip(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2], 0, 1)
    low, high = rgb.min(axis=0), rgb.max(axis=0)
    down = np.where(low < 0, gray / np.maximum(gray - low, 1e-9), 1)
    up = np.where(high > 1, (1 - gray) / np.maximum(high - gray, 1e-9), 1)
    fitted: Array = np.clip(gray + (rgb - gray) * np.minimum(down, up), 0, 1)
    return fitted


def _codes(rgb: Array) -> Array:
    kr, kb = _WEIGHTS["bt709"]
    y = kr * rgb[0] + (1 - kr - kb) * rgb[1] + kb * rgb[2]
    cb, cr = (rgb[2] - y) / (2 * (1 - kb)), (rgb[0] - y) / (2 * (1 - kr))
    return np.stack([16 + 219 * y, 128 + 224 * cb, 128 + 224 * cr])


@numba.njit(nogil=True, cache=True, inline="always")
def _read(table: Array, channel: int, y: float, cb: float, cr: float) -> float:
    """Trilinear value at shares y, cb, cr in [0, 1]."""
    fy, fb, fr = y * (table.shape[0] - 1), cb * (table.shape[1] - 1), cr * (table.shape[2] - 1)
    i, j, k = (
        min(int(fy), table.shape[0] - 2),
        min(int(fb), table.shape[1] - 2),
        min(int(fr), table.shape[2] - 2),
    )
    u, v, w = fy - i, fb - j, fr - k
    low = (1 - v) * ((1 - w) * table[i, j, k, channel] + w * table[i, j, k + 1, channel]) + v * (
        (1 - w) * table[i, j + 1, k, channel] + w * table[i, j + 1, k + 1, channel]
    )
    high = (1 - v) * ((1 - w) * table[i + 1, j, k, channel] + w * table[i + 1, j, k + 1, channel]) + v * (
        (1 - w) * table[i + 1, j + 1, k, channel] + w * table[i + 1, j + 1, k + 1, channel]
    )
    return (1 - u) * low + u * high  # type: ignore[no-any-return]


@numba.njit(nogil=True, cache=True)
def _luma(y: Array, cb: Array, cr: Array, table: Array, scale: float, chroma: float, out: Array) -> None:
    rows, columns = y.shape
    step_y, step_x = -(-rows // cb.shape[0]), -(-columns // cb.shape[1])
    for row in range(rows):
        for column in range(columns):
            b, r = cb[row // step_y, column // step_x], cr[row // step_y, column // step_x]
            value = _read(table, 0, y[row, column] * scale, b * chroma, r * chroma)
            out[row, column] = min(max(int(value + 0.5), 0), 255)


@numba.njit(nogil=True, cache=True)
def _chroma(
    y: Array, cb: Array, cr: Array, table: Array, scale: float, chroma: float, out_b: Array, out_r: Array
) -> None:
    rows, columns = y.shape
    step_y, step_x = -(-rows // cb.shape[0]), -(-columns // cb.shape[1])
    for row in range(cb.shape[0]):
        for column in range(cb.shape[1]):
            total, count = 0.0, 0
            for i in range(row * step_y, min((row + 1) * step_y, rows)):
                for j in range(column * step_x, min((column + 1) * step_x, columns)):
                    total += y[i, j]
                    count += 1
            mean = total / max(count, 1) * scale
            b, r = cb[row, column] * chroma, cr[row, column] * chroma
            out_b[row, column] = min(max(int(_read(table, 1, mean, b, r) + 0.5), 0), 255)
            out_r[row, column] = min(max(int(_read(table, 2, mean, b, r) + 0.5), 0), 255)
