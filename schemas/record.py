"""Base of all records: a typed, versioned header, and how it goes to bytes and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas import framing
from schemas.errors import MalformedRecordError, UnknownVersionError
from schemas.framing import Buffer, ByteArray


class Model(BaseModel):
    """Immutable data; fields added by a later version are ignored by this one."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Record(Model):
    """Header of one Kafka record. Each subclass sets KIND and may raise VERSION.

    `job` and `stream` name what it belongs to (`stream` is empty for records of a whole job),
    `epoch` is the release of the order it came from.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int] = 1

    job: str
    stream: str = ""
    epoch: int = 0

    def header(self) -> dict[str, Any]:
        """The map that goes on the wire."""
        return {"v": self.VERSION, "kind": self.KIND, **self.model_dump(mode="json")}


R_co = TypeVar("R_co", bound=Record, covariant=True)


@dataclass(frozen=True, slots=True)
class Message(Generic[R_co]):
    """A decoded record: its header, and a view of its body that shares memory with the Kafka message."""

    record: R_co
    body: memoryview


_kinds: dict[str, type[Record]] = {}


def register(cls: type[Record]) -> type[Record]:
    """Make `decode` know a record class."""
    _kinds[cls.KIND] = cls
    return cls


def kinds() -> dict[str, type[Record]]:
    """All known record classes by kind."""
    return dict(_kinds)


def allocate(record: Record, body_bytes: int = 0) -> tuple[ByteArray, ByteArray]:
    """Encode the header and reserve the body: (whole record, writable body)."""
    return framing.pack(record.header(), body_bytes)


def encode(record: Record, parts: Sequence[Buffer] = ()) -> ByteArray:
    """Encode a record whose body is the concatenation of `parts`."""
    whole, body = allocate(record, sum(len(part) for part in parts))
    at = 0
    for part in parts:
        body[at : at + len(part)] = memoryview(part)
        at += len(part)
    return whole


def decode(raw: Buffer) -> Message[Record]:
    """Read any record.

    Raises MalformedRecordError for bytes that are no record of ours, and UnknownVersionError, by
    name and number, for a version that this build does not know.
    """
    header, body = framing.unpack(raw)
    kind, version = header.get("kind"), header.get("v")
    cls = _kinds.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise MalformedRecordError(f"unknown record kind {kind!r}")
    if not isinstance(version, int) or not 1 <= version <= cls.VERSION:
        raise UnknownVersionError(
            f"{kind} record of version {version!r}; this build reads 1 to {cls.VERSION}"
        )
    try:
        return Message(cls.model_validate(header), body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "record"
        raise MalformedRecordError(f"{kind} record: {where}: {first['msg']}") from error
