"""The few fields of an ONNX file that the engine must see or change, read from its bytes.

Field numbers are those of onnx.proto3. The package `onnx` would bring a second 20 MB and its whole
object tree into every worker, for two questions: what is the last initializer, and may the batch axis be
any number. Weights are never copied or parsed but for the initializer asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import ModelError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH = 7
"""Of ModelProto."""
_INITIALIZER, _INPUT, _OUTPUT, _VALUE_INFO = 5, 11, 12, 13
"""Of GraphProto."""
_TENSOR_TYPES: dict[int, npt.DTypeLike] = {1: np.float32, 10: np.float16, 11: np.float64}
_BATCH = b"batch"
_LONGEST = 63
"""Bits by which a byte of a number can be shifted: ten bytes at most."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message. `value`: a number, or the bytes of a string or message; `raw`: all of it,
    with its tag."""

    number: int
    value: Any
    raw: memoryview


def fields(message: memoryview) -> Iterator[Field]:
    """Every field in order. Raises ModelError for bytes that are no message."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        kind = tag & 7
        value: Any
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _BYTES:
            size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
            value, at = message[at : at + size], at + size
        else:
            raise ModelError("not an ONNX file")
        if at > len(message):
            raise ModelError("an ONNX file that was cut off")
        yield Field(tag >> 3, value, message[start:at])


def last_initializer(model: memoryview) -> npt.NDArray[np.float32]:
    """The last initializer of the graph. Raises ModelError if there is none of floats."""
    last = None
    for field in fields(_graph(model)):
        if field.number == _INITIALIZER:
            last = field.value
    if last is None:
        raise ModelError("the model has no initializer")
    return _tensor(last)


def with_free_batch(model: memoryview) -> bytes:
    """The model with the first axis of its inputs (of two axes or more, and fixed to 1) left open, and
    without the shapes that were stored for everything behind them."""
    parts = []
    for field in fields(model):
        parts.append(_message(_GRAPH, _freed(field.value)) if field.number == _GRAPH else field.raw)
    return b"".join(parts)


def _freed(graph: memoryview) -> bytes:
    weights = {_name(f.value, 8) for f in fields(graph) if f.number == _INITIALIZER}
    parts: list[bytes | memoryview] = []
    for field in fields(graph):
        if field.number == _INPUT and _name(field.value, 1) not in weights:
            parts.append(_message(_INPUT, _retyped(field.value, _with_open_axis)))
        elif field.number == _OUTPUT:
            parts.append(_message(_OUTPUT, _retyped(field.value, _without_shape)))
        elif field.number != _VALUE_INFO:
            parts.append(field.raw)
    return b"".join(parts)


def _retyped(value_info: memoryview, change: Any) -> bytes:
    """A ValueInfoProto (type 2: TypeProto; tensor_type 1: its Tensor) with its Tensor changed."""

    def typed(kind: memoryview) -> bytes:
        return b"".join(_message(1, change(f.value)) if f.number == 1 else f.raw for f in fields(kind))

    return b"".join(_message(2, typed(f.value)) if f.number == 2 else f.raw for f in fields(value_info))


def _without_shape(tensor: memoryview) -> bytes:
    return b"".join(f.raw for f in fields(tensor) if f.number != 2)


def _with_open_axis(tensor: memoryview) -> bytes:
    return b"".join(_message(2, _open(f.value)) if f.number == 2 else f.raw for f in fields(tensor))


def _open(shape: memoryview) -> bytes:
    """A TensorShapeProto whose first dimension (dim_value 1, dim_param 2) is a name instead of 1."""
    axes = list(fields(shape))
    first = {f.number: f.value for f in fields(axes[0].value)} if axes else {}
    if len(axes) < 2 or first.get(1) != 1:
        return bytes(shape)
    return _message(1, _message(2, _BATCH)) + b"".join(axis.raw for axis in axes[1:])


def _graph(model: memoryview) -> memoryview:
    for field in fields(model):
        if field.number == _GRAPH:
            graph: memoryview = field.value
            return graph
    raise ModelError("not an ONNX file")


def _name(message: memoryview, number: int) -> bytes:
    return next((bytes(f.value) for f in fields(message) if f.number == number), b"")


def _tensor(proto: memoryview) -> npt.NDArray[np.float32]:
    """A TensorProto: dims 1, data_type 2, float_data 4, raw_data 9."""
    shape: list[int] = []
    kind, data = 0, memoryview(b"")
    for field in fields(proto):
        if field.number == 1:
            shape += _numbers(field.value) if isinstance(field.value, memoryview) else [field.value]
        elif field.number == 2:
            kind = field.value
        elif field.number in (4, 9):
            data = field.value
    if kind not in _TENSOR_TYPES or not len(data):
        raise ModelError("the model's last initializer holds no floats")
    return np.frombuffer(data, _TENSOR_TYPES[kind]).reshape(shape).astype(np.float32)


def _numbers(packed: memoryview) -> list[int]:
    at, found = 0, []
    while at < len(packed):
        number, at = _varint(packed, at)
        found.append(number)
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > _LONGEST:
                raise ModelError("not an ONNX file")
    except IndexError:
        raise ModelError("an ONNX file that was cut off") from None


def _message(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
