"""Values of options that need more than click's own types: exact times, rates and sizes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

Rational = tuple[int, int]


class Exact(click.ParamType[Rational]):
    """A number without rounding: `25`, `29.97`, `30000/1001`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rational:
        try:
            number = Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is no number such as 25, 29.97 or 30000/1001", param, ctx)
        if number <= 0:
            self.fail(f"{value!r} is not above 0", param, ctx)
        return number.numerator, number.denominator


class Time(click.ParamType[Rational]):
    """A time: seconds (`12.5`) or `[hours:]minutes:seconds` (`1:02:03.5`), exact to the last digit."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Rational:
        parts = str(value).split(":")
        try:
            seconds = Fraction(0)
            for part in parts:
                seconds = seconds * 60 + Fraction(part)
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is no time such as 12.5 or 1:02:03.5", param, ctx)
        if seconds < 0 or len(parts) > 3:
            self.fail(f"{value!r} is no time such as 12.5 or 1:02:03.5", param, ctx)
        return seconds.numerator, seconds.denominator


class Size(click.ParamType[tuple[int, int]]):
    """Width x height; one of them may be 0 to keep the shape: `1280x720`, `1280x0`."""

    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        width, cross, height = str(value).lower().partition("x")
        if not (cross and width.isdecimal() and height.isdecimal() and int(width) + int(height)):
            self.fail(f"{value!r} is no size such as 1280x720 or 1280x0", param, ctx)
        return int(width), int(height)


class BitRate(click.ParamType[int]):
    """Bits a second, with k or M: `800k`, `4M`."""

    name = "bitrate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
        try:
            rate = int(Fraction(text[:-1] if factor > 1 else text) * factor)
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is no bit rate such as 800k or 4M", param, ctx)
        if rate <= 0:
            self.fail(f"{value!r} is not above 0", param, ctx)
        return rate
