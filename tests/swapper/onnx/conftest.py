"""Stand-in models, built once a run."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

from swapper.engines.onnx.session import Models
from tests.golden.standins import build


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    cv2.setNumThreads(1)


@pytest.fixture(scope="session")
def standins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stand-ins whose batch axis is open."""
    return build(tmp_path_factory.mktemp("standins"))


@pytest.fixture(scope="session")
def fixed_standins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stand-ins that take one item."""
    return build(tmp_path_factory.mktemp("fixed"), fixed_batch=True)


@pytest.fixture(scope="session")
def models(standins: Path) -> Models:
    return Models(standins)
