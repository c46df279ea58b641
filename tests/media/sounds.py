"""Sound placed on a time axis, and how far and how well one track matches another."""

from __future__ import annotations

import numpy as np

from tests.media.decoded import Array, Sound

LONGEST_SECONDS = 1200
"""Beyond it, timestamps are taken for broken and samples are laid end to end."""


def timeline(sound: Sound, contiguous: bool = False) -> tuple[float, Array]:
    """(start in seconds, channels x samples): samples placed by pts, gaps as silence. Needs blocks.

    Steps under 3 ms are the rounding of a coarse time base, not gaps. With `contiguous` pts are not used.
    """
    start = next((at for at, _ in sound.blocks if at is not None), 0.0)
    channels = sound.blocks[0][1].shape[0]
    if contiguous:
        return start, np.concatenate([x for _, x in sound.blocks if x.shape[0] == channels], 1)
    position, placed = 0, []
    for at, block in sound.blocks:
        if at is not None:
            wanted = round((at - start) * sound.rate)
            if abs(wanted - position) > max(64, sound.rate * 0.003):
                position = wanted
        placed.append((position, block))
        position += block.shape[1]
    first = min(at for at, _ in placed)
    length = max(at + block.shape[1] for at, block in placed) - first
    if length > sound.rate * LONGEST_SECONDS:
        return timeline(sound, True)
    samples = np.zeros((channels, length), np.float32)
    for at, block in placed:
        if block.shape[0] == channels:
            samples[:, at - first : at - first + block.shape[1]] = block
    return start + first / sound.rate, samples


def resample(samples: Array, rate: int, wanted: int) -> Array:
    """By straight lines: good enough to measure a lag."""
    if rate == wanted:
        return samples
    at = np.arange(int(samples.shape[1] * wanted / rate)) * rate / wanted
    known = np.arange(samples.shape[1])
    return np.stack([np.interp(at, known, channel) for channel in samples]).astype(np.float32)


def lag(one: Array, other: Array, rate: int, most: float = 3.0) -> tuple[float, float]:
    """(seconds by which `other` is later, correlation of what overlaps), by the peak of the cross-correlation
    within `most` seconds, refined by a parabola."""
    size = 1 << int(np.ceil(np.log2(len(one) + len(other))))
    product = np.conj(np.fft.rfft(one, size)) * np.fft.rfft(other, size)
    found = np.fft.irfft(product, size)
    reach = min(int(most * rate), size // 2 - 1)
    found = np.concatenate([found[-reach:], found[: reach + 1]])
    peak = int(np.argmax(found))
    part = 0.0
    if 0 < peak < len(found) - 1:
        before, at, after = (float(found[peak + i]) for i in (-1, 0, 1))
        bend = before - 2 * at + after
        part = 0.5 * (before - after) / bend if bend else 0.0
    shift = peak - reach
    first, last = max(0, -shift), min(len(one), len(other) - shift)
    if last - first < 100:
        return 0.0, 0.0
    x, y = one[first:last], other[first + shift : last + shift]
    power = np.sqrt(float(x @ x) * float(y @ y)) + 1e-12
    return (shift + part) / rate, float(x @ y / power)
