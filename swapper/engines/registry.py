"""Opens an engine by its name; an engine's libraries are imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import cast

from schemas.errors import UsageError
from swapper.engines.base import Engine

ENGINES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mesh": ("swapper.engines.mesh.engine", "MeshEngine"),
        "onnx": ("swapper.engines.onnx.engine", "OnnxEngine"),
        "facefusion": ("swapper.engines.facefusion.engine", "FaceFusionEngine"),
        "none": ("swapper.engines.none", "NoneEngine"),
    }
)
"""Name of each engine: module and class. The class is called with the model store's directory."""


def open_engine(name: str, models: Path) -> Engine:
    """Make an engine that reads its models from the store `models`; nothing is loaded before `warm`.

    Raises UsageError, listing what exists, for a name that is no engine.
    """
    try:
        module, cls = ENGINES[name]
    except KeyError:
        known = ", ".join(sorted(ENGINES))
        raise UsageError(f"no engine {name!r}; there are: {known}") from None
    return cast(Engine, getattr(import_module(module), cls)(models))
