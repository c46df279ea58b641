"""Who lives, by heartbeats on an injected clock; and what waits for nobody."""

from __future__ import annotations

import pytest

from control.presence import GONE_SECONDS, Presence
from schemas.events import Alive, Role

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def alive(role: Role, worker: str = "w") -> Alive:
    return Alive(role=role, worker=worker, ready=True)


def test_workers_count_until_they_are_silent_for_too_long(clock: Clock) -> None:
    presence = Presence(clock)
    presence.heard(alive(Role.SWAPPER, "one"))
    clock.now += GONE_SECONDS - 1
    presence.heard(alive(Role.SWAPPER, "two"))
    presence.heard(alive(Role.SWAPPER, "two"))
    assert presence.count(Role.SWAPPER) == 2
    clock.now += 2
    assert presence.count(Role.SWAPPER) == 1
    assert presence.count(Role.INGEST) == 0
    assert not presence.everybody()


def test_a_role_that_nobody_plays_is_told_once_for_each_job_that_waits_for_it(clock: Clock) -> None:
    presence = Presence(clock)
    needs = {Role.SWAPPER: ["a"], Role.INGEST: []}
    assert presence.missed(needs) == [], "whoever is there was not heard yet"
    clock.now += GONE_SECONDS + 1
    assert presence.missed(needs) == [(Role.SWAPPER, "a")]
    assert presence.missed({Role.SWAPPER: ["a", "b"]}) == [(Role.SWAPPER, "b")]


def test_a_role_that_came_back_and_left_again_is_told_again(clock: Clock) -> None:
    presence = Presence(clock)
    clock.now += GONE_SECONDS + 1
    presence.missed({Role.INGEST: ["a"]})
    presence.heard(alive(Role.INGEST))
    clock.now += GONE_SECONDS - 1
    assert presence.missed({Role.INGEST: ["a"]}) == []
    clock.now += 2
    assert presence.missed({Role.INGEST: ["a"]}) == [(Role.INGEST, "a")]
