"""The target's colours and light for the source's texture, at 48 x 48.

Reinhard et al. (2001), mean and spread of each channel, here in Y'CbCr; then the difference of
what is left at low frequencies, which is the shading. The result is one smooth map, so that it
can be applied to the texture at any resolution.
"""

from __future__ import annotations

from math import exp
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Map = npt.NDArray[np.float32]
"""(SIDE, SIDE, 3)."""

SIDE = 48
_MEMORY = 0.2
"""Seconds over which the running statistics forget."""
_JUMP = 0.1
"""A step of the mean luma by this much is a cut or a flash: the statistics start anew."""
_SPREAD = (0.7, 1.3)
"""Limits of the target's spread over the source's; the lower one falls with the light on the target."""
_GAIN = (0.05, 3.5)
_DARK = np.float32(0.03)
"""Luma of the source below which no gain is made of it."""
_SHADING_SIGMA = SIDE * 0.16
_SMOOTH_SIGMA = 2.2


class Light:
    """Colour statistics of one face over time."""

    def __init__(self) -> None:
        self._mean: npt.NDArray[Any] | None = None
        self._count = 0

    def __call__(
        self,
        target: Map,
        source: Map,
        weight: npt.NDArray[np.float32],
        shade: float,
        seconds: float = 1 / 30,
    ) -> Map:
        """Channels: gain of luma and chroma; what to add to cb and cr after it.

        `target` and `source` are y 0..1, cb, cr -.5..+.5 of the same places, `weight` (SIDE, SIDE)
        says where the source shows; `shade` 0..1 is how much of the shading is taken over; `seconds`
        since the frame before.
        """
        target_mean, source_mean, spread = self._update(target, source, weight, seconds)
        moved = (source - source_mean) * spread + target_mean
        shading = _spread_out(target - moved, weight, _SHADING_SIGMA)
        wanted = moved + np.float32(shade) * shading
        broad = _spread_out(np.dstack([wanted, source]), weight, _SMOOTH_SIGMA)
        wanted, source = broad[..., :3], broad[..., 3:]
        light = np.empty((SIDE, SIDE, 3), np.float32)
        light[..., :1] = np.clip(wanted[..., :1] / np.maximum(source[..., :1], _DARK), *_GAIN)
        light[..., 1:] = wanted[..., 1:] - light[..., :1] * source[..., 1:]
        return light

    def _update(self, target: Map, source: Map, weight: npt.NDArray[np.float32], seconds: float) -> Any:
        share = (weight / weight.sum()).reshape(-1)
        now = np.empty((3, 3), np.float32)
        deviation = []
        for i, picture in enumerate((target, source)):
            values = picture.reshape(-1, 3)
            now[i] = share @ values
            deviation.append(np.sqrt(share @ (values - now[i]) ** 2))
        dimmer = min(float((now[0, 0] + _DARK) / (now[1, 0] + _DARK)), 1.0)
        spread = deviation[0] / (deviation[1] + np.float32(0.001))
        now[2] = np.clip(spread, _SPREAD[0] * dimmer, _SPREAD[1])
        if self._mean is None or abs(now[0, 0] - self._mean[0, 0]) > _JUMP:
            self._mean, self._count = now, 1
        else:
            self._count += 1
            rate = np.float32(max(1 - exp(-seconds / _MEMORY), 1 / self._count))
            self._mean = self._mean + rate * (now - self._mean)
        return self._mean


def _spread_out(values: Map, weight: npt.NDArray[np.float32], sigma: float) -> Map:
    """Gaussian blur that counts each place by its weight."""
    width = 2 * round(2 * sigma) + 1
    packed = np.dstack([values * weight[..., None], weight])
    blurred = cv2.GaussianBlur(packed, (width, width), sigma)
    return np.ascontiguousarray(blurred[..., :-1] / blurred[..., -1:])
