"""An engine on a stand-in checkout, whose children are gone after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.settings import FaceFusionSettings
from swapper.engines.facefusion.engine import FaceFusionEngine
from tests.support import checkout

Make = Callable[..., FaceFusionEngine]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return checkout.build(tmp_path / "checkout")


@pytest.fixture
def make(home: Path, tmp_path: Path) -> Iterator[Make]:
    """Engines with settings of their own."""
    engines = []

    def made(**settings: Any) -> FaceFusionEngine:
        engine = FaceFusionEngine(tmp_path, FaceFusionSettings(**{"home": home} | settings))
        engines.append(engine)
        return engine

    yield made
    for engine in engines:
        for child in engine._children.values():
            child.end()


@pytest.fixture
def engine(make: Make) -> FaceFusionEngine:
    return make()
