"""Names streams that wait for the same sequence number for too long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from assembler.join import StreamKey, StreamState

NAMED_SECONDS = 60.0
"""A stream that waits so long for the same sequence number is named in the log."""


class Finding(Enum):
    """What to do about a stream that waits: name it in the log, tell control, see whether its job ended."""

    NAME = auto()
    TELL = auto()
    ENDED = auto()


@dataclass(slots=True)
class _Waiting:
    """Since when a stream waits for a sequence number."""

    seq: int
    since: float
    named: bool = False


class Watchdog:
    """Times are those of the caller's clock, seconds. `stuck_seconds`: waits that control shall know of."""

    def __init__(self, stuck_seconds: float) -> None:
        self._stuck_seconds = stuck_seconds
        self._waiting: dict[StreamKey, _Waiting] = {}
        self.last_swaps = 0.0
        """When patches of any stream were last read."""

    def forget(self, key: StreamKey) -> None:
        self._waiting.pop(key, None)

    def look(self, state: StreamState, now: float, paused: bool) -> set[Finding]:
        """What there is to do. As long as patches of other streams come, it may just not be this one's turn,
        unless later ones of its own are here; nor if it only waits to be encoded. `paused`: not all is read
        now."""
        in_turn = state.answered and not state.encoding
        if state.complete or state.ready or in_turn or (paused and state.next_seq not in state.frames):
            self.forget(state.key)
            return set()
        waiting = self._waiting.get(state.key)
        if waiting is None or waiting.seq != state.next_seq:
            self._waiting[state.key] = _Waiting(state.next_seq, now)
            return set()
        found: set[Finding] = set()
        if now - waiting.since > NAMED_SECONDS:
            found.add(Finding.ENDED)
        waited = now - (waiting.since if state.overtaken else max(waiting.since, self.last_swaps))
        if waited > NAMED_SECONDS and not waiting.named:
            waiting.named = True
            found.add(Finding.NAME)
        if waited > self._stuck_seconds:
            waiting.since = now
            found.add(Finding.TELL)
        return found
