"""A swapper that starts anywhere in the frames topic makes the patches of one that started at the front."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from runtime.cluster import ensure_topics
from runtime.jobs import JobBoard
from runtime.kafka import consumer, producer, reader
from runtime.outbox import Outbox
from runtime.settings import Settings
from runtime.store import Store
from schemas.frames import FrameBatch
from schemas.job import Lane
from schemas.record import decode
from schemas.swaps import SwapBatch
from schemas.topics import Topic
from swapper.grouped import GroupReader
from swapper.pipeline import Pipeline, Topics
from swapper.recipes import RecipeBook
from swapper.runner import Runner
from tests.support.cluster import Cluster
from tests.support.processes import eventually

pytestmark = pytest.mark.broker
Key = tuple[str, int]


def test_a_swapper_started_at_any_offset_gives_the_same_patches(
    cluster: Cluster, clip: Path, face: Path, tmp_path: Path
) -> None:
    settings, topics = cluster.settings, cluster.settings.topic_set
    spec = cluster.spec(clip, tmp_path / "out.mp4", face, encode={"preset": "ultrafast"})
    cluster.done(spec)
    frames = topics.frames(Lane.BATCH)
    written = {
        k: v for k, v in swaps(settings, topics.swaps(Lane.BATCH)).items() if k[0].startswith(spec.job)
    }
    batches = [b for b in places(settings, frames) if b[2].job == spec.job]
    assert len(written) == len(batches)
    inside = [b for b in batches if b[2].seq > 0]
    for number, (partition, offset, first) in enumerate((batches[0], inside[1], inside[-1])):
        wanted = {
            (b.stream, b.seq)
            for p, _, b in batches
            if p == partition and b.stream == first.stream  # all of it, though we start inside
        }
        again = f"{topics.prefix}again.{number}"
        ensure_topics(settings, [Topic(again, settings.topics.frame_partitions, {})])
        rerun(settings, frames, again, TopicPartition(frames, partition, offset), wanted)
        made = swaps(settings, again)
        assert wanted <= set(made)
        for key in wanted:
            assert made[key] == written[key], f"other patches for {key}"


def rerun(settings: Settings, frames: str, swaps_to: str, start: TopicPartition, wanted: set[Key]) -> None:
    """Run a worker of its own group from an offset that somebody set, until it has done what is wanted."""
    group = f"{swaps_to}.group"
    client = consumer(settings.kafka, group, "test")
    client.commit(offsets=[start], asynchronous=False)
    client.close()
    topics = settings.topic_set
    with JobBoard(settings, "test") as board, Outbox(producer(settings.kafka, "test")) as outbox:
        recipes = RecipeBook(board, Store.of(settings), settings.models_dir)
        names = Topics(frames, swaps_to, topics.dead, topics.events)
        pipeline = Pipeline(Runner(recipes), outbox, names, 4)
        worker = GroupReader(settings, group, frames, pipeline)
        pipeline.start()
        worker.start()

        def done() -> bool:
            for _ in range(200):
                worker.step(0.01)
            return wanted <= set(swaps(settings, swaps_to))

        eventually("the stream is run again", done)
        worker.close()
        pipeline.stop()


def swaps(settings: Settings, topic: str) -> dict[Key, tuple[object, bytes]]:
    """(patches, pixels) of each batch on a topic; the first of each counts."""
    found: dict[Key, tuple[object, bytes]] = {}
    for _, _, value in values(settings, topic):
        message = decode(value)
        if isinstance(message.record, SwapBatch):
            key = (message.record.stream, message.record.seq)
            found.setdefault(key, (message.record.patches, bytes(message.body)))
    return found


def places(settings: Settings, topic: str) -> list[tuple[int, int, FrameBatch]]:
    """(partition, offset, header) of each frame batch."""
    return [
        (partition, offset, record)
        for partition, offset, value in values(settings, topic)
        if isinstance(record := decode(value).record, FrameBatch)
    ]


def values(settings: Settings, topic: str) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of everything that is left on a topic, partition by partition."""
    client = reader(settings.kafka, "test")
    found = []
    for partition in range(settings.topics.frame_partitions):
        client.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = client.poll(10)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                break
            found.append((partition, message.offset() or 0, message.value() or b""))
    client.close()
    return found
