"""Write the golden bytes anew: `python -m tests.schemas.make_golden`. Only for a new record version."""

from __future__ import annotations

from pathlib import Path

from schemas.record import encode
from tests.support.records import SAMPLES


def main() -> None:
    folder = Path(__file__).parent / "golden"
    folder.mkdir(exist_ok=True)
    for name, (record, body) in SAMPLES.items():
        (folder / f"{name}.bin").write_bytes(encode(record, [body]).tobytes())


if __name__ == "__main__":
    main()
