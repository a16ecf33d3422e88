"""`key`: the rotation of the secret key, and the way on after its loss."""

from __future__ import annotations

import os
from contextlib import ExitStack

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django
from osmo_admin.ops.files import keys
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.errors import OperationError
from pools.domain.values.counting import counted

app = typer.Typer(help="The secret key: rotate it, or replace a lost one.", no_args_is_help=True, rich_markup_mode=None)

RESTART = "Restart OSMO Admin, then run: osmo-admin key seal"


@app.command()
def new(data_dir: DataDirOption = None) -> None:
    """Make a new secret key; what the former one signed and sealed stays valid.

    The key of a data directory is replaced there. Where OSMO_SECRET_KEY is set from outside, the new one is printed.
    """
    if os.environ.get(keys.SECRET_KEY):
        print(keys.generate_secret_key())
        typer.echo(
            "Set it as OSMO_SECRET_KEY of every process, and the present key as the first in "
            f"OSMO_SECRET_KEY_FALLBACKS. {RESTART}",
            err=True,
        )
        return
    data = DataDirectory.open(data_dir)
    if not data.secrets.exists():
        raise OperationError(
            f"{data.root} has no secret key. Name the data directory with --data-dir, or set OSMO_SECRET_KEY."
        )
    keys.replace_secret_key(data)
    print(f"{data.secrets} has a new secret key, and keeps the former one. {RESTART}")


@app.command()
def seal(data_dir: DataDirOption = None) -> None:
    """Seal every stored secret with the present key. Safe to repeat. Exit code 1 if one cannot be read."""
    use_django(data_dir)
    from django.conf import settings

    from pools.domain.people.roles import SYSTEM
    from pools.services.changes.secret_key import seal_again

    done = seal_again(actor=SYSTEM)
    print(f"{done.sealed} stored secrets were sealed again; {done.present} were sealed with the present key already.")
    for name in done.unreadable:
        print(
            f"{name} cannot be read with any key: put the former key into OSMO_SECRET_KEY_FALLBACKS, or store it again."
        )
    if done.unreadable:
        raise typer.Exit(1)
    if settings.SECRET_KEY_FALLBACKS:
        print(
            "Nothing stored needs the former keys any more. Browser sessions and addresses of webhooks made with them "
            "are believed as long as they are configured: after a day run osmo-admin key forget, or empty "
            "OSMO_SECRET_KEY_FALLBACKS, and restart."
        )


@app.command()
def adopt(data_dir: DataDirOption = None) -> None:
    """Make the present key that of the database, although the former one is lost. What nothing reads is named."""
    data = DataDirectory.open(data_dir)
    with ExitStack() as stack:
        if not os.environ.get("DATABASE_URL") and not data.runtime.exists():
            from osmo_admin.ops.stores.embedded_database import embedded_database

            if not data.marker.exists():
                raise OperationError(
                    f"{data.root} is not a data directory. Name it with --data-dir, or set DATABASE_URL."
                )
            runtime, _ = stack.enter_context(embedded_database(data))
            os.environ |= {"DATABASE_URL": runtime}
            keys.use_stored_keys(data)
        use_django(data_dir)
        from django.db import connection

        from osmo_admin.checks import refuse_unsafe_settings
        from pools.domain.people.roles import SYSTEM
        from pools.services.changes.secret_key import adopt_present_key

        refuse_unsafe_settings()
        try:
            lost = adopt_present_key(actor=SYSTEM)
        finally:
            connection.close()
    for name in lost:
        print(f"{name} cannot be read with any key: store it again.")
    print(f"The present OSMO_SECRET_KEY is the key of this database; {len(lost)} stored secrets cannot be read.")


@app.command()
def forget(data_dir: DataDirOption = None) -> None:
    """Remove the former keys of a data directory, if no stored secret needs them."""
    data = DataDirectory.open(data_dir)
    if not keys.load_former_keys(data):
        raise OperationError(
            f"{data.root} has no former keys. Where OSMO_SECRET_KEY is set from outside, empty "
            "OSMO_SECRET_KEY_FALLBACKS."
        )
    use_django(data_dir)
    from pools.services.changes.secret_key import list_sealed_with_former_keys

    left = list_sealed_with_former_keys()
    if left:
        stored = counted(len(left), "stored secret needs", "stored secrets need")
        raise OperationError(f"{stored} a former key, {left[0]} for example: osmo-admin key seal")
    print(f"{keys.forget_former_keys(data)} former keys are removed from {data.secrets}. Restart OSMO Admin.")
