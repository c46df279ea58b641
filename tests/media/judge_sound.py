"""Judges the sound tracks of an output: the same sound, at the same place beside the picture, as long."""

from __future__ import annotations

import numpy as np

from tests.media.decoded import Array, Clip, Sound
from tests.media.flags import Flags
from tests.media.report import Report
from tests.media.sounds import lag, resample, timeline

SHORTER, LONGER = 0.03, 0.12
"""Seconds by which a track may lose or gain; encoders work in blocks."""


def judge_sounds(report: Report, a: Clip, b: Clip, shift: float, flags: Flags) -> None:
    """`shift`: by how much the picture moved, seconds; sound must have moved with it."""
    same = len(a.sounds) == len(b.sounds)
    report.add("audio streams", same, f"in {len(a.sounds)} out {len(b.sounds)}")
    for number, (one, other) in enumerate(zip(a.sounds, b.sounds, strict=False)):
        name = f"audio {number}"
        if one.blocks and other.blocks:
            _judge(report, name, one, other, shift, flags)
        else:
            report.add(name, not one.blocks and not other.blocks, "one side has no samples")


def _judge(report: Report, name: str, one: Sound, other: Sound, shift: float, flags: Flags) -> None:
    start_x, x = timeline(one, flags.monotonic)
    start_y, y = timeline(other, flags.monotonic)
    report.info(f"{name} codec", f"{_form(one, x)} -> {_form(other, y)}; {_copied(one, other)}")
    report.add(f"{name} layout", x.shape[0] == y.shape[0], f"{x.shape[0]} -> {y.shape[0]} channels")
    rate = 24_000 if x.shape[1] / one.rate > 60 else min(48_000, one.rate)
    x, y = resample(x, one.rate, rate), resample(y, other.rate, rate)
    late, likeness = lag(x.mean(0), y.mean(0), rate)
    report.add(f"{name} same sound", likeness >= flags.audio_corr, f"{likeness:.4f} (>= {flags.audio_corr})")
    moved = start_y - start_x + late
    apart = moved - shift
    what = f"sound {moved * 1e3:+.2f} ms, picture {shift * 1e3:+.2f} ms, error {apart * 1e3:+.2f} ms"
    report.add(f"{name} av_sync", abs(apart) <= flags.av_tol / 1e3, what)
    if x.shape[0] == y.shape[0] > 1:
        _judge_channels(report, name, x, y, rate, flags)
    _judge_drift(report, name, x.mean(0), y.mean(0), late, rate, flags)
    before, after = x.shape[1] / rate, y.shape[1] / rate
    what = f"in {before:.3f} s out {after:.3f} s"
    if flags.damaged:
        report.info(f"{name} length", what)
    else:
        report.add(f"{name} length", -SHORTER <= after - before <= LONGER, what)


def _form(sound: Sound, samples: Array) -> str:
    return f"{sound.codec} {sound.rate} Hz {samples.shape[0]} ch"


def _copied(one: Sound, other: Sound) -> str:
    if one.codec != other.codec or not one.digests:
        return "encoded again"
    if one.digests == other.digests:
        return "packets bit-exact"
    same = len(set(one.digests) & set(other.digests)) / len(one.digests)
    return f"{100 * same:.0f} % of packets identical" if same else "encoded again"


def _judge_channels(report: Report, name: str, x: Array, y: Array, rate: int, flags: Flags) -> None:
    heard = [c for c in range(x.shape[0]) if np.abs(x[c]).max() > 1e-3]
    alike = [lag(x[c], y[c], rate)[1] for c in heard]
    what = "by channel " + " ".join(f"{value:.2f}" for value in alike)
    report.add(f"{name} channel order", min(alike, default=1.0) >= flags.audio_corr - 0.25, what)


def _judge_drift(report: Report, name: str, x: Array, y: Array, late: float, rate: int, flags: Flags) -> None:
    """The lag of the first third against that of the last."""
    third = len(x) // 3
    if third <= rate // 2 or len(y) <= third:
        return
    first, _ = lag(x[:third], y[: int(third * 1.5)], rate)
    start = 2 * third
    begin = max(0, start + int(late * rate) - min(third // 2, rate))
    last, likeness = lag(x[start:], y[begin:], rate)
    drift = last + (begin - start) / rate - first
    good = abs(drift) <= 5e-3 or (likeness < 0.3 and flags.damaged)
    report.add(f"{name} drift", good, f"{drift * 1e3:+.2f} ms first to last third")
