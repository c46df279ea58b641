"""The command as a user types it: exit codes, one line of reason, no half file."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from runtime.jobs import JobBoard
from runtime.settings import Settings
from schemas.job import JobState
from tests.support.cluster import Cluster, sound, times
from tests.support.command import Command
from tests.support.media import make_clip
from tests.support.processes import PATIENCE, eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def facestream(kafka: Settings) -> Command:
    return Command(kafka)


@pytest.fixture
def alone(tmp_path: Path, kafka: Settings) -> Command:
    """Without a cluster: the embedded broker is started."""
    bare = kafka.with_bootstrap("").model_copy(update={"data": tmp_path / "data"})
    return Command(bare)


def test_swap_runs_everything_on_the_embedded_broker(
    alone: Command, clip: Path, face: Path, tmp_path: Path
) -> None:
    output = tmp_path / "result.mp4"
    code, _, last = alone("swap", "-s", face, "-t", clip, "-o", output)
    assert (code, "120 frames" in last) == (0, True), last
    assert times(output) == times(clip)
    assert sound(output) == sound(clip)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"-t": "missing.mp4"}, 2, "missing.mp4 does not exist"),
        ({"-o": "nowhere/out.mp4"}, 2, "nowhere does not exist"),
        ({"-o": "."}, 2, "is a folder"),
        ({"-o": "out.flv"}, 2, "ends in none of .mp4, .mov, .mkv"),
        ({"-s": "missing.png"}, 2, "missing.png: No such file"),
        ({"-s": "stripes.png"}, 3, "no face"),
        ({"--encoder": "ffv1"}, 2, "ffv1 goes into .mkv, .avi"),
        ({"--engine-option": "nonsense"}, 2, "'nonsense' is not NAME=VALUE"),
        ({"--engine": "hat"}, 2, "'hat' is not one of"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    facestream: Command, clip: Path, face: Path, tmp_path: Path, change: dict[str, str], code: int, says: str
) -> None:
    from skimage.io import imsave

    from tests.support.media import picture

    imsave(tmp_path / "stripes.png", picture(1, 200, 200), check_contrast=False)
    options = {"-s": str(face), "-t": str(clip), "-o": str(tmp_path / "out.mp4")}
    for name, value in change.items():
        in_folder = name in ("-s", "-t", "-o")
        options[name] = str(tmp_path / value) if in_folder else value
    got, _, last = facestream("swap", *(part for pair in options.items() for part in pair))
    assert got == code, last
    assert says in last
    assert not (tmp_path / "out.mp4").exists()


def test_a_file_that_is_no_video_fails_the_job(facestream: Command, face: Path, tmp_path: Path) -> None:
    text, output = tmp_path / "text.mp4", tmp_path / "out.mp4"
    text.write_text("no video\n" * 50)
    code, _, last = facestream("swap", "-s", face, "-t", text, "-o", output)
    assert code == 1
    assert last.startswith("facestream: job swap-")
    assert "text.mp4" in last
    assert not output.exists()


def test_interrupted_swap_ends_with_130_and_leaves_nothing(
    facestream: Command, kafka: Settings, face: Path, tmp_path: Path
) -> None:
    clip, output = make_clip(tmp_path / "long.mp4", 600, options={"g": "25"}), tmp_path / "out.mp4"
    slow = ["--engine", "none", "--engine-option", "delay_ms=2000", "--segment-seconds", "1"]
    with facestream.start("swap", "-t", clip, "-o", output, *slow) as process:
        log = kafka.data / "logs" / "assembler-0.log"
        eventually("the job runs", lambda: log.exists() and "segment_done" in log.read_text())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert err.strip().splitlines()[-1] == "facestream: interrupted"
    assert not output.exists()
    with JobBoard(kafka, "test") as board:
        assert [record.state for record in board.records()] == [JobState.CANCELLED]


def test_submit_and_status_work_with_running_services(cluster: Cluster, clip: Path, tmp_path: Path) -> None:
    command = Command(cluster.settings)
    output = tmp_path / "out.mp4"
    code, out, _ = command("submit", "--engine", "none", "-t", clip, "-o", output)
    assert code == 0
    job = out.strip()
    eventually("the result", output.exists)
    eventually("the state", lambda: '"state": "done"' in command("status", job, "--json")[1])
    code, out, _ = command("status")
    assert job in out
    assert command("status", "nothing")[0] == 2


def test_up_serves_other_commands_until_it_is_told_to_stop(
    alone: Command, clip: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.mp4"
    assert alone("status")[0] == 2, "nothing runs yet"
    with alone.start("up") as up:
        state = tmp_path / "data" / "up.json"
        eventually("up says where Kafka is", state.exists)
        code, _, last = alone("swap", "--engine", "none", "-t", clip, "-o", output)
        assert (code, "120 frames" in last) == (0, True), last
        assert "done" in alone("status")[1]
        up.send_signal(signal.SIGTERM)
        _, err = up.communicate(timeout=PATIENCE)
    assert up.returncode == 0, err
    assert not state.exists()


def test_services_end_with_the_command_that_started_them(
    facestream: Command, kafka: Settings, tmp_path: Path
) -> None:
    clip = make_clip(tmp_path / "long.mp4", 600, options={"g": "25"})
    slow = ["--engine", "none", "--engine-option", "delay_ms=2000", "--segment-seconds", "1"]
    with facestream.start("swap", "-t", clip, "-o", tmp_path / "out.mp4", *slow) as process:
        log = kafka.data / "logs" / "assembler-0.log"
        eventually("the job runs", lambda: log.exists() and "segment_done" in log.read_text())
        children = psutil.Process(process.pid).children()
        assert len(children) == 4
        process.kill()
        eventually("all services ended", lambda: all(map(ended, children)))
    assert "service_draining" in log.read_text()


def ended(process: psutil.Process) -> bool:
    """Also one that nobody has waited for yet."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_doctor_finds_the_broker_and_its_session_floor(cluster: Cluster) -> None:
    code, out, _ = Command(cluster.settings)("doctor")
    assert code == 0, out
    assert "6 s at the earliest" in out
    assert "opened and encoded a frame" in out


def test_models_are_listed_and_verified(facestream: Command) -> None:
    for word in ("list", "verify"):
        code, out, _ = facestream("models", word)
        assert code == 0
        assert "Apache-2.0" in out
