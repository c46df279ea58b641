"""The jobs topic as a table: what services need to know of a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from runtime.kafka import reader, translated
from runtime.settings import Settings
from schemas.errors import BrokerError, RecordError
from schemas.job import JobRecord, JobSpec
from schemas.record import decode

_log = structlog.get_logger("jobs")
_FIRST_READ_SECONDS = 60.0


class JobBoard:
    """Latest record of each job, read from the compacted topic. Safe to use from several threads."""

    def __init__(self, settings: Settings, role: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = settings.topic_set.jobs
        self._consumer: Consumer = reader(settings.kafka, role)
        with translated("reading the jobs topic"):
            self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        self._records: dict[str, JobRecord] = {}
        self._specs: dict[tuple[str, int], JobSpec] = {}
        self._loaded = False
        self._lock = threading.Lock()
        self._clock = clock

    def spec(self, job: str, revision: int, timeout: float = 10.0) -> JobSpec:
        """The spec of a job in a revision, waiting for it to appear.

        Raises BrokerError if it does not within `timeout` seconds.
        """
        deadline = self._clock() + timeout
        with self._lock:
            while (spec := self._specs.get((job, revision))) is None:
                left = deadline - self._clock()
                if left <= 0:
                    raise BrokerError(f"job {job} revision {revision} is not on the topic {self._topic}")
                self._read(min(left, 0.2))
            return spec

    def record(self, job: str) -> JobRecord | None:
        """Where a job stands, as far as the topic says by now."""
        with self._lock:
            self._catch_up()
            return self._records.get(job)

    def records(self) -> list[JobRecord]:
        """All jobs, oldest first."""
        with self._lock:
            self._catch_up()
            return sorted(self._records.values(), key=lambda r: r.created_ns)

    def ended(self, job: str, epoch: int = 0) -> bool:
        """Whether a job is known to have ended; one that is not known may just be about to appear.

        `epoch`: of the order or record that asks. A higher one than the job ended with tells that it was
        taken up again, though the topic has not said so yet.
        """
        record = self.record(job)
        return record is not None and record.state.ended and epoch <= record.epoch

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _catch_up(self) -> None:
        """Read what is there; the first time, wait until the end of the topic was reached."""
        deadline = self._clock() + _FIRST_READ_SECONDS
        while self._read(0 if self._loaded else 0.1) or not self._loaded:
            if self._clock() > deadline:
                raise BrokerError(f"the topic {self._topic} was not read to its end in time")

    def _read(self, timeout: float) -> bool:
        """Take in at most one record, or the news that the end was reached, behind which there may be more by
        now; False if nothing came within `timeout`."""
        message = self._consumer.poll(timeout)
        if message is None:
            return False
        error = message.error()
        if error is not None:
            self._loaded |= error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 (public constant)
            return True
        key, value = message.key(), message.value()
        name = key.decode() if isinstance(key, bytes) else str(key)
        if value is None:
            gone = self._records.pop(name, None)
            for revision in range(gone.spec.revision + 1 if gone else 0):
                self._specs.pop((name, revision), None)
            return True
        try:
            record = decode(value).record
        except RecordError as error:
            _log.warning("bad_job_record", job=name, reason=str(error))
            return True
        if isinstance(record, JobRecord):
            self._records[name] = record
            self._specs[name, record.spec.revision] = record.spec
        return True
