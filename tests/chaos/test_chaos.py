"""A short run of the harness on each kind of group: what dies is made up for, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import Run
from tests.chaos.schedule import Action, Kind

pytestmark = pytest.mark.broker


def run(folder: Path, seed: int) -> None:
    actions = [
        Action(Kind.POINT, 0.5, Role.INGEST, "ingest.order.sent"),
        Action(Kind.POINT, 0.5, Role.ASSEMBLER, "assembler.checkpoint.written"),
        Action(Kind.KILL, 0.5, Role.SWAPPER),
        Action(Kind.POINT, 0.5, Role.CONTROL, "control.written"),
        Action(Kind.STOP_POINT, 0.5, Role.ASSEMBLER, "assembler.checkpoint.made"),
        Action(Kind.POINT, 0.5, Role.ASSEMBLER, "assembler.finish.renaming"),
    ]
    report = Run(folder, actions, "consumer", seed, few=True, minutes=2.0)()
    assert report.wrong == [], report.text()
    assert report.killed >= 1
