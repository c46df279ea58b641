"""Takes a user's file into the store: says what it is, and refuses what does not fit its name."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import ModelError, UsageError
from swapper.engines.onnx.catalog import Swapper
from swapper.engines.onnx.custom import NAME, described
from swapper.engines.onnx.signatures import Signature, of_enhancer, of_swapper, signatures
from swapper.models import index
from swapper.models.fetch import place
from swapper.models.inspection import MOST_BYTES, Graph, inspect
from swapper.models.manifest import Terms, manifest

_PIECE = 1 << 24


@dataclass(frozen=True, slots=True)
class Added:
    """A model that is in the store now. `kind`: what it does, in a word."""

    name: str
    kind: str
    file: Path
    graph: Graph
    terms: Terms
    entry: index.Entry


@dataclass(frozen=True, slots=True)
class _Model:
    """What a file is taken for. `description`: of a custom one, where it lies."""

    name: str
    signature: Signature
    terms: Terms
    description: Path | None = None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file of the store without its name yet."""

    path: Path
    size: int
    sha256: str
    crc: str


def add(store: Path, file: Path, name: str = "", *, accept: bool = False) -> Added:
    """Copy a model into the store under its name: the one given, else that of the file if it is known, else
    that of the only model with these inputs and outputs. A description `NAME.toml` beside it comes along.

    Raises UsageError for a name that nobody knows and for a licence that has to be accepted, and ModelError
    for a file that does not fit its name, could be several or cannot be read, and if nothing can be written.
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file" if file.exists() else f"{file} does not exist")
    model = _by_name(store, file, name)
    if model is not None:
        _check_licence(model, accept)
    try:
        with _copied(file, store) as copy:
            _check_sum(file, copy)
            graph = _inspected(file, copy)
            if model is None:
                model = _by_signature(file, graph)
                _check_licence(model, accept)
            if why := model.signature.misfit(graph):
                raise ModelError(f"{file} does not fit {model.name}: {why}")
            return _placed(store, copy, model, graph, accept)
    except OSError as error:
        raise ModelError(f"cannot add {file} to {store}: {error.strerror or error}") from error


def _inspected(file: Path, copy: _Copy) -> Graph:
    try:
        return inspect(copy.path)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


def _by_name(store: Path, file: Path, name: str) -> _Model | None:
    """Raises UsageError for a name that was given and means nothing."""
    wanted = name or file.stem
    known = manifest().get(wanted)
    if known is not None and known.build is not None:
        raise UsageError(f"model {wanted} is built, not added: facestream models pull")
    if known is not None:
        return _Model(wanted, signatures()[wanted], known.terms)
    if NAME.fullmatch(wanted):
        for description in (file.with_suffix(".toml"), store / f"{wanted}.toml"):
            if description.is_file():
                table = described(description)
                made = table.made(wanted)
                signature = of_swapper(made) if isinstance(made, Swapper) else of_enhancer(made)
                return _Model(wanted, signature, table.terms, description)
    if name:
        names = ", ".join(signatures())
        raise UsageError(
            f"no model {name!r}; there are: {names}; a model of your own needs a description, {name}.toml"
        )
    return None


def _by_signature(file: Path, graph: Graph) -> _Model:
    """Raises ModelError where it could be none or several."""
    fitting = [name for name, one in signatures().items() if not one.misfit(graph)]
    told = f"{'; '.join(map(str, graph.inputs))} → {'; '.join(map(str, graph.outputs[:3]))}"
    if not fitting:
        raise ModelError(
            f"{file} is no model that is known: {told}; a model of your own needs a description beside it, "
            f"{file.stem}.toml"
        )
    if len(fitting) > 1:
        raise ModelError(f"{file} could be {', '.join(fitting)}: say which with --as NAME")
    return _Model(fitting[0], signatures()[fitting[0]], manifest()[fitting[0]].terms)


def _check_licence(model: _Model, accept: bool) -> None:
    if not (model.terms.commercial_use or accept):
        raise UsageError(
            f"the licence of {model.name} forbids commercial use, or is not known: {model.terms.licence}; "
            "if your use is allowed, add: --accept-licence"
        )


@contextmanager
def _copied(file: Path, store: Path) -> Iterator[_Copy]:
    """Raises ModelError for a file that is larger than a model can be."""
    store.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=store, prefix=".added.", suffix=".tmp")
    size, crc, sha256 = 0, 0, hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as out, file.open("rb") as data:
            while piece := data.read(_PIECE):
                size += len(piece)
                if size > MOST_BYTES:
                    raise ModelError(f"{file} is larger than an ONNX file can be")
                crc = zlib.crc32(piece, crc)
                sha256.update(piece)
                out.write(piece)
        yield _Copy(Path(name), size, sha256.hexdigest(), f"{crc:08x}")
    finally:
        Path(name).unlink(missing_ok=True)


def _check_sum(file: Path, copy: _Copy) -> None:
    """Raises ModelError if a `.hash` of FaceFusion lies beside and says something else."""
    said = file.with_suffix(".hash")
    if said.is_file() and said.read_text("ascii", "replace").strip().lower() != copy.crc:
        raise ModelError(f"{file} has CRC-32 {copy.crc}, but {said.name} says otherwise: it is damaged")


def _placed(store: Path, copy: _Copy, model: _Model, graph: Graph, accept: bool) -> Added:
    """Puts the copy in its place. The sum beside is taken away first and written last, so that no engine
    reads one that belongs to another file."""
    dest, mark = store / f"{model.name}.onnx", store / f"{model.name}.hash"
    mark.unlink(missing_ok=True)
    copy.path.chmod(0o644)
    os.replace(copy.path, dest)
    place(copy.crc.encode(), mark)
    if model.description is not None and model.description != store / f"{model.name}.toml":
        place(model.description.read_bytes(), store / f"{model.name}.toml")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    accepted = accept and not model.terms.commercial_use
    entry = index.Entry(copy.sha256, copy.size, now, model.terms.licence, accepted)
    index.record(store, model.name, entry)
    return Added(model.name, model.signature.kind, dest, graph, model.terms, entry)
