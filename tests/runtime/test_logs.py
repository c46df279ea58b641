"""Log lines: one JSON object each, with context, without secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from runtime import logs
from runtime.settings import LogSettings

pytestmark = pytest.mark.unit


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What is logged; logging is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    logs.configure(LogSettings(), stream)
    yield stream
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_line_is_a_json_object_with_its_context(output: io.StringIO) -> None:
    with logs.bound(job="j", stream="j/1", seq=3):
        structlog.get_logger("assembler").info("segment_written", frames=96)
    structlog.get_logger("assembler").warning("after")
    first, second = lines(output)
    assert first["event"] == "segment_written"
    assert first["logger"] == "assembler"
    assert first["level"] == "info"
    assert (first["job"], first["stream"], first["seq"], first["frames"]) == ("j", "j/1", 3, 96)
    assert "timestamp" in first
    assert "job" not in second


def test_lines_of_libraries_come_out_the_same_way(output: io.StringIO) -> None:
    with logs.bound(job="j"):
        logging.getLogger("librdkafka").error("FAIL %s", "broker down")
    (line,) = lines(output)
    assert (line["event"], line["level"], line["job"]) == ("FAIL broker down", "error", "j")


@pytest.mark.parametrize(
    "key",
    ["password", "sasl.password", "aws_secret_access_key", "session_token", "ssl.key.pem", "apiKey"],
)
def test_secret_is_hidden_at_any_depth(output: io.StringIO, key: str) -> None:
    log = structlog.get_logger("x")
    log.info("a", **{key: "hush"})
    log.info("b", client={"nested": [{key: "hush", "linger.ms": 5}]})
    logging.getLogger("library").info("c", extra={key: "hush"})
    text = output.getvalue()
    assert "hush" not in text
    assert lines(output)[1]["client"]["nested"][0]["linger.ms"] == 5


def test_level_below_the_setting_is_left_out() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    logs.configure(LogSettings(level="warning", format="console"), stream)
    structlog.get_logger("x").info("quiet")
    structlog.get_logger("x").warning("loud", n=1)
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()
    assert "n=1" in stream.getvalue()
