"""Frames deleted before everybody had read them: decoded again, or a failed job; never a broken file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from control.local import Local
from control.supervisor import Supervisor
from runtime.cluster import ensure_topics
from runtime.kafka import admin, bounds, reader
from runtime.settings import Settings
from runtime.tables import read_table
from schemas.checkpoint import Checkpoint
from schemas.events import Role
from schemas.frames import StreamEnd
from schemas.job import JobState, Lane
from schemas.record import decode
from tests.support.broker import isolated_settings, read_all
from tests.support.cluster import Cluster, times
from tests.support.command import Command
from tests.support.media import make_clip
from tests.support.processes import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def services(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """Everything but an assembler, which comes late."""
    settings = isolated_settings(broker, tmp_path_factory.mktemp("cluster"))
    ensure_topics(settings)
    supervisor = Supervisor(settings, settings.data / "logs")
    supervisor.start([(Role.CONTROL, 1), (Role.INGEST, 1), (Role.SWAPPER, 1)])
    yield supervisor
    supervisor.stop()


def delete_all(settings: Settings, topic: str) -> None:
    client = reader(settings.kafka, "test")
    ends = [(p, bounds(client, topic, p)[1]) for p in range(settings.topics.frame_partitions)]
    client.close()
    places = [TopicPartition(topic, p, end) for p, end in ends if end]
    cluster = admin(settings.kafka)
    for future in cluster.delete_records(places).values():
        future.result(30)


def sent(settings: Settings) -> int:
    """Streams that are on the topics to their end."""
    topic = settings.topic_set.swaps(Lane.BATCH)
    values = [v for p in range(settings.topics.frame_partitions) for v in read_all(settings, topic, p)]
    return sum(isinstance(decode(v).record, StreamEnd) for v in values if v is not None)


def test_frames_that_expired_are_decoded_again_or_fail_the_job(services: Supervisor, tmp_path: Path) -> None:
    """Of two jobs everything is deleted; the input of one is gone as well."""
    settings = services._settings
    cluster = Cluster(Local(settings, services))
    clips = [make_clip(tmp_path / f"{name}.mp4", 50, options={"g": "25"}) for name in ("there", "gone")]
    outputs = [tmp_path / f"{clip.stem}-out.mp4" for clip in clips]
    specs = [cluster.spec(clip, output) for clip, output in zip(clips, outputs, strict=True)]
    watchers = cluster.submit(*specs)
    eventually("the frames are in Kafka", lambda: sent(settings) >= 4)
    eventually("it is said who is missing", lambda: "no_assembler (1)" in Command(settings)("status")[1])
    for topic in (settings.topic_set.frames(Lane.BATCH), settings.topic_set.swaps(Lane.BATCH)):
        delete_all(settings, topic)
    clips[1].rename(tmp_path / "elsewhere.mp4")
    services.start([(Role.ASSEMBLER, 1)])
    there, gone = cluster.wait(*watchers)
    assert there.state is JobState.DONE
    assert times(outputs[0]) == times(clips[0])
    made = read_table(settings, settings.topic_set.checkpoints, "test").values()
    checkpoints = [record for record in made if isinstance(record, Checkpoint)]
    assert [c.epoch for c in checkpoints if c.job == specs[0].job] == [2, 2]
    assert gone.record is not None
    assert gone.state is JobState.FAILED
    assert "deleted from Kafka before they were read" in gone.record.reason
    assert "gone.mp4" in gone.record.reason
    assert not outputs[1].exists()
