"""Streams of synthetic frames on the frames topic, and what comes back on the swaps topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from runtime.cluster import ensure_topics
from runtime.kafka import producer, reader
from runtime.outbox import Outbox
from runtime.service import Service
from runtime.settings import Settings
from schemas.frames import FrameBatch, RangeRef, StreamEnd, StreamStart, VideoFormat
from schemas.job import JobRecord, JobSpec, JobState, Lane
from schemas.record import Record, decode, encode

WHOLE_TOPICS = {
    "queued.max.messages.kbytes": 64 << 10,
    "max.partition.fetch.bytes": 16 << 20,
    "fetch.wait.max.ms": 10,
}
"""A reader's own settings, made for single records, wait 100 ms for each once a partition has ended."""
FORMAT = VideoFormat(width=16, height=16, pixel_format="gray")
BATCH = 4


@dataclass
class Feeder:
    """Writes jobs and streams; remembers the offsets of what it wrote."""

    settings: Settings
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """(stream, seq of a batch; -1 for its start) to offset."""

    def __post_init__(self) -> None:
        ensure_topics(self.settings)
        self._outbox = Outbox(producer(self.settings.kafka, "test", {"linger.ms": 50}))
        self._hold = False

    def job(self, name: str, state: JobState = JobState.RUNNING, **swap: Any) -> None:
        spec = JobSpec(job=name, input="i.mp4", output="o.mp4", swap={"engine": "none"} | swap)
        record = JobRecord(job=name, spec=spec, state=state, epoch=1)
        self._outbox.send(self.settings.topic_set.jobs, encode(record), key=name)
        self._outbox.flush()

    def stream(self, stream: str, batches: int, partition: int, *, damage: int = -1) -> None:
        """A whole stream; the batch with number `damage` has a body that is too short."""
        self._start(stream, batches, partition)
        for number in range(batches):
            self._batch(stream, number, partition, damage=number == damage)
        self._end(stream, batches, partition)

    def woven(
        self,
        streams: Sequence[str],
        batches: int,
        partition: int,
        marks: Mapping[tuple[str, int], int] = MappingProxyType({}),
    ) -> None:
        """Streams of one partition whose records lie between one another. `marks`: value of the samples
        of (stream, number of a batch), else 0."""
        for stream in streams:
            self._start(stream, batches, partition)
        for number in range(batches):
            for stream in streams:
                self._batch(stream, number, partition, mark=marks.get((stream, number), 0))
        for stream in streams:
            self._end(stream, batches, partition)

    def at_once(self, stream: str, batches: int, partition: int) -> None:
        """A whole stream whose batches go to the broker in one request: a share group's member gets all."""
        self._start(stream, batches, partition)
        self._hold = True
        for number in range(batches):
            self._batch(stream, number, partition)
        self._hold = False
        self._end(stream, batches, partition)

    def replay(self, stream: str, source: str, batches: int, partition: int, **fields: Any) -> None:
        """A stream that stands for one sent before, in partition 1."""
        known: dict[str, Any] = {
            "topic": self.settings.topic_set.frames(Lane.BATCH),
            "partition": 1,
            "first_offset": self.offsets[source, 0],
            "last_offset": self.offsets[source, (batches - 1) * BATCH],
            "count": batches * BATCH,
        }
        ref = RangeRef(
            job=stream.split("/")[0], stream=stream, epoch=1, source=source, source_epoch=1, start=0,
            end=batches * BATCH, context=0, **(known | fields),
        )  # fmt: skip
        self._start(stream, batches, partition)
        self._send(encode(ref), stream, partition)
        self._end(stream, batches, partition)

    def torn(self, stream: str, numbers: Sequence[int], partition: int) -> None:
        """A stream of which only these batches were sent, and no end."""
        self._start(stream, max(numbers) + 1, partition)
        for number in numbers:
            self._batch(stream, number, partition)

    def raw(self, data: bytes, partition: int) -> None:
        self._send(data, "x", partition)

    def _start(self, stream: str, batches: int, partition: int) -> None:
        start = StreamStart(
            job=stream.split("/")[0], stream=stream, epoch=1, segment=0, start=0, end=batches * BATCH,
            time_base=(1, 30), frames=batches * BATCH, context=0, format=FORMAT,
        )  # fmt: skip
        self.offsets[stream, -1] = self._send(encode(start), stream, partition)

    def _end(self, stream: str, batches: int, partition: int) -> None:
        count = batches * BATCH
        end = StreamEnd(job=stream.split("/")[0], stream=stream, epoch=1, count=count, context=0)
        self._send(encode(end), stream, partition)

    def _batch(self, stream: str, number: int, partition: int, damage: bool = False, mark: int = 0) -> None:
        seq, size = number * BATCH, FORMAT.frame_bytes
        batch = FrameBatch(
            job=stream.split("/")[0], stream=stream, epoch=1, seq=seq, ordinal=seq, format=FORMAT,
            start_offset=self.offsets[stream, -1], time_base=(1, 30), pts=list(range(seq, seq + BATCH)),
            duration=[1] * BATCH, flags=[0] * BATCH, spans=[(i * size, size) for i in range(BATCH)],
        )  # fmt: skip
        body = bytes([mark]) * (BATCH * size - damage)
        self.offsets[stream, seq] = self._send(encode(batch, [body]), stream, partition)

    def _send(self, value: Any, key: str, partition: int) -> int:
        at: list[int] = [-1] if self._hold else []
        topic = self.settings.topic_set.frames(Lane.BATCH)
        self._outbox.send(
            topic, value, key=key, partition=partition, on_delivery=lambda m: at.append(m.offset() or 0)
        )
        if not self._hold:
            self._outbox.flush()
        return at[0]


@contextmanager
def running(*services: Service) -> Iterator[None]:
    """Services, each stepped by a thread of its own; an error in one is raised at the end."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def live(service: Service) -> None:
        try:
            service.start()
            try:
                while not stop.is_set():
                    service.step(0.1)
                service.drain(time.monotonic() + 10)
            finally:
                service.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(service,)) for service in services]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def messages(settings: Settings, topic: str) -> Iterator[tuple[int, bytes]]:
    """(partition, value) of everything on a topic now but tombstones, each partition in order."""
    client = reader(settings.kafka, "test", overrides=WHOLE_TOPICS)
    partitions = client.list_topics(topic, timeout=10).topics[topic].partitions
    left = len(partitions)
    client.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    try:
        while left:
            message = client.poll(10)
            assert message is not None, "no end of partition"
            if message.error() is not None:
                left -= 1
            elif message.value() is not None:
                yield message.partition() or 0, message.value() or b""
    finally:
        client.close()


def records(settings: Settings, topic: str) -> Iterator[tuple[int, Record]]:
    """As `messages`, decoded."""
    for partition, value in messages(settings, topic):
        yield partition, decode(value).record


def wait_for(
    settings: Settings, topic: str, ready: Callable[[list[tuple[int, Record]]], bool], seconds: float = 60
) -> list[tuple[int, Record]]:
    """Records of a topic once they satisfy `ready`."""
    deadline = time.monotonic() + seconds
    while True:
        found = list(records(settings, topic))
        if ready(found):
            return found
        assert time.monotonic() < deadline, f"not seen on {topic}: {len(found)} records"
        time.sleep(0.1)
