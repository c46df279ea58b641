"""Log lines on standard error: JSON for machines, coloured columns for people.

    logs.configure(settings.log)
    log = structlog.get_logger("assembler")
    with logs.bound(job="j1", stream="j1/3"):
        log.info("segment_written", seq=90)

Lines of libraries that use `logging`, librdkafka's among them, come out the same way. Values whose
key smells of a secret are replaced, and so are secrets inside texts (`runtime.redact`).
"""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from runtime.redact import HIDDEN, SECRET, cleaned
from runtime.settings import LogSettings


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Set up logging of the whole process. May be called again."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _as_text,
        redact,
    ]
    if settings.format == "json":
        final: Processor = structlog.processors.JSONRenderer()
    else:
        final = structlog.dev.ConsoleRenderer(colors=(stream or sys.stderr).isatty())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, final],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())


def bound(**values: Any) -> AbstractContextManager[None]:
    """Add `job`, `stream`, `seq` ... to every line logged inside."""
    return structlog.contextvars.bound_contextvars(**values)


def _as_text(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Objects that the renderer would turn into text become text here, where it is looked at."""
    plain = (str, int, float, bool, dict, list, tuple, type(None))
    return {k: v if isinstance(v, plain) or k.startswith("_") else str(v) for k, v in event.items()}


def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A structlog processor: hide what belongs to a key like a password, at any depth, and secrets in
    texts: URLs with passwords, signed ones, the secrets of our own settings."""
    return {key: _redacted(key, value) for key, value in event.items()}


def _redacted(key: object, value: Any) -> Any:
    if isinstance(key, str) and SECRET.search(key):
        return HIDDEN
    if isinstance(value, dict):
        return {inner: _redacted(inner, v) for inner, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted("", v) for v in value]
    return cleaned(value) if isinstance(value, str) else value
