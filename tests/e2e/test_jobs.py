"""Jobs beside one another: repeatable bytes, bad ones that fail alone, two at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.job import JobState
from schemas.record import decode
from schemas.segments import SegmentRecord, SegmentState
from tests.support.broker import read_all
from tests.support.cluster import Cluster, times
from tests.support.media import make_clip

pytestmark = pytest.mark.broker


def test_the_same_spec_gives_the_same_bytes_and_other_threads_do_not(
    cluster: Cluster, clip: Path, face: Path, tmp_path: Path
) -> None:
    outputs = [tmp_path / f"{n}.mp4" for n in range(3)]
    for output, threads in zip(outputs, (4, 4, 1), strict=True):
        cluster.done(cluster.spec(clip, output, face, encode={"threads": threads}))
    first, again, other = (path.read_bytes() for path in outputs)
    assert first == again
    assert first != other


def test_two_jobs_at_once_both_come_out_right(
    cluster: Cluster, clip: Path, face: Path, tmp_path: Path
) -> None:
    other = make_clip(tmp_path / "other.mp4", 75, options={"g": "25"})
    outputs = tmp_path / "a.mp4", tmp_path / "b.mp4"
    cluster.done(cluster.spec(clip, outputs[0], face), cluster.spec(other, outputs[1]))
    assert [times(path) for path in outputs] == [times(clip), times(other)]


def test_an_input_of_one_key_frame_is_released_in_parts_and_decoded_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    clip, output = make_clip(tmp_path / "one.mp4", 240, options={"g": "400"}), tmp_path / "out.mp4"
    spec = cluster.spec(clip, output)
    cluster.done(spec)
    assert times(output) == times(clip)
    settings, flying, most = cluster.settings, 0, 0
    for value in read_all(settings, settings.topic_set.segments):
        record = decode(value).record if value is not None else None
        if isinstance(record, SegmentRecord) and record.job == spec.job:
            flying += record.state is SegmentState.RELEASED
            flying -= record.state is SegmentState.DONE
            most = max(most, flying)
    assert (flying, most) == (0, settings.limits.segments_per_swapper + 1)
    log = (settings.data / "logs" / "ingest-0.log").read_text().splitlines()
    parts = [json.loads(line) for line in log if '"order_decoded"' in line and spec.job in line]
    assert len(parts) > 2
    assert [part["gone_on"] for part in parts] == [False] + [True] * (len(parts) - 1)


@pytest.mark.parametrize("content", [b"", b"this is no video\n" * 100], ids=["empty", "text"])
def test_a_bad_input_fails_its_job_in_one_line_and_the_next_one_runs(
    cluster: Cluster, tmp_path: Path, content: bytes
) -> None:
    bad, output = tmp_path / "bad.mp4", tmp_path / "out" / "bad-out.mp4"
    output.parent.mkdir()
    bad.write_bytes(content)
    (status,) = cluster.run(cluster.spec(bad, output))
    assert status.state is JobState.FAILED
    assert status.record is not None
    assert "bad.mp4" in status.record.reason
    assert "\n" not in status.record.reason
    assert list(output.parent.iterdir()) == []
    good = make_clip(tmp_path / "good.mp4", 25)
    cluster.done(cluster.spec(good, tmp_path / "good-out.mp4"))


def test_a_missing_input_and_a_missing_folder_fail_by_name(cluster: Cluster, tmp_path: Path) -> None:
    good = make_clip(tmp_path / "good.mp4", 25)
    gone, nowhere = tmp_path / "gone.mp4", tmp_path / "nowhere" / "out.mp4"
    missing, unwritable = cluster.run(cluster.spec(gone, tmp_path / "out.mp4"), cluster.spec(good, nowhere))
    for status, name in ((missing, "gone.mp4"), (unwritable, "nowhere")):
        assert status.state is JobState.FAILED
        assert status.record is not None
        assert name in status.record.reason


def test_segments_of_ended_jobs_are_cleaned_away(cluster: Cluster, tmp_path: Path) -> None:
    from runtime.store import Store
    from tests.support.processes import eventually

    clip = make_clip(tmp_path / "clip.mp4", 50)
    spec = cluster.spec(clip, tmp_path / "out.mp4")
    cluster.done(spec)
    store = Store.of(cluster.settings)
    eventually("no segments left", lambda: not store.list(f"segments/{spec.job}"))
