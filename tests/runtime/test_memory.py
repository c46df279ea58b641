"""How the memory of a service is shared out."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.memory import fitted, share
from runtime.settings import MIB, Settings, load
from schemas.errors import SettingsError
from schemas.events import Role

pytestmark = pytest.mark.unit
WORKERS = (Role.INGEST, Role.SWAPPER, Role.ASSEMBLER)


def settings(mib: int, **sections: Any) -> Settings:
    return load({"memory": {role.value: mib * MIB for role in WORKERS}} | sections)


@pytest.mark.parametrize("role", WORKERS)
@pytest.mark.parametrize("mib", [768, 1024, 4096, 65_536])
def test_the_parts_stay_below_the_whole(role: Role, mib: int) -> None:
    part = share(settings(mib), role)
    assert 0 < part.work < mib * MIB
    assert part.prefetch + part.unsent + part.frames + part.work < mib * MIB


@pytest.mark.parametrize("role", WORKERS)
def test_bounds_are_lowered_to_their_share_and_never_raised(role: Role) -> None:
    small, large = fitted(settings(768), role), fitted(settings(65_536), role)
    plain = load()
    assert (large.kafka, large.limits) == (plain.kafka, plain.limits)
    assert small.kafka.prefetch_bytes <= plain.kafka.prefetch_bytes
    assert small.kafka.producer_queue_bytes <= plain.kafka.producer_queue_bytes
    assert (small.limits.assembler_bytes < plain.limits.assembler_bytes) == (role is Role.ASSEMBLER)


@pytest.mark.parametrize("role", WORKERS)
def test_too_little_memory_is_refused_with_the_settings_that_matter(role: Role) -> None:
    with pytest.raises(SettingsError, match=rf"memory.{role}: 300 MiB.*batch_bytes.*record_limit"):
        share(settings(300), role)
    with pytest.raises(SettingsError, match=rf"memory.{role}"):
        share(settings(1024, limits={"batch_bytes": 60 * MIB}), role)
