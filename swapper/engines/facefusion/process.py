"""The child process: started, spoken to within time limits, and ended with all that it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import swapper
from runtime.settings import FaceFusionSettings
from schemas.errors import ContentRefusedError, EngineError, FacestreamError, ModelError, UsageError
from swapper.engines.facefusion.protocol import Blob, Message, receive, send

VERSIONS = ("3.8.1",)
"""Those whose names and behaviour the contract tells."""

_BOOT = """
import sys
root = sys.argv.pop(1)
sys.path.append(root)
from swapper.engines.facefusion.child import main
sys.path.remove(root)
main(int(sys.argv[1]))
"""
"""Our modules are found for a moment only: what is imported later comes from the checkout's environment."""
_PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)
"""Of our environment; the rest, passwords among it, is none of the child's business."""
_TAIL = 4096
_LINES = 8
_LAST_SECONDS = 5.0
_REFUSALS: Mapping[str, type[FacestreamError]] = {
    "version": UsageError,
    "names": UsageError,
    "environment": UsageError,
    "size": UsageError,
    "models": ModelError,
    "content": ContentRefusedError,
}


class Child:
    """FaceFusion with one configuration. Raises UsageError or ModelError where it cannot be set up."""

    def __init__(self, settings: FaceFusionSettings, processors: tuple[str, ...], items: Mapping[str, Any]):
        home = home_of(settings)
        self._settings = settings
        self._said = bytearray()
        self._process, self._channel = _start(settings, home)
        output = self._process.stdout
        assert output is not None
        self._listener = threading.Thread(target=_listen, args=(output, self._said), daemon=True)
        self._listener.start()
        self.end = weakref.finalize(self, _end, self._process, self._channel, self._listener)
        """Kill it. Also done when nobody holds the child any more, and when the worker ends."""
        state = _common(settings) | dict(items)
        fields = {"home": str(home), "versions": VERSIONS, "processors": processors, "items": state}
        try:
            self.version = str(
                self.ask(Message("configure", fields), settings.start_seconds).fields.get("version")
            )
        except FacestreamError:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        return self.end.alive and self._process.poll() is None

    def ask(self, message: Message, seconds: float | None = None) -> Message:
        """The answer. Raises what the child refuses with, and EngineError where it fails, ends or hangs;
        after the last two it is gone."""
        seconds = seconds or self._settings.frame_seconds
        try:
            send(self._channel, message, seconds)
            answer = receive(self._channel, seconds)
        except TimeoutError:
            self.end()
            raise EngineError(f"FaceFusion did not answer within {seconds:g} s{self._words()}") from None
        except (EOFError, OSError):
            raise EngineError(f"FaceFusion ended by itself ({self._ending()}){self._words()}") from None
        except (ValueError, KeyError, TypeError) as error:
            self.end()
            raise EngineError(f"FaceFusion's process answered with what is no message: {error}") from None
        if answer.kind == "error":
            what, text = str(answer.fields.get("what")), str(answer.fields.get("text"))
            raise _REFUSALS.get(what, EngineError)(text if what in _REFUSALS else f"FaceFusion: {text}")
        return answer

    def _ending(self) -> str:
        """How it ended: it has closed its end, or is about to be ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_SECONDS)
        code = self._process.returncode
        self.end()
        if code is None:
            return "the connection broke"
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def _words(self) -> str:
        lines = bytes(self._said).decode(errors="replace").splitlines()
        last = " | ".join(line.strip() for line in lines[-_LINES:] if line.strip())
        return f"; its last words: {last}" if last else ""


def home_of(settings: FaceFusionSettings) -> Path:
    """The checkout. Raises UsageError where none is named, or what is named is none."""
    if settings.home is None:
        raise UsageError("engine facefusion needs a checkout of FaceFusion: name it by FACEFUSION_HOME")
    home = settings.home.absolute()
    if not (home / "facefusion").is_dir():
        raise UsageError(f"{home} is no checkout of FaceFusion: it has no folder facefusion")
    return home


def blob(picture: Any) -> Blob:
    """A contiguous array of uint8."""
    return Blob(picture.shape, memoryview(picture.reshape(-1)))


def _common(settings: FaceFusionSettings) -> dict[str, Any]:
    """State items that are not the job's. Without providers of downloads nothing is fetched, nor asked for;
    without a tracker one frame is enough."""
    return {
        "execution_device_ids": list(settings.device_ids),
        "execution_providers": list(settings.providers),
        "download_providers": [],
        "video_memory_strategy": "tolerant",
        "log_level": "info",
        "face_tracker_score": 0,
        "target_frame_amount": 0,
    }


def _start(settings: FaceFusionSettings, home: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process and our end of the channel."""
    python = str(settings.python or sys.executable)
    root = str(Path(swapper.__file__).parents[1])
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [python, "-I", "-B", "-c", _BOOT, root, str(theirs.fileno())],
            cwd=home,
            env=kept | settings.environment,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its own children end with it
        )
    except OSError as error:
        ours.close()
        raise UsageError(f"facefusion.python {python} does not start: {error.strerror}") from None
    finally:
        theirs.close()
    return process, ours


def _listen(output: IO[bytes], said: bytearray) -> None:
    """Read what it prints, so that it never waits for a reader, and keep the end."""
    while chunk := os.read(output.fileno(), _TAIL):
        said += chunk
        del said[:-_TAIL]


def _end(process: subprocess.Popen[bytes], channel: socket.socket, listener: threading.Thread) -> None:
    channel.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    listener.join(_LAST_SECONDS)
    if process.stdout is not None and not listener.is_alive():
        process.stdout.close()
