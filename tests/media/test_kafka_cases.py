"""Cases of the log that are about topics, queues and disks: K01, K04, K06, K08, K13."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.payload import decode
from runtime.settings import MIB, Settings
from schemas.checkpoint import Checkpoint
from schemas.frames import FrameBatch
from schemas.job import JobState, Lane, split_stream
from schemas.record import Message
from schemas.record import decode as read_record
from schemas.swaps import SwapBatch
from tests.media.decoded import counter
from tests.media.decoded import decode as decode_clip
from tests.support.cases import cases
from tests.support.cluster import Cluster, running_cluster, times
from tests.support.media import make_clip
from tests.support.streams import messages

pytestmark = pytest.mark.broker
ONE_FRAME = 350_000
"""Bytes of a batch that holds one frame of 640 x 360."""


def changed(settings: Settings, section: str, **values: Any) -> Settings:
    """Settings with other values in one section."""
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=values)})


def counters(path: Path) -> list[int | None]:
    return decode_clip(path).counters


def test_k01_frames_far_over_a_megabyte_pass_with_the_defaults(cluster: Cluster, tmp_path: Path) -> None:
    case, output = cases()["M70"], tmp_path / "out.mp4"
    cluster.done(cluster.spec(case.path, output, encode={"preset": "ultrafast"}))
    assert counters(output) == list(range(8))


def test_k01_frames_over_the_limit_fail_before_any_is_sent(kafka: Settings, tmp_path: Path) -> None:
    limited = changed(changed(kafka, "kafka", record_limit=MIB), "limits", batch_bytes=MIB)
    output = tmp_path / "out" / "out.mp4"
    output.parent.mkdir()
    with running_cluster(limited) as cluster:
        (status,) = cluster.run(cluster.spec(cases()["M70"].path, output))
        assert status.state is JobState.FAILED
        assert status.record is not None
        assert "3840x2160" in status.record.reason
        assert "record_limit" in status.record.reason
        assert list(output.parent.iterdir()) == []
        assert list(messages(limited, limited.topic_set.frames(Lane.BATCH))) == []


@pytest.mark.parametrize("group", [pytest.param("consumer", marks=pytest.mark.slow), "share"])
def test_k04_six_partitions_and_random_delays_keep_the_order(
    kafka: Settings, tmp_path: Path, group: str
) -> None:
    settings = changed(kafka, "topics", frame_partitions=6)
    settings = changed(changed(settings, "limits", batch_bytes=ONE_FRAME), "swapper", group=group)
    output = tmp_path / "out.mp4"
    with running_cluster(settings, swappers=2) as cluster:
        swap, plan = {"options": {"delay_ms": 200}}, {"segment_seconds": 0.5}
        cluster.done(cluster.spec(cases()["M31"].path, output, swap=swap, plan=plan))
        topic = settings.topic_set.frames(Lane.BATCH)
        used = {partition for partition, value in messages(settings, topic) if value}
    assert len(used) > 1
    assert counters(output) == list(range(61))


def test_k06_a_queue_of_ten_records_loses_nothing_and_holds_ingest_back(
    kafka: Settings, tmp_path: Path
) -> None:
    """Most of the clip's 276 MB of frames must be waited for, not held."""
    settings = changed(kafka, "kafka", client={"queue.buffering.max.messages": 10})
    settings = changed(settings, "limits", batch_bytes=2 * MIB)
    clip = make_clip(tmp_path / "clip.mp4", 200, width=1280, height=720, codec="mpeg4")
    output = tmp_path / "out.mp4"
    with running_cluster(settings) as cluster:
        cluster.done(cluster.spec(cases()["M33"].path, tmp_path / "one.mp4"))  # everything is loaded now
        before = peak_bytes(service(cluster, "ingest-0"))
        cluster.done(cluster.spec(clip, output, encode={"preset": "ultrafast"}))
        # Looked up again: where the broker stands still for a minute, a new process takes over.
        assert peak_bytes(service(cluster, "ingest-0")) - before < 128 * MIB
    assert times(output) == times(clip)


@pytest.mark.parametrize(
    ("encode", "suffix", "room"),
    [({"encoder": "ffv1"}, "mkv", 1 * MIB), ({"quality": 10}, "mp4", MIB // 2)],
    ids=["a segment", "the result"],
)
def test_k08_a_full_disk_fails_its_job_alone_and_leaves_no_half_file(
    cluster: Cluster, tmp_path: Path, encode: dict[str, Any], suffix: str, room: int
) -> None:
    """The assembler's files are bounded: `write` fails as on a full disk, from which nobody is exempt."""
    output, other = tmp_path / "out" / f"out.{suffix}", tmp_path / "other.mp4"
    output.parent.mkdir()
    small = make_clip(tmp_path / "small.mp4", 25)
    with bounded_files(service(cluster, "assembler-0"), room):
        (status,) = cluster.run(cluster.spec(cases()["M00"].path, output, encode=encode))
        assert status.state is JobState.FAILED
        assert status.record is not None
        assert "too large" in status.record.reason
        assert list(output.parent.iterdir()) == []
        cluster.done(cluster.spec(small, other))
    assert times(other) == times(small)


def test_k13_every_topic_pairs_a_picture_with_its_own_time(cluster: Cluster, tmp_path: Path) -> None:
    settings, topics = cluster.settings, cluster.settings.topic_set
    spec = cluster.spec(cases()["M31"].path, tmp_path / "out.mkv", encode={"encoder": "ffv1"})
    cluster.done(spec)
    expected = {n: Fraction(n, 30) for n in range(61)}
    seen: dict[int, Fraction] = {}
    sent: dict[tuple[str, int], int] = {}
    for _, value in messages(settings, topics.frames(Lane.BATCH)):
        message = read_record(value)
        batch = message.record
        if isinstance(batch, FrameBatch) and batch.job == spec.job:
            sent[batch.stream, batch.seq] = len(batch.pts)
            for planes, info in zip(decode(Message(batch, message.body)), batch.infos(), strict=True):
                number = counter((planes[0].astype(float) - 16) / 219)
                assert number is not None
                seen[number] = info.pts * batch.tick
    assert seen == expected
    answers = [read_record(value).record for _, value in messages(settings, topics.swaps(Lane.BATCH))]
    swaps = [r for r in answers if isinstance(r, SwapBatch) and r.job == spec.job]
    assert {(r.stream, r.seq): r.count for r in swaps} == sent
    written = [read_record(value).record for _, value in messages(settings, topics.checkpoints)]
    found = [r for r in written if isinstance(r, Checkpoint) and r.job == spec.job]
    found.sort(key=lambda c: split_stream(c.stream)[1])
    ticks = [tick * Fraction(*c.time_base) for c in found for tick in c.pts]
    assert ticks == list(expected.values())
    clip = decode_clip(Path(spec.output))
    assert clip.counters == list(expected)


def service(cluster: Cluster, name: str) -> psutil.Process:
    supervisor = cluster.here.supervisor
    assert supervisor is not None
    return psutil.Process(supervisor.pids()[name])


def peak_bytes(process: psutil.Process) -> int:
    """Largest resident size so far."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@contextmanager
def bounded_files(process: psutil.Process, size: int) -> Iterator[None]:
    """No file of a running process grows beyond `size` bytes."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
