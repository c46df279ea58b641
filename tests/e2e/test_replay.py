"""A finished job is made again from the frames that Kafka still holds."""

from __future__ import annotations

import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from control.cli.replay import replay_spec
from control.replayable import replayable
from runtime.kafka import admin, bounds, reader
from runtime.settings import Settings
from schemas.errors import UsageError
from schemas.frames import FrameBatch, RangeRef
from schemas.job import JobSpec, Lane
from schemas.record import decode
from tests.support.cluster import Cluster, frames, psnr, sound
from tests.support.media import make_clip
from tests.support.processes import eventually
from tests.support.streams import messages

pytestmark = pytest.mark.broker
NOTHING = dict.fromkeys(
    ("source_face", "trim_start", "trim_end", "engine", "encoder", "quality", "preset", "bitrate", "audio",
     "on_failure", "consent")
) | {"sources": (), "engine_options": (), "accept_licence": ()}  # fmt: skip


def again(cluster: Cluster, job: str, output: Path, **options: Any) -> JobSpec:
    return replay_spec(cluster.settings, job, NOTHING | {"output": output} | options)


@pytest.fixture(scope="module")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of numbered stripes at 25 frames/s with sound."""
    return make_clip(tmp_path_factory.mktemp("stripes") / "in.mp4", 100, options={"g": "25"}, sound="aac")


@pytest.fixture(scope="module")
def done(cluster: Cluster, stripes: Path) -> JobSpec:
    """A finished job on a copy of the stripes."""
    spec = cluster.spec(stripes, stripes.parent / "first.mp4")
    cluster.done(spec)
    return spec


def test_the_same_face_gives_the_same_file_and_sends_no_frame_again(
    cluster: Cluster, clip: Path, face: Path, tmp_path: Path
) -> None:
    first = cluster.spec(clip, tmp_path / "first.mp4", face, encode={"preset": "ultrafast"})
    cluster.done(first)
    spec = again(cluster, first.job, tmp_path / "again.mp4")
    cluster.done(spec)
    assert (tmp_path / "again.mp4").read_bytes() == (tmp_path / "first.mp4").read_bytes()
    topic = cluster.settings.topic_set.frames(Lane.BATCH)
    sizes = {spec.job: 0, first.job: 0}
    kinds: dict[str, set[type]] = {spec.job: set(), first.job: set()}
    for _, value in messages(cluster.settings, topic):
        record = decode(value).record
        if record.job in sizes:
            sizes[record.job] += len(value)
            kinds[record.job].add(type(record))
    assert RangeRef in kinds[spec.job]
    assert FrameBatch not in kinds[spec.job]
    assert sizes[spec.job] * 100 < sizes[first.job], "more than a hundredth of the first run"


def test_another_face_and_another_encoder(cluster: Cluster, clip: Path, face: Path, tmp_path: Path) -> None:
    plain = cluster.spec(
        clip, tmp_path / "plain.mkv", encode={"encoder": "ffv1"}, plan={"context_frames": 12}
    )
    cluster.done(plain)
    swapped = again(
        cluster, plain.job, tmp_path / "swapped.mkv", engine="mesh", sources=(face,), encoder="ffv1"
    )
    direct = cluster.spec(clip, tmp_path / "direct.mkv", face, encode={"encoder": "ffv1"})
    cluster.done(swapped, direct)
    assert (tmp_path / "swapped.mkv").read_bytes() == (tmp_path / "direct.mkv").read_bytes()
    assert psnr(frames(tmp_path / "plain.mkv")[50][1], frames(tmp_path / "swapped.mkv")[50][1]) < 45


def test_a_part_holds_the_frames_and_the_sound_of_its_span(
    cluster: Cluster, done: JobSpec, tmp_path: Path
) -> None:
    part = again(
        cluster, done.job, tmp_path / "part.mkv", trim_start=(6, 5), trim_end=(29, 10), encoder="ffv1"
    )
    whole = again(cluster, done.job, tmp_path / "whole.mkv", encoder="ffv1")
    cluster.done(part, whole)
    wanted = [(at, picture) for at, picture in frames(tmp_path / "whole.mkv") if Fraction(6, 5) <= at < 2.9]
    got = frames(tmp_path / "part.mkv")
    assert [at for at, _ in got] == [at - Fraction(6, 5) for at, _ in wanted]
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(wanted, got, strict=True))
    kept = {data for _, _, data in sound(tmp_path / "part.mkv")}
    assert kept < {data for _, _, data in sound(tmp_path / "whole.mkv")}


def test_several_replays_at_once(cluster: Cluster, done: JobSpec, tmp_path: Path) -> None:
    specs = [again(cluster, done.job, tmp_path / f"{n}.mp4") for n in range(3)]
    cluster.done(*specs)
    first = Path(done.output).read_bytes()
    assert all((tmp_path / f"{n}.mp4").read_bytes() == first for n in range(3))


def test_what_cannot_be_replayed_is_refused_with_the_reason(
    cluster: Cluster, done: JobSpec, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="there is no job nothing"):
        again(cluster, "nothing", tmp_path / "o.mp4")
    with pytest.raises(UsageError, match="needs a source picture"):
        again(cluster, done.job, tmp_path / "o.mp4", engine="mesh")
    spec = again(cluster, done.job, tmp_path / "o.mp4", trim_start=(5, 1))
    (status,) = cluster.run(spec)
    assert status.record is not None
    assert "no frame of job" in status.record.reason
    other = again(cluster, done.job, tmp_path / "o.mp4")
    cluster.done(other)
    with pytest.raises(UsageError, match=f"is itself a replay: replay {done.job}"):
        again(cluster, other.job, tmp_path / "p.mp4")


def test_what_can_be_replayed_is_listed_until_it_expires(
    cluster: Cluster, stripes: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "in.mp4"
    copy.write_bytes(stripes.read_bytes())
    first = cluster.spec(copy, tmp_path / "first.mp4")
    cluster.done(first)
    found = {job.job: job for job in replayable(cluster.settings)}
    assert found[first.job].retained == found[first.job].segments == 4
    assert found[first.job].until is not None
    expire(cluster.settings, ends(cluster.settings))
    assert first.job not in {job.job for job in replayable(cluster.settings)}
    spec = again(cluster, first.job, tmp_path / "again.mp4")
    (status,) = cluster.run(spec)
    assert status.record is not None
    assert (status.state, status.record.warnings) == ("done", {"segments_decoded_again": 4})
    assert (tmp_path / "again.mp4").read_bytes() == (tmp_path / "first.mp4").read_bytes()
    copy.unlink()
    (status,) = cluster.run(again(cluster, first.job, tmp_path / "gone.mp4"))
    assert status.record is not None
    assert status.state == "failed"
    assert "0.000 s to 4.000 s have left Kafka" in status.record.reason
    assert str(copy) in status.record.reason
    assert not (tmp_path / "gone.mp4").exists()


def test_frames_that_expire_while_a_replay_runs_are_decoded(
    cluster: Cluster, stripes: Path, tmp_path: Path
) -> None:
    first = cluster.spec(stripes, tmp_path / "first.mp4")
    cluster.done(first)
    spec = again(cluster, first.job, tmp_path / "again.mp4")
    assert cluster.here.supervisor is not None
    swapper = cluster.here.supervisor.pids()["swapper-0"]
    before = ends(cluster.settings)
    os.kill(swapper, signal.SIGSTOP)
    try:
        submitted = cluster.submit(spec)
        eventually("its ranges are on their way", lambda: released(cluster.settings, spec.job))
        expire(cluster.settings, before)
    finally:
        os.kill(swapper, signal.SIGCONT)
    (status,) = cluster.wait(*submitted)
    assert status.record is not None
    assert (status.state, status.record.reason) == ("done", "")
    assert (tmp_path / "again.mp4").read_bytes() == (tmp_path / "first.mp4").read_bytes()


def released(settings: Settings, job: str) -> bool:
    found = (decode(value).record for _, value in messages(settings, settings.topic_set.frames(Lane.BATCH)))
    return any(isinstance(record, RangeRef) and record.job == job for record in found)


def ends(settings: Settings) -> list[TopicPartition]:
    """Where the frames of all jobs so far end."""
    topic = settings.topic_set.frames(Lane.BATCH)
    client = reader(settings.kafka, "test")
    numbers = range(settings.topics.frame_partitions)
    found = [TopicPartition(topic, number, bounds(client, topic, number)[1]) for number in numbers]
    client.close()
    return found


def expire(settings: Settings, upto: list[TopicPartition]) -> None:
    """Delete the frames before these offsets."""
    client = admin(settings.kafka)
    for future in client.delete_records(upto).values():
        future.result(10)
