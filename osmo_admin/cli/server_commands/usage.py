"""`usage`: compute the record of use again."""

from __future__ import annotations

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django
from pools.domain.values.counting import counted

app = typer.Typer(help="The record of use.", no_args_is_help=True)


@app.callback()
def usage() -> None:
    """The record of use."""


@app.command()
def rebuild(data_dir: DataDirOption = None) -> None:
    """Derive the record of use again from the audit trail and the attempts of work, for the whole retention."""
    use_django(data_dir)
    from scheduling.services.usage import rebuild as rebuild_usage

    hours = rebuild_usage()
    print(f"The record of use is computed again: {counted(hours, 'hour')}.")
