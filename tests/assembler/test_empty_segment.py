"""A segment of a damaged input of which not one frame decodes does not fail the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from assembler.join import StreamKey
from assembler.segment import SegmentTask
from runtime.store import Store
from schemas.checkpoint import Checkpoint
from schemas.frames import StreamEnd, StreamStart, VideoFormat
from schemas.job import JobSpec

pytestmark = pytest.mark.media


def test_it_becomes_a_checkpoint_without_frames(tmp_path: Path) -> None:
    video = VideoFormat(width=64, height=48, pixel_format="yuv420p")
    start = StreamStart(
        job="j", stream="j/1", epoch=0, revision=1, segment=1, start=100, end=200, time_base=(1, 100),
        frames=25, context=0, format=video,
    )  # fmt: skip
    end = StreamEnd(
        job="j", stream="j/1", epoch=0, count=0, context=0, end=100, warnings={"frames_missing": 25}
    )
    spec = JobSpec(job="j", input="in.mp4", output="out.mp4")
    store = Store((tmp_path / "store").as_uri())
    task = SegmentTask(StreamKey("j/1", 0), start, lambda cancelled: spec, store, tmp_path, 2)
    assert task.offer(end)
    task.join(30)
    made = task.outcome
    assert isinstance(made, Checkpoint)
    assert (made.pts, made.bytes, made.warnings) == ([], 0, {"frames_missing": 25})
    assert store.exists(made.object)
