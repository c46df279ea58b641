"""Topic `checkpoints`: a finished segment. Only a committed checkpoint makes a segment real."""

from __future__ import annotations

from schemas.frames import Rational
from schemas.record import Model, Record, register


class FrameRange(Model):
    """Where the batches of a stream lie on the frames topic; offsets are inclusive."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    count: int
    """Frames in them, context included."""
    context: int
    written_ms: int = 0
    """Kafka's time of the first of them (ms since 1970): how long they stay is told from it."""


@register
class Checkpoint(Record):
    """Written in one transaction with the offsets of frames and swaps."""

    KIND = "checkpoint"

    segment: int
    object: str
    """Object name of the encoded segment, `<stream>/<epoch>/<attempt>.<suffix>`."""
    time_base: Rational
    pts: list[int]
    """Exact pts of its frames in presentation order, in ticks of `time_base`."""
    end: int
    """Presentation end of the last frame."""
    reorder: int
    """How many frames the encoder's output is reordered by at most; the join derives dts from it."""
    bytes: int
    encoder: str
    """Encoder, version and options, as recorded."""
    engine: str = ""
    """Engine and models that made the patches."""
    swapped: int = 0
    """Frames with at least one patch."""
    no_face: int = 0
    replaced: int = 0
    """Frames of failed batches that were replaced by the job's policy."""
    warnings: dict[str, int] = {}
    frames: FrameRange | None = None
    """Its batches, for a replay while the topic still holds them."""
