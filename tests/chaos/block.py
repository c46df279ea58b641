"""A few bytes that the harness and one service share: what is armed there, and what it is doing."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

ENVIRONMENT = "CHAOS_BLOCK"
"""Environment variable that names the file."""
KILL, STOP = 1, 2
"""What a crash point does to its process: SIGKILL, SIGSTOP."""
_NAME = 40
_CLOCK, _ACTION, _PASSES, _BUSY, _POINT, _FIRED = 0, 8, 9, 13, 16, 16 + _NAME
SIZE = _FIRED + _NAME


class Block:
    """Memory that outlives the process it is about. The harness arms; the service reports."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)

    @classmethod
    def create(cls, path: Path) -> Block:
        path.write_bytes(bytes(SIZE))
        return cls(path)

    @property
    def clock(self) -> float:
        """Seconds by which the service's wall clock is wrong."""
        (offset,) = struct.unpack_from("d", self._memory, _CLOCK)
        return float(offset)

    @clock.setter
    def clock(self, offset: float) -> None:
        struct.pack_into("d", self._memory, _CLOCK, offset)

    @property
    def busy(self) -> bool:
        """Whether work is in flight in the service."""
        return self._memory[_BUSY] != 0

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._memory[_BUSY] = busy

    @property
    def armed(self) -> str:
        """The crash point that is waited for; empty if none is."""
        return self._text(_POINT) if self._memory[_ACTION] else ""

    @property
    def fired(self) -> str:
        """The crash point that was passed."""
        return self._text(_FIRED)

    def arm(self, point: str, passes: int, action: int) -> None:
        """Have the service die, or stop, when it comes to `point` for the `passes`-th time from now."""
        self._put(_FIRED, "")
        self._put(_POINT, point)
        struct.pack_into("I", self._memory, _PASSES, passes)
        self._memory[_ACTION] = action

    def disarm(self) -> None:
        """Nothing happens any more; what fired is forgotten."""
        self._memory[_ACTION] = 0
        self._put(_FIRED, "")

    def passed(self, point: str) -> int:
        """The service passes a point: what it has to do now, 0 for nothing."""
        if self.armed != point:
            return 0
        (left,) = struct.unpack_from("I", self._memory, _PASSES)
        struct.pack_into("I", self._memory, _PASSES, max(left - 1, 0))
        if left > 1:
            return 0
        action = self._memory[_ACTION]
        self._put(_FIRED, point)
        self._memory[_ACTION] = 0
        return action

    def _text(self, at: int) -> str:
        return self._memory[at : at + _NAME].rstrip(b"\0").decode()

    def _put(self, at: int, text: str) -> None:
        self._memory[at : at + _NAME] = text.encode().ljust(_NAME, b"\0")
