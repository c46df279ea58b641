"""Reads the golden cases and judges frames against them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from swapper.engines.onnx.options import Options

HERE = Path(__file__).parent
Bgr = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Case:
    """One case; paths are relative to this folder. `reference` plays the reference frame."""

    id: str
    frame: str
    sources: tuple[str, ...]
    options: Options
    reference: str
    expected: str
    faces: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far two frames differ in the touched area. `equal`, `off`, `far`: shares of samples that are equal,
    off by more than 1 level, by more than 4."""

    worst: int
    equal: float
    off: float
    far: float

    @property
    def strict(self) -> bool:
        return self.worst <= 4 and self.equal >= 0.99

    @property
    def loose(self) -> bool:
        return self.worst <= 24 and self.equal >= 0.85 and self.off <= 0.03 and self.far <= 0.005


@cache
def picture(path: str) -> Bgr:
    """B G R, not to be written to."""
    pixels = cv2.imread(str(HERE / path), cv2.IMREAD_COLOR)
    assert pixels is not None, path
    pixels.flags.writeable = False
    return pixels.astype(np.uint8, copy=False)


@cache
def cases() -> dict[str, Case]:
    """All cases by their names."""
    table = json.loads((HERE / "cases.json").read_text())
    return {entry["id"]: _case(entry, table["defaults"]) for entry in table["cases"]}


def steps() -> dict[str, Any]:
    """What lies between, for some cases."""
    loaded: dict[str, Any] = json.loads((HERE / "steps.json").read_text())
    return loaded


def verdict(frame: Bgr, ours: Bgr, expected: Bgr) -> Verdict:
    """Judge our frame, made of `frame`."""
    assert ours.shape == expected.shape
    assert ours.dtype == np.uint8
    touched = (ours != frame).any(2) | (expected != frame).any(2)
    if not touched.any():
        return Verdict(0, 1.0, 0.0, 0.0)
    apart = np.abs(ours[touched].astype(int) - expected[touched])
    shares = (float((apart == 0).mean()), float((apart > 1).mean()), float((apart > 4).mean()))
    return Verdict(int(apart.max()), *shares)


def _case(entry: dict[str, Any], defaults: dict[str, Any]) -> Case:
    given: dict[str, Any] = {
        name: dict(value) if isinstance(value, dict) else value for name, value in defaults.items()
    }
    for name, value in entry["options"].items():
        group, dot, key = name.partition(".")
        if dot:
            given[group][key] = value
        else:
            given[group] = value
    reference = given["selector"].pop("reference_frame") or entry["frame"]
    return Case(
        entry["id"],
        entry["frame"],
        tuple(entry["sources"]),
        Options.of(given),
        reference,
        entry["expected"],
        entry["faces"],
        entry["sha256"],
    )
