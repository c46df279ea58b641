from __future__ import annotations

import time

import pytest

from assembler.membership import PairedConsumer
from runtime.cluster import ensure_topics
from runtime.settings import Settings
from schemas.errors import AssignmentError
from schemas.job import Lane

pytestmark = pytest.mark.broker


def members(settings: Settings, count: int) -> list[PairedConsumer]:
    return [PairedConsumer(settings, Lane.BATCH, lambda lost: None) for _ in range(count)]


def poll_for(consumers: list[PairedConsumer], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for consumer in consumers:
            consumer.poll(0.05)


def test_another_assignor_than_range_is_found_out(kafka: Settings) -> None:
    ensure_topics(kafka)
    client = {"group.remote.assignor": "uniform"}
    wrong = kafka.model_copy(update={"kafka": kafka.kafka.model_copy(update={"client": client})})
    consumers = members(wrong, 3)
    try:
        with pytest.raises(AssignmentError, match="is the group's assignor `range`"):
            poll_for(consumers, 60)
    finally:
        for consumer in consumers:
            consumer.close()
