"""What is done to the services, in which order: decided by a seed alone. When exactly each thing meets its
victim is up to the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from schemas.events import Role
from tests.chaos import points

LEAST = 5
"""Kills of each role and at each point, where there are enough kills for it."""


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL at a random moment."""
    POINT = "point"
    """SIGKILL at a crash point."""
    BROKER_KILL = "broker-kill"
    """SIGKILL of the broker, which is started again on the same folder."""
    STOP = "stop"
    """SIGSTOP at a random moment for longer than a session, then SIGCONT."""
    STOP_POINT = "stop-point"
    """The same at a crash point."""
    BROKER_STOP = "broker-stop"
    """The broker does not answer for a while."""
    DISK = "disk"
    """The disk of the work folder is full for a while."""
    CLOCK = "clock"
    """A service's wall clock jumps by hours."""

    @property
    def kills(self) -> bool:
        return self in (Kind.KILL, Kind.POINT, Kind.BROKER_KILL)


@dataclass(frozen=True, slots=True)
class Action:
    """One disturbance. `wait`: seconds before the next; `passes`: of a point before it goes off; `seconds`:
    how long it lasts, of a clock: by how much it jumps."""

    kind: Kind
    wait: float
    role: Role | None = None
    point: str = ""
    passes: int = 1
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Under which it is counted."""
        return self.point or (str(self.role) if self.role else "broker")


def deck(seed: int, kills: int, group: str, minute: bool = False) -> list[Action]:
    """All that is done in a run with so many kills: each point and each role LEAST times as far as they
    go, the rest at random; and what does not kill beside them. `minute`: once the broker is away for a
    whole minute."""
    rng = Random(seed)
    all_points = [(role, point) for role in Role for point in points.of(role, group)]
    brokers = min(kills // 30, 8)
    wanted: list[tuple[Kind, Role | None, str]] = [(Kind.BROKER_KILL, None, "")] * brokers
    must = [(Kind.POINT, role, point) for role, point in all_points] + [
        (Kind.KILL, role, "") for role in Role
    ]
    for _ in range(LEAST):
        rng.shuffle(must)
        wanted += must
    wanted = wanted[:kills]
    while len(wanted) < kills:
        wanted.append((Kind.KILL, rng.choice(list(Role)), ""))
    workers = [role for role in Role if role is not Role.CONTROL]
    wanted += [(Kind.STOP, rng.choice(list(Role)), "") for _ in range(kills // 15)]
    for point in ("assembler.checkpoint.made", "assembler.checkpoint.written"):
        wanted += [(Kind.STOP_POINT, Role.ASSEMBLER, point)] * (kills // 40)
    wanted += [(Kind.STOP_POINT, Role.CONTROL, "control.decided") for _ in range(kills // 60)]
    wanted += [(Kind.STOP_POINT, rng.choice(workers), "") for _ in range(kills // 40)]
    wanted += [(Kind.DISK, None, "")] * (kills // 40)
    wanted += [(Kind.BROKER_STOP, None, "")] * (kills // 60)
    wanted += [(Kind.CLOCK, rng.choice(list(Role)), "") for _ in range(kills // 10)]
    rng.shuffle(wanted)
    actions = [_action(rng, *one, group=group) for one in wanted]
    if minute:
        at = next((i for i, action in enumerate(actions) if action.kind is Kind.BROKER_STOP), None)
        if at is not None:
            actions[at] = Action(Kind.BROKER_STOP, 5.0, seconds=60.0)
    return actions


def _action(rng: Random, kind: Kind, role: Role | None, point: str, group: str) -> Action:
    if kind is Kind.STOP_POINT and not point:
        assert role is not None
        point = rng.choice(points.of(role, group))
    passes = rng.randint(1, points.FREQUENT.get(point, 2))
    seconds = {
        Kind.STOP: rng.uniform(8, 12),
        Kind.STOP_POINT: rng.uniform(8, 12),
        Kind.BROKER_STOP: rng.uniform(8, 15),
        Kind.DISK: rng.uniform(1, 4),
        Kind.CLOCK: rng.choice((-1, 1)) * rng.uniform(1, 12) * 3600,
    }.get(kind, 0.0)
    return Action(kind, rng.uniform(0.3, 3.0), role, point, passes, seconds)


def negative(broken: str) -> Sequence[Action]:
    """What brings a missing safeguard to light."""
    point, kind, seconds = {
        "dedup": ("ingest.order.sent", Kind.POINT, 0.0),
        "transaction": ("assembler.checkpoint.made", Kind.STOP_POINT, 20.0),
        "rename": ("assembler.finish.joining", Kind.POINT, 0.0),
    }[broken]
    role = Role.INGEST if broken == "dedup" else Role.ASSEMBLER
    passes = 20 if broken == "rename" else 1
    return [Action(kind, 5.0, role, point, passes, seconds) for _ in range(4)]
