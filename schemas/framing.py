"""The layout of every record on the wire.

    u32 header length, little endian | msgpack header | body

The body holds planes, compressed frames or nothing; the header says where each part lies, as
offsets from the start of the body. So any msgpack library reads the header, and planes are sliced
out of the record without a copy.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from schemas.errors import MalformedRecordError

_LENGTH = struct.Struct("<I")
PREFIX_BYTES = _LENGTH.size
MAX_HEADER_BYTES = 16 << 20

Buffer = bytes | bytearray | memoryview
ByteArray = npt.NDArray[np.uint8]


def pack(header: dict[str, Any], body_bytes: int = 0) -> tuple[ByteArray, ByteArray]:
    """Allocate one record: returns (whole record, writable view of its body, uninitialised).

    Planes are written straight into the view; the whole array goes to the producer as it is.
    """
    packed = msgpack.packb(header, use_bin_type=True)
    start = PREFIX_BYTES + len(packed)
    record = np.empty(start + body_bytes, np.uint8)
    record[:PREFIX_BYTES] = np.frombuffer(_LENGTH.pack(len(packed)), np.uint8)
    record[PREFIX_BYTES:start] = np.frombuffer(packed, np.uint8)
    return record, record[start:]


def unpack(record: Buffer) -> tuple[dict[str, Any], memoryview]:
    """Split a record into its header and a view of its body.

    Raises MalformedRecordError, naming what is wrong.
    """
    view = memoryview(record)
    if len(view) < PREFIX_BYTES:
        raise MalformedRecordError(f"record of {len(view)} bytes is shorter than its length prefix")
    (size,) = _LENGTH.unpack_from(view)
    start = PREFIX_BYTES + size
    if size > MAX_HEADER_BYTES or start > len(view):
        raise MalformedRecordError(f"header of {size} bytes does not fit a record of {len(view)}")
    try:
        header = msgpack.unpackb(view[PREFIX_BYTES:start], raw=False, strict_map_key=True)
    except Exception as error:  # msgpack raises many kinds, ValueError and its own among them
        raise MalformedRecordError(f"header is not msgpack: {error}") from error
    if not isinstance(header, dict):
        raise MalformedRecordError(f"header is a {type(header).__name__}, not a map")
    return header, view[start:]
