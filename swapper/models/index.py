"""What the store knows of files that users added: `index.json` in it, written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from schemas.errors import ModelError
from swapper.models.fetch import place

FILE = "index.json"
_LOCK = ".index.lock"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as it was when it was added. `added`: UTC, as ISO 8601 writes it; `accepted`: whether its
    licence, which forbids commercial use or is not known, was accepted then."""

    sha256: str
    size: int
    added: str
    licence: str
    accepted: bool = False


def read(store: Path) -> Mapping[str, Entry]:
    """By model. Empty where nothing was added. Raises ModelError for an index that cannot be read."""
    file = store / FILE
    try:
        table = json.loads(file.read_text("utf-8"))
        return {str(name): Entry(**entry) for name, entry in table["models"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ModelError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{file} is damaged ({error}): remove it, and add its models again") from error


def record(store: Path, name: str, entry: Entry) -> None:
    """Add or replace one entry; of writers at once, each keeps what the others wrote. Raises ModelError, and
    OSError where the store cannot be written."""
    with _locked(store):
        known = {other: asdict(one) for other, one in read(store).items()}
        table = {"models": dict(sorted((known | {name: asdict(entry)}).items()))}
        place(json.dumps(table, indent=1).encode() + b"\n", store / FILE)


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    file = os.open(store / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)  # which unlocks
