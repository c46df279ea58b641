"""What is heard of a file: its first track of sound on a time axis, beside the picture."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av

from tests.media.decoded import Array, Sound
from tests.media.sounds import lag, resample, timeline


@dataclass(frozen=True, slots=True)
class Heard:
    """`start`: seconds from the first picture, or from time zero of a file without; samples: channels x n."""

    start: float
    samples: Array
    rate: int


def heard(path: Path, track: int = 0) -> Heard:
    """Decode a track of sound."""
    blocks = []
    with av.open(str(path)) as container:
        stream = container.streams.audio[track]
        resampler = av.AudioResampler("flt")  # packed: PyAV reads past the end of eight planes
        for frame in container.decode(stream):
            at = None if frame.pts is None else float(frame.pts * frame.time_base)
            for piece in resampler.resample(frame):
                blocks.append((at, piece.to_ndarray().reshape(piece.samples, -1).T))
        rate = stream.codec_context.sample_rate
    start, samples = timeline(Sound("", rate, None, blocks))
    return Heard(start - float(first_picture(path)), samples, rate)


def first_picture(path: Path) -> Fraction:
    """Seconds of the first picture shown; 0 without one."""
    with av.open(str(path)) as container:
        if not container.streams.video:
            return Fraction(0)
        packets = [p for p in container.demux(video=0) if p.pts is not None and not p.is_discard]
        return min((p.pts * p.time_base for p in packets if p.pts is not None), default=Fraction(0))


def apart(one: Heard, other: Heard, channel: int | None = None) -> tuple[float, float]:
    """(seconds by which `other` is heard later, likeness 0 to 1), of a channel or of all together."""
    rate = min(one.rate, other.rate, 48_000)
    x, y = resample(one.samples, one.rate, rate), resample(other.samples, other.rate, rate)
    if channel is None:
        late, likeness = lag(x.mean(0), y.mean(0), rate)
    else:
        late, likeness = lag(x[channel], y[channel], rate)
    return late + other.start - one.start, likeness
