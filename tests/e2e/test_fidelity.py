"""What comes out of the whole pipeline is the input, but for the faces."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.frame import PictureType

from ingest.scan import scan
from ingest.worker import build_plan
from schemas.job import JobSpec, Lane, split_stream
from schemas.swaps import SwapBatch
from tests.support.cluster import Cluster, frames, psnr, sound, times
from tests.support.faces import distance, identity, landmarks, read
from tests.support.media import make_clip
from tests.support.streams import records

pytestmark = pytest.mark.broker
LOSSLESS = {"encoder": "ffv1"}
Shown = list[tuple[Fraction, np.ndarray]]


@pytest.fixture(scope="module")
def job(cluster: Cluster, clip: Path, face: Path, tmp_path_factory: pytest.TempPathFactory) -> JobSpec:
    """The clip with the astronaut's face, encoded without loss, cut into segments of a second."""
    output = tmp_path_factory.mktemp("swapped") / "many.mkv"
    spec = cluster.spec(clip, output, face, encode=LOSSLESS)
    cluster.done(spec)
    return spec


@pytest.fixture(scope="module")
def swapped(job: JobSpec) -> Path:
    return Path(job.output)


@pytest.fixture(scope="module")
def in_one(cluster: Cluster, clip: Path, face: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, in one segment."""
    output = tmp_path_factory.mktemp("swapped") / "one.mkv"
    cluster.done(cluster.spec(clip, output, face, encode=LOSSLESS, plan={"segment_seconds": 60}))
    return output


def test_frames_times_and_sound_are_those_of_the_input(cluster: Cluster, clip: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    cluster.done(cluster.spec(clip, output))
    assert times(output) == times(clip)
    assert sound(output) == sound(clip)
    assert len(times(output)) == 120


@pytest.mark.parametrize("payload", ["raw", "lossless"])
def test_without_faces_every_pixel_survives(
    cluster: Cluster, clip: Path, tmp_path: Path, payload: str
) -> None:
    output = tmp_path / "out.mkv"
    cluster.done(cluster.spec(clip, output, encode=LOSSLESS, plan={"payload": payload}))
    for (_, before), (_, after) in zip(frames(clip), frames(output), strict=True):
        assert np.array_equal(before, after)


def test_every_pixel_outside_the_patches_is_the_decoded_input(
    cluster: Cluster, job: JobSpec, clip: Path, swapped: Path
) -> None:
    """Luma, frame by frame, against the patches on the topic; the topic's order is the frames' order."""
    batches = [
        r
        for _, r in records(cluster.settings, cluster.settings.topic_set.swaps(Lane.BATCH))
        if isinstance(r, SwapBatch) and r.job == job.job
    ]
    patched = {split_stream(b.stream)[1]: [] for b in batches}
    for batch in sorted(batches, key=lambda b: b.seq):
        patched[split_stream(batch.stream)[1]] += batch.patches
    rows = [row for segment in sorted(patched) for row in patched[segment][-30:]]  # context comes first
    for row, (_, before), (_, after) in zip(rows, frames(clip), frames(swapped), strict=True):
        differs = before[:288] != after[:288]
        assert differs.any(), "every frame has a face"
        for patch in row:
            differs[patch.y : patch.y + patch.height, patch.x : patch.x + patch.width] = False
        assert not differs.any()


def test_the_identity_moves_to_the_source(clip: Path, swapped: Path, face: Path) -> None:
    picture = read(face)
    source = identity(picture, landmarks(picture))
    before, after = [], []
    for original, result in zip(pictures(clip), pictures(swapped), strict=True):
        marks = landmarks(original)
        target, made = identity(original, marks), identity(result, landmarks(result))
        before.append(distance(target, source))
        after.append(distance(made, source))
        assert distance(made, source) < distance(made, target)
    assert np.mean(before) - np.mean(after) > 0.15
    assert np.mean(after) < 0.55


def test_borders_of_segments_do_not_show(clip: Path, swapped: Path, in_one: Path) -> None:
    check_borders(frames(clip), frames(swapped), frames(in_one), (30, 60, 90))


GROUPS = {
    "open": "keyint=30:min-keyint=30:scenecut=0:bframes=3:open-gop=1",
    "long": "keyint=300:min-keyint=300:scenecut=0:bframes=3",
}


@pytest.mark.parametrize("groups", GROUPS)
def test_nor_do_they_where_groups_of_pictures_are_open_or_long(
    cluster: Cluster, clip: Path, face: Path, tmp_path: Path, groups: str
) -> None:
    given = tmp_path / "in.mp4"
    with av.open(str(clip)) as source, av.open(str(given), "w") as made:
        video = made.add_stream("libx264", rate=30, options={"crf": "14", "x264-params": GROUPS[groups]})
        assert isinstance(video, av.VideoStream)
        video.width, video.height, video.pix_fmt = 352, 288, "yuv420p"
        for number, frame in zip(range(90), source.decode(video=0), strict=False):
            picture = frame.reformat()
            picture.pict_type = PictureType.NONE  # else key frames are where they were
            picture.pts, picture.time_base = number, Fraction(1, 30)
            made.mux(video.encode(picture))
        made.mux(video.encode(None))
    many, one = tmp_path / "many.mkv", tmp_path / "one.mkv"
    specs = [
        cluster.spec(given, path, face, encode=LOSSLESS, plan={"segment_seconds": seconds})
        for path, seconds in ((many, 1), (one, 60))
    ]
    plan = build_plan(scan(str(given), io.BytesIO()), specs[0], "")
    assert [segment.first for segment in plan.segments] == [0, 30, 60]
    cluster.done(*specs)
    check_borders(frames(given), frames(many), frames(one), (30, 60))


def check_borders(before: Shown, many: Shown, one: Shown, borders: tuple[int, ...]) -> None:
    assert len(many) == len(one) == len(before)
    for number in (border + more for border in borders for more in range(10)):
        assert not np.array_equal(many[number][1], before[number][1]), "unpatched after a border"
        assert psnr(many[number][1], one[number][1]) >= 45


def test_frames_without_a_face_are_not_touched(cluster: Cluster, face: Path, tmp_path: Path) -> None:
    clip, output = make_clip(tmp_path / "stripes.mp4", 40, width=320, height=240), tmp_path / "out.mkv"
    cluster.done(cluster.spec(clip, output, face, encode=LOSSLESS))
    for (_, before), (_, after) in zip(frames(clip), frames(output), strict=True):
        assert np.array_equal(before, after)


def test_variable_rate_with_a_start_offset_is_joined_exactly(cluster: Cluster, tmp_path: Path) -> None:
    steps = [3000 + 1500 * (n * 7 % 5) for n in range(90)]
    pts = [76_860 + sum(steps[:n]) for n in range(90)]
    clip = make_clip(
        tmp_path / "vfr.mp4", pts=pts, time_base=Fraction(1, 90_000), options={"g": "20"}, sound="aac"
    )
    output = tmp_path / "out.mp4"
    spec = cluster.spec(clip, output, encode={"options": {"bf": "3"}})
    cluster.done(spec)
    assert times(output) == times(clip)
    assert times(output)[0] == times(clip)[0] > 0
    assert sound(output) == sound(clip)


def pictures(path: Path) -> list[np.ndarray]:
    """Every tenth frame, BGR."""
    with av.open(str(path)) as clip:
        return [f.to_ndarray(format="bgr24") for n, f in enumerate(clip.decode(video=0)) if n % 10 == 0]
