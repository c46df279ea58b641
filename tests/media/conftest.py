"""One running installation for all cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker import isolated_settings
from tests.support.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All services on the shared broker, one swapper."""
    with running_cluster(isolated_settings(broker, tmp_path_factory.mktemp("cluster"))) as running:
        yield running
