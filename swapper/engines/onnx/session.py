"""Models on ONNX Runtime, run over any number of items at once.

Whether a model may take several items in one run is not believed but shown: the first time it is asked to,
three items of noise are run together and one by one, in the shapes asked for. On the CPU the results have
to be the same to the bit, so that no result depends on what else is in a batch; elsewhere, close. A file
whose batch axis is fixed to 1 is opened again with that axis left open and has to pass the same test
against itself. A model that does not pass is run item by item.
"""

from __future__ import annotations

import math
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from schemas.errors import ModelError
from swapper.engines.onnx import protobuf
from swapper.models import store

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]

_PROVIDERS: Mapping[str, tuple[Any, ...]] = {
    "cpu": ("CPUExecutionProvider",),
    "cuda": (("CUDAExecutionProvider", {"use_tf32": 0}), "CPUExecutionProvider"),
}
"""By device; the first has to be what a session really runs on."""
DEVICES = tuple(_PROVIDERS)
_PROBES = 3
_MOST_ITEMS = 64
_MOST_BYTES = 96 << 20
"""Of the inputs of one run."""
_NEAR = 1e-2
"""Of the range of an output: how far batch and single may lie apart where bits are not promised."""
_PIECE = 1 << 24


class Model:
    """One model. `inputs`: the names that it takes."""

    def __init__(self, file: Path, device: str = "cpu", threads: int = 1) -> None:
        self._file, self._device, self._threads = file, device, threads
        self._session = self._open(str(file))
        self._together: dict[tuple[Any, ...], bool] = {}
        self.inputs: tuple[str, ...] = tuple(one.name for one in self._session.get_inputs())

    def __call__(self, feeds: Feeds, constants: Feeds | None = None) -> list[Array]:
        """The outputs in order, each (n, …), for inputs (n, …) of n items; `constants` go with every run."""
        same = dict(constants or {})
        count = len(next(iter(feeds.values())))
        step = self._step(feeds, same) if count > 1 else 1
        parts = []
        for start in range(0, count, step):
            part = {name: value[start : start + step] for name, value in feeds.items()}
            parts.append(_run(self._session, part | same, min(step, count - start)))
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]

    def _step(self, feeds: Feeds, constants: Feeds) -> int:
        """How many items go into one run."""
        shapes = tuple((name, value.shape[1:]) for name, value in feeds.items())
        if shapes not in self._together:
            self._together[shapes] = self._may_batch(feeds, constants)
        if not self._together[shapes]:
            return 1
        size = sum(value[:1].nbytes for value in feeds.values())
        return max(1, min(_MOST_ITEMS, _MOST_BYTES // size))

    def _may_batch(self, feeds: Feeds, constants: Feeds) -> bool:
        """Show that several items together give what each gives alone; opens the batch axis for it."""
        noise = {name: _noise(value) for name, value in feeds.items()}
        alone = _probed(self._session, noise, constants, 1)
        try:
            session = self._opened() if self._is_fixed() else self._session
            sizes = (_PROBES,) if session is self._session else (_PROBES, 1)
            tried = [_probed(session, noise, constants, size) for size in sizes]
        except Exception:  # whatever a graph with constants for one item inside raises
            return False
        exact = self._device == "cpu"
        if not all(_alike(a, b, exact) for made in tried for a, b in zip(alone, made, strict=True)):
            return False
        self._session = session
        return True

    def _is_fixed(self) -> bool:
        return any(len(one.shape) > 1 and one.shape[0] == 1 for one in self._session.get_inputs())

    def _opened(self) -> Any:
        return self._open(protobuf.with_free_batch(mapped(self._file)))

    def _open(self, model: str | bytes) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        wanted = _PROVIDERS[self._device]
        first = wanted[0] if isinstance(wanted[0], str) else wanted[0][0]
        available = onnxruntime.get_available_providers()
        if first in available:
            session: Any = onnxruntime.InferenceSession(model, options, providers=list(wanted))
            if session.get_providers()[0] == first:
                return session
        raise ModelError(f"ONNX Runtime gives no {first} here; it has: {', '.join(available)}")


class Models:
    """The models of a folder, each opened when it is first asked for. Used from one thread."""

    def __init__(self, folder: Path, device: str = "cpu", threads: int = 1) -> None:
        self._folder, self._device, self._threads = folder, device, threads
        self._open: dict[str, Model] = {}
        self._memory = np.empty(0, np.float32)
        self._sums: dict[str, str] = {}
        self._emaps: dict[str, npt.NDArray[np.float32]] = {}

    def __getitem__(self, name: str) -> Model:
        """Raises ModelError for a file that is missing, damaged or no model."""
        if name not in self._open:
            file = self.file(name)
            self._sums[name] = _checked(file)
            try:
                self._open[name] = Model(file, self._device, self._threads)
            except ModelError:
                raise
            except Exception as error:  # ONNX Runtime raises kinds of its own
                raise ModelError(f"model {file} cannot be opened: {error}") from error
        return self._open[name]

    def emap(self, name: str) -> npt.NDArray[np.float32]:
        """(512, 512): the last initializer of a model. Raises ModelError."""
        if name not in self._emaps:
            self._emaps[name] = protobuf.last_initializer(mapped(self.file(name)))
        return self._emaps[name]

    def file(self, name: str) -> Path:
        """Raises ModelError where there is none."""
        if name in {model.name for model in store.built()}:
            return store.path(self._folder, name)
        file = self._folder / f"{name}.onnx"
        if not file.is_file():
            raise ModelError(f"model {file.name} is not in {self._folder}; --models names the folder")
        return file

    def buffer(self, *shape: int) -> npt.NDArray[np.float32]:
        """Memory for a large input, which the next caller gets again: fresh pages cost more than a picture's
        conversion."""
        size = math.prod(shape)
        if self._memory.size < size:
            self._memory = np.empty(size, np.float32)
        return self._memory[:size].reshape(shape)

    @property
    def loaded(self) -> list[str]:
        """`name@checksum` of each open model, in order of names."""
        return [f"{name}@{self._sums[name]}" for name in sorted(self._open)]


def mapped(file: Path) -> memoryview:
    """The bytes of a file, read only where they are looked at. Raises ModelError for an empty one."""
    with file.open("rb") as opened:
        try:
            return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:
            raise ModelError(f"model {file} is empty") from None


def _checked(file: Path) -> str:
    """CRC-32 of a file in 8 hexadecimal digits, as FaceFusion keeps it in a `.hash` file beside.

    Raises ModelError if there is such a file and it says something else.
    """
    crc = 0
    with file.open("rb") as data:
        while piece := data.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    text = f"{crc:08x}"
    said = file.with_suffix(".hash")
    if said.is_file() and said.read_text("ascii", "replace").strip().lower() != text:
        raise ModelError(f"model {file} has CRC-32 {text}, but {said.name} says otherwise: refused")
    return text


def _run(session: Any, feeds: Feeds, count: int) -> list[Array]:
    outputs: list[Array] = session.run(None, dict(feeds))
    return [_by_item(output, count) for output in outputs]


def _probed(session: Any, noise: Feeds, constants: Feeds, size: int) -> list[Array]:
    """Outputs for all probes, so many in a run."""
    parts = [{name: value[i : i + size] for name, value in noise.items()} for i in range(0, _PROBES, size)]
    runs = [_run(session, part | dict(constants), size) for part in parts]
    return [np.concatenate(outputs) for outputs in zip(*runs, strict=True)]


def _by_item(output: Array, count: int) -> Array:
    """(n, …): some detectors write the items' rows behind one another."""
    if output.shape[:1] == (count,):
        return output
    return output.reshape(count, -1, *output.shape[1:])


def _noise(like: Array) -> Array:
    rng = np.random.default_rng(7)
    if like.dtype == np.uint8:
        return rng.integers(0, 256, (_PROBES, *like.shape[1:]), np.uint8)
    return rng.uniform(-1, 1, (_PROBES, *like.shape[1:])).astype(like.dtype)


def _alike(one: Array, other: Array, exact: bool) -> bool:
    if one.shape != other.shape:
        return False
    if exact or one.dtype.kind != "f":
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    reach = _NEAR * max(1.0, float(np.nanmax(np.abs(one))))
    return bool(np.allclose(one, other, rtol=0, atol=reach, equal_nan=True))
