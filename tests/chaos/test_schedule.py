"""What a seed decides, and that a run is made of everything it shall be made of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from schemas.events import Role
from tests.chaos import points
from tests.chaos.block import KILL, STOP, Block
from tests.chaos.schedule import LEAST, Kind, deck

pytestmark = pytest.mark.unit


def test_a_seed_decides_the_schedule() -> None:
    assert deck(7, 40, "consumer") == deck(7, 40, "consumer")
    assert deck(7, 40, "consumer") != deck(8, 40, "consumer")


@pytest.mark.parametrize("group", ["consumer", "share"])
def test_two_hundred_kills_are_some_at_each_point_and_of_each_role(group: str) -> None:
    actions = deck(3, 200, group, minute=True)
    kills = Counter(action.name for action in actions if action.kind.kills)
    assert kills.total() == 200
    wanted = {str(role) for role in Role} | {point for role in Role for point in points.of(role, group)}
    assert set(kills) == wanted | {"broker"}
    assert min(kills.values()) >= LEAST
    assert {action.kind for action in actions} == set(Kind)
    assert [a.seconds for a in actions if a.kind is Kind.BROKER_STOP].count(60.0) == 1


def test_a_point_goes_off_once_at_the_pass_that_was_asked_for(tmp_path: Path) -> None:
    harness = Block.create(tmp_path / "block")
    service = Block(tmp_path / "block")
    assert service.passed("a") == 0
    harness.arm("a", 3, KILL)
    assert [service.passed(name) for name in ("a", "b", "a")] == [0, 0, 0]
    assert harness.armed == "a"
    assert service.passed("a") == KILL
    assert (harness.armed, harness.fired) == ("", "a")
    assert service.passed("a") == 0
    harness.arm("b", 1, STOP)
    harness.disarm()
    assert service.passed("b") == 0
