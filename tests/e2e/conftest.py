"""Clusters that live as long as a module, on the shared broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.run import make_clip
from runtime.settings import Settings
from tests.support.assets import astronaut, carphone
from tests.support.broker import isolated_settings
from tests.support.cluster import Cluster, running_cluster


def with_group(settings: Settings, group: str) -> Settings:
    swapper = settings.swapper.model_copy(update={"group": group})
    return settings.model_copy(update={"swapper": swapper})


@pytest.fixture(scope="session")
def cluster(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All services, ordinary group, one swapper."""
    with running_cluster(isolated_settings(broker, tmp_path_factory.mktemp("cluster"))) as running:
        yield running


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's clip: four seconds of a face, with sound."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    make_clip(carphone(), path, size=(352, 288))
    return path


@pytest.fixture(scope="session")
def face() -> Path:
    return astronaut()
