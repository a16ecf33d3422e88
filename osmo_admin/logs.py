"""Log lines: for people on a terminal (`console`) or one JSON object each (`json`); same facts in both."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from celery.signals import setup_logging
from django.core.exceptions import SuspiciousOperation
from django.http.multipartparser import MultiPartParserError
from structlog.typing import EventDict, Processor

_SHARED_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
]


def _drop_client_error_trace(_logger: Any, _name: str, event: EventDict) -> EventDict:
    """What a client sent wrong is a line: a trace says that something of ours is broken, and nothing is."""
    known = event.get("exc_info")
    error = known[1] if isinstance(known, tuple) else known
    if isinstance(error, SuspiciousOperation | MultiPartParserError):
        del event["exc_info"]
        event["refused"] = type(error).__name__
    return event


def formatter(style: str) -> logging.Formatter:
    """The formatter that `LOGGING` names; makes structlog's own loggers end in the same handlers."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED_PROCESSORS,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    last: list[Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if style == "json"
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED_PROCESSORS, structlog.stdlib.ExtraAdder()],
        processors=[_drop_client_error_trace, structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


@setup_logging.connect
def _keep_django_logging(**_: Any) -> None:
    """Being connected is enough: Celery then leaves the handlers of `LOGGING` alone."""
