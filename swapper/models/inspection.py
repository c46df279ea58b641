"""What goes into an ONNX file and what comes out of it.

The file may come from anywhere, so a process of its own reads it, with bounds on memory and time: that is all
that a file which is made to harm can take down. ONNX Runtime sees none that names data outside of itself.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from schemas.errors import ModelError
from swapper.engines.onnx.protobuf import fields, last_initializer
from swapper.engines.onnx.session import mapped

MOST_BYTES = (1 << 31) - 1
"""What a protocol buffer can hold."""
_DEEPEST = 64
"""Graphs within graphs."""
_SECONDS = 300
_ROOM = 8 << 30
"""Address space of the process beside four times the file."""
_LONGEST = 200

Axis = int | str | None
"""Its size; a name or None where that is left open."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output. `kind` as ONNX Runtime writes it: `float`, `double`, `int64` …"""

    name: str
    kind: str
    shape: tuple[Axis, ...]

    def __str__(self) -> str:
        name = self.name if self.name.isprintable() else ascii(self.name)
        axes = ", ".join(str(axis) if isinstance(axis, int) else "any" for axis in self.shape)
        return f"{name} {self.kind} ({axes})"


@dataclass(frozen=True, slots=True)
class Graph:
    """The inputs and outputs of a model, in order. `last`: shape of its last initializer, if of floats."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    last: tuple[int, ...] = ()


def inspect(file: Path) -> Graph:
    """Raises ModelError, which does not name the file, for one that is empty, too large, refers to other
    files, or is no model that opens."""
    size = file.stat().st_size
    if not 0 < size <= MOST_BYTES:
        raise ModelError("the file is empty" if not size else "it is larger than an ONNX file can be")
    told = _told(file, size)
    inputs, outputs = (tuple(_tensor(one) for one in told[key]) for key in ("inputs", "outputs"))
    return Graph(inputs, outputs, tuple(told["last"]))


_PARTS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "model": {7: "graph", 20: "training", 25: "function"},
        "training": {1: "graph", 2: "graph"},
        "function": {7: "node"},
        "graph": {1: "node", 5: "tensor", 15: "sparse"},
        "node": {5: "attribute"},
        "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
        "sparse": {1: "tensor", 2: "tensor"},
    }
)
"""Messages of onnx.proto3 that lead to a tensor: by field number, what lies there."""
_EXTERNAL = (13, 14)
"""Of a tensor: where its data are, and that they are there."""


def _refuse_external(message: memoryview, kind: str, depth: int) -> None:
    if depth > _DEEPEST * len(_PARTS):
        raise ModelError("graphs lie too deep within graphs")
    for field in fields(message):
        if kind == "tensor":
            if field.number in _EXTERNAL and field.value:
                raise ModelError("it refers to data in other files: save it as one file")
        elif (inner := _PARTS[kind].get(field.number)) and isinstance(field.value, memoryview):
            _refuse_external(field.value, inner, depth + 1)


def _told(file: Path, size: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "swapper.models.inspection", str(file.absolute()), str(size * 4 + _ROOM)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ModelError(f"it does not open within {_SECONDS} s") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        why = why.replace(str(file.absolute()), "it")
        raise ModelError(f"it cannot be opened: {why[:_LONGEST]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _tensor(told: Mapping[str, Any]) -> Tensor:
    return Tensor(told["name"], told["kind"], tuple(told["shape"]))


def _main(file: str, room: str) -> None:
    with contextlib.suppress(ValueError, OSError):  # not every system bounds address space
        resource.setrlimit(resource.RLIMIT_AS, (int(room), int(room)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _refuse_external(mapped(Path(file)), "model", 0)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    told: dict[str, Any] = {
        key: [asdict(Tensor(one.name, _kind(one.type), tuple(one.shape))) for one in some]
        for key, some in (("inputs", session.get_inputs()), ("outputs", session.get_outputs()))
    }
    sys.stdout.write(json.dumps(told | {"last": _last(Path(file))}))


def _last(file: Path) -> tuple[int, ...]:
    try:
        return last_initializer(mapped(file)).shape
    except (ModelError, ValueError):
        return ()


def _kind(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:])
    except Exception as error:  # whatever ONNX Runtime raises is told in one line
        sys.exit(" ".join(str(error).split()))
