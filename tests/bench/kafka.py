"""Kafka's own speed against ours: bytes through the embedded broker as plain values, and as frame
batches packed from planes, sent by our outbox and decoded to planes again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np
from confluent_kafka import TopicPartition

from runtime.broker.embedded import EmbeddedBroker
from runtime.cluster import ensure_topics
from runtime.kafka import bounds, consumer, producer
from runtime.outbox import Outbox
from runtime.payload import decode
from runtime.settings import Settings, load
from schemas.frames import FrameBatch, PayloadCodec
from schemas.record import Message
from schemas.record import decode as decode_record
from schemas.topics import Topic
from tests.bench.clips import long_clip
from tests.bench.payload import make_packer

TOTAL = 600 << 20


def main() -> None:
    with TemporaryDirectory() as folder:
        settings = load({"data": Path(folder)})
        with EmbeddedBroker(Path(folder) / "broker", settings) as broker:
            settings = settings.with_bootstrap(broker.bootstrap)
            print("| what | write MB/s | read MB/s |")
            print("|---|---|---|")
            raw = plain(settings)
            ours = batches(settings)
            for name, (wrote, read) in (("plain values of 4 MiB", raw), ("frame batches, 720p raw", ours)):
                print(f"| {name} | {wrote:.0f} | {read:.0f} |")
            print(f"| ours / plain | {ours[0] / raw[0]:.2f} | {ours[1] / raw[1]:.2f} |")


def plain(settings: Settings) -> tuple[float, float]:
    value = np.random.default_rng(1).integers(0, 256, 4 << 20, np.uint8)
    topic = make_topic(settings, "plain")
    with Outbox(producer(settings.kafka, "bench")) as outbox:
        started = time.monotonic()
        for _ in range(TOTAL // len(value)):
            outbox.send(topic, value, partition=0)
        outbox.flush()
        wrote = TOTAL / (time.monotonic() - started)
    return wrote / 1e6, read(settings, topic, lambda _: None)


def batches(settings: Settings) -> tuple[float, float]:
    with av.open(str(long_clip(1280, 720, 10))) as clip:
        frames = [frame for frame, _ in zip(clip.decode(video=0), range(60), strict=False)]
    topic, sent = make_topic(settings, "batches"), 0
    packer, number = make_packer(frames[0], PayloadCodec.RAW), 0
    with Outbox(producer(settings.kafka, "bench")) as outbox:
        started = time.monotonic()
        while sent < TOTAL:
            for frame in frames:
                record = packer.add(frame, number, number, 1)
                number += 1
                if record is not None:
                    outbox.send(topic, record, partition=0)
                    sent += len(record)
        outbox.flush()
        wrote = sent / (time.monotonic() - started)
    return wrote / 1e6, read(settings, topic, _touch)


def _touch(value: bytes) -> None:
    message = decode_record(value)
    assert isinstance(message.record, FrameBatch)
    assert decode(Message(message.record, message.body))[0][0].shape == (720, 1280)


def make_topic(settings: Settings, name: str) -> str:
    ensure_topics(settings, [Topic(name, 1, {"max.message.bytes": str(settings.kafka.record_limit)})])
    return name


def read(settings: Settings, topic: str, use: Callable[[bytes], None]) -> float:
    """MB/s of one consumer from the start of the topic to its end."""
    client = consumer(settings.kafka, "bench", "bench")
    _, end = bounds(client, topic, 0)
    client.assign([TopicPartition(topic, 0, 0)])
    started, size = time.monotonic(), 0
    while True:
        message = client.poll(10)
        assert message is not None
        value = message.value() or b""
        size += len(value)
        use(value)
        if (message.offset() or 0) + 1 >= end:
            break
    rate = size / (time.monotonic() - started) / 1e6
    client.close()
    return rate
