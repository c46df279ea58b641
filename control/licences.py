"""Models whose licence forbids commercial use, or is not known, take part in a job only where somebody said
that this is accepted. What was accepted goes with the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.settings import Settings
from schemas.errors import UsageError
from swapper.engines.base import Engine

ALL = "all"
"""Stands for every model."""


def accepted(
    settings: Settings,
    engine: Engine,
    options: Mapping[str, Any],
    given: Iterable[str],
    before: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """By model of a job that needs it: the licence that was accepted.

    `given`: names, or several with commas between; the setting `onnx.accept_licences` adds to them. `before`:
    what the job that is replayed accepted, which counts while the licence is the same. Raises UsageError
    naming each model that lacks it and what to say.
    """
    terms = engine.licences(options)
    limited = {name: one.licence for name, one in terms.items() if not one.commercial_use}
    granted = {*settings.onnx.accept_licences}
    granted |= {name.strip() for names in given for name in names.split(",")}
    granted |= {name for name, licence in (before or {}).items() if limited.get(name) == licence}
    if ALL not in granted and (missing := {name: limited[name] for name in limited if name not in granted}):
        told = ", ".join(f"{name} ({licence})" for name, licence in missing.items())
        raise UsageError(
            "needed models whose licence forbids commercial use, or is not known: "
            f"{told}; if your use is allowed, add: --accept-licence {','.join(missing)}"
        )
    return limited
