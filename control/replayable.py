"""Which jobs can be replayed from what Kafka still holds, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runtime.cluster import topic_configuration
from runtime.jobs import JobBoard
from runtime.ranges import Retained
from runtime.settings import Settings
from runtime.store import Store
from schemas.checkpoint import FrameRange
from schemas.errors import MalformedRecordError, StoreError, UsageError
from schemas.job import JobRecord, JobSpec, JobState
from schemas.objects import finish_object
from schemas.orders import FinishOrder
from schemas.record import decode


@dataclass(frozen=True, slots=True)
class Replayable:
    """A finished job of which Kafka still holds `retained` of its `segments`."""

    job: str
    output: str
    segments: int
    retained: int
    until: datetime | None
    """The first batch stays at least until then, if its topic is not cut by size before; None: for ever."""


def replayable(settings: Settings) -> Iterator[Replayable]:
    """Finished jobs with frames in Kafka, oldest first. Raises BrokerError."""
    with JobBoard(settings, "replay") as board:
        records = [r for r in board.records() if r.state is JobState.DONE and not r.spec.replay]
    store, kept = Store.of(settings), _Kept(settings)
    with Retained(settings.kafka, "replay") as retained:
        for record in records:
            try:
                ranges = [segment.frames for segment in _finish(store, record.job).segments]
            except StoreError:  # cleaned up
                continue
            held = [at for at in ranges if at is not None and retained(at)]
            if held:
                until = kept.until(held)
                yield Replayable(record.job, record.spec.output, len(ranges), len(held), until)


def finished(settings: Settings, job: str) -> JobSpec:
    """The spec of a job that can be replayed. Raises UsageError saying why another cannot."""
    with JobBoard(settings, "replay") as board:
        record = board.record(job)
    if reason := _unfit(settings, job, record):
        raise UsageError(reason)
    assert record is not None
    return record.spec


def _unfit(settings: Settings, job: str, record: JobRecord | None) -> str:
    if record is None:
        return f"there is no job {job}"
    if record.state is not JobState.DONE:
        return f"job {job} is {record.state}: only a job that is done can be replayed"
    if record.spec.replay:
        return f"job {job} is itself a replay: replay {record.spec.replay}"
    if not Store.of(settings).exists(finish_object(job)):
        return f"job {job} can no longer be replayed: its plan has been cleaned up"
    return ""


def _finish(store: Store, job: str) -> FinishOrder:
    name = finish_object(job)
    record = decode(store.get(name)).record
    if not isinstance(record, FinishOrder):
        raise MalformedRecordError(f"object {name} holds a {record.KIND} record, not a finish order")
    return record


class _Kept:
    """How long batches stay, by the configuration of their topics."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, int] = {}

    def until(self, ranges: list[FrameRange]) -> datetime | None:
        """When the first of these may go by age."""
        ends = [at.written_ms + ms for at in ranges if (ms := self._retention(at.topic)) >= 0]
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(ends)) if ends else None

    def _retention(self, topic: str) -> int:
        if topic not in self._known:
            self._known[topic] = int(topic_configuration(self._settings, topic)["retention.ms"])
        return self._known[topic]
