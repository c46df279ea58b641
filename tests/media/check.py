"""Compare an output of the pipeline with its input, for clips of the case generator.

    python -m tests.media.check IN OUT [flags]

ends with status 0 if all is right, else 1; flags are those of the manifest.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.media.decoded import decode
from tests.media.flags import Flags, flags_of, parser
from tests.media.judge import judge
from tests.media.report import Report


def check(given: Path, output: Path, flags: Flags) -> Report:
    """Decode both and judge. An output that is missing or unreadable is a finding, not an exception."""
    report = Report()
    if not output.is_file():
        report.add("output exists", False, output.name)
        return report
    reference = decode(given)
    try:
        made = decode(output)
    except (OSError, ValueError) as error:  # PyAV's errors are among them
        report.add("output decodes", False, str(error))
        return report
    return judge(reference, made, flags)


def main() -> int:
    arguments = parser()
    arguments.add_argument("input", type=Path)
    arguments.add_argument("output", type=Path)
    given = arguments.parse_args()
    report = check(given.input, given.output, flags_of(given))
    print(report)
    print("PASS" if report.right else "FAIL", given.output)
    return 0 if report.right else 1


if __name__ == "__main__":
    sys.exit(main())
