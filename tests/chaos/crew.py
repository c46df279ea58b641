"""The processes of a run: the broker and the services, each started again at once when it dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from control.supervisor import last_line
from runtime.broker.embedded import EmbeddedBroker
from runtime.settings import Settings, environment
from schemas.errors import BrokerStartError
from schemas.events import Role
from tests.chaos import broken
from tests.chaos.block import ENVIRONMENT, Block
from tests.support.processes import ROOT

CREW = ((Role.CONTROL, 2), (Role.INGEST, 2), (Role.SWAPPER, 2), (Role.ASSEMBLER, 2))
DISK_BYTES = 128 << 20
BROKER_STARTS = 5
"""A start may take longer than the product waits for, on a busy machine."""
AGAIN_SECONDS = 1.0
"""Pause before a service that ended by itself is started again."""


@dataclass(slots=True)
class Member:
    """One place in the crew, and the process that fills it now."""

    role: Role
    number: int
    log: Path
    block: Block
    process: subprocess.Popen[bytes]
    stopped: bool = False
    """By SIGSTOP, ours or at a point."""
    again: float = 0.0
    """When it is to be started again (monotonic seconds)."""
    killed: bool = False

    @property
    def name(self) -> str:
        return f"{self.role}-{self.number}"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


@dataclass(frozen=True, slots=True)
class Death:
    """How a process of the crew ended. `point`: the crash point at which; `killed`: by the harness.
    `busy`: work was in flight."""

    member: str
    role: Role
    code: int
    point: str = ""
    killed: bool = False
    busy: bool = False
    words: str = ""


@dataclass(slots=True)
class Crew:
    """Owns the service processes."""

    settings: Settings
    folder: Path
    broken: str = ""
    members: list[Member] = field(default_factory=list)

    def start(self, counts: Sequence[tuple[Role, int]] = CREW) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for role, count in counts:
            for number in range(count):
                log, path = self.folder / f"{role}-{number}.log", self.folder / f"{role}-{number}.block"
                block = Block.create(path)
                self.members.append(Member(role, number, log, block, self._launch(role, number)))

    def reap(self) -> list[Death]:
        """What died since the last call; it is started again."""
        deaths = []
        for member in self.members:
            if member.again:
                if time.monotonic() >= member.again:
                    self._begin(member)
                continue
            code = member.process.poll()
            if code is None:
                continue
            point = member.block.fired if not member.killed else ""
            words = "" if code == -signal.SIGKILL else last_line(member.log)
            deaths.append(
                Death(member.name, member.role, code, point, member.killed, member.block.busy, words)
            )
            pause = 0.0 if code == -signal.SIGKILL else AGAIN_SECONDS
            member.again = time.monotonic() + pause
        return deaths

    def stop(self) -> list[str]:
        """Ask all to drain; returns what did not end well."""
        trouble = []
        for member in self.members:
            member.signal(signal.SIGCONT)
            if member.alive:
                member.signal(signal.SIGTERM)
        deadline = time.monotonic() + self.settings.drain_seconds + 10
        for member in self.members:
            try:
                code = member.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                member.process.kill()
                code = member.process.wait()
            if code:
                trouble.append(
                    f"{member.name} ended with {code} when it was told to stop: {last_line(member.log)}"
                )
            _close(member.process)
        return trouble

    def kill(self) -> None:
        """The end, come what may."""
        for member in self.members:
            if member.alive:
                member.process.kill()
                member.process.wait()
            _close(member.process)

    def _begin(self, member: Member) -> None:
        _close(member.process)
        path = self.folder / f"{member.name}.block"
        member.block = Block.create(path)
        member.stopped = member.killed = False
        member.again = 0.0
        member.process = self._launch(member.role, member.number)

    def _launch(self, role: Role, number: int) -> subprocess.Popen[bytes]:
        env = environment(self.settings, os.environ)
        env[ENVIRONMENT] = str(self.folder / f"{role}-{number}.block")
        env[broken.ENVIRONMENT] = self.broken
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.child", str(role)],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log = self.folder / f"{role}-{number}.log"
        threading.Thread(target=_keep, args=(process, log), daemon=True).start()
        return process


def _keep(process: subprocess.Popen[bytes], log: Path) -> None:
    """Write down what a process says; its own disk may be full."""
    assert process.stdout is not None
    with log.open("ab") as file, process.stdout:
        for line in process.stdout:
            file.write(line)
            file.flush()


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


class Disk:
    """A small file system of its own for the work folder, which can be filled. Making one takes the rights
    to mount; without them `there` is false and nothing is done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", str(folder)]
        try:
            self.there = subprocess.run(command, capture_output=True).returncode == 0
        except FileNotFoundError:
            self.there = False
        self.full = False

    def fill(self, full: bool) -> None:
        """Take all the room that is left, or give it back."""
        self.full = full
        ballast = self._folder / "ballast"
        if not full:
            ballast.unlink()
            return
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))

    def remove(self) -> None:
        if self.there:
            subprocess.run(["umount", "-l", str(self._folder)], check=True)


class Broker:
    """The embedded broker, which can be killed and comes back on the same folder and port."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._broker = EmbeddedBroker(folder, settings)
        self._restart: threading.Thread | None = None
        self._error: BaseException | None = None
        self.stopped = False

    def start(self) -> str:
        return self._broker.start()

    @property
    def up(self) -> bool:
        """Whether it answers."""
        if self._error is not None:
            raise self._error
        return not self.stopped and (self._restart is None or not self._restart.is_alive())

    def kill(self) -> None:
        """SIGKILL, and a start in the background."""
        self._signal(signal.SIGKILL)
        self._restart = threading.Thread(target=self._again)
        self._restart.start()

    def pause(self, paused: bool) -> None:
        """The connections stay; nothing answers."""
        self._signal(signal.SIGSTOP if paused else signal.SIGCONT)
        self.stopped = paused

    def stop(self) -> None:
        if self.stopped:
            self.pause(False)
        if self._restart is not None:
            self._restart.join()
        self._broker.stop()

    def _signal(self, number: int) -> None:
        os.kill(int((self._folder / "broker.pid").read_text()), number)

    def _again(self) -> None:
        for left in reversed(range(BROKER_STARTS)):
            try:
                self._broker.stop()
                self._broker.start()
                return
            except BaseException as error:
                if not left or not isinstance(error, BrokerStartError):
                    self._error = error  # told by `up`
                    return
