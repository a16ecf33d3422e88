"""A migrated template made once a session, a copy of it for each pytest worker, and a reset that triggers allow.

The ledger refuses DELETE and TRUNCATE where history must stay, so Django's flush cannot clean up between tests. The
reset switches triggers off for one transaction, empties the filled tables, and restores the rows that migrations made.
"""

from __future__ import annotations

import io
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connection, connections
from psycopg import sql

from osmo_admin.ops.stores.postgres import RUNTIME
from osmo_admin.ops.stores.postgres_clients import find_client
from osmo_admin.processes.database_roles import RuntimeRole, grant_rows, take_ownership
from tests.support.services import RUNTIME_PASSWORD, Services

_KEEP_PRISTINE = """
CREATE SCHEMA pristine;
DO $$
DECLARE item record; filled boolean;
BEGIN
  FOR item IN SELECT relname FROM pg_class
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition LOOP
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM public.%I)', item.relname) INTO filled;
    IF filled THEN
      EXECUTE format('CREATE TABLE pristine.%1$I AS TABLE public.%1$I', item.relname);
    END IF;
  END LOOP;
END $$;
"""
_TABLES = """
SELECT relname, to_regclass(format('pristine.%I', relname)) IS NOT NULL,
  (SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute
   WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '')
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
ORDER BY relname
"""
_IS_FILLED = "SELECT {name} WHERE EXISTS (SELECT 1 FROM public.{table})"
_IS_CHANGED = """SELECT {name} WHERE (SELECT count(*) FROM public.{table}) <> (SELECT count(*) FROM pristine.{table})
  OR EXISTS (TABLE public.{table} EXCEPT ALL TABLE pristine.{table})"""
_RESTORE = """INSERT INTO public.{table} ({columns}) OVERRIDING SYSTEM VALUE
  SELECT {columns} FROM pristine.{table}"""


class _Reset:
    """Restores the database of the tests, in a session of its own that stays open: a new session reads the catalogue
    for each table anew, which takes longer than all the rest."""

    def __init__(self, url: str) -> None:
        self._session = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._undo: dict[str, sql.Composable] = {}
        questions: list[sql.Composable] = []
        for name, is_kept, columns in self._session.execute(_TABLES).fetchall():
            table = sql.Identifier(name)
            listed = sql.SQL(", ").join(map(sql.Identifier, columns))
            self._undo[name] = sql.SQL("DELETE FROM public.{};").format(table)
            if is_kept:
                self._undo[name] += sql.SQL(_RESTORE + ";").format(table=table, columns=listed)
            question = _IS_CHANGED if is_kept else _IS_FILLED
            questions.append(sql.SQL(question).format(name=sql.Literal(name), table=table))
        self._question = sql.SQL(" UNION ALL ").join(questions).as_string(self._session)

    def run(self) -> None:
        """Empty what a test filled, and restore what it changed."""
        changed = [name for (name,) in self._session.execute(self._question).fetchall()]
        if changed:
            start = "SET LOCAL session_replication_role = replica; SET LOCAL lock_timeout = '20s';"
            undo = sql.SQL(start) + sql.SQL("").join([self._undo[name] for name in changed])
            with self._session.transaction():
                self._session.execute(undo, prepare=False)

    @property
    def is_broken(self) -> bool:
        """Whether the server has ended the session."""
        return self._session.broken

    def close(self) -> None:
        """End the session."""
        self._session.close()


_resets: dict[str, _Reset] = {}


def restore_pristine(url: str) -> None:
    """Restore the database of the tests at `url` to its state after the migrations."""
    _close_broken_connection()
    if url not in _resets:
        _resets[url] = _Reset(url)
    try:
        _resets[url].run()
    except psycopg.OperationalError:
        if not _resets[url].is_broken:
            raise
        _resets[url] = _Reset(url)  # the test has ended every session at the database, this one too
        _resets[url].run()


def _close_broken_connection() -> None:
    """End Django's session where a test has left it in a transaction or with a lock, or the server has ended it."""
    if connection.connection is None:
        return
    if connection.in_atomic_block or not connection.get_autocommit() or not connection.is_usable():
        connection.close()
    else:
        connection.connection.execute("SELECT pg_advisory_unlock_all()")


def end_resets() -> None:
    """End the sessions of :func:`restore_pristine`."""
    while _resets:
        _resets.popitem()[1].close()


def address_settings(url: str) -> dict[str, Any]:
    """What Django's settings of a database say of its address."""
    from osmo_admin.settings import database_settings

    return {part: database_settings(url)[part] for part in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}


@contextmanager
def use_database(url: str) -> Iterator[None]:
    """Inside, Django's connection of this thread is to the database at `url`."""
    default = connections["default"]
    there = address_settings(url)
    before = {part: default.settings_dict[part] for part in there}
    default.close()
    default.settings_dict.update(there)
    try:
        yield
    finally:
        default.close()
        default.settings_dict.update(before)


def _administer(services: Services) -> psycopg.Connection:
    return psycopg.connect(services.database_url("postgres"), autocommit=True)


def ensure_template(services: Services, like: str | None = None) -> None:
    """Migrate once; the other workers wait and copy. `like`: the address of such a template on another server, which is
    copied in a tenth of the time."""
    with services.exclusive_lock("template"), _administer(services) as admin:
        name = _template_name(services)
        if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            return
        building = sql.Identifier(f"{name}_building")
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(building))
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(building))
        with use_database(services.database_url(f"{name}_building")):
            if like is None:
                call_command("migrate", verbosity=0, interactive=False, stderr=io.StringIO())
            else:
                _copy_from(like, services.database_url(f"{name}_building"))
            take_ownership(RuntimeRole(RUNTIME, RUNTIME_PASSWORD))
            grant_rows(RUNTIME)
            if like is None:
                with connection.cursor() as cursor:
                    cursor.execute(_KEEP_PRISTINE)
        admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(building, sql.Identifier(name)))


def _copy_from(source: str, target: str) -> None:
    dump, restore = (find_client(name, oldest=0, preferred=0) for name in ("pg_dump", "pg_restore"))
    options = ["--no-owner", "--no-privileges"]
    whole = subprocess.run([dump, "--format=custom", "--compress=0", *options, source], capture_output=True, check=True)
    subprocess.run([restore, *options, "--dbname", target], input=whole.stdout, check=True)


def template_url(services: Services) -> str:
    """The address of the template."""
    return services.database_url(_template_name(services))


def _template_name(services: Services) -> str:
    """A server given by address outlives the session, so each session has a template of its own there."""
    return f"template_{services.folder.name.removeprefix('osmo-test-').lower()}"


def copy_template(services: Services, name: str) -> None:
    """A fresh database `name`, equal to the template."""
    with _administer(services) as admin:
        target = sql.Identifier(name)
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(target))
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(target, sql.Identifier(_template_name(services)))
        for attempt in range(50):
            try:
                admin.execute(make)
                # The rights of a database itself are not copied with it.
                admin.execute(sql.SQL("REVOKE CREATE, TEMPORARY ON DATABASE {} FROM PUBLIC").format(target))
            except psycopg.errors.ObjectInUse:  # the session that migrated it may not have closed yet
                if attempt == 49:
                    raise
                time.sleep(0.1)
            else:
                return


def drop_database(services: Services, name: str) -> None:
    """Drop it, also with open connections."""
    with _administer(services) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def drop_template(services: Services) -> None:
    """Drop the template on a server that outlives the session."""
    drop_database(services, _template_name(services))
