"""A batch that fails for good: what its job's policy makes of it, and what the command line says and does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from skimage.io import imread

from schemas.job import JobSpec, JobState
from tests.support.broker import isolated_settings
from tests.support.cluster import Cluster, frames, running_cluster
from tests.support.command import Command
from tests.support.grenade import RAISE, crew
from tests.support.media import make_clip
from tests.support.processes import eventually

pytestmark = pytest.mark.broker
FRAMES, BAD, BATCH = 50, 30, 5
"""Frame 30 goes off, in the second segment; a batch holds five frames."""
SIZE = (160, 120)


@pytest.fixture(scope="module")
def cluster(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All services, and swappers with the engine that goes off."""
    settings = isolated_settings(broker, tmp_path_factory.mktemp("dead"))
    limits = settings.limits.model_copy(update={"batch_bytes": BATCH * SIZE[0] * SIZE[1] * 3 // 2})
    settings = settings.model_copy(update={"limits": limits})
    with crew(settings), running_cluster(settings, swappers=0) as running:
        yield running


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    return make_clip(path, FRAMES, width=SIZE[0], height=SIZE[1], options={"g": "25"})


def spec_of(cluster: Cluster, clip: Path, output: Path, policy: str, **options: object) -> JobSpec:
    swap = {"engine": "grenade", "on_failure": policy, "options": {"at": BAD, "how": RAISE} | options}
    return cluster.spec(clip, output, swap=swap, encode={"encoder": "ffv1"})


def letters(command: Command, job: str, *more: str) -> list[dict[str, object]]:
    code, out, last = command("dead", "list", "--json", "--job", job, *more)
    assert code == 0, last
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("policy", ["freeze", "blur", "pass"])
def test_the_policy_of_a_job_decides_what_its_bad_frames_become(
    cluster: Cluster, clip: Path, tmp_path: Path, policy: str
) -> None:
    output = tmp_path / "out.mkv"
    spec = spec_of(cluster, clip, output, policy)
    cluster.done(spec)
    before, after = frames(clip), frames(output)
    assert [at for at, _ in after] == [at for at, _ in before]
    changed = {n for n in range(FRAMES) if not np.array_equal(before[n][1], after[n][1])}
    bad = set(range(BAD, BAD + BATCH))
    assert changed == (set() if policy == "pass" else bad)
    if policy == "freeze":
        assert all(np.array_equal(after[n][1], before[BAD - 1][1]) for n in bad)
    (letter,) = letters(Command(cluster.settings), spec.job)
    assert (letter["seq"], letter["count"], letter["policy"]) == (BAD - 25, BATCH, policy)


def test_a_job_that_failed_is_looked_into_and_redriven(cluster: Cluster, clip: Path, tmp_path: Path) -> None:
    output, mended = tmp_path / "out.mkv", tmp_path / "mended"
    spec = spec_of(cluster, clip, output, "fail", unless=str(mended))
    (status,) = cluster.run(spec)
    assert status.state is JobState.FAILED
    assert status.record is not None
    assert "RuntimeError" in status.record.reason
    assert "hunter2" not in status.record.reason
    command = Command(cluster.settings)
    (letter,) = letters(command, spec.job)
    assert "hunter2" not in json.dumps(letter)
    assert "grenade.py" in str(letter["stack"])
    number, pictures = str(letter["number"]), tmp_path / "pictures"
    code, out, last = command("dead", "show", number, "--frames", pictures)
    assert code == 0, last
    assert "the job failed" in out
    assert len(list(pictures.iterdir())) == BATCH
    assert {imread(path).shape for path in pictures.iterdir()} == {(SIZE[1], SIZE[0], 3)}
    mended.touch()
    code, _, last = command("dead", "redrive", number)
    assert code == 0, last
    eventually("the redriven job's result", output.exists)
    for (_, before), (_, after) in zip(frames(clip), frames(output), strict=True):
        assert np.array_equal(before, after)
    assert letters(command, spec.job) == []
    assert len(letters(command, spec.job, "--all")) == 1


def test_letters_are_dropped_and_unknown_ones_refused(cluster: Cluster, clip: Path, tmp_path: Path) -> None:
    spec = spec_of(cluster, clip, tmp_path / "out.mkv", "pass")
    cluster.done(spec)
    command = Command(cluster.settings)
    (letter,) = letters(command, spec.job)
    assert command("dead", "drop", str(letter["number"]))[0] == 0
    assert letters(command, spec.job) == []
    assert [x["dealt_with"] for x in letters(command, spec.job, "--all")] == [True]
    for words in (("show", "999999"), ("drop",), ("redrive", "--job", "nothing")):
        code, _, last = command("dead", *words)
        assert (code, last.startswith("facestream: ")) == (2, True)
