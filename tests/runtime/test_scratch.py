"""Folders of processes: those of the dead are cleared away by the next of their role."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.scratch import open_scratch

pytestmark = pytest.mark.unit


def left_by_a_dead_process(base: Path, role: str) -> Path:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    folder = base / f"{role}-{socket.gethostname()}-{process.pid}-x"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_bytes(b"x")
    return folder


def test_what_a_dead_process_left_goes_when_the_next_of_its_role_starts(tmp_path: Path) -> None:
    dead, other = left_by_a_dead_process(tmp_path, "ingest"), left_by_a_dead_process(tmp_path, "assembler")
    living = tmp_path / f"ingest-{socket.gethostname()}-{os.getppid()}-x"
    elsewhere = tmp_path / "ingest-another.host-1-x"
    living.mkdir()
    elsewhere.mkdir()
    own = open_scratch(tmp_path, "ingest")
    assert own.is_dir()
    assert not dead.exists()
    assert other.exists()
    assert living.exists()
    assert elsewhere.exists()
