"""Models of the user's own: a file `NAME.toml` beside `NAME.onnx` says what it takes and gives, and no code
is needed. docs/models.md has an example of each kind.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from schemas.errors import ModelError
from swapper.engines.onnx.align import TEMPLATES
from swapper.engines.onnx.catalog import (
    ENHANCERS,
    SWAPPERS,
    Blend,
    Enhancer,
    PictureSource,
    Scale,
    Swapper,
    VectorSource,
)
from swapper.models.manifest import Model, Terms, manifest

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""What a model may be called: never a path."""
_MOST_BYTES = 1 << 16
"""Of a description."""
_LARGEST = 4096
"""Side of a crop, in pixels."""

T = TypeVar("T", Swapper, Enhancer)


def _of_templates(name: str) -> str:
    if name not in TEMPLATES:
        raise ValueError(f"template {name!r}; there are: {', '.join(TEMPLATES)}")
    return name


def _of_names(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a model")
    return name


def _each(value: object) -> object:
    """One number stands for three channels."""
    return (value,) * 3 if isinstance(value, int | float) else value


_Template = Annotated[str, AfterValidator(_of_templates)]
_Name = Annotated[str, AfterValidator(_of_names)]
_Side = Annotated[int, Field(ge=16, le=_LARGEST)]
_Positive = Annotated[float, Field(gt=0)]
_Means = Annotated[tuple[float, float, float], BeforeValidator(_each)]
_Deviations = Annotated[tuple[_Positive, _Positive, _Positive], BeforeValidator(_each)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Embedding(_Table):
    """512 numbers: the recogniser's as they are (`raw`), of length 1 (`normed`), or raw ones multiplied by
    the swapper's own last initializer and divided by their length (`emap`)."""

    kind: Literal["raw", "normed", "emap"]
    blend: Blend = Blend.NORMED

    def source(self) -> VectorSource:
        return VectorSource(emap=self.kind == "emap", normed=self.kind != "raw", blend=self.blend)


class _Converted(_Table):
    """The raw embedding through another model, divided by its length with `normed`."""

    kind: Literal["converter"]
    converter: _Name
    normed: bool = True
    blend: Blend = Blend.NORMED

    def source(self) -> VectorSource:
        return VectorSource(self.converter, normed=self.normed, blend=self.blend)


class _Picture(_Table):
    """A crop of the source picture."""

    kind: Literal["picture"]
    template: _Template
    size: _Side

    def source(self) -> PictureSource:
        return PictureSource(self.template, self.size)


class _Model(_Table):
    """What both kinds have. Samples 0..255 go in as `(x / 255 - mean) / std`; with `output = "as input"` they
    come out so, else 0..1."""

    template: _Template
    size: _Side
    mean: _Means = (0.0, 0.0, 0.0)
    std: _Deviations = (1.0, 1.0, 1.0)
    rgb: bool = True
    output: Literal["as input", "0..1"]
    licence: Annotated[str, Field(min_length=1, max_length=200)]
    commercial_use: bool
    purpose: str = ""
    source_of: Annotated[str, Field(alias="from")] = "unknown"

    @property
    def scale(self) -> Scale:
        return Scale(self.mean, self.std, self.rgb)

    @property
    def restore(self) -> bool:
        return self.output == "as input"

    @property
    def terms(self) -> Terms:
        return Terms(self.licence, self.commercial_use)


class SwapperTable(_Model):
    """A description of a swapper."""

    kind: Literal["swapper"]
    source: Annotated[_Embedding | _Converted | _Picture, Field(discriminator="kind")]
    boosts: tuple[_Side, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        for side in self.boosts:
            if side % self.size:
                raise ValueError(f"boosts: {side} is not a multiple of size {self.size}")
        return self

    def made(self, name: str) -> Swapper:
        boosts = tuple(sorted({self.size, *self.boosts}))
        source = self.source.source()
        return Swapper(
            name, self.size, self.template, self.scale, source, self.restore, boosts, terms=self.terms
        )


class EnhancerTable(_Model):
    """A description of an enhancer; one that has an input `weight` is given it."""

    kind: Literal["enhancer"]

    def made(self, name: str) -> Enhancer:
        return Enhancer(
            name, self.template, self.size, scale=self.scale, restore=self.restore, terms=self.terms
        )


Table = SwapperTable | EnhancerTable
_TABLE: TypeAdapter[Table] = TypeAdapter(Annotated[Table, Field(discriminator="kind")])


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The swappers and enhancers that are built in, and those that `folder` describes. Descriptions are read
    when they are asked for: one that is wrong troubles only jobs that name it."""

    folder: Path | None = None

    def swapper(self, name: str) -> Swapper:
        """Raises ValueError naming what there is, and ModelError for a description that is wrong."""
        return self._one(name, "swapper", SWAPPERS, Swapper)

    def enhancer(self, name: str) -> Enhancer:
        """Raises as `swapper`."""
        return self._one(name, "enhancer", ENHANCERS, Enhancer)

    def _one(self, name: str, word: str, known: Mapping[str, T], kind: type[T]) -> T:
        if name in known:
            return known[name]
        if self.folder is not None and NAME.fullmatch(name):
            file = self.folder / f"{name}.toml"
            if file.is_file():
                made = described(file).made(name)
                if isinstance(made, kind):
                    return made
                raise ValueError(f"model {name!r}: {file} describes no {word}")
        names = ", ".join(self._names(known, kind))
        nor = f"; {self.folder} has no {name}.toml" if self.folder and NAME.fullmatch(name) else ""
        raise ValueError(f"model {name!r}; there are: {names}{nor}")

    def _names(self, known: Mapping[str, T], kind: type[T]) -> Iterator[str]:
        yield from known
        for file in _files(self.folder):
            try:
                if isinstance(described(file).made(file.stem), kind):
                    yield file.stem
            except ModelError:
                continue


def described(file: Path) -> Table:
    """The description in a file. Raises ModelError naming the file, the place in it and what is wrong."""
    if file.stem in manifest():
        raise ModelError(f"{file}: {file.stem} is a model that is known: call a custom one otherwise")
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ModelError(f"{file} is larger than {_MOST_BYTES >> 10} KiB: no description of a model")
        return _TABLE.validate_python(tomllib.loads(data.decode("utf-8")))
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = [str(part) for part in first["loc"][1:]]  # the first is the kind, as is what follows `source`
        where = ".".join(place[:1] + place[2:] if place[:1] == ["source"] else place)
        why = first["msg"].removeprefix("Value error, ")
        raise ModelError(f"{file}: {where}: {why}" if where else f"{file}: {why}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ModelError(f"{file} is no TOML: {error}") from None


def found(folder: Path) -> tuple[list[Model], list[ModelError]]:
    """The custom models of a folder, and what is wrong with descriptions that cannot be used."""
    models, wrong = [], []
    for file in _files(folder):
        try:
            models.append(_model(file.stem, described(file)))
        except ModelError as error:
            wrong.append(error)
    return models, wrong


def _model(name: str, table: Table) -> Model:
    purpose = table.purpose or f"custom {table.kind}: {table.kind}.model={name}"
    return Model(name, purpose, table.licence, table.commercial_use, table.source_of)


def _files(folder: Path | None) -> Iterable[Path]:
    return sorted(folder.glob("*.toml")) if folder is not None else ()
