"""The mesh engine, warm, and a source face made ready for it: once for all tests."""

from __future__ import annotations

import pytest

from swapper.engines.base import SourceFace
from swapper.engines.mesh.engine import MeshEngine
from tests.support import faces
from tests.support.assets import astronaut


@pytest.fixture(scope="session")
def engine() -> MeshEngine:
    engine = MeshEngine(faces.models())
    engine.warm()
    return engine


@pytest.fixture(scope="session")
def source(engine: MeshEngine) -> SourceFace:
    return engine.prepare([astronaut().read_bytes()])
