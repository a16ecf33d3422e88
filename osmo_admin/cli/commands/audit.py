"""`osmo audit`: the audit log, one message for each change."""

from __future__ import annotations

from typing import Any

import typer

from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import format_cell
from osmo_admin.cli.base.times import format_local_time
from osmo_admin.cli.lists import list_command
from pools.domain.lists import AuditQuery


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    list_command(app, "audit", AuditQuery)(audit)


def audit(session: ClientSession, query: dict[str, Any]) -> None:
    """List changes with their authors, the newest first.

    Example: osmo audit --pool vision --since 7d
    """
    answer = session.http().get("api/audit", query)
    print_answer(session, answer, lambda: _entries_text(answer))


def _entries_text(answer: dict[str, Any]) -> str:
    lines = [
        f"{format_cell(format_local_time(entry.get('time')))}  {format_cell(entry['sentence'])}"
        for entry in answer["entries"]
    ]
    if not lines:
        return "No changes found."
    if answer.get("more_entries"):
        lines += ["", "More entries: use --offset or --limit."]
    return "\n".join(lines)
