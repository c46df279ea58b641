"""Taking a job in: everything that can be refused is refused here, before any work starts."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runtime.kafka import producer
from runtime.outbox import Outbox
from runtime.settings import Settings
from runtime.store import Store
from schemas.errors import InputError, UsageError
from schemas.events import Cancel
from schemas.job import JobRecord, JobSpec
from schemas.record import Record, encode
from swapper.engines.base import Engine, SourceFace
from swapper.engines.registry import open_engine

_MOST_BYTES = 256 << 20
"""Of a source picture."""
_LONGEST_NAME = 255
"""Bytes of a file's name that file systems take."""


def job_id(prefix: str = "job") -> str:
    """A new name: sorts by time, unique by chance (32 bits a second)."""
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def prepare(
    settings: Settings,
    engine: Engine,
    sources: Sequence[Path],
    face: int | None = None,
    options: Mapping[str, Any] | None = None,
    target: Path | None = None,
) -> SourceFace | None:
    """The face of the source pictures, as `Engine.prepare` says; None where the engine takes none for a job
    of these options. `target` is the job's input, of which an engine may want to see a frame.

    Raises UsageError for wrong options and if the engine needs a picture and there is none, NoFaceError,
    InputError.
    """
    options = options or {}
    wants = engine.wants(options)
    if not wants:
        return None
    if wants.pictures and not sources:
        raise UsageError(f"engine {engine.name} needs a source picture (-s)")
    try:
        pictures = [_picture(path) for path in sources]
    except OSError as error:
        raise UsageError(f"source {error.filename}: {error.strerror}") from error
    frame = None
    if wants.frame is not None and target is not None:
        from control import target as targets  # decodes: what only hands jobs over need not be able to

        frame = targets.frame(target, wants.frame, settings.input)
    try:
        return engine.prepare(pictures, face, options, frame)
    except InputError as error:
        raise type(error)(_named(str(error), sources)) from error


def _named(reason: str, sources: Sequence[Path]) -> str:
    """With the file's name behind the number of a source picture: engines know numbers only."""
    return re.sub(r"^source picture (\d+)", lambda told: f"{told[0]} ({sources[int(told[1]) - 1]})", reason)


def _picture(path: Path) -> bytes:
    """Raises InputError for a file too large for a picture: a video given by mistake, say."""
    if path.exists() and not path.is_file():  # reading a pipe would wait for ever
        raise UsageError(f"source {path} is not a file")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InputError(f"source {path} is larger than {_MOST_BYTES >> 20} MB")
    return data


def check_paths(target: Path, output: Path) -> None:
    """Raises UsageError if the target cannot be read or the output could not be written."""
    if not target.is_file():
        what = "is not a file" if target.exists() else "does not exist"
        raise UsageError(f"target {target} {what}")
    if not os.access(target, os.R_OK):
        raise UsageError(f"target {target} cannot be read")
    check_output(output, target)


def check_output(output: Path, target: Path) -> None:
    """Raises UsageError if the output could not be written, or is the target."""
    if len(os.fsencode(output.name)) > _LONGEST_NAME:
        raise UsageError(f"the output's name is longer than {_LONGEST_NAME} bytes")
    if output.is_dir():
        raise UsageError(f"output {output} is a folder")
    folder = output.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"output folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"output folder {folder} cannot be written to")
    if output.exists() and output.samefile(target):
        raise UsageError(f"output {output} is the target itself")


def make_spec(**fields: Any) -> JobSpec:
    """A job spec of options. Raises UsageError naming the option that is wrong."""
    try:
        return JobSpec.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {message}" if where else message) from None


def store_face(store: Store, face: SourceFace) -> str:
    """Put a prepared face into the store under its content's hash; returns the object's name.

    Also one that is there: its time tells the sweep that somebody is about to use it.
    """
    data = face.to_bytes()
    name = f"faces/{hashlib.sha256(data).hexdigest()}"
    store.put(name, data)
    return name


def open_for(settings: Settings, name: str) -> Engine:
    """An engine of this process, for preparing faces."""
    engine = open_engine(name, settings.models_dir)
    engine.warm()
    return engine


def submit(settings: Settings, spec: JobSpec) -> None:
    """Hand a job over: once this returns, Kafka has it."""
    record = JobRecord(job=spec.job, spec=spec, created_ns=time.time_ns())
    with Outbox(producer(settings.kafka, "submit")) as outbox:
        outbox.send(settings.topic_set.jobs, encode(record), key=spec.job)
        outbox.flush()


def cancel(settings: Settings, job: str) -> None:
    """Ask control to give a job up."""
    tell(settings, Cancel(job=job))


def tell(settings: Settings, event: Record) -> None:
    """Tell control of a user's wish: once this returns, Kafka has it."""
    with Outbox(producer(settings.kafka, "submit")) as outbox:
        outbox.send(settings.topic_set.events, encode(event), key=event.job)
        outbox.flush()
