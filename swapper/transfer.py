"""Light behind code values: sRGB, PQ and HLG, and the primaries of wide-gamut streams.

Light is relative to diffuse white (a sheet of paper, 1.0), which lies at 203 cd/m2 in PQ and at code
0.75 in HLG (ITU-R BT.2408). HLG light is the scene's, before the display's system gamma. Every other
transfer counts as sRGB: SDR curves differ by less than two light situations do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]

_WHITE = 203 / 10000
"""Diffuse white, of PQ's full scale."""
_M1, _M2 = 2610 / 16384, 2523 / 4096 * 128
_C1, _C2, _C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
"""SMPTE ST 2084."""
_A, _B, _C = 0.17883277, 0.28466892, 0.55991073
"""ITU-R BT.2100, HLG."""
_EXPOSURE = 1.5
_NEARLY_WHITE = 254.5 / 255

_FROM_BT709: Mapping[str, list[list[float]]] = {
    "bt2020": [[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]],
    "smpte432": [[0.8225, 0.1775, 0.0], [0.0332, 0.9668, 0.0], [0.0171, 0.0724, 0.9105]],
}
"""Linear RGB of BT.709 to other primaries (ITU-R BT.2087; P3 with D65)."""


def srgb_light(code: Values) -> Values:
    """IEC 61966-2-1."""
    return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4).astype(np.float32)


def srgb_code(light: Values) -> Values:
    light = np.clip(light, 0, 1)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055).astype(np.float32)


def pq_light(code: Values) -> Values:
    root = np.clip(code, 0, 1).astype(np.float64) ** (1 / _M2)
    full: Any = (np.maximum(root - _C1, 0) / (_C2 - _C3 * root)) ** (1 / _M1)
    return np.asarray(full / _WHITE, np.float32)


def pq_code(light: Values) -> Values:
    power: Any = np.clip(light * _WHITE, 0, 1).astype(np.float64) ** _M1
    return np.asarray(((_C1 + _C2 * power) / (1 + _C3 * power)) ** _M2, np.float32)


def _hlg_scene(code: Values) -> Values:
    code = np.clip(code, 0, 1)
    return np.where(code <= 0.5, code**2 / 3, (np.exp((code - _C) / _A) + _B) / 12).astype(np.float32)


_HLG_WHITE = float(_hlg_scene(np.array([0.75], np.float32))[0])


def hlg_light(code: Values) -> Values:
    return _hlg_scene(code) / np.float32(_HLG_WHITE)


def hlg_code(light: Values) -> Values:
    scene = np.clip(light * _HLG_WHITE, 0, 1)
    bright: Any = _A * np.log(np.maximum(12 * scene - _B, 1e-6)) + _C
    return np.asarray(np.where(scene <= 1 / 12, np.sqrt(3 * scene), bright), np.float32)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Code values 0..1 to light and back."""

    light: Callable[[Values], Values]
    code: Callable[[Values], Values]


_SDR = Transfer(srgb_light, srgb_code)
_HDR: Mapping[str, Transfer] = {
    "smpte2084": Transfer(pq_light, pq_code),
    "arib-std-b67": Transfer(hlg_light, hlg_code),
}
"""By FFmpeg's names."""


def transfer(name: str) -> Transfer:
    return _HDR.get(name, _SDR)


def is_hdr(name: str) -> bool:
    return name in _HDR


def has_wide_gamut(primaries: str) -> bool:
    return primaries in _FROM_BT709


def from_srgb(rgb: Values, name: str, primaries: str) -> Values:
    """(…, 3) sRGB code 0..1 to code in a stream's transfer and primaries."""
    if not is_hdr(name) and not has_wide_gamut(primaries):
        return rgb
    light = srgb_light(rgb)
    if has_wide_gamut(primaries):
        light = light @ np.array(_FROM_BT709[primaries], np.float32).T
    return transfer(name).code(light)


def from_viewing(shown: Values, name: str) -> Values:
    """Code 0..1 of what `for_viewing` shows as sRGB 0..1: its inverse, up to the last step of 8 bit."""
    light: Any = -np.log(1 - srgb_light(np.clip(shown, 0, _NEARLY_WHITE))) / _EXPOSURE
    return transfer(name).code(light)


@lru_cache(maxsize=4)
def for_viewing(name: str) -> npt.NDArray[np.uint8]:
    """(256,): 8-bit code to sRGB of 8 bit, for models that know SDR pictures only: highlights roll off."""
    light: Any = transfer(name).light(np.linspace(0, 1, 256, dtype=np.float32))
    code: npt.NDArray[np.uint8] = np.round(srgb_code(1 - np.exp(-_EXPOSURE * light)) * 255).astype(np.uint8)
    return code
