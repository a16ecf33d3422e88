"""`osmo backend`: where the work runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.effect import show_effect
from osmo_admin.cli.http import path
from osmo_admin.cli.output import emit
from osmo_admin.cli.session import Session
from osmo_admin.cli.tables import table
from osmo_admin.cli.verb import group, verb

app = group("Backends, where the work runs.")


@verb(app, "settle", writes=True)
def settle(
    session: Session, name: Annotated[str, typer.Argument(metavar="BACKEND", help="Name of the backend.")]
) -> None:
    """Run scheduling on a backend now and tell what it did."""
    answer = session.http().change("POST", path("api", "backend", name, "settle"), query=session.dry_query)
    if session.dry_run:
        show_effect(session, answer)
    else:
        emit(session, answer, lambda: _steps(answer))


def _steps(answer: dict[str, Any]) -> str:
    end = "Settled." if answer["settled"] else "Not settled yet: it still moved work in its last pass."
    if not answer["steps"]:
        return f"Nothing to do. {end}"
    rows = [
        [step.get(key) for key in ("pass", "action", "workload", "tasks", "for", "message")] for step in answer["steps"]
    ]
    return f"{table(('Pass', 'Action', 'Work', 'Tasks', 'For', 'Why'), rows)}\n\n{end}"
