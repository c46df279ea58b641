"""`python -m tests.bench [NAME ...]`: pipeline, mesh, onnx, payload, kafka (all by default)."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module

from runtime import logs
from runtime.settings import LogSettings

NAMES = ("mesh", "onnx", "payload", "kafka", "pipeline")


def main(names: list[str]) -> None:
    logs.configure(LogSettings(level="error", format="console"))
    print(
        f"machine: {_processor()}, {os.cpu_count()} CPUs, {platform.platform()}, {platform.python_version()}"
    )
    for name in names or NAMES:
        print(f"\n## {name}")
        import_module(f"tests.bench.{name}").main()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main(sys.argv[1:])
