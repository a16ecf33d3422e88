"""`osmo-admin restore`: a backup into an empty database, brought up to date, and verified."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from osmo_admin.backups import files
from osmo_admin.backups.files import Manifest
from osmo_admin.backups.making import KEY_MARK, count_rows
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.stores import postgres_clients
from osmo_admin.processes.database_roles import as_owner_if_known
from pools.database.statements import execute_sql
from pools.domain.people.roles import SYSTEM
from pools.domain.values.counting import counted
from pools.security.sealing import fingerprint
from pools.services.changes.secret_key import adopt_present_key
from scheduling.services.restored import forget_credentials, forget_other_server, skip_given_numbers
from scheduling.services.verify import verify

# A restored database is not of use before these have run, so a failure there asks for a new, empty database too.
START_AGAIN = "The database is not complete: drop it, create it again, and repeat the command."


def restore_backup(
    folder: Path, *, identities: Sequence[Any], replaces: bool, report: Callable[[str], None]
) -> list[str]:
    """Restore into the empty database of the settings; returns the differences that `verify` found.

    `replaces`: this installation takes the place of the one of the backup. Otherwise it gets no credentials of
    clusters.
    Raises OperationError with the reason; nothing was changed then, or the message says so.
    """
    manifest = files.read_manifest(folder)
    if manifest.is_encrypted and not identities:
        raise OperationError(f"The backup in {folder} is encrypted. Name the secret key with --identity FILE.")
    _require_known_migrations(manifest)
    dump = files.check_dump(folder, manifest)
    with as_owner_if_known():
        version = _require_empty_database(manifest)
        _load(dump, manifest, version, identities if manifest.is_encrypted else ())
        try:
            _compare_rows(manifest)
        except OperationError as problem:
            raise OperationError(f"{problem} {START_AGAIN}") from problem
    report(
        f"Loaded the backup of {manifest.made_at}: {counted(sum(manifest.rows.values()), 'row')} in "
        f"{counted(len(manifest.rows), 'table')}."
    )
    call_command("migrate", verbosity=0, interactive=False)
    with as_owner_if_known():
        forget_other_server()
        skip_given_numbers()
    lost = adopt_present_key(actor=SYSTEM) if settings.OSMO.secret_key else []
    if fingerprint(KEY_MARK) != manifest.key_mark:
        report(
            "OSMO_SECRET_KEY is not the one of the backup: browser sessions end, and "
            f"{len(lost)} stored secrets cannot be read{f' ({lost[0]} for example)' if lost else ''}. Put the former "
            "key into OSMO_SECRET_KEY_FALLBACKS, or store them again."
        )
    if not replaces and (backends := forget_credentials()):
        report(
            f"This is a copy: its backends {', '.join(backends)} have no credentials, so it cannot work next to the "
            "original installation. Restore with --replace in place of the original."
        )
    return [str(difference) for difference in verify()]


def _require_known_migrations(manifest: Manifest) -> None:
    known = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}
    bridge = import_module("scheduling.migrations.0002_upgrade_from_29ed02b4")
    known |= {f"{app}.{name}" for app, names in bridge.FORMER.items() for name in names}
    ours = {app for app, _, _ in (name.partition(".") for name in known)}
    unknown = [name for name in manifest.migrations if name not in known and name.partition(".")[0] in ours]
    if unknown:
        raise OperationError(
            f"The backup was made by OSMO Admin {manifest.osmo_admin} with {len(unknown)} migrations that this version "
            f"does not have ({unknown[-1]} is one). Install that version or a later one, and repeat the command."
        )


def _require_empty_database(manifest: Manifest) -> int:
    """The major version of the server. Raises OperationError if anything is in the database, or the server is older."""
    server = execute_sql("SELECT current_setting('server_version_num')::int / 10000, current_database()")
    version, name = server.fetchone()
    tables = connection.introspection.table_names()
    if tables:
        raise OperationError(
            f"The database {name} has {len(tables)} tables. A backup is restored into an empty database only, and "
            "nothing was changed: create a new database and name it in DATABASE_URL, or name a new --data-dir."
        )
    if version < manifest.postgresql:
        raise OperationError(
            f"The backup is of PostgreSQL {manifest.postgresql}, and this server is {version}: it may not read "
            f"everything in it. Restore into PostgreSQL {manifest.postgresql} or newer."
        )
    return int(version)


def _load(dump: Path, manifest: Manifest, version: int, identities: Sequence[Any]) -> None:
    """Load the dump in one transaction: after a failure the database is as empty as before."""
    program = postgres_clients.find_client("pg_restore", oldest=manifest.pg_dump, preferred=version)
    address, environment = postgres_clients.split_password(
        settings.OSMO.owner_database_url or settings.OSMO.database_url
    )
    command = [
        str(program), "--single-transaction", "--exit-on-error", "--schema=public",
        "--no-owner", "--no-privileges", "--no-password", f"--dbname={address}",
    ]  # fmt: skip
    connection.close()
    with (
        tempfile.TemporaryFile() as errors,
        dump.open("rb") as source,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, env=environment) as process,
    ):
        assert process.stdin is not None
        try:
            files.copy_decrypted(source, process.stdin, identities)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended with a message, which follows
        except BaseException:
            process.kill()
            raise
        process.wait()
        errors.seek(0)
        message = errors.read().decode(errors="replace").strip()
    if process.returncode:
        raise OperationError(f"pg_restore failed, and nothing was changed: {message or 'no message'}.")


def _compare_rows(manifest: Manifest) -> None:
    found = count_rows()
    for table, count in manifest.rows.items():
        if found.get(table) != count:
            raise OperationError(f"The table {table} has {found.get(table, 'no')} rows, the backup had {count}.")
