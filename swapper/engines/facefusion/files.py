"""Model files of a checkout: looked at before FaceFusion is, which deletes those that it finds damaged."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.errors import ModelError
from swapper.engines.facefusion.options import Options
from swapper.models.manifest import Terms, manifest

_ALWAYS = (
    "yoloface_8n",
    "2dfan4",
    "fan_68_5",
    "arcface_w600k_r50",
    "fairface",
    "xseg_1",
    "bisenet_resnet_34",
    "nsfw_1",
    "nsfw_2",
    "nsfw_3",
)
"""FaceFusion asks for them whether they are used or not."""
_CONVERTERS = {"simswap": "crossface_simswap", "ghost": "crossface_ghost", "hififace": "crossface_hififace"}
_UNKNOWN = Terms("unknown", False)
_CHUNK = 1 << 24


def folder(home: Path) -> Path:
    return home / ".assets" / "models"


def check(home: Path, options: Options) -> None:
    """Raises ModelError for a model that is needed and missing, and for any of these that is damaged.

    Of processors whose files the contract does not tell, files are looked at where they are.
    """
    for name in needed(options):
        _check(folder(home), name)
    for name in options.models:
        if (folder(home) / f"{name}.onnx").exists():
            _check(folder(home), name)


def needed(options: Options) -> list[str]:
    """Files that FaceFusion asks for, as far as the contract tells."""
    told = {"face_swapper", "face_enhancer"} & set(options.processors)
    names = [*_ALWAYS]
    for name in sorted(told):
        model = str(options.items[f"{name}_model"])
        names += [model, *(file for kind, file in _CONVERTERS.items() if model.startswith(kind))]
    return list(dict.fromkeys(names))


def licences(options: Options) -> Mapping[str, Terms]:
    """By file; of models of processors that the manifest does not have, nothing is known."""
    names = dict.fromkeys([*needed(options), *options.models])
    return {name: manifest()[name].terms if name in manifest() else _UNKNOWN for name in names}


def marks(home: Path, names: Iterable[str]) -> list[str]:
    """`name@hash` of models, of files that are there."""
    result = []
    for name in names:
        file = folder(home) / f"{name}.hash"
        result.append(f"{name}@{file.read_text().strip()}" if file.is_file() else name)
    return result


def _check(models: Path, name: str) -> None:
    model, mark = models / f"{name}.onnx", models / f"{name}.hash"
    for file in (model, mark):
        if not file.is_file():
            raise ModelError(f"FaceFusion's model {file} is missing; nothing is fetched while serving")
    crc = 0
    with model.open("rb") as data:
        while chunk := data.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    if f"{crc:08x}" != mark.read_text().strip():
        raise ModelError(f"FaceFusion's model {model} is damaged: it is not what {mark.name} says")
