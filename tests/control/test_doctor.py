"""`facestream doctor` says what engines there are, and that nobody ever ran FaceFusion behind its adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.cli.doctor import Finding, _engines
from runtime.settings import FaceFusionSettings, Settings
from tests.support import checkout

pytestmark = pytest.mark.unit


def found(home: Path | None) -> dict[str, Finding]:
    settings = Settings(facefusion=FaceFusionSettings(home=home))
    return {finding.what: finding for finding in _engines(settings)}


FACEFUSION = "engine facefusion"


def test_each_engine_is_named_and_none_is_needed() -> None:
    findings = found(None)
    assert set(findings) == {"engine mesh", "engine onnx", "engine none", FACEFUSION}
    assert not any(finding.needed for finding in findings.values())


def test_without_a_checkout_it_says_how_to_name_one() -> None:
    finding = found(None)[FACEFUSION]
    assert not finding.good
    assert "FACEFUSION_HOME" in finding.detail
    assert "contract only, never run here" in finding.detail


def test_a_checkout_is_started(tmp_path: Path) -> None:
    home = checkout.build(tmp_path / "checkout")
    assert found(home)[FACEFUSION] == Finding(
        FACEFUSION, True, f"contract only, never run here; 3.8.1 at {home} starts"
    )


def test_a_version_that_is_not_known_is_said(tmp_path: Path) -> None:
    finding = found(checkout.build(tmp_path / "checkout", "4.0.0"))[FACEFUSION]
    assert not finding.good
    assert "4.0.0 is not known" in finding.detail
