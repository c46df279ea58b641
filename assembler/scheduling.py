"""Threads that an encoder made real-time ones, made ordinary again.

SVT-AV1, where it may (as root, say), puts the thread that opens it and all of its own under SCHED_FIFO with
priority 99, and leaves them so. They then take every core before anything else on the machine gets one, Kafka
and the kernel's own threads among them, and processes started later inherit it. No option prevents it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def make_ordinary() -> None:
    """Put all threads of this process that are under a real-time policy back under the usual one."""
    if sys.platform != "linux":
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            if os.sched_getscheduler(int(task.name)) in (os.SCHED_FIFO, os.SCHED_RR):
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
