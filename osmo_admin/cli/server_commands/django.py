"""`manage` and `check`: commands of Django, with the settings of this installation."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django


def manage(context: typer.Context, data_dir: DataDirOption = None) -> None:
    """Pass a command through to Django, for example: osmo-admin manage migrate"""
    use_django(data_dir, database=False)
    from django.core.management import execute_from_command_line

    execute_from_command_line(["osmo-admin manage", *context.args])


def check(
    deploy: Annotated[
        bool, typer.Option("--deploy", help="Include the checks for a server that other machines reach.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Check the configuration, and the server and the role of DATABASE_URL if the database answers. Exit code 1 if
    there is a mistake. Says how many people an identity provider cannot confirm again."""
    use_django(data_dir, database=False)
    from django.core.management import call_command
    from django.db import Error, connection

    from osmo_admin.processes.database_roles import powers_warning
    from osmo_admin.processes.database_server import refuse_unfit_server
    from pools.database.errors import is_database_away
    from pools.domain.values.counting import counted
    from pools.sign_on.identities import signed_on_counts

    call_command("check", deploy=deploy, fail_level="WARNING")
    refuse_unfit_server(connection.get_connection_params())
    try:
        warning = powers_warning(connection.settings_dict["USER"])
        for (provider, is_renewable), count in signed_on_counts().items():
            if count and not is_renewable:
                print(
                    f"{counted(count, 'sign-on')} through {provider} without a refresh token: a removed group counts "
                    'at the next sign-on of the person. docs/sign-on.md, "How soon a change at the provider counts", '
                    "names the ways to get one."
                )
    except Error as problem:
        if not is_database_away(problem):
            raise
        print("The role of DATABASE_URL was not checked: the database does not answer.")
        return
    if warning is not None:
        print(warning, file=sys.stderr)
        raise typer.Exit(1)
