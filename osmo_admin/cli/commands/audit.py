"""`osmo audit`: the audit log, one message for each change."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.command_decorator import client_command
from osmo_admin.cli.options import LimitOption, OffsetOption
from osmo_admin.cli.output import print_answer
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import format_cell
from osmo_admin.cli.times import format_local_time, parse_time


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    client_command(app, "audit")(audit)


def audit(
    session: ClientSession,
    *,
    object_name: Annotated[
        str | None, typer.Option("--object", help="Only this object, as pool/team--a or workflow/hello-1.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Only changes by this user.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, as subpool.updated.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this time on: a date, a time, or 12h, 7d before now.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to this time.")] = None,
    limit: LimitOption = 50,
    offset: OffsetOption = 0,
) -> None:
    """List changes with their authors, the newest first."""
    query = {
        "object": object_name,
        "actor": actor,
        "action": action,
        "since": parse_time(since) if since else None,
        "until": parse_time(until) if until else None,
        "limit": limit,
        "offset": offset,
    }
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
