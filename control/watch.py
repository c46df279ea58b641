"""Following a job from outside, by the topics alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog
from confluent_kafka import TopicPartition

from runtime.jobs import JobBoard
from runtime.kafka import bounds, reader, translated
from runtime.settings import Settings
from schemas.errors import RecordError
from schemas.events import Finished, Planned, Progress, Role
from schemas.job import JobRecord, JobState
from schemas.record import Record, decode

_log = structlog.get_logger("watch")


@dataclass(slots=True)
class Status:
    """Where a job stands. Counts are for display: a part that ran twice may count twice."""

    state: JobState = JobState.QUEUED
    frames: int = 0
    segments: int = 0
    done: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))
    finished: Finished | None = None
    record: JobRecord | None = None

    def lag(self, before: Role, after: Role) -> int:
        """Frames between two stages."""
        return max(self.done[before] - self.done[after], 0)


class Watcher:
    """Reads events of one job from now on. Make it before the job is submitted."""

    def __init__(self, settings: Settings, job: str) -> None:
        self._job = job
        self.status = Status()
        self._board = JobBoard(settings, "watch")
        self._events = reader(settings.kafka, "watch", overrides={"fetch.wait.max.ms": 50})
        topic = settings.topic_set.events
        _, end = bounds(self._events, topic, 0)
        with translated("reading events"):
            self._events.assign([TopicPartition(topic, 0, end)])

    def poll(self, timeout: float) -> Status:
        """Take in what happened, waiting up to `timeout` seconds for something to."""
        message = self._events.poll(timeout)
        while message is not None:
            if message.error() is None and message.value() is not None:
                self._take(message.value())
            message = self._events.poll(0)
        record = self._board.record(self._job)
        if record is not None:
            self.status.record = record
            self.status.state = record.state
        return self.status

    def close(self) -> None:
        self._events.close()
        self._board.close()

    def _take(self, value: bytes | None) -> None:
        try:
            record: Record = decode(value or b"").record
        except RecordError as error:
            _log.warning("bad_record", reason=str(error))
            return
        if record.job != self._job:
            return
        if isinstance(record, Planned):
            self.status.frames, self.status.segments = record.frames, record.segments
        elif isinstance(record, Progress):
            self.status.done[record.role] += record.frames
        elif isinstance(record, Finished):
            self.status.finished = record
