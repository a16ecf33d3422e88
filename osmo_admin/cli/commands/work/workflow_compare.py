"""`osmo workflow compare`: two workflows side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.completion import complete_workflows
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.options import WorkflowArgument
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import Shown, Table, build_table, duration_cell, local_time

GIB = 2**30


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    client_command(app, "compare")(compare)


def compare(
    session: ClientSession,
    *,
    workflow: WorkflowArgument,
    other: Annotated[
        str, typer.Argument(metavar="OTHER", help="ID of the other workflow.", autocompletion=complete_workflows)
    ],
    every: Annotated[bool, typer.Option("--all", help="Also the facts that are equal.")] = False,
) -> None:
    """Show the differences of two workflows: gangs, resources, waits by cause, attempts, result. The JSON answer also
    has the differences of their files.

    Example: osmo workflow compare train-11 train-12
    """
    answer = session.http().get(url_path("api", "workflow", workflow, "compare", other))
    print_answer(session, answer, lambda: _differences(answer, every=every))


def _differences(answer: dict[str, Any], *, every: bool) -> Table:
    parts = [("", answer["facts"]), *((gang["name"], gang["facts"]) for gang in answer["gangs"])]
    found = [
        [group, fact["title"], *(_value(fact["unit"], fact[side]) for side in ("first", "second"))]
        for group, facts in parts
        for fact in facts
        if every or fact["different"]
    ]
    # Two waits of a part of a second are both 0 s, also in a file.
    rows = [row for row in found if every or row[2] != row[3]]
    return build_table(("Group", "Fact", answer["first"], answer["second"]), rows, nothing="No fact differs.")


def _value(unit: str, value: Any) -> Any:
    if value is None:
        return None
    if unit == "time":
        return local_time(value)
    if unit == "seconds":
        return duration_cell(value)
    if unit == "gpu_seconds":
        return Shown(f"{value / 3600:.2f} GPU-hours", round(value / 3600, 4))
    return Shown(f"{value / GIB:.1f} GiB", value) if unit == "bytes" else value
