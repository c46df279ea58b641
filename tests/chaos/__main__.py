"""`python -m tests.chaos`: kill everything, lose nothing. See docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path

from runtime import logs
from runtime.settings import LogSettings
from tests.chaos import broken, schedule
from tests.chaos.run import Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs to be made")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="of disturbance at most")
    parser.add_argument("--group", choices=["consumer", "share"], default="consumer")
    parser.add_argument("--few", action="store_true", help="three jobs a round instead of twenty")
    parser.add_argument(
        "--negative", choices=list(broken.KINDS), help="break this on purpose: must be noticed"
    )
    parser.add_argument(
        "--folder", type=Path, help="where all is kept; else a new one in the temporary folder"
    )
    options = parser.parse_args()
    logs.configure(LogSettings(level="error", format="console"))
    logging.disable(logging.CRITICAL)  # the client's words about a broker that is not there
    folder = options.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"work folder: {folder}", flush=True)
    if options.negative:
        actions = list(schedule.negative(options.negative))
    else:
        actions = schedule.deck(options.seed, options.kills, options.group, minute=options.kills >= 100)
    few = options.few or options.negative in ("transaction", "rename")
    run = Run(
        folder.absolute(), actions, options.group, options.seed, few=few,
        broken=options.negative or "", minutes=options.minutes,
        settle=60.0 if options.negative else 600.0, tell=lambda line: print(line, flush=True),
    )  # fmt: skip
    report = run()
    (folder / "report.json").write_text(json.dumps(report.as_json(), indent=2) + "\n")
    (folder / "report.txt").write_text(report.text() + "\n")
    print(report.text())
    if options.negative:
        noticed = any(broken.KINDS[options.negative] in line for line in report.wrong)
        print(f"\nwithout {options.negative}: {'NOTICED' if noticed else 'NOT NOTICED'}")
        return 0 if noticed else 1
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
