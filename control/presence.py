"""Which workers live, by their heartbeats; and which work waits for a role that nobody plays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from schemas.events import Alive, Role

GONE_SECONDS = 10.0
"""A worker that was not heard for so long is taken for dead; it tells of itself every 2 s."""


class Presence:
    """Heartbeats as they arrive, on an injected clock (monotonic seconds)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[Role, float]] = {}
        self._since = dict.fromkeys(Role, clock())
        """When somebody of a role was last there: at first, when listening began."""
        self._told: set[tuple[Role, str]] = set()

    def heard(self, event: Alive) -> None:
        """A worker told of itself."""
        now = self._clock()
        self._heard[event.worker] = event.role, now
        self._since[event.role] = now
        self._told = {(role, job) for role, job in self._told if role is not event.role}

    def count(self, role: Role) -> int:
        """Live workers of a role."""
        oldest = self._clock() - GONE_SECONDS
        self._heard = {worker: (of, at) for worker, (of, at) in self._heard.items() if at >= oldest}
        return sum(of is role for of, _ in self._heard.values())

    def everybody(self, roles: Iterable[Role] = (Role.INGEST, Role.SWAPPER, Role.ASSEMBLER)) -> bool:
        """Whether each of these roles has a live worker."""
        return all(self.count(role) for role in roles)

    def missed(self, needs: Mapping[Role, list[str]]) -> list[tuple[Role, str]]:
        """(role, job) for each job that waits for a role of which nobody lives; each is told once, until the
        role is back."""
        now = self._clock()
        found: list[tuple[Role, str]] = []
        for role, jobs in needs.items():
            if jobs and now - self._since[role] > GONE_SECONDS:
                found += [(role, job) for job in dict.fromkeys(jobs) if (role, job) not in self._told]
        self._told.update(found)
        return found
