"""Messages between a worker and its child: a header of JSON, then blobs of bytes as they lie in memory.

    4 bytes   length of the header, big endian
    header    {"kind": ..., "fields": {...}, "blobs": [[name, [shape]], ...]}
    blobs     uint8, one behind another, in that order

The child's own Python runs this too: standard library only, and nothing newer than Python 3.10.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LENGTH = struct.Struct(">I")
_LARGEST_HEADER = 1 << 20
_LARGEST_BLOB = 1 << 30


@dataclass
class Blob:
    """Samples of 8 bit. `data` can be written to where it was received."""

    shape: tuple[int, ...]
    data: bytearray | memoryview


@dataclass
class Message:
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, Blob] = field(default_factory=dict)


def send(channel: socket.socket, message: Message, seconds: float | None = None) -> None:
    """Raises OSError where nobody listens any more, TimeoutError (one of them) after `seconds`."""
    blobs = [(name, list(blob.shape)) for name, blob in message.blobs.items()]
    said = {"kind": message.kind, "fields": dict(message.fields), "blobs": blobs}
    header = json.dumps(said).encode()
    channel.settimeout(seconds)
    channel.sendall(_LENGTH.pack(len(header)) + header)
    for blob in message.blobs.values():
        channel.sendall(blob.data)


def receive(channel: socket.socket, seconds: float | None = None) -> Message:
    """Raises EOFError at the end, OSError of a broken connection, TimeoutError after `seconds`, ValueError
    for what is no message."""
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size, _LENGTH.size, deadline))
    said = json.loads(_exactly(channel, length, _LARGEST_HEADER, deadline))
    blobs = {}
    for name, shape in said["blobs"]:
        blobs[name] = Blob(tuple(shape), _exactly(channel, math.prod(shape), _LARGEST_BLOB, deadline))
    return Message(said["kind"], said["fields"], blobs)


def _exactly(channel: socket.socket, size: int, most: int, deadline: float | None) -> bytearray:
    if not 0 <= size <= most:
        raise ValueError(f"a message announces {size} bytes where at most {most} can be")
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        if deadline is None:
            channel.settimeout(None)
        elif (left := deadline - time.monotonic()) > 0:
            channel.settimeout(left)
        else:
            raise TimeoutError
        got = channel.recv_into(rest)
        if not got:
            raise EOFError
        rest = rest[got:]
    return data
