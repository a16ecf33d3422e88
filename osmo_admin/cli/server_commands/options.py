"""Shared by several commands: their options for the data directory and the output, and the setup of Django."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from osmo_admin.cli.base.session import OutputFormat
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.errors import OperationError

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Data directory of OSMO Admin. Default: $OSMO_ADMIN_HOME, else /var/lib/osmo-admin for root and your "
        "own state directory otherwise.",
        file_okay=False,
    ),
]
OutputOption = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", case_sensitive=False, help="table for people, json or yaml for programs."),
]


def use_django(data_dir: Path | None, *, database: bool = True) -> None:
    """Set up Django for this data directory; `DATABASE_URL` and similar variables of the environment win.

    Raises OperationError if the command needs a database and OSMO Admin does not run there.
    """
    data = DataDirectory.open(data_dir)
    if database and not os.environ.get("DATABASE_URL") and not data.runtime.exists():
        raise OperationError(
            f"OSMO Admin is not running on {data.root}. Start it with `osmo-admin up`, name its folder with "
            "--data-dir, or set DATABASE_URL."
        )
    os.environ["OSMO_ADMIN_HOME"] = str(data.root)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    from osmo_admin.processes.django_setup import set_up_django

    set_up_django()
