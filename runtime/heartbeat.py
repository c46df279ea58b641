"""Tells control that a worker lives, and whether it is ready for work."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import structlog

from runtime.kafka import producer
from runtime.outbox import Outbox
from runtime.settings import Settings
from schemas.errors import BrokerError
from schemas.events import Alive, Role
from schemas.record import encode

_log = structlog.get_logger("heartbeat")
PERIOD_SECONDS = 2.0


class Heartbeat:
    """A thread with a producer of its own, so that a busy worker is not taken for a dead one; whether
    the work itself moves is the health endpoint's to say."""

    def __init__(self, settings: Settings, role: Role, ready: Callable[[], bool]) -> None:
        self._topic = settings.topic_set.events
        self._outbox = Outbox(producer(settings.kafka, f"{role}-heartbeat"))
        self._role = role
        self._ready = ready
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        self._outbox.close(timeout=2)

    def _loop(self) -> None:
        host, pid = socket.gethostname(), os.getpid()
        told = False
        while True:
            ready = self._ready()
            alive = Alive(role=self._role, worker=f"{host}-{pid}", ready=ready, host=host, pid=pid)
            try:
                self._outbox.send(self._topic, encode(alive), key=alive.worker)
                self._outbox.poll()
            except BrokerError as error:
                _log.warning("heartbeat_failed", reason=str(error))
            told = ready
            if self._stop.wait(PERIOD_SECONDS if told else 0.2):
                return
