"""Topic `segments`, compacted by stream: the scheduler's state can be rebuilt from it."""

from __future__ import annotations

from enum import StrEnum

from schemas.record import Record, register


class SegmentState(StrEnum):
    """planned → released → done, or failed; a failed one waits to be released again under a higher epoch."""

    PLANNED = "planned"
    RELEASED = "released"
    DONE = "done"
    FAILED = "failed"


@register
class SegmentRecord(Record):
    """Where one segment stands. `partition` is -1 until it is released."""

    KIND = "segment"

    segment: int
    order: int
    state: SegmentState
    partition: int = -1
    bytes: int = 0
    tries: int = 0
    """Releases since it was planned, or since a user had it run again."""
    reason: str = ""
    """Why earlier releases failed."""
