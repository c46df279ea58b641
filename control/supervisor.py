"""Runs the services of a single machine as processes of their own, and restarts one that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runtime.settings import Settings, environment
from schemas.errors import FacestreamError
from schemas.events import Role

_log = structlog.get_logger("supervisor")
_MAX_DEATHS = 3
_MAX_KILLED = 12
"""Of a swapper that signals ended: a batch that takes its process down costs four (docs/dead-letters.md)."""
_DEATH_WINDOW_SECONDS = 60.0
_GRACE_SECONDS = 5.0
"""How long children may take beyond their own drain time before they are killed."""


class ServiceDiedError(FacestreamError):
    """Raised when a service keeps dying: _MAX_DEATHS times within a minute, or a
    swapper that signals ended _MAX_KILLED times. Its log says why."""


@dataclass(slots=True)
class _Child:
    role: Role
    number: int
    log: Path
    process: subprocess.Popen[bytes]
    deaths: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.role}-{self.number}"


class Supervisor:
    """Owns the child processes. Each is `facestream worker ROLE` in its own process group, so that a
    Ctrl-C in the terminal reaches only us and they can drain. They end with us, however we end: their
    standard input is a pipe that we hold. Each logs to `<logs>/<role>-<n>.log`."""

    def __init__(self, settings: Settings, logs: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._logs = logs
        self._clock = clock
        self._children: list[_Child] = []

    def start(self, counts: Sequence[tuple[Role, int]]) -> None:
        """Start so many processes of each role."""
        self._logs.mkdir(parents=True, exist_ok=True)
        for role, count in counts:
            for number in range(count):
                log = self._logs / f"{role}-{number}.log"
                log.write_bytes(b"")
                self._children.append(_Child(role, number, log, self._launch(role, log)))

    def check(self) -> None:
        """Restart what died. Raises ServiceDiedError, with its last line, for what keeps dying."""
        for child in self._children:
            code = child.process.poll()
            if code is None:
                continue
            now = self._clock()
            child.deaths = [t for t in child.deaths if now - t < _DEATH_WINDOW_SECONDS] + [now]
            last = last_line(child.log)
            _log.warning("service_died", service=child.name, code=code, last=last)
            if len(child.deaths) >= _most(child.role, code):
                raise ServiceDiedError(f"{child.name} keeps dying (exit code {code}): {last}")
            _let_go(child.process)
            child.process = self._launch(child.role, child.log)

    def pids(self) -> dict[str, int]:
        """Process id of each service by its name, such as `swapper-0`."""
        return {child.name: child.process.pid for child in self._children}

    def stop(self) -> None:
        """Ask all to drain, wait for them, kill what does not end."""
        for child in self._children:
            if child.process.poll() is None:
                child.process.send_signal(signal.SIGTERM)
        deadline = self._clock() + self._settings.drain_seconds + _GRACE_SECONDS
        for child in self._children:
            try:
                child.process.wait(max(deadline - self._clock(), 0.1))
            except subprocess.TimeoutExpired:
                _log.warning("service_killed", service=child.name)
                child.process.kill()
                child.process.wait()
            _let_go(child.process)
        self._children.clear()

    def _launch(self, role: Role, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "control.cli.main", "worker", str(role), "--until-eof"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment(self._settings, os.environ),
                start_new_session=True,
            )


def _most(role: Role, code: int) -> int:
    return _MAX_KILLED if role is Role.SWAPPER and code < 0 else _MAX_DEATHS


def _let_go(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def last_line(log: Path) -> str:
    """The last line of a log file that is not empty."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was logged"
