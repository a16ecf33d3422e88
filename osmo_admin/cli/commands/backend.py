"""`osmo backend`: the clusters (backends) on which workflows run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import list_table
from scheduling.domain.list_columns import STEP_COLUMNS

app = command_group("Backends: the clusters on which workflows run.")


@client_command(app, "settle", writes=True)
def run_cycle(
    session: ClientSession, name: Annotated[str, typer.Argument(metavar="BACKEND", help="Name of the backend.")]
) -> None:
    """Run one scheduling cycle on a backend now and print its steps.

    Example: osmo backend settle simulated
    """
    if session.dry_run:
        raise ClientError("A scheduling cycle has no dry run. What would start next is in: osmo workflow queue.")
    answer = session.http().send_change("POST", url_path("api", "backend", name, "settle"))
    print_answer(session, answer, lambda: _steps_text(answer))


def _steps_text(answer: dict[str, Any]) -> str:
    end = "Finished." if answer["settled"] else "Not finished: the last pass still changed something."
    if not answer["steps"]:
        return f"Nothing to schedule. {end}"
    return f"{list_table(STEP_COLUMNS.values(), answer['steps'])}\n\n{end}"
