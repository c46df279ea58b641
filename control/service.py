"""The control service: reads what happened, lets the scheduler decide, writes it in one transaction.

All writes of a turn and the offsets of what was read are committed together, under one fixed
transactional id: a second control waits as a standby in the same group, and an old one that wakes up
is fenced.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import cast

import structlog
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from prometheus_client import Gauge

from control.failures import FailedList
from control.presence import Presence
from control.runs import Swept
from control.scheduler import Limits, Scheduler, Write
from control.sweep import Sweeper
from runtime.cluster import ensure_topics
from runtime.kafka import consumer, transactional_producer, translated
from runtime.metrics import REGISTRY
from runtime.outbox import TransactionalOutbox
from runtime.settings import Settings
from runtime.store import Store
from runtime.tables import read_table
from schemas.checkpoint import Checkpoint
from schemas.errors import FacestreamError, MalformedRecordError, RecordError
from schemas.events import (
    STREAM_WAITS,
    Alive,
    Cancel,
    Failed,
    Finished,
    Pause,
    Planned,
    Redrive,
    Resume,
    Role,
    Warned,
)
from schemas.job import JobRecord, JobState, split_stream
from schemas.objects import finish_object
from schemas.plan import Plan
from schemas.record import Record, decode, encode
from schemas.segments import SegmentRecord

_log = structlog.get_logger("control")
_IN_FLIGHT = Gauge("facestream_control_in_flight", "Released, not encoded yet", ["unit"], registry=REGISTRY)
_JOBS = Gauge("facestream_control_jobs", "Jobs that have not ended", ["state"], registry=REGISTRY)
_TURN_RECORDS = 500


class ControlService:
    """Scheduler, its topics and its store. One thread."""

    name = "control"

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._topics = settings.topic_set
        self._clock = clock
        self._presence = Presence(clock)
        self._failures = FailedList(settings.data)
        self._outbox: TransactionalOutbox
        self._opened = ExitStack()
        """What `close` lets go of, however far `start` came."""
        self._active = False
        self._rebuild = False
        self._cleaner = ThreadPoolExecutor(1, thread_name_prefix="cleaner")
        self._sweeper: Sweeper | None = None
        self._sweeping: Future[Swept] | None = None
        self._next_sweep = 0.0

    def start(self) -> None:
        """Create what is missing on the cluster and join the group of schedulers."""
        ensure_topics(self._settings)
        self._store = Store.of(self._settings)
        self._sweeper = Sweeper(self._settings, self._store)
        self._scheduler = self._new_scheduler()
        self._consumer: Consumer = consumer(
            self._settings.kafka,
            f"{self._topics.prefix}control",
            "control",
            protocol="classic",  # its session may be shorter than KIP-848's floor on foreign clusters
            assignor="range",  # one partition each: all go to one member, the others stand by
        )
        self._opened.callback(self._consumer.close)
        topics = [self._topics.jobs, self._topics.events, self._topics.checkpoints]
        with translated("joining the schedulers' group"):
            self._consumer.subscribe(
                topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )

    def step(self, timeout: float) -> None:
        """One turn: read, decide, write."""
        messages = self._consumer.consume(_TURN_RECORDS, timeout)
        writes = self._restore() if self._rebuild else []
        if not self._active:
            return
        for message in messages:
            if (error := message.error()) is not None:
                _log.warning("consumer_error", error=error.str())
            elif message.value() is not None:
                writes += self._happened(message)
        self._scheduler.limits = self._limits()
        writes += self._scheduler.release()
        writes += self._absences() + self._sweep()
        if writes or messages:  # in one, after a take-over too: it commits what came beside it as read
            self._commit(writes)
        self._measure()

    def drain(self, deadline: float) -> None:
        """Nothing to finish: every turn ends committed."""

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.stopped.set()
        self._cleaner.shutdown(cancel_futures=True)
        self._opened.close()
        if self._active:
            self._outbox.close()

    # -- reading ---------------------------------------------------------------------------------

    def _happened(self, message: KafkaMessage) -> list[Write]:
        try:
            record = decode(cast(bytes, message.value())).record
        except RecordError as error:
            _log.error("bad_record", topic=message.topic(), offset=message.offset(), reason=str(error))
            return []
        try:
            return self._decide(record)
        except FacestreamError as error:
            _log.error("job_failed", job=record.job, reason=str(error))
            return self._scheduler.failed(Failed(job=record.job, role=Role.CONTROL, reason=str(error)))

    def _decide(self, record: Record) -> list[Write]:
        scheduler = self._scheduler
        match record:
            case JobRecord():
                return scheduler.submitted(record)
            case Planned():
                return scheduler.planned(record, self._plan(record.plan))
            case Checkpoint():
                return scheduler.checkpointed(record)
            case Finished():
                _log.info("job_done", job=record.job, output=record.output, frames=record.frames)
                return scheduler.finished(record)
            case Failed():
                _log.error(
                    "failed", job=record.job, stream=record.stream, epoch=record.epoch, role=record.role,
                    reason=record.reason, retryable=record.retryable,
                )  # fmt: skip
                return scheduler.failed(record)
            case Warned():
                stuck = record.name == STREAM_WAITS and self._presence.everybody()
                return scheduler.warned(record) + (scheduler.stuck(record) if stuck else [])
            case Cancel():
                return self._newcomers(record.job) + scheduler.cancelled(record.job)
            case Pause() | Resume():
                paused = isinstance(record, Pause)
                return self._newcomers(record.job) + scheduler.paused(record.job, paused)
            case Redrive():
                return self._redrive(record.stream)
            case Alive():
                self._presence.heard(record)
        return []

    def _newcomers(self, job: str) -> list[Write]:
        """A wish may overtake its job, since they come on different topics."""
        if job in self._scheduler.records:
            return []
        table = [r for r in self._table(self._topics.jobs) if isinstance(r, JobRecord)]
        return [write for record in table for write in self._scheduler.submitted(record)]

    def _redrive(self, stream: str) -> list[Write]:
        """Have a segment run again, of a job that runs or ended."""
        job = split_stream(stream)[0]
        ended = self._scheduler.ended.get(job)
        if ended is None:
            return self._scheduler.redriven(stream)
        if not ended.plan:
            return []
        plan = self._plan(ended.plan)
        segments = [r for r in self._table(self._topics.segments) if isinstance(r, SegmentRecord)]
        found = [r for r in self._table(self._topics.checkpoints) if isinstance(r, Checkpoint)]
        made = [c for c in found if c.job == job]
        gone = {c.stream for c in made if c.stream == stream or not self._store.exists(c.object)}
        self._store.delete(finish_object(job))
        of = [s for s in segments if s.job == job]
        return self._scheduler.reopened(ended, plan, of, made, gone)

    def _plan(self, name: str) -> Plan:
        record = decode(self._store.get(name)).record
        if not isinstance(record, Plan):
            raise MalformedRecordError(f"object {name} holds a {record.KIND} record, not a plan")
        return record

    def _limits(self) -> Limits:
        """In flight may be a few segments for each live swapper, below the settings' bounds."""
        limits = self._settings.limits
        wanted = limits.segments_per_swapper * max(self._presence.count(Role.SWAPPER), 1) + 1
        return Limits(min(wanted, limits.segments_in_flight), limits.bytes_in_flight, limits.releases)

    def _absences(self) -> list[Write]:
        """Warnings for jobs that wait for a role of which nobody lives."""
        writes: list[Write] = []
        for role, job in self._presence.missed(self._scheduler.needs()):
            _log.warning(f"no_{role}", job=job)
            event = Warned(job=job, role=Role.CONTROL, name=f"no_{role}")
            writes.append(Write(self._topics.events, job, event))
        return writes

    # -- writing ---------------------------------------------------------------------------------

    def _commit(self, writes: list[Write]) -> None:
        with translated("reading positions"):
            offsets = [tp for tp in self._consumer.position(self._consumer.assignment()) if tp.offset >= 0]
        with self._outbox.transaction(offsets, self._consumer.consumer_group_metadata()):
            for write in writes:
                value = None if write.record is None else encode(write.record)
                self._outbox.send(write.topic, value, key=write.key, partition=write.partition)

        ended = [w.record for w in writes if isinstance(w.record, JobRecord) and w.record.state.ended]
        self._failures.add(ended)
        assert self._sweeper is not None
        for record in ended:
            self._cleaner.submit(self._sweeper.clean, record)

    def _sweep(self) -> list[Write]:
        """Now and then look for what can go; returns what is to be written about the last look."""
        assert self._sweeper is not None
        if self._sweeping is None:
            if self._clock() >= self._next_sweep:
                self._next_sweep = self._clock() + self._settings.keep.sweep_seconds
                self._sweeping = self._cleaner.submit(self._sweeper.sweep, self._scheduler.records)
            return []
        if not self._sweeping.done():
            return []
        sweeping, self._sweeping = self._sweeping, None
        try:
            swept = sweeping.result()
        except (FacestreamError, CancelledError) as error:
            _log.warning("sweep_failed", reason=str(error))
            return []
        return self._scheduler.forget(swept)

    def _measure(self) -> None:
        segments, size = self._scheduler.in_flight
        _IN_FLIGHT.labels("segments").set(segments)
        _IN_FLIGHT.labels("bytes").set(size)
        states = Counter(self._scheduler.jobs.values())
        for state in JobState:
            if not state.ended:
                _JOBS.labels(state).set(states[state])

    # -- becoming the one ------------------------------------------------------------------------

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebuild = self._rebuild or bool(partitions)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions and self._active:
            _log.info("standing_by")
            self._active = False
            self._outbox.close()

    def _restore(self) -> list[Write]:
        """Fence the one before, then rebuild from the topics. Returns what is to be written of it."""
        self._rebuild = False
        if self._active:
            self._outbox.close()
        self._outbox = TransactionalOutbox(
            transactional_producer(self._settings.kafka, "control", f"{self._topics.prefix}control")
        )
        jobs = [r for r in self._table(self._topics.jobs) if isinstance(r, JobRecord)]
        plans, lost = self._plans(jobs)
        self._scheduler = self._new_scheduler()
        writes = self._scheduler.restore(
            jobs,
            plans,
            [r for r in self._table(self._topics.segments) if isinstance(r, SegmentRecord)],
            [r for r in self._table(self._topics.checkpoints) if isinstance(r, Checkpoint)],
        )
        for event in lost:
            writes += self._scheduler.failed(event)
        self._active = True
        self._presence = Presence(self._clock)
        self._next_sweep = 0.0
        self._failures.add(self._scheduler.ended.values())
        _log.info("in_charge", jobs=len(jobs), running=len(self._scheduler.jobs))
        return writes

    def _plans(self, jobs: list[JobRecord]) -> tuple[dict[str, Plan], list[Failed]]:
        """Plans of the jobs that run, and a failure for each whose plan is gone."""
        plans: dict[str, Plan] = {}
        lost: list[Failed] = []
        for job in jobs:
            if job.plan and not job.state.ended:
                try:
                    plans[job.job] = self._plan(job.plan)
                except FacestreamError as error:
                    lost.append(Failed(job=job.job, role=Role.CONTROL, reason=str(error)))
        return plans, lost

    def _table(self, topic: str) -> list[Record]:
        return list(read_table(self._settings, topic, "control").values())

    def _new_scheduler(self) -> Scheduler:
        return Scheduler(self._topics, self._settings.topics.frame_partitions, Limits())
