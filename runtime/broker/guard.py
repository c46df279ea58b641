"""Runs a command until it ends or standard input closes; then ends it.

    python guard.py PIDFILE STOP_SECONDS COMMAND...

The process that starts us holds the other end of the pipe on our standard input. However it ends,
SIGKILL included, the pipe closes, and the command is stopped cleanly: no orphan stays behind. This
file imports only the standard library, so that it starts fast under `python -I -S`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def main(pid_file: str, stop_seconds: float, command: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The pipe alone says when to stop. Not SIG_IGN: the command would inherit that.
        signal.signal(number, lambda *_: None)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    Path(pid_file).write_text(str(child.pid))
    threading.Thread(target=_stop_at_eof, args=(child, stop_seconds), daemon=True).start()
    code = child.wait()
    Path(pid_file).unlink(missing_ok=True)
    return code if code >= 0 else 128 - code


def _stop_at_eof(child: subprocess.Popen[bytes], stop_seconds: float) -> None:
    while os.read(0, 4096):
        pass
    child.terminate()
    try:
        child.wait(stop_seconds)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
