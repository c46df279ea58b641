"""Frames and swaps of synthetic jobs on a real broker, and what assemblers made of them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, TopicPartition

from assembler.service import AssemblerService
from runtime.cluster import ensure_topics
from runtime.kafka import producer, reader
from runtime.outbox import Outbox
from runtime.settings import Settings
from schemas.frames import FrameBatch, FrameFlag, StreamEnd, StreamStart, VideoFormat
from schemas.job import JobRecord, JobSpec, Lane, stream_id
from schemas.record import Record, decode, encode
from schemas.swaps import Failure, Patch, SwapBatch
from tests.support.processes import eventually
from tests.support.segments import moving_picture

VIDEO = VideoFormat(width=64, height=48, pixel_format="yuv420p")
TICK = (1, 12800)
STEP = 512
PATCH = Patch(x=16, y=8, width=8, height=6, offset=0)


def patch_body(value: int) -> bytes:
    return bytes([value]) * VIDEO.pixels.frame_bytes(PATCH.width, PATCH.height)


@dataclass
class Log:
    """Records of one stream as ingest and swappers would write them."""

    frames: list[tuple[Record, bytes]] = field(default_factory=list)
    swaps: list[tuple[Record, bytes]] = field(default_factory=list)


class Feed:
    """Writes the topics of one lane; every stream has its frames in batches of `batch`."""

    def __init__(self, settings: Settings) -> None:
        ensure_topics(settings)
        self.settings = settings
        self._topics = settings.topic_set
        self._outbox = Outbox(producer(settings.kafka, "test"))

    def job(self, spec: JobSpec) -> None:
        self._send(self._topics.jobs, JobRecord(job=spec.job, spec=spec), b"", spec.job, 0)

    def send(self, topic: str, record: Record, key: str) -> None:
        self._send(topic, record, b"", key, -1)
        self._outbox.flush()

    def _send(self, topic: str, record: Record, body: bytes, key: str, partition: int) -> None:
        self._outbox.send(topic, encode(record, [body]), key=key, partition=partition)

    def write(self, log: Log, partition: int, sides: str = "fs") -> None:
        """Put the records of a stream on a partition: frames, swaps or both."""
        if "f" in sides:
            for record, body in log.frames:
                self._send(self._topics.frames(Lane.BATCH), record, body, record.stream, partition)
        if "s" in sides:
            for record, body in log.swaps:
                self._send(self._topics.swaps(Lane.BATCH), record, body, record.stream, partition)
        self._outbox.flush()

    def close(self) -> None:
        self._outbox.close()


def make_stream(
    job: str,
    segment: int,
    *,
    first: int = 0,
    count: int = 12,
    context: int = 0,
    epoch: int = 0,
    batch: int = 5,
    value: int = 200,
    video: VideoFormat = VIDEO,
    failed: dict[int, Failure] | None = None,
) -> Log:
    """A stream of `count` frames to encode, the first of which is number `first` of the input. Frames
    are those of `moving_picture`; every one gets a square of `value`, but in batches of `failed`."""
    names: dict[str, Any] = {"job": job, "stream": stream_id(job, segment), "epoch": epoch}
    numbers = list(range(first - context, first + count))
    span = {"start": first * STEP, "end": (first + count) * STEP}
    start = StreamStart(
        **names, segment=segment, **span, time_base=TICK, frames=count, context=context, format=video
    )
    end = StreamEnd(**names, count=len(numbers), context=context, end=span["end"])
    log = Log([(start, b"")], [(start, b"")])
    for seq in range(0, len(numbers), batch):
        own = numbers[seq : seq + batch]
        body = b"".join(p.tobytes() for n in own for p in moving_picture(video, n))
        frames = FrameBatch(
            **names, seq=seq, format=video, time_base=TICK, pts=[n * STEP for n in own],
            duration=[STEP] * len(own),
            flags=[int(FrameFlag.CONTEXT) if n < first else 0 for n in own], spans=_spans(video, len(own)),
        )  # fmt: skip
        failure = (failed or {}).get(seq)
        swaps = SwapBatch(
            **names, seq=seq, count=len(own), engine="test", failed=failure,
            patches=[] if failure else [[] if n < first else [PATCH] for n in own],
            flags=[] if failure else [0] * len(own),
        )  # fmt: skip
        log.frames.append((frames, body))
        log.swaps.append((swaps, b"" if failure else patch_body(value)))
    log.frames.append((end, b""))
    log.swaps.append((end, b""))
    return log


def _spans(video: VideoFormat, frames: int) -> list[tuple[int, int]]:
    sizes = [video.pixels.plane_bytes(p, video.width, video.height) for p in range(video.pixels.planes)]
    ends = list(itertools.accumulate(sizes * frames))
    return list(zip([0, *ends[:-1]], sizes * frames, strict=True))


def patched(number: int, value: int = 200, video: VideoFormat = VIDEO) -> list[np.ndarray]:
    """The picture that a frame of `make_stream` must become."""
    planes = moving_picture(video, number)
    for index, plane in enumerate(planes):
        shift_x, shift_y = (video.pixels.chroma_x, video.pixels.chroma_y) if index else (0, 0)
        rows = slice(PATCH.y >> shift_y, (PATCH.y + PATCH.height) >> shift_y)
        plane[rows, PATCH.x >> shift_x : (PATCH.x + PATCH.width) >> shift_x] = value
    return planes


@contextmanager
def assembling(settings: Settings, instance: str, **more: Any) -> Iterator[AssemblerService]:
    """An assembler in a thread of its own; what ends it is raised at the end."""
    service = AssemblerService(settings, instance=instance, **more)
    stop = threading.Event()
    errors: list[BaseException] = []

    def loop() -> None:
        try:
            while not stop.is_set():
                service.step(0.1)
        except BaseException as error:
            errors.append(error)
            import traceback

            traceback.print_exc()

    service.start()
    thread = threading.Thread(target=loop, name=instance)
    thread.start()
    try:
        yield service
    finally:
        stop.set()
        thread.join()
        service.close()
        if errors:
            raise errors[0]


def records_on(settings: Settings, topic: str) -> list[Record]:
    """All committed records of a topic, in order of its partitions."""
    consumer = reader(settings.kafka, "test")
    records: list[Record] = []
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        ends: set[int] = set()
        deadline = time.monotonic() + 30
        while len(ends) < len(partitions):
            assert time.monotonic() < deadline, topic
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ends.add(message.partition())
            else:
                records.append(decode(message.value()).record)
    finally:
        consumer.close()
    return records


def await_records(
    settings: Settings, topic: str, kind: str, count: int, seconds: float = 60
) -> Sequence[Any]:
    """Wait until at least `count` records of a kind are on a topic; all of them are returned."""
    found: list[Record] = []

    def enough() -> bool:
        found[:] = [record for record in records_on(settings, topic) if kind == record.KIND]
        return len(found) >= count

    eventually(f"{count} records {kind} on {topic}", enough, seconds)
    return found
