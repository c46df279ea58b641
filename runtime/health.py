"""Whether a process can do its work: warm, and its main loop going round."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Health:
    """Asked by `/healthz`, told by the service loop. Safe to use from several threads."""

    def __init__(self, stalled_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stalled = stalled_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._reason: str | None = "starting"
        self._beat = clock()

    def not_ready(self, reason: str) -> None:
        """Say why no work can be done now, e.g. while models load."""
        with self._lock:
            self._reason = reason

    def ready(self) -> None:
        """Work can be done from now on."""
        with self._lock:
            self._reason = None
            self._beat = self._clock()

    def beat(self) -> None:
        """The main loop went round."""
        with self._lock:
            self._beat = self._clock()

    def trouble(self) -> str | None:
        """Why the process is not healthy; None if it is."""
        with self._lock:
            silent = self._clock() - self._beat
            if self._reason is not None:
                return self._reason
            if silent > self._stalled:
                return f"the main loop has not gone round for {silent:.0f} s"
            return None
