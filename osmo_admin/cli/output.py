"""Print an answer: unchanged JSON or YAML for programs, text for people, colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

import typer

from osmo_admin.cli.client_errors import INTERRUPTED, ClientError
from osmo_admin.cli.session import ClientSession, OutputFormat, print_warning
from osmo_admin.cli.tables import printable_text

HIGHLIGHT_STYLES = {
    r"\b(ACTIVE|ONLINE|RUNNING|COMPLETED)\b": "green",
    r"\b(DELETING|PENDING|WAITING|MAINTENANCE|DRAINING)\b": "yellow",
    r"\b(ARCHIVED|OFFLINE|FAILED\w*|CANCELED)\b": "red",
    r"(?<![\w-])-\d+\b": "bold red",
}


def serialize(value: Any, output: OutputFormat) -> str:
    """A value as JSON or YAML, with the keys in the order of the server."""
    if output is OutputFormat.YAML:
        import yaml

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=float("inf"))
        return str(text).removesuffix("...\n").rstrip("\n")
    return json.dumps(value, indent=2, ensure_ascii=False)


def print_answer(session: ClientSession, answer: Any, text: Callable[[], str]) -> None:
    """Print the answer: unchanged for programs, through `text` for people."""
    if session.is_machine_readable:
        typer.echo(serialize(answer, session.output))
    else:
        print_text(text())
    print_warnings(answer)


def print_warnings(answer: Any) -> None:
    """Print the `warnings` of an answer on standard error, one line each."""
    if isinstance(answer, dict):
        for warning in answer.get("warnings") or []:
            print_warning(f"WARNING: {printable_text(str(warning))}")


def print_text(text: str) -> None:
    """Print text for people, never wrapped or cut: wide tables are left to the pager or the terminal."""
    text = printable_text(text)
    if not _use_colours():
        typer.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    rich_text = Text(text)
    for pattern, style in HIGHLIGHT_STYLES.items():
        rich_text.highlight_regex(pattern, style)
    Console(highlight=False).print(rich_text, soft_wrap=True)


def _use_colours() -> bool:
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: closed by the parent process


def print_error(error: ClientError, output: OutputFormat) -> None:
    """Print the message on standard error; for programs also print the error object in place of the answer."""
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        typer.echo(serialize(error.as_dict(), output))
    for line in error.text_lines():
        print_warning(printable_text(line))


def confirm(session: ClientSession, question: str, *, preview: Callable[[], None] | None = None) -> None:
    """Ask before something is deleted, if a terminal is attached; `preview` prints the effect first.

    Raises :class:`ClientError` with exit code 3 if the user declines.
    """
    if session.yes or session.dry_run or not _is_terminal(sys.stdin):
        return
    if preview is not None:
        preview()
    if not typer.confirm(question, err=True):
        raise ClientError("Cancelled; nothing was changed.", exit_code=INTERRUPTED)
