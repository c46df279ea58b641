"""A short run of the harness: what dies is made up for, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.events import Role
from tests.chaos.run import Run
from tests.chaos.schedule import Action, Kind

pytestmark = pytest.mark.broker
ACTIONS = [
    Action(Kind.POINT, 0.5, Role.INGEST, "ingest.order.sent"),
    Action(Kind.POINT, 0.5, Role.ASSEMBLER, "assembler.checkpoint.written"),
    Action(Kind.KILL, 0.5, Role.SWAPPER),
    Action(Kind.POINT, 0.5, Role.CONTROL, "control.written"),
    Action(Kind.CLOCK, 0.5, Role.ASSEMBLER, seconds=-7200.0),
    Action(Kind.POINT, 0.5, Role.ASSEMBLER, "assembler.finish.renaming"),
]


def test_results_are_those_of_an_undisturbed_run_whoever_dies(tmp_path: Path) -> None:
    report = Run(tmp_path, ACTIONS, "consumer", seed=1, few=True, minutes=3.0)()
    assert report.wrong == [], report.text()
    assert report.killed >= 4, report.text()
