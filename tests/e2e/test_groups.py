"""Three swappers with random delays: order, whole results, in both group modes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.settings import Settings
from tests.support.cluster import Cluster, frames, running_cluster, times
from tests.support.media import make_clip

pytestmark = pytest.mark.broker
DELAYS = {"options": {"delay_ms": 60}}


@pytest.fixture(params=["consumer", "share"])
def three(request: pytest.FixtureRequest, kafka: Settings) -> Iterator[Cluster]:
    swapper = kafka.swapper.model_copy(update={"group": request.param})
    limits = kafka.limits.model_copy(update={"batch_bytes": 40_000})  # a few frames a batch
    settings = kafka.model_copy(update={"swapper": swapper, "limits": limits})
    with running_cluster(settings, swappers=3) as cluster:
        yield cluster


def test_three_swappers_with_random_delays_keep_every_frame_in_order(
    three: Cluster, face: Path, clip: Path, tmp_path: Path
) -> None:
    stripes, output = make_clip(tmp_path / "stripes.mp4", 150, options={"g": "25"}), tmp_path / "out.mkv"
    swapped = tmp_path / "swapped.mp4"
    slow = three.spec(stripes, output, swap=DELAYS, encode={"encoder": "ffv1"})
    three.done(slow, three.spec(clip, swapped, face))
    assert times(output) == times(stripes)
    for (_, before), (_, after) in zip(frames(stripes), frames(output), strict=True):
        assert np.array_equal(before, after)
    assert times(swapped) == times(clip)
    for (_, before), (_, after) in zip(frames(clip), frames(swapped), strict=True):
        face_area = np.abs(before[60:200].astype(int) - after[60:200])
        assert face_area.max() > 40, "a frame without a patch"
