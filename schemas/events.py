"""Topic `events`: what services tell control. Small and frequent; nothing is decided from progress."""

from __future__ import annotations

from enum import StrEnum

from schemas.record import Record, register
from schemas.swaps import FailurePolicy


class Role(StrEnum):
    CONTROL = "control"
    INGEST = "ingest"
    SWAPPER = "swapper"
    ASSEMBLER = "assembler"


@register
class Planned(Record):
    """Ingest: the plan of a job is stored as `plan`."""

    KIND = "event.planned"

    plan: str
    frames: int
    segments: int


@register
class Progress(Record):
    """A service did `frames` more frames of a stream (context not counted)."""

    KIND = "event.progress"

    role: Role
    frames: int


STREAM_WAITS = "stream_waits"
"""Name of the warning, of a stream, that the patches it waits for do not come."""


@register
class Warned(Record):
    """Something was not as it should be, but work goes on."""

    KIND = "event.warning"

    role: Role
    name: str
    count: int = 1
    detail: str = ""


@register
class Failed(Record):
    """A service cannot do its part of a job (or of one stream of it)."""

    KIND = "event.failed"

    role: Role
    reason: str
    exit_code: int = 1
    retryable: bool = False
    """Of a stream: releasing it again, under a higher epoch, may help."""


@register
class Finished(Record):
    """The assembler put the result in place."""

    KIND = "event.finished"

    output: str
    frames: int
    bytes: int
    warnings: dict[str, int] = {}


@register
class Cancel(Record):
    """A user: give the job up."""

    KIND = "event.cancel"


@register
class Pause(Record):
    """A user: release nothing more of the job; what is in flight is finished."""

    KIND = "event.pause"


@register
class Resume(Record):
    """A user: go on with a paused job."""

    KIND = "event.resume"


@register
class Redrive(Record):
    """A user: run a stream again whose batch failed for good; its job goes on where it ended."""

    KIND = "event.redrive"


@register
class Alive(Record):
    """Heartbeat of a worker; `job` is empty. `ready` once models are loaded and partitions may come."""

    KIND = "event.alive"

    job: str = ""
    role: Role
    worker: str
    ready: bool
    host: str = ""
    pid: int = 0
    detail: dict[str, str] = {}


@register
class Dead(Record):
    """Topic `dead`: a batch that failed for good, with where it lies."""

    KIND = "dead"

    topic: str
    partition: int
    offset: int
    seq: int
    count: int
    reason: str
    stack: str = ""
    policy: FailurePolicy
