"""Fixtures of all tests, and the rule that each test module names its category."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings as hypothesis_settings

from runtime.settings import Settings
from tests.support.broker import isolated_settings, running_broker

hypothesis_settings.register_profile("facestream", deadline=None)  # a busy machine fails no test
hypothesis_settings.load_profile("facestream")

CATEGORIES = {"unit", "broker", "media", "browser"}


def pytest_configure() -> None:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # of nohup or a script's &, children would inherit SIG_IGN


def category_error(module: ModuleType) -> str | None:
    """What is wrong with a module's `pytestmark`: it must hold exactly one category."""
    marks = getattr(module, "pytestmark", [])
    names = {m.name for m in (marks if isinstance(marks, list) else [marks])}
    if len(names & CATEGORIES) == 1:
        return None
    return f"{module.__file__}: set pytestmark to exactly one of {', '.join(sorted(CATEGORIES))}"


def has_gpu() -> bool:
    """Whether the driver's tool lists a GPU."""
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True).returncode == 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    modules = {item.module for item in items if isinstance(item, pytest.Function)}
    errors = sorted(filter(None, map(category_error, modules)))
    if errors:
        raise pytest.UsageError("\n".join(errors))
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not has_gpu():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="nvidia-smi finds no NVIDIA GPU"))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """An encoder may have made this thread a real-time one, and all that is started later with it."""
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        raise AssertionError(f"{item.nodeid} leaves its thread under a real-time policy")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a real Kafka that lives as long as the test run."""
    with running_broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        yield bootstrap


@pytest.fixture
def kafka(broker: str, tmp_path: Path) -> Settings:
    """Settings of a test on the shared broker, with topics of its own."""
    return isolated_settings(broker, tmp_path)
