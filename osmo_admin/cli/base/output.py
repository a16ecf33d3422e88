"""Print an answer: unchanged JSON or YAML for programs, text for people, colours only on a terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TextIO

import typer

from osmo_admin.cli.base.client_errors import INTERRUPTED, ClientError
from osmo_admin.cli.base.session import ClientSession, OutputFormat, print_warning
from osmo_admin.cli.base.tables import (
    AnswerText,
    Table,
    answer_as_csv,
    answer_parts,
    list_table,
    printable_text,
    with_more_entries,
)
from pools.domain.columns import Column

HIGHLIGHTS = re.compile(
    r"\b(?P<good>ACTIVE|ONLINE|RUNNING|COMPLETED)\b"
    r"|\b(?P<waiting>DELETING|PENDING|WAITING|MAINTENANCE|DRAINING)\b"
    r"|\b(?P<bad>ARCHIVED|OFFLINE|FAILED\w*|CANCELED)\b"
    r"|(?P<negative>(?<![\w-])-\d+\b)"
)
HIGHLIGHT_STYLES: dict[str, dict[str, Any]] = {
    "good": {"fg": "green"},
    "waiting": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "negative": {"fg": "red", "bold": True},
}


def serialize(value: Any, output: OutputFormat) -> str:
    """A value as JSON or YAML, with the keys in the order of the server."""
    if output is OutputFormat.YAML:
        import yaml

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=float("inf"))
        return str(text).removesuffix("...\n").rstrip("\n")
    return json.dumps(value, indent=2, ensure_ascii=False)


def print_answer(session: ClientSession, answer: Any, text: Callable[[], AnswerText]) -> None:
    """Print the answer: unchanged for programs, through `text` for people and for CSV.

    Tables fit the terminal; they are as wide as their cells with `-o wide` and where the output is not a terminal.
    """
    if session.is_machine_readable:
        if isinstance(answer, dict) and not any(answer.values()):
            session.require_known_names()
        typer.echo(serialize(answer, session.output))
    else:
        parts = text()
        session.has_nothing = any(isinstance(part, Table) and not part.rows for part in answer_parts(parts))
        if session.has_nothing:
            session.require_known_names()
        print_parts(parts, session.output)
    print_warnings(answer)


def print_list(
    session: ClientSession, answer: Any, columns: Collection[Column], rows: Sequence[Mapping[str, Any]], nothing: str
) -> None:
    """Print the rows of an answer as a table, or `nothing` if there are none."""
    print_answer(session, answer, lambda: with_more_entries(list_table(columns, rows, nothing=nothing), answer))


def print_parts(text: AnswerText, output: OutputFormat) -> None:
    """Print texts and tables for people, or the table as CSV."""
    if output is OutputFormat.CSV:
        _print_csv(text)
        return
    fits = output is not OutputFormat.WIDE and _is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if fits else None
    parts = answer_parts(text)
    print_text("\n\n".join(part if isinstance(part, str) else part.text(width) for part in parts))


def _print_csv(text: AnswerText) -> None:
    """Print the table; a remark without a table, such as "There are no workflows to view.", is not data."""
    table = answer_as_csv(text)
    for part in answer_parts(text):
        if isinstance(part, Table) and not part.rows and part.nothing:
            print_warning(part.nothing)
    if table is None:
        print_warning("\n".join(str(part) for part in answer_parts(text)))
    else:
        typer.echo(table)


def print_warnings(answer: Any) -> None:
    """Print the `warnings` of an answer on standard error, one line each."""
    if isinstance(answer, dict):
        for warning in answer.get("warnings") or []:
            print_warning(f"WARNING: {printable_text(str(warning))}")


def print_text(text: str) -> None:
    """Print text for people; on a terminal states and negative numbers have colours."""
    text = printable_text(text)
    typer.echo(HIGHLIGHTS.sub(_highlight, text) if _use_colours() else text)


def _highlight(match: re.Match[str]) -> str:
    return typer.style(match[0], **HIGHLIGHT_STYLES[str(match.lastgroup)])


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
