"""Crash points: named places inside the services at which a process can be made to die.

Nothing of it is in the product: `install` wraps functions of it in the process that is to suffer. A name
that the product no longer has is an error, so that no point is lost without notice.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from schemas.events import Role
from tests.chaos.block import KILL, Block

CONTROL = ("control.decided", "control.written", "control.committed", "control.restored")
INGEST = (
    "ingest.sides.renaming", "ingest.sides.renamed", "ingest.plan.stored", "ingest.plan.sent",
    "ingest.plan.committed", "ingest.record", "ingest.order.sent", "ingest.order.committed",
)  # fmt: skip
SWAPPER = ("swapper.produced", "swapper.committing", "swapper.committed")
SHARE = ("swapper.produced", "swapper.acknowledging", "swapper.acknowledged")
ASSEMBLER = (
    "assembler.segment.renaming", "assembler.segment.renamed", "assembler.checkpoint.made",
    "assembler.checkpoint.written", "assembler.checkpoint.committed", "assembler.finish.joining",
    "assembler.finish.renaming", "assembler.finish.renamed", "assembler.finish.told",
)  # fmt: skip
FREQUENT = {
    "ingest.record": 30,
    "swapper.produced": 20,
    "assembler.finish.joining": 100,
    "control.restored": 1,
}
"""At which of so many passes a point goes off is left to chance; two where nothing is said."""


def of(role: Role, group: str) -> tuple[str, ...]:
    """The points of a role. `group`: `consumer` or `share`."""
    swapper = SHARE if group == "share" else SWAPPER
    return {Role.CONTROL: CONTROL, Role.INGEST: INGEST, Role.SWAPPER: swapper, Role.ASSEMBLER: ASSEMBLER}[
        role
    ]


class Points:
    """What a service calls when it comes past a point. From any thread."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        with self._lock:
            action = self._block.passed(name)
        if action:
            os.kill(os.getpid(), signal.SIGKILL if action == KILL else signal.SIGSTOP)

    def wrap(self, owner: Any, name: str, before: str = "", after: str = "") -> None:
        """Put points before and after a function of a class or module."""
        original = getattr(owner, name)

        @wraps(original)
        def wrapped(*args: Any, **named: Any) -> Any:
            if before:
                self.reach(before)
            result = original(*args, **named)
            if after:
                self.reach(after)
            return result

        setattr(owner, name, wrapped)


class RenamingOs:
    """The module `os` for one module of the product, with points around its renames."""

    def __init__(self, inner: Any, points: Points, before: str, after: str) -> None:
        self._inner, self._points, self._before, self._after = inner, points, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def replace(self, source: Any, target: Any) -> None:
        self._points.reach(self._before)
        self._inner.replace(source, target)
        self._points.reach(self._after)


def install(role: Role, group: str, points: Points) -> None:
    """Wrap what the service of a role is made of."""
    {
        Role.CONTROL: _control,
        Role.INGEST: _ingest,
        Role.SWAPPER: _share if group == "share" else _swapper,
        Role.ASSEMBLER: _assembler,
    }[role](points)


def _control(points: Points) -> None:
    from control import scheduler, service

    points.wrap(scheduler.Scheduler, "restore", after="control.restored")
    points.wrap(service.ControlService, "_commit", before="control.decided")
    _transaction(points, "control", lambda: True)


def _ingest(points: Points) -> None:
    from ingest import service, streams, worker
    from runtime import durable

    _renames(durable, points, "ingest.sides")
    points.wrap(worker.Store, "put", after="ingest.plan.stored")
    points.wrap(streams.StreamSender, "_frames", before="ingest.record")
    commit = service.IngestService._commit

    def committing(self: service.IngestService, work: service._Work) -> None:
        name = "ingest.order" if work.delivery.whole else "ingest.plan"
        points.reach(f"{name}.sent")
        commit(self, work)
        points.reach(f"{name}.committed")

    service.IngestService._commit = committing  # type: ignore[method-assign]


def _swapper(points: Points) -> None:
    from swapper import grouped, pipeline

    points.wrap(pipeline.Pipeline, "_send", after="swapper.produced")
    points.wrap(grouped.GroupReader, "_write", "swapper.committing", "swapper.committed")


def _share(points: Points) -> None:
    from swapper import pipeline, shared

    points.wrap(pipeline.Pipeline, "_send", after="swapper.produced")
    points.wrap(shared.ShareReader, "_commit", "swapper.acknowledging", "swapper.acknowledged")


def _assembler(points: Points) -> None:
    from assembler import finish, mux, publish, service
    from runtime import durable

    _renames(durable, points, "assembler.segment")
    _renames(publish, points, "assembler.finish")
    _each(points, mux._Muxer, "_video", "assembler.finish.joining")
    points.wrap(finish.FinishService, "_commit", before="assembler.finish.told")
    checkpoint = threading.local()
    original = service.AssemblerService._finish_stream

    def finish_stream(*args: Any) -> None:
        checkpoint.on = True
        points.reach("assembler.checkpoint.made")
        try:
            original(*args)
        finally:
            checkpoint.on = False

    service.AssemblerService._finish_stream = finish_stream  # type: ignore[method-assign]
    _transaction(points, "assembler.checkpoint", lambda: getattr(checkpoint, "on", False))


def _renames(module: ModuleType, points: Points, name: str) -> None:
    module.os = RenamingOs(module.os, points, f"{name}.renaming", f"{name}.renamed")  # type: ignore[attr-defined]


def _each(points: Points, owner: Any, name: str, point: str) -> None:
    """A point before each item that a generator gives."""
    original = getattr(owner, name)

    def wrapped(*args: Any) -> Iterator[Any]:
        for item in original(*args):
            points.reach(point)
            yield item

    setattr(owner, name, wrapped)


def _transaction(points: Points, name: str, wanted: Callable[[], bool]) -> None:
    """Points inside a transaction, with everything at the broker and nothing committed, and after it."""
    from runtime.outbox import TransactionalOutbox

    original = TransactionalOutbox.transaction

    @contextmanager
    def transaction(self: Any, *args: Any) -> Iterator[None]:
        with original(self, *args):
            yield
            if wanted():
                self.flush()
                points.reach(f"{name}.written")
        if wanted():
            points.reach(f"{name}.committed")

    TransactionalOutbox.transaction = transaction  # type: ignore[method-assign, assignment]


def skew_clock(block: Block) -> None:
    """Have the wall clock of this process go wrong by what the block says."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + block.clock
    time.time_ns = lambda: nanoseconds() + int(block.clock * 1e9)
