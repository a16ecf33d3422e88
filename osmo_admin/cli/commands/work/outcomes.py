"""`osmo outcomes`: what was said about the future, and what came of it."""

from __future__ import annotations

from typing import Any

import typer

from osmo_admin.cli.base.output import print_list
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.lists import list_command
from pools.domain.columns import pick
from scheduling.domain.list_columns import OUTCOME_COLUMNS
from scheduling.domain.lists import OutcomeQuery


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    list_command(app, "outcomes", OutcomeQuery, watches=True)(outcomes)


def outcomes(session: ClientSession, query: dict[str, Any]) -> None:
    """List certain latest starts and previews of changes, each beside what happened, the newest first.

    Example: osmo outcomes --outcome broken
    """
    answer = session.http().get("api/outcomes", query)
    columns = pick(OUTCOME_COLUMNS, "said_at about said outcome came cluster")
    print_list(session, answer, columns, answer["outcomes"], "Nothing was said about the future yet.")
