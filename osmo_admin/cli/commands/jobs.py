"""`osmo jobs`: the background jobs of the installation."""

from __future__ import annotations

import typer

from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.output import print_list
from osmo_admin.cli.base.session import ClientSession
from pools.domain.columns import pick
from scheduling.domain.list_columns import JOB_COLUMNS


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    client_command(app, "jobs", watches=True)(jobs)


def jobs(session: ClientSession) -> None:
    """List the background jobs with their last runs and failures.

    Example: osmo jobs -o csv
    """
    answer = session.http().get("api/jobs")
    columns = pick(JOB_COLUMNS, "name state what_it_does interval_seconds last_run runs failures last_failure error")
    print_list(session, answer, columns, answer["jobs"], "There are no background jobs yet.")
