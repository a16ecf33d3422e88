"""`osmo audit`: who changed what, as sentences."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.options import LimitOption, OffsetOption
from osmo_admin.cli.output import emit
from osmo_admin.cli.session import Session
from osmo_admin.cli.tables import cell
from osmo_admin.cli.times import asked, shown
from osmo_admin.cli.verb import verb


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    verb(app, "audit")(audit)


def audit(
    session: Session,
    *,
    object_name: Annotated[
        str | None, typer.Option("--object", help="Only this object, as pool/team--a or workflow/hello-1.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this user did.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, as subpool.updated.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this time on: a date, a time, or 12h, 7d ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to this time.")] = None,
    limit: LimitOption = 50,
    offset: OffsetOption = 0,
) -> None:
    """Tell who changed what, the newest first."""
    query = {
        "object": object_name,
        "actor": actor,
        "action": action,
        "since": asked(since) if since else None,
        "until": asked(until) if until else None,
        "limit": limit,
        "offset": offset,
    }
    answer = session.http().get("api/audit", query)
    emit(session, answer, lambda: _told(answer))


def _told(answer: dict[str, Any]) -> str:
    lines = [f"{cell(shown(entry.get('time')))}  {cell(entry['sentence'])}" for entry in answer["entries"]]
    if not lines:
        return "Nothing was changed."
    if answer.get("more_entries"):
        lines += ["", "There is more: --offset, --limit."]
    return "\n".join(lines)
