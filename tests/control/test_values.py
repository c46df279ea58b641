"""Options are read exactly, and refused by their own words."""

from __future__ import annotations

import click
import pytest

from control.cli.values import BitRate, Exact, Size, Time

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Exact(), "30000/1001", (30000, 1001)),
        (Exact(), "29.97", (2997, 100)),
        (Time(), "12.5", (25, 2)),
        (Time(), "0", (0, 1)),
        (Time(), "1:02:03.25", (14893, 4)),
        (Size(), "1280x720", (1280, 720)),
        (Size(), "1280X0", (1280, 0)),
        (BitRate(), "800k", 800_000),
        (BitRate(), "1.5M", 1_500_000),
        (BitRate(), "64000", 64_000),
    ],
)
def test_a_value_is_read_without_rounding(kind: click.ParamType[object], text: str, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Exact(), "fast"),
        (Exact(), "0"),
        (Exact(), "1/0"),
        (Time(), "-1"),
        (Time(), "1:2:3:4"),
        (Time(), "noon"),
        (Size(), "1280"),
        (Size(), "0x0"),
        (Size(), "-1x5"),
        (BitRate(), "many"),
        (BitRate(), "0"),
        (BitRate(), "k"),
    ],
)
def test_what_is_no_value_is_refused_by_its_words(kind: click.ParamType[object], text: str) -> None:
    with pytest.raises(click.BadParameter, match=text):
        kind.convert(text, None, None)
