"""Reads MediaPipe's canonical face mesh and writes it as the table the engine `mesh` ships.

Run once, by hand, when the table is made:

    npm pack @mediapipe/face_mesh@0.4.1657299874 && tar xf mediapipe-face_mesh-*.tgz
    python -m swapper.models.canonical package/face_mesh_solution_packed_assets.data TABLE.npz

The packed file holds `geometry_pipeline_metadata_landmarks.binarypb`, a protocol buffer; of it
only the mesh is read: vertices x, y, z (cm), u, v (0 to 1, from the top left) and triangles.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_METADATA = slice(3737848, 3757224)
"""Where the protocol buffer lies in the packed file of that version."""
_VERTICES, _TRIANGLES = 3, 4
"""Field numbers of `mediapipe.face_geometry.Mesh3d`."""
_MESH_BYTES = 5000
"""The mesh is the only message of the metadata longer than this."""


def parse(metadata: bytes) -> dict[str, npt.NDArray[Any]]:
    """`vertices` float32 (468, 3), `uv` float32 (468, 2), `triangles` int32 (898, 3)."""
    mesh = next(v for _, v in _fields(metadata) if isinstance(v, bytes) and len(v) > _MESH_BYTES)
    numbers, indices = b"", list[int]()
    for field, value in _fields(mesh):
        if field == _VERTICES and isinstance(value, bytes):
            numbers += value
        elif field == _TRIANGLES:
            indices += [value] if isinstance(value, int) else list(_varints(value))
    table = np.frombuffer(numbers, "<f4").reshape(-1, 5)
    triangles = np.array(indices, np.int32).reshape(-1, 3)
    return {"vertices": table[:, :3], "uv": table[:, 3:], "triangles": triangles}


def write(table: dict[str, npt.NDArray[Any]], dest: Path) -> None:
    """An npz file: the same table gives the same bytes."""
    out = io.BytesIO()
    np.savez_compressed(out, **table)  # type: ignore[arg-type]
    dest.write_bytes(out.getvalue())


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protocol buffer: an int for a varint, else the bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, at = _varint(message, at)
        yield tag >> 3, message[at : at + size]
        at += size


def _varints(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


if __name__ == "__main__":
    write(parse(Path(sys.argv[1]).read_bytes()[_METADATA]), Path(sys.argv[2]))
