"""What is left of jobs that ended: what stays for how long, and the taking away of the rest.

Decided from the topics and the store alone, again and again, so that a crash leaks nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog

from control.runs import Swept, Write
from runtime.settings import Settings
from runtime.store import Store
from runtime.tables import read_table
from schemas.errors import FacestreamError
from schemas.job import JobRecord, JobState
from schemas.record import Record

_log = structlog.get_logger("control")
HOUR = 3600.0
YOUNG_SECONDS = 3600.0
"""A face that nobody names may be about to be named: it is put there before its job is submitted."""
SWEEP_SECONDS = 60.0
"""A sweep that takes longer is broken off and goes on the next time: what it believes grows old."""


@dataclass(frozen=True, slots=True)
class Stays:
    """What of a job stays: encoded segments; plan, sides, finish, checkpoints and face; its record."""

    segments: bool
    work: bool
    record: bool


@dataclass(frozen=True, slots=True)
class Ages:
    """For how long, in seconds since the end of a job."""

    failed: float
    replay: float
    record: float

    @classmethod
    def of(cls, settings: Settings) -> Ages:
        keep = settings.keep
        replay = settings.topics.retention_hours if keep.replay_hours is None else keep.replay_hours
        return cls(keep.failed_hours * HOUR, replay * HOUR, keep.jobs_hours * HOUR)

    def stays(self, record: JobRecord, now: float) -> Stays:
        """What stays of a job `now` (seconds since 1970)."""
        if not record.state.ended:
            return Stays(segments=True, work=True, record=True)
        age = now - (record.ended_ns or record.created_ns) / 1e9
        failed = record.state is JobState.FAILED and age < self.failed
        work = failed or (record.state is not JobState.CANCELLED and age < self.replay)
        return Stays(segments=failed, work=work, record=work or age < self.record)


class Sweeper:
    """Takes away. Its methods may run in a thread of their own. `now`: wall clock, seconds since 1970."""

    def __init__(self, settings: Settings, store: Store, now: Callable[[], float] = time.time) -> None:
        self._settings, self._store, self._now = settings, store, now
        self.stopped = threading.Event()
        """Set by who wants it to come to an end."""
        self._ages = Ages.of(settings)

    def clean(self, record: JobRecord) -> None:
        """What goes at the end of a job at once."""
        stays = self._ages.stays(record, self._now())
        for folder, kept in (("segments", stays.segments), ("jobs", stays.work)):
            if not kept:
                self._remove(f"{folder}/{record.job}")

    def sweep(self, records: Mapping[str, JobRecord]) -> Swept:
        """Look through store and topics. `records`: of all jobs there are, also those that have not ended.
        Objects of unknown jobs go when they are older than any job's record."""
        now, started = self._now(), time.monotonic()
        stays = {job: self._ages.stays(record, now) for job, record in records.items()}
        swept = Swept(jobs=[job for job, what in stays.items() if not what.record])
        topics = self._settings.topic_set
        for topic in (topics.segments, topics.checkpoints):
            table = read_table(self._settings, topic, "sweep")
            swept.tombstones += [Write(topic, key, None) for key in self._idle(topic, table, records, stays)]
        for name, modified in self._ripe(stays, records, now):
            if self.stopped.is_set() or time.monotonic() - started > SWEEP_SECONDS:
                _log.info("sweep_broken_off")
                break
            _log.info("swept", object=name, age_hours=round((now - modified) / HOUR, 1))
            self._remove(name)
        return swept

    def _idle(
        self,
        topic: str,
        table: Mapping[str, Record],
        records: Mapping[str, JobRecord],
        stays: Mapping[str, Stays],
    ) -> Iterable[str]:
        """Keys of the streams that nobody needs any more."""
        for key, record in table.items():
            owner = records.get(record.job)
            done = owner is not None and owner.state is JobState.DONE and topic.endswith(".segments")
            if owner is None or done or not stays[record.job].work:
                yield key

    def _ripe(
        self, stays: Mapping[str, Stays], records: Mapping[str, JobRecord], now: float
    ) -> Iterable[tuple[str, float]]:
        """(name, time of change) of the objects that can go."""
        faces = {records[job].spec.swap.face for job, what in stays.items() if what.work}
        for name, modified in self._store.modified("segments").items():
            kept = stays.get(name.split("/")[1])
            if not (kept.segments if kept else now - modified < self._ages.record):
                yield name, modified
        for name, modified in self._store.modified("jobs").items():
            kept = stays.get(name.split("/")[1])
            if not (kept.work if kept else now - modified < self._ages.record):
                yield name, modified
        for name, modified in self._store.modified("faces").items():
            if name not in faces and now - modified > max(YOUNG_SECONDS, self._ages.replay):
                yield name, modified

    def _remove(self, name: str) -> None:
        try:
            self._store.remove(name)
        except FacestreamError as error:
            _log.warning("cleaning_failed", object=name, reason=str(error))
