"""Damaged files never hang, crash or bloat ingest: they are decoded as far as they go, or refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.media


def test_300_damaged_files_are_decoded_or_refused() -> None:
    """In a process of its own: it forks, which must not happen beside the threads of other tests."""
    command = [sys.executable, "-m", "tests.media.fuzz", "300"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert "decoded" in ran.stdout
    assert "refused" in ran.stdout
