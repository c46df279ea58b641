"""Notices when the machine stands still: a failure in such a moment says nothing about the product."""

from __future__ import annotations

import os
import tempfile
import threading
import time

_BEAT = 0.5
LONG = 3.0
"""Seconds by which a beat must be late for the machine to count as having stood still."""


class Stalls:
    """A thread that wakes twice a second and has a byte written through to the disk; `longest` is by how many
    seconds it was late since `reset`."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.monotonic()
        threading.Thread(target=self._beat, daemon=True, name="stalls").start()

    def reset(self) -> None:
        self.longest = 0.0

    def seen(self) -> bool:
        """Also while the thread is still stuck."""
        return max(self.longest, time.monotonic() - self._last - _BEAT) >= LONG

    def _beat(self) -> None:
        with tempfile.TemporaryFile() as file:
            while True:
                time.sleep(_BEAT)
                os.pwrite(file.fileno(), b"x", 0)
                os.fsync(file.fileno())
                now = time.monotonic()
                self.longest = max(self.longest, now - self._last - _BEAT)
                self._last = now
