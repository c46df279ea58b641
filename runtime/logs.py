"""Log lines on standard error: JSON for machines, coloured columns for people.

    logs.configure(settings.log)
    log = structlog.get_logger("assembler")
    with logs.bound(job="j1", stream="j1/3"):
        log.info("segment_written", seq=90)

Lines of libraries that use `logging`, librdkafka's among them, come out the same way. Values whose
key smells of a secret are replaced.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import AbstractContextManager
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from runtime.settings import LogSettings

SECRET = re.compile(r"passw|secret|token|credential|api_?key|private|\.key|jaas|authorization", re.I)
HIDDEN = "***"


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Set up logging of the whole process. May be called again."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
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


def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A structlog processor: hide what belongs to a key like a password, at any depth."""
    return {key: _redacted(key, value) for key, value in event.items()}


def _redacted(key: object, value: Any) -> Any:
    if isinstance(key, str) and SECRET.search(key):
        return HIDDEN
    if isinstance(value, dict):
        return {inner: _redacted(inner, v) for inner, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted("", v) for v in value]
    return value
