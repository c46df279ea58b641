"""Back-pressure and memory: what is in flight holds, no service outgrows its setting by more than a fifth."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.settings import MIB, Settings, load
from schemas.events import Role
from schemas.frames import VideoFormat
from tests.bench.clips import long_clip
from tests.soak import heldback, stopped
from tests.soak.resident import Resident
from tests.support.assets import astronaut

pytestmark = [pytest.mark.broker, pytest.mark.soak, pytest.mark.timeout(2400)]

VIDEO = VideoFormat(width=640, height=360, pixel_format="yuv420p")
TOLERANCE = 1.2
MEMORY = {Role.INGEST: 448 * MIB, Role.SWAPPER: 768 * MIB, Role.ASSEMBLER: 512 * MIB}
STEADY, STILL = 360.0, 180.0
"""Seconds of steady work, and of stopped swappers."""


def small(settings: Settings) -> Settings:
    """Settings so small that queues and encoders without a bound would outgrow them."""
    memory = {role.value: size for role, size in MEMORY.items()}
    limits = {"segments_in_flight": 6, "bytes_in_flight": 192 * MIB}
    return settings.model_copy(
        update={
            "memory": settings.memory.model_copy(update=memory),
            "limits": settings.limits.model_copy(update=limits),
        }
    )


def check(resident: Resident) -> None:
    for name in resident.samples:
        role = Role(name.split("-")[0])
        if role in MEMORY:
            assert resident.peak(name) <= MEMORY[role] * TOLERANCE, name


def test_a_stream_held_back_among_ten_costs_no_more_than_the_setting(kafka: Settings) -> None:
    check(heldback.run(small(kafka), VIDEO, seconds=300))


def test_what_is_in_flight_holds_while_swappers_are_stopped(tmp_path: Path) -> None:
    settings = small(load({"data": tmp_path}))
    check(stopped.run(settings, long_clip(640, 360, 12), astronaut(), steady=STEADY, still=STILL))
