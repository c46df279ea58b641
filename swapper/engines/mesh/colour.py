"""The target's colours and light for the source's texture, at 48 x 48.

Reinhard et al. (2001), mean and spread of each channel, here in Y'CbCr; then the difference of
what is left at low frequencies, which is the shading. The result is one smooth map, so that it
can be applied to the texture at any resolution.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Map = npt.NDArray[np.float32]
"""(SIDE, SIDE, 3)."""

SIDE = 48
_RATE = 0.15
"""Share of a new frame in the running statistics."""
_JUMP = 0.1
"""A step of the mean luma by this much is a cut or a flash: the statistics start anew."""
_SPREAD = (0.7, 1.3)
"""Limits of the target's spread over the source's; the lower one falls with the light on the target."""
_GAIN = (0.05, 3.5)
_LIFT = np.float32(0.03)
_SHADING_SIGMA = SIDE * 0.16
_SMOOTH_SIGMA = 2.2


class Light:
    """Colour statistics of one face over time."""

    def __init__(self) -> None:
        self._mean: npt.NDArray[Any] | None = None
        self._count = 0

    def __call__(self, target: Map, source: Map, weight: npt.NDArray[np.float32], shade: float) -> Map:
        """Channels: gain of luma and chroma; what to add to cb and cr after it.

        `target` and `source` are y 0..1, cb, cr -.5..+.5 of the same places, `weight` (SIDE, SIDE)
        says where the source shows; `shade` 0..1 is how much of the shading is taken over.
        """
        target_mean, source_mean, spread = self._update(target, source, weight)
        moved = (source - source_mean) * spread + target_mean
        shading = _spread_out(target - moved, weight, _SHADING_SIGMA)
        wanted = moved + np.float32(shade) * shading
        light = np.empty_like(wanted)
        gain = (wanted[..., :1] + _LIFT) / (source[..., :1] + _LIFT)
        light[..., :1] = np.clip(gain, *_GAIN)
        light[..., 1:] = wanted[..., 1:] - light[..., :1] * source[..., 1:]
        return _spread_out(light, weight, _SMOOTH_SIGMA)

    def _update(self, target: Map, source: Map, weight: npt.NDArray[np.float32]) -> Any:
        share = (weight / weight.sum()).reshape(-1)
        now = np.empty((3, 3), np.float32)
        deviation = []
        for i, picture in enumerate((target, source)):
            values = picture.reshape(-1, 3)
            now[i] = share @ values
            deviation.append(np.sqrt(share @ (values - now[i]) ** 2))
        dimmer = min(float((now[0, 0] + _LIFT) / (now[1, 0] + _LIFT)), 1.0)
        spread = deviation[0] / (deviation[1] + np.float32(0.001))
        now[2] = np.clip(spread, _SPREAD[0] * dimmer, _SPREAD[1])
        if self._mean is None or abs(now[0, 0] - self._mean[0, 0]) > _JUMP:
            self._mean, self._count = now, 1
        else:
            self._count += 1
            rate = np.float32(max(_RATE, 1 / self._count))
            self._mean = self._mean + rate * (now - self._mean)
        return self._mean


def _spread_out(values: Map, weight: npt.NDArray[np.float32], sigma: float) -> Map:
    """Gaussian blur that counts each place by its weight."""
    width = 2 * round(2 * sigma) + 1
    packed = np.dstack([values * weight[..., None], weight])
    blurred = cv2.GaussianBlur(packed, (width, width), sigma)
    return np.ascontiguousarray(blurred[..., :3] / blurred[..., 3:])
