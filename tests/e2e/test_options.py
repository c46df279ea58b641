"""What the options of a job promise, on real files through the whole pipeline."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.support.cluster import Cluster, frames, psnr, sound, times
from tests.support.media import make_clip

pytestmark = pytest.mark.broker
LOSSLESS = {"encoder": "ffv1"}


@pytest.fixture(scope="module")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of numbered stripes at 25 frames/s with sound."""
    return make_clip(tmp_path_factory.mktemp("stripes") / "in.mp4", 100, options={"g": "25"}, sound="aac")


def test_trimming_keeps_exactly_the_frames_of_the_span(
    cluster: Cluster, stripes: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.mkv"
    plan = {"trim_start": (5, 4), "trim_end": (3, 1)}
    cluster.done(cluster.spec(stripes, output, encode=LOSSLESS, plan=plan))
    wanted = [p for t, p in frames(stripes) if Fraction(5, 4) <= t < 3]
    got = frames(output)
    assert len(got) == len(wanted) == 43  # 1.28 s to 2.96 s
    for before, (_, after) in zip(wanted, got, strict=True):
        assert np.array_equal(before, after)


def test_trimmed_sound_is_as_long_as_the_picture(cluster: Cluster, stripes: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    cluster.done(cluster.spec(stripes, output, plan={"trim_start": (1, 1), "trim_end": (3, 1)}))
    with av.open(str(output)) as clip:
        seconds = sum(f.samples for f in clip.decode(audio=0)) / 48_000
    assert 1.93 < seconds < 2.1
    kept = {data for _, _, data in sound(output)}
    assert kept <= {data for _, _, data in sound(stripes)}, "packets were changed"


def test_a_lower_rate_shows_at_each_tick_the_frame_of_that_time(
    cluster: Cluster, stripes: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.mkv"
    cluster.done(cluster.spec(stripes, output, encode=LOSSLESS, plan={"fps": (10, 1)}))
    given, got = frames(stripes), frames(output)
    assert [t for t, _ in got] == [Fraction(n, 10) for n in range(40)]
    for at, picture in got:
        shown = [p for t, p in given if t <= at][-1]
        assert np.array_equal(picture, shown)


def test_a_higher_rate_repeats_frames(cluster: Cluster, stripes: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    cluster.done(cluster.spec(stripes, output, plan={"fps": (50, 1)}))
    assert times(output) == [Fraction(n, 50) for n in range(200)]


def test_scaling_keeps_the_shape(cluster: Cluster, stripes: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    cluster.done(cluster.spec(stripes, output, plan={"scale": (48, 0)}))
    with av.open(str(output)) as clip:
        video = clip.streams.video[0]
        assert (video.width, video.height) == (48, 32)
    assert times(output) == times(stripes)


@pytest.mark.parametrize("how", ["none", "encode"])
def test_sound_is_left_out_or_converted_on_request(
    cluster: Cluster, stripes: Path, tmp_path: Path, how: str
) -> None:
    output = tmp_path / "out.mp4"
    cluster.done(cluster.spec(stripes, output, audio=how))
    with av.open(str(output)) as clip:
        assert len(clip.streams.audio) == (0 if how == "none" else 1)
    if how == "encode":
        one, other = samples(stripes), samples(output)
        length = min(one.size, other.size)
        assert abs(one.size - other.size) < 3000
        assert np.corrcoef(one[:length], other[:length])[0, 1] > 0.95, "not in step with the original"


def test_a_rotated_input_stands_upright_where_no_matrix_fits(cluster: Cluster, tmp_path: Path) -> None:
    clip, output = make_clip(tmp_path / "in.mp4", 10, rotation=90), tmp_path / "out.webm"
    spec = cluster.spec(clip, output, encode={"encoder": "libvpx-vp9", "quality": 10}, plan={"upright": True})
    cluster.done(spec)
    with av.open(str(clip)) as given, av.open(str(output)) as made:
        before, after = next(given.decode(video=0)), next(made.decode(video=0))
    assert (after.width, after.height) == (64, 96)
    upright = np.rot90(before.to_ndarray(format="rgb24"), before.rotation // 90 % 4)
    assert psnr(upright, after.to_ndarray(format="rgb24")) > 25


@pytest.mark.parametrize(
    ("suffix", "encoder"),
    [
        ("webm", "libvpx-vp9"),
        ("ts", "libx265"),
        ("avi", "mjpeg"),
        ("mov", "prores_ks"),
        ("mkv", "libsvtav1"),
        ("gif", "gif"),
    ],
)
def test_each_container_plays_back_whole(
    cluster: Cluster, stripes: Path, tmp_path: Path, suffix: str, encoder: str
) -> None:
    """Two segments or more, joined: every frame, in order, at its time, with its sound. All cells of the
    table, without Kafka, are in tests/assembler/test_cells.py."""
    output = tmp_path / f"out.{suffix}"
    preset = {"libsvtav1": "10", "libvpx-vp9": "ultrafast"}.get(encoder, "medium")
    cluster.done(cluster.spec(stripes, output, encode={"encoder": encoder, "preset": preset}))
    given, got = pictures(stripes), pictures(output)
    assert len(got) == 100
    origin = got[0][0] - given[0][0]
    for (at, before), (shown, after) in zip(given, got, strict=True):
        assert abs(shown - origin - at) <= Fraction(1, 1000) if suffix != "gif" else True
        assert psnr(before, after) > 24
    with av.open(str(output)) as clip:
        assert len(clip.streams.audio) == (0 if suffix == "gif" else 1)


def samples(path: Path) -> np.ndarray:
    with av.open(str(path)) as clip:
        return np.concatenate([f.to_ndarray()[0] for f in clip.decode(audio=0)])


def pictures(path: Path) -> list[tuple[Fraction, np.ndarray]]:
    """(time, RGB) of each frame."""
    with av.open(str(path)) as clip:
        return [(f.pts * f.time_base, f.to_ndarray(format="rgb24")) for f in clip.decode(video=0)]
