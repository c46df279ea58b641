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


@pytest.mark.parametrize("readable", [True, False], ids=["input still there", "input gone"])
def test_frames_that_expired_are_decoded_again_or_fail_the_job(
    services: Supervisor, tmp_path: Path, readable: bool
) -> None:
    settings = services._settings
    cluster = Cluster(Local(settings, services))
    clip, output = make_clip(tmp_path / "clip.mp4", 100, options={"g": "25"}), tmp_path / "out.mp4"
    spec = cluster.spec(clip, output)
    (watcher,) = cluster.submit(spec)
    eventually("the frames are in Kafka", lambda: sent(settings) >= 4)
    for topic in (settings.topic_set.frames(Lane.BATCH), settings.topic_set.swaps(Lane.BATCH)):
        delete_all(settings, topic)
    if not readable:
        clip.rename(tmp_path / "elsewhere.mp4")
    services.start([(Role.ASSEMBLER, 1)])
    (status,) = cluster.wait(watcher)
    assert status.record is not None
    if readable:
        assert status.state is JobState.DONE
        assert times(output) == times(clip)
        made = read_table(settings, settings.topic_set.checkpoints, "test").values()
        assert [(type(record), record.epoch) for record in made] == [(Checkpoint, 2)] * 4
    else:
        assert status.state is JobState.FAILED
        assert "deleted from Kafka before they were read" in status.record.reason
        assert "clip.mp4" in status.record.reason
        assert not output.exists()
