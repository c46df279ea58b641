"""The product with one of its safeguards off, to show that the harness would notice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas.events import Role

ENVIRONMENT = "CHAOS_BROKEN"
KINDS = {
    "dedup": "committed checkpoints of epoch",
    "transaction": "committed checkpoints of epoch",
    "rename": "was seen in part",
}
"""What can be broken, and the complaint that must come of it."""


def install(role: Role, what: str) -> None:
    """Break one thing in this process; an empty name breaks nothing."""
    if role is Role.SWAPPER and what == "dedup":
        _answer_again()
    if role is not Role.ASSEMBLER or not what:
        return
    {"dedup": _no_deduplication, "transaction": _no_transaction, "rename": _no_rename}[what]()


def _no_deduplication() -> None:
    """A record that comes again is taken as a new one: of a stream that is done, too."""
    from assembler.join import Join, StreamState

    add = Join.add

    def forgetful(self: Join, side: Any, partition: int, offset: int, message: Any, *more: Any) -> None:
        self._closed.clear()
        state = self._streams.get(message.record.stream)
        if state is not None and hasattr(message.record, "seq"):
            state.next_seq = min(state.next_seq, message.record.seq)
        add(self, side, partition, offset, message, *more)

    Join.add = forgetful  # type: ignore[method-assign]
    StreamState.follow = lambda self, record: None  # type: ignore[method-assign, assignment]


def _answer_again() -> None:
    """Swappers drop what they have done before, too: else an assembler sees few doubles."""
    from swapper.grouped import GroupReader

    GroupReader._remember = lambda self, key: None  # type: ignore[method-assign, assignment]


def _no_transaction() -> None:
    """The checkpoint is sent, then the offsets are committed, as if that were all there is to it."""
    from assembler import membership, service
    from runtime import kafka, outbox

    @contextmanager
    def plain(self: Any, offsets: Any = (), group: Any = None) -> Iterator[None]:
        yield
        self.flush()
        if offsets:
            try:
                group.commit(offsets=list(offsets), asynchronous=False)
            except Exception as error:  # the checkpoint stands
                service._log.warning("commit_failed", reason=str(error))

    service.transactional_producer = lambda settings, role, _: kafka.producer(settings, role)  # type: ignore[assignment]
    outbox.TransactionalOutbox.__init__ = lambda self, given: outbox.Outbox.__init__(self, given)  # type: ignore
    outbox.TransactionalOutbox.transaction = plain  # type: ignore
    membership.PairedConsumer.group = lambda self: self._consumer  # type: ignore


def _no_rename() -> None:
    """Results and segments are written where they belong, byte after byte."""
    from assembler import publish
    from runtime import durable

    class InPlace:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def replace(self, source: Path, target: Path) -> None:
            if source != target:
                shutil.copyfile(source, target)
                source.unlink()

    @contextmanager
    def in_place(target: Path, owner: str, overwrite: bool = True) -> Iterator[Path]:
        yield target
        publish.os.replace(target, target)

    durable.os = InPlace()  # type: ignore
    publish.os = InPlace()  # type: ignore
    from assembler import finish

    finish.published = in_place
