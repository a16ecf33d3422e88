"""`osmo-admin backup`: one consistent dump of the database of a running installation, and apart from it the secrets.

The dump is one snapshot (pg_dump), so work may go on; counts of all tables come from the very same snapshot. Nothing
is locked that a request would wait for, except that migrations have to wait.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from psycopg import sql

import osmo_admin
from osmo_admin.backups import files
from osmo_admin.backups.files import DUMP, ENCRYPTED, CountingFile, Manifest
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.stores import postgres_clients
from pools.database.statements import execute_sql
from pools.models import LastBackup
from pools.security.sealing import fingerprint

KEY_MARK = "the secret key of a backup"
WEBHOOK_FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    name: str
    postgresql: int
    migrations: Sequence[str]
    rows: dict[str, int]


def make_backup(folder: Path, *, recipients: Sequence[str] = ()) -> Manifest:
    """Write a backup into a new folder. Raises OperationError; an incomplete folder is removed."""
    keys = files.read_recipients(recipients)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OperationError(f"{folder} exists and is not an empty folder. Name a new one for each backup.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as problem:
        raise OperationError(f"{folder} cannot be made: {problem}.") from problem
    try:
        manifest = _write_backup(folder, keys)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    facts = {"made_at": manifest.made_at, "size": manifest.size}
    LastBackup._default_manager.update_or_create(pk=1, defaults=facts)  # for the metric of its age
    return manifest


def _write_backup(folder: Path, keys: Sequence[Any]) -> Manifest:
    url = settings.OSMO.owner_database_url or settings.OSMO.database_url
    with transaction.atomic():
        snapshot = _open_snapshot()
        program = postgres_clients.find_client("pg_dump", oldest=snapshot.postgresql, preferred=snapshot.postgresql)
        name = DUMP + (ENCRYPTED if keys else "")
        with CountingFile(folder / name) as target:
            _dump(program, url, snapshot.name, target, keys)
    manifest = Manifest(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        osmo_admin=osmo_admin.__version__,
        postgresql=snapshot.postgresql,
        pg_dump=postgres_clients.client_version(program),
        file=name,
        size=target.size,
        sha256=target.sha256,
        migrations=snapshot.migrations,
        rows=snapshot.rows,
        key_mark=fingerprint(KEY_MARK),
    )
    files.write_manifest(folder, manifest)
    return manifest


def _open_snapshot() -> _Snapshot:
    """Begin the snapshot that the dump and the counts share; it lasts as long as the transaction."""
    execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    snapshot = execute_sql("SELECT pg_export_snapshot(), current_setting('server_version_num')::int / 10000")
    name, version = snapshot.fetchone()
    migrations = execute_sql("SELECT app || '.' || name FROM django_migrations ORDER BY 1")
    return _Snapshot(name, version, [row[0] for row in migrations], count_rows())


def count_rows() -> dict[str, int]:
    """The number of rows of each table, as the current transaction sees them."""
    count = sql.SQL("SELECT count(*) FROM {}")
    tables = connection.introspection.table_names()
    return {table: int(execute_sql(count.format(sql.Identifier(table))).fetchone()[0]) for table in tables}


def _dump(program: Path, url: str, snapshot: str, target: CountingFile, keys: Sequence[Any]) -> None:
    address, environment = postgres_clients.split_password(url)
    command = [
        str(program), "--format=custom", "--schema=public",
        "--no-owner", "--no-privileges", "--no-comments", "--no-password",
        f"--snapshot={snapshot}", f"--dbname={address}",
    ]  # fmt: skip
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        assert process.stdout is not None
        try:
            files.copy_encrypted(process.stdout, target, keys)
        except BaseException as problem:
            process.kill()
            if isinstance(problem, OSError):
                raise OperationError(f"The dump cannot be written: {problem}.") from problem
            raise
        process.wait()
        errors.seek(0)
        message = errors.read().decode(errors="replace").strip()
    if process.returncode:
        raise OperationError(f"pg_dump failed with exit code {process.returncode}: {message or 'no message'}.")


def write_secrets(path: Path, data: DataDirectory, *, recipients: Sequence[str] = ()) -> None:
    """Write what the database does not have and a restored installation needs: the secret key, its former ones, and the
    authority of the webhook server. Raises OperationError if the file exists."""
    keys = files.read_recipients(recipients)
    webhook = {name: (data.webhook / name).read_text() for name in WEBHOOK_FILES if (data.webhook / name).is_file()}
    content = {
        "OSMO_SECRET_KEY": settings.OSMO.secret_key,
        "OSMO_SECRET_KEY_FALLBACKS": settings.OSMO.secret_key_fallbacks,
        "webhook": webhook,
    }
    text = (json.dumps(content, indent=2) + "\n").encode()
    files.write_new_file(path, files.encrypt_bytes(text, keys) if keys else text)
