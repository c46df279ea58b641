"""The service loop, in a process of its own and with real signals."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE, eventually, module_process

pytestmark = pytest.mark.unit


@contextmanager
def service(path: Path, mode: str = "") -> Iterator[subprocess.Popen[str]]:
    with module_process("tests.support.services", path, mode) as process:
        eventually("first step", lambda: path.exists() and "step" in path.read_text())
        yield process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_and_ends_with_zero(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "calls"
    with service(path) as process:
        process.send_signal(number)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert path.read_text().split() == ["start", "step", "drain", "drained", "close"]
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events == ["service_ready", "service_draining", "service_stopped"]


def test_second_signal_aborts_the_drain(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    with service(path, "stubborn") as process:
        process.send_signal(signal.SIGTERM)
        eventually("drain", lambda: "drain" in path.read_text())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert path.read_text().split() == ["start", "step", "drain", "close"]


def test_error_is_one_line_with_kind_and_message(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    with service(path, "fail") as process:
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    line = json.loads(log.splitlines()[-1])
    assert line["event"] == "service_failed"
    assert (line["kind"], line["message"]) == ("RuntimeError", "the frame is square")
    assert path.read_text().split() == ["start", "step", "close"]
