"""Log lines: text for a terminal (`console`) or one JSON object each (`json`), with the same facts."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from functools import cache
from typing import Any

import structlog
from celery.signals import setup_logging
from django.core.exceptions import SuspiciousOperation
from django.http.multipartparser import MultiPartParserError
from django.utils.module_loading import import_string
from structlog.typing import EventDict, Processor

from osmo_admin.monitoring.logged_address import hide_in_requests

PROCESS_VARIABLE = "OSMO_PROCESS"
"""Set by each process of the installation for itself and its own processes: web, webhook, worker, beat, clusters, or
prepare. Without it a line is of a command."""


def _add_process(_logger: Any, _name: str, event: EventDict) -> EventDict:
    """Which process wrote the line, and where it runs: the host (the pod) and the process id."""
    event["process"] = os.environ.get(PROCESS_VARIABLE, "command")
    event["instance"] = f"{_host()}/{os.getpid()}"
    return event


@cache
def _host() -> str:
    return socket.gethostname()


_SHARED_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    _add_process,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
]


def _drop_client_error_trace(_logger: Any, _name: str, event: EventDict) -> EventDict:
    """Log a bad request of a client without a stack trace, because our code is not at fault."""
    info = event.get("exc_info")
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, SuspiciousOperation | MultiPartParserError):
        del event["exc_info"]
        event["refused"] = type(error).__name__
    return event


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """The formatter of the library, without the copy of each record that it makes for other handlers: each line has one
    handler."""

    def format(self, record: logging.LogRecord) -> str:
        values = record.__dict__
        if "_logger" not in values or record.exc_info or record.stack_info:
            return super().format(record)
        event: Any = {**values["msg"], "_record": record, "_from_structlog": True}
        for process in self.processors:
            event = process(values["_logger"], values["_name"], event)
        return str(event)


def leave_out_call_sites() -> None:
    """Let log records have no file and line, which no format of ours writes: to find them takes a tenth of a line's
    time. The way is Python's own (its logging HOWTO, "Optimization")."""
    logging._srcfile = None


def formatter(style: str, more_processors: Sequence[str] = ()) -> logging.Formatter:
    """The formatter of `LOGGING`; it also routes the loggers of structlog to the same handlers. `more_processors` are
    the dotted names of processors of each line."""
    shared = [*_SHARED_PROCESSORS, *map(import_string, more_processors)]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
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
    return _Formatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(), hide_in_requests],
        processors=[_drop_client_error_trace, structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


@setup_logging.connect
def _keep_django_logging(**_: Any) -> None:
    """A connected receiver is enough: Celery then keeps the handlers of `LOGGING`."""
