"""`osmo audit`: the audit log, one message for each change."""

from __future__ import annotations

from typing import Any

import typer

from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, OutputFormat
from osmo_admin.cli.base.tables import AnswerText, format_cell, list_table, with_more_entries
from osmo_admin.cli.base.times import format_local_time
from osmo_admin.cli.lists import list_command
from pools.domain.columns import pick
from pools.domain.list_columns import AUDIT_COLUMNS
from pools.domain.lists import AuditQuery

NOTHING_FOUND = "No changes found."


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    list_command(app, "audit", AuditQuery)(audit)


def audit(session: ClientSession, query: dict[str, Any]) -> None:
    """List changes with their authors, the newest first.

    Example: osmo audit --pool vision --since 7d
    """
    answer = session.http().get("api/audit", query)
    if not answer["entries"]:
        session.require_known_names()
    as_table = session.output is OutputFormat.CSV
    print_answer(session, answer, lambda: _entries_table(answer) if as_table else _entries_text(answer))
    session.has_nothing = not answer["entries"]


def _entries_table(answer: dict[str, Any]) -> AnswerText:
    columns = pick(AUDIT_COLUMNS, "id time actor action object sentence description request_id")
    return with_more_entries(list_table(columns, answer["entries"], nothing=NOTHING_FOUND), answer)


def _entries_text(answer: dict[str, Any]) -> str:
    lines = [
        f"{format_cell(format_local_time(entry.get('time')))}  {format_cell(entry['sentence'])}"
        for entry in answer["entries"]
    ]
    if not lines:
        return NOTHING_FOUND
    if answer.get("more_entries"):
        lines += ["", "More entries: use --offset or --limit."]
    return "\n".join(lines)
