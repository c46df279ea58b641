"""Everything on one machine: the embedded broker (or a cluster that is named) and the services."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import structlog

from control.supervisor import Supervisor
from runtime.broker.embedded import EmbeddedBroker
from runtime.broker.lock import FolderLock
from runtime.cluster import ensure_topics
from runtime.kafka import check_access
from runtime.settings import GIB, Settings
from schemas.errors import BrokerStartError
from schemas.events import Role

_log = structlog.get_logger("local")
_STATE = "up.json"
_LOCAL_RETENTION = 16 * GIB
"""Bound of the frames kept by an embedded broker, unless a setting says otherwise."""


@dataclass(frozen=True, slots=True)
class Local:
    """A running installation. `supervisor` is None where `facestream up` in another process owns it."""

    settings: Settings
    supervisor: Supervisor | None

    def check(self) -> None:
        """Restart services that died; raises ServiceDiedError for one that keeps dying."""
        if self.supervisor is not None:
            self.supervisor.check()


@contextmanager
def run(settings: Settings, swappers: int) -> Iterator[Local]:
    """Start broker and services, and stop them at the end.

    Raises BrokerStartError, also if another process uses the data folder, and ArtefactError.
    """
    with _held(settings.data), _services(settings, swappers) as local:
        yield local


@contextmanager
def attach_or_run(settings: Settings, swappers: int) -> Iterator[Local]:
    """Use what `facestream up` runs on the same data folder; else run everything for this call.

    If another call is using the folder, this one works in a folder of its own.
    """
    bootstrap = None if settings.kafka.bootstrap else running_bootstrap(settings.data)
    if bootstrap is not None:
        _log.info("attached", bootstrap=bootstrap)
        yield Local(settings.with_bootstrap(bootstrap), None)
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(_held(settings.data))
        except BrokerStartError:
            own = Path(tempfile.mkdtemp(prefix="swap-", dir=settings.data))
            stack.callback(shutil.rmtree, own, ignore_errors=True)
            settings = settings.model_copy(update={"data": own})
        yield stack.enter_context(_services(settings, swappers))


@contextmanager
def _services(settings: Settings, swappers: int) -> Iterator[Local]:
    with ExitStack() as stack:
        if not settings.kafka.bootstrap:
            settings = _with_local_bounds(settings)
            broker = EmbeddedBroker(settings.data / "broker", settings)
            settings = settings.with_bootstrap(stack.enter_context(broker).bootstrap)
        check_access(settings.kafka)
        ensure_topics(settings)
        supervisor = Supervisor(settings, settings.data / "logs")
        stack.callback(supervisor.stop)
        supervisor.start([(Role.CONTROL, 1), (Role.SWAPPER, swappers), (Role.INGEST, 1), (Role.ASSEMBLER, 1)])
        yield Local(settings, supervisor)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a data folder. Raises BrokerStartError if another process does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def announced(local: Local) -> Iterator[None]:
    """Let other commands find this installation while it runs."""
    path = local.settings.data / _STATE
    state = {"pid": os.getpid(), "bootstrap": local.settings.kafka.bootstrap}
    path.write_text(json.dumps(state))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_bootstrap(data: Path) -> str | None:
    """Where the broker of a running `facestream up` listens; None if none runs."""
    try:
        state = json.loads((data / _STATE).read_text())
        alive = psutil.pid_exists(int(state["pid"]))
    except (OSError, ValueError, KeyError):
        return None
    return str(state["bootstrap"]) if alive else None


def _with_local_bounds(settings: Settings) -> Settings:
    bound = min(settings.topics.retention_bytes, _LOCAL_RETENTION)
    topics = settings.topics.model_copy(update={"retention_bytes": bound})
    return settings.model_copy(update={"topics": topics})
