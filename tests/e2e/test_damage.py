"""A damaged input through the whole pipeline: what decodes is there at its time, and the job says so."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import av
import pytest

from ingest.packets import decoded_frames, use_one_thread
from tests.support.cluster import Cluster, times
from tests.support.media import make_clip

pytestmark = pytest.mark.broker

LOST = range(50, 75)
"""Frames of the third second, of which nothing is left."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five seconds of AV1. One is noise from beginning to end, and a few packets elsewhere are."""
    path = tmp_path_factory.mktemp("damaged") / "in.mp4"
    options = {"preset": "10", "g": "25", "svtav1-params": "lp=1"}
    make_clip(path, 125, codec="libsvtav1", options=options)
    with av.open(str(path)) as container:
        packets = [(p.pos or 0, p.size) for p in container.demux(video=0) if p.size]
    data, rng = bytearray(path.read_bytes()), random.Random(1)
    for number in (*LOST, 110):
        at, size = packets[number]
        data[at : at + size] = rng.randbytes(size)
    path.write_bytes(data)
    return path


def decodable(path: Path) -> list[Fraction]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        use_one_thread(stream)
        base = stream.time_base
        assert base is not None
        frames = decoded_frames(container, stream, Counter())
        return [frame.pts * base for frame in frames if frame.pts is not None]


def test_what_decodes_is_kept_at_its_time_and_the_job_is_degraded(
    cluster: Cluster, damaged: Path, tmp_path: Path
) -> None:
    outputs = [tmp_path / "one.mkv", tmp_path / "two.mkv"]
    kept = decodable(damaged)
    assert 80 < len(kept) <= 100
    assert not {Fraction(n, 25) for n in LOST}.intersection(kept), "an order of which nothing decodes"
    for status in cluster.run(*(cluster.spec(damaged, path, encode={"encoder": "ffv1"}) for path in outputs)):
        assert status.record is not None
        assert (status.state, status.record.reason) == ("done", "")
        warnings = status.record.warnings
        assert warnings["frames_missing"] == 125 - len(kept)
        assert warnings["degraded"] >= warnings["frames_missing"]
    assert times(outputs[0]) == kept
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
