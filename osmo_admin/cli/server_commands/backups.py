"""`backup`, `backup-identity` and `restore`."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django
from osmo_admin.ops.files.data_directory import DataDirectory, write_private_file
from osmo_admin.ops.programs.errors import OperationError
from pools.domain.values.counting import counted

IdentityOption = Annotated[
    Path | None,
    typer.Option(
        help="File with the secret key of a recipient of the backup, as age-keygen writes it.", dir_okay=False
    ),
]


def backup(
    folder: Annotated[Path, typer.Argument(help="A new folder for this backup.")],
    secrets: Annotated[
        Path | None,
        typer.Option(help="Also write the secret key and the webhook authority, into this new file. Keep it apart."),
    ] = None,
    recipient: Annotated[
        list[str] | None,
        typer.Option(help="Encrypt for this public key of age (age1…); may be repeated."),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Write a backup of the database, while everything runs. Exit code 1 if there is none afterwards."""
    use_django(data_dir)
    from osmo_admin.backups import making

    recipients = recipient or []
    manifest = making.make_backup(folder, recipients=recipients)
    print(
        f"Backup in {folder}: {counted(manifest.size, 'byte')}, {counted(sum(manifest.rows.values()), 'row')}, of "
        f"{manifest.made_at}"
        f"{', encrypted' if manifest.is_encrypted else ''}."
    )
    if secrets is None:
        print("The secret key is not in it. Store OSMO_SECRET_KEY elsewhere, or name a file with --secrets.")
        return
    making.write_secrets(secrets, DataDirectory.open(data_dir), recipients=recipients)
    print(f"The secrets are in {secrets}. Keep them apart from the backup.")


def backup_identity(file: Annotated[Path, typer.Argument(help="A new file for the secret key.")]) -> None:
    """Make a pair of keys for encrypted backups: the secret key into a file, the public key on standard output."""
    from osmo_admin.backups.files import new_identity

    print(new_identity(file))


def restore(
    folder: Annotated[Path, typer.Argument(help="Folder of the backup.", file_okay=False)],
    identity: IdentityOption = None,
    secrets: Annotated[
        Path | None,
        typer.Option(help="File of secrets that backup wrote; for a new data directory.", dir_okay=False),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="This installation replaces the one of the backup: it keeps its clusters."),
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Restore a backup into an empty installation, bring it up to date, and verify it.

    The database is the one of DATABASE_URL and OSMO_OWNER_DATABASE_URL, or the embedded one of a new data directory.
    Exit code 1 if the restore was refused or verify found a difference.
    """
    from osmo_admin.backups import files

    identities = [] if identity is None else files.read_identities(identity)
    known = {} if secrets is None else files.read_secrets(secrets, identities)
    data = DataDirectory.open(data_dir)
    with ExitStack() as stack:
        if not os.environ.get("DATABASE_URL"):
            from osmo_admin.ops.files import keys
            from osmo_admin.ops.stores.embedded_database import embedded_database

            files.read_manifest(folder)  # before anything is made
            _require_no_secrets(data, known)
            runtime, owner = stack.enter_context(embedded_database(data))
            os.environ |= {"DATABASE_URL": runtime, "OSMO_OWNER_DATABASE_URL": owner}
            # Nobody waits for notifications yet; without an address they would go to any Redis of this machine.
            os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
            _write_secrets(data, known)
            keys.use_stored_keys(data)
        elif known and not os.environ.get("OSMO_SECRET_KEY"):
            os.environ["OSMO_SECRET_KEY"] = known["OSMO_SECRET_KEY"]
        use_django(data_dir)
        from django.db import connection

        from osmo_admin.backups.restoring import restore_backup

        try:
            differences = restore_backup(folder, identities=identities, replaces=replace, report=print)
        finally:
            connection.close()
    for difference in differences:
        print(difference)
    if differences:
        raise typer.Exit(1)
    print("Restored and verified: every counter equals its recount and every invariant holds.")


def _require_no_secrets(data: DataDirectory, known: dict[str, Any]) -> None:
    if known and data.secrets.exists():
        raise OperationError(
            f"{data.root} has secrets of its own in {data.secrets.name}, which would be lost. Name a new --data-dir, "
            "or leave --secrets out."
        )


def _write_secrets(data: DataDirectory, known: dict[str, Any]) -> None:
    if not known:
        return
    names = ("OSMO_SECRET_KEY", "OSMO_SECRET_KEY_FALLBACKS")
    write_private_file(
        data.secrets, json.dumps({name: known[name] for name in names if known.get(name)}, indent=2) + "\n"
    )
    for name, text in known.get("webhook", {}).items():
        if name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
            data.webhook.mkdir(mode=0o700, exist_ok=True)
            write_private_file(data.webhook / name, text)
