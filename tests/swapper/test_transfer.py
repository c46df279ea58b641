"""Transfers of HDR: the anchors that the standards name, there and back, and what models are shown."""

from __future__ import annotations

import numpy as np
import pytest

from swapper.transfer import for_viewing, from_srgb, hlg_code, hlg_light, pq_code, pq_light, transfer

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("nits", "code"), [(0.0, 0.0), (100, 0.5081), (203, 0.5807), (1000, 0.7518), (10000, 1)]
)
def test_pq_has_the_codes_of_the_standard(nits: float, code: float) -> None:
    """ITU-R BT.2408, table 1, and SMPTE ST 2084."""
    assert pq_code(np.float32([nits / 203]))[0] == pytest.approx(code, abs=2e-4)
    assert pq_light(np.float32([code]))[0] == pytest.approx(nits / 203, rel=2e-3, abs=1e-6)


def test_hlg_has_the_codes_of_the_standard() -> None:
    """ITU-R BT.2100: half of the code at a twelfth of the scene's peak; BT.2408: white at 75 %."""
    assert hlg_code(np.float32([1.0]))[0] == pytest.approx(0.75, abs=1e-4)
    peak = hlg_light(np.float32([1.0]))[0]
    assert hlg_light(np.float32([0.5]))[0] / peak == pytest.approx(1 / 12, rel=1e-3)


@pytest.mark.parametrize("name", ["smpte2084", "arib-std-b67", "bt709"])
def test_code_comes_back_through_light(name: str) -> None:
    code = np.linspace(0, 1, 101, dtype=np.float32)
    curve = transfer(name)
    np.testing.assert_allclose(curve.code(curve.light(code)), code, atol=2e-3)


@pytest.mark.parametrize(("name", "white"), [("smpte2084", 0.5807), ("arib-std-b67", 0.75)])
def test_white_is_diffuse_white_in_every_primaries(name: str, white: float) -> None:
    for primaries in ("bt709", "bt2020", "smpte432"):
        rgb = from_srgb(np.ones((1, 3), np.float32), name, primaries)
        np.testing.assert_allclose(rgb, white, atol=2e-3)


def test_sdr_in_common_primaries_stays_as_it_is() -> None:
    rgb = np.random.default_rng(1).random((5, 3), np.float32)
    assert from_srgb(rgb, "bt709", "bt709") is rgb


def test_colours_are_less_saturated_in_wide_primaries() -> None:
    red = np.float32([[0.8, 0.2, 0.2]])
    assert np.ptp(from_srgb(red, "bt709", "bt2020")) < np.ptp(red)


@pytest.mark.parametrize("name", ["smpte2084", "arib-std-b67"])
def test_what_models_are_shown_rises_and_keeps_highlights_apart(name: str) -> None:
    table = for_viewing(name).astype(int)
    assert table[0] == 0
    assert (np.diff(table) >= 0).all()
    white = 148 if name == "smpte2084" else 191
    assert 200 < table[white] < 245
    assert table[white + 15] > table[white]
