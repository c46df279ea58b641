"""The rules of this test suite itself: one category for each module, GPU tests skip with a reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.unit


def collect(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with this suite's rules on one module."""
    (folder / "test_it.py").write_text(f"import pytest\n{text}\ndef test_it(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "pyproject.toml"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", str(folder)], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize("marks", ["", "pytestmark = [pytest.mark.unit, pytest.mark.broker]"])
def test_module_without_exactly_one_category_fails_the_run(tmp_path: Path, marks: str) -> None:
    ran = collect(tmp_path, marks)
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_it.py: set pytestmark to exactly one of broker, browser, media, unit" in ran.stderr


def test_module_with_one_category_runs(tmp_path: Path) -> None:
    ran = collect(tmp_path, "pytestmark = pytest.mark.unit")
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout


def test_gpu_test_runs_on_a_gpu_or_says_why_not(tmp_path: Path) -> None:
    ran = collect(tmp_path, "pytestmark = [pytest.mark.media, pytest.mark.gpu]")
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout or "nvidia-smi finds no NVIDIA GPU" in ran.stdout
