"""Two roles of the database: the owner creates and changes tables, and the role at run time reads and writes rows.

`OSMO_OWNER_DATABASE_URL` names the owner, used by `migrate` alone, and `DATABASE_URL` the role of every process. The
role at run time cannot switch off triggers, drop, alter or truncate a table, or create objects, so the rules in the
database hold even against SQL that an attacker brings into a process.

An installation made with one role is converted by the first migration with two: what the role at run time owns
becomes the owner's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import ProgrammingError, connection, connections, transaction
from psycopg import sql

from osmo_admin.processes.database_server import database_identity
from osmo_admin.settings import database_settings
from pools.database.statements import execute_sql
from pools.locking import lock_grants

READ_ONLY_TABLES = ("django_migrations",)

# Each query has one parameter, the name of the role, and returns a row for each power that the role should not have.
_OUR_TABLES = "FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
_POWERS = {
    "is a superuser": "SELECT FROM pg_roles WHERE rolname = %s AND rolsuper",
    "can create roles or databases": "SELECT FROM pg_roles WHERE rolname = %s AND (rolcreaterole OR rolcreatedb)",
    "owns tables, or is a member of the role that does": f"SELECT {_OUR_TABLES}"
    " AND pg_has_role(%s, relowner, 'MEMBER')",
    "can truncate tables or attach triggers to them": f"SELECT {_OUR_TABLES}"
    " AND has_table_privilege(%s, oid, 'TRUNCATE, TRIGGER, REFERENCES')",
    "can create objects": "SELECT WHERE has_schema_privilege(%s, 'public', 'CREATE')",
    "can create schemas or temporary tables": "SELECT"
    " WHERE has_database_privilege(%s, current_database(), 'CREATE, TEMPORARY')",
    "can switch off all triggers": "SELECT WHERE has_parameter_privilege(%s, 'session_replication_role', 'SET')",
}


@dataclass(frozen=True, slots=True)
class RuntimeRole:
    """The role of `DATABASE_URL`. The password is used only to create a missing role."""

    name: str
    password: str


def runtime_role() -> RuntimeRole | None:
    """The role at run time, if the configuration has an owner too; None with a single role for everything."""
    if not settings.OSMO.owner_database_url:
        return None
    mine, owner = connections["default"].settings_dict, database_settings(settings.OSMO.owner_database_url)
    if mine["USER"] == owner["USER"]:
        raise ImproperlyConfigured(
            f"DATABASE_URL and OSMO_OWNER_DATABASE_URL both name the role {mine['USER']}. Name a second, lesser role "
            "in DATABASE_URL (it is created if the owner may create roles), or leave OSMO_OWNER_DATABASE_URL out."
        )
    return RuntimeRole(mine["USER"], mine["PASSWORD"])


def refuse_another_database(parameters: Mapping[str, Any]) -> None:
    """Called as the owner, with the parameters of a connection of the role at run time. Raises ImproperlyConfigured if
    that role would work in another database than the one that is prepared. The servers say which they are, because one
    server may have several addresses, such as that of a pooler for one of the roles. A role that cannot connect, which
    may not exist yet, refuses nothing."""
    try:
        with psycopg.connect(**parameters) as session:
            theirs = database_identity(session)
    except psycopg.Error:
        return
    connection.ensure_connection()
    if database_identity(connection.connection) != theirs:
        raise ImproperlyConfigured(
            "DATABASE_URL and OSMO_OWNER_DATABASE_URL lead to two different databases. Name the same database in both, "
            "with two roles; the addresses of its server may differ."
        )


@contextmanager
def connected_as_owner() -> Iterator[None]:
    """Inside, Django's connection of this thread is the owner's."""
    there = database_settings(settings.OSMO.owner_database_url)
    assert isinstance(there["OPTIONS"], dict)
    there["OPTIONS"].pop("pool", None)  # a pool would outlive this block, with the connections of the owner
    parts = ("NAME", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
    before = {part: connection.settings_dict[part] for part in parts}
    connection.close()
    connection.settings_dict.update({part: there[part] for part in before})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)


def as_owner_if_known() -> AbstractContextManager[None]:
    """As :func:`connected_as_owner` if the configuration has an owner, else nothing."""
    return connected_as_owner() if settings.OSMO.owner_database_url else nullcontext()


def take_ownership(role: RuntimeRole) -> None:
    """Create the role at run time if it is missing, and take from it what it owns. Called as the owner, before the
    migrations. Raises ImproperlyConfigured with the SQL for the administrator if the owner may not do this."""
    owner = connection.settings_dict["USER"]
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            lock_grants()
            cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", [role.name])
            if cursor.fetchone() is None:
                _create_role(cursor.connection.pgconn, cursor, role)
            cursor.execute(
                "SELECT FROM pg_class WHERE relowner = %s::regrole UNION ALL"
                " SELECT FROM pg_proc WHERE proowner = %s::regrole UNION ALL"
                " SELECT FROM pg_database WHERE datname = current_database() AND datdba = %s::regrole LIMIT 1",
                [sql.Identifier(role.name).as_string(), *[sql.Identifier(role.name).as_string()] * 2],
            )
            if cursor.fetchone() is not None:
                cursor.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(role.name)))
    except ProgrammingError as problem:
        raise ImproperlyConfigured(
            f"The owner {owner} of OSMO_OWNER_DATABASE_URL may not prepare the role {role.name} of DATABASE_URL "
            f"({str(problem).splitlines()[0]}). As an administrator of the database run: CREATE ROLE {role.name} LOGIN "
            f"PASSWORD '…' (if it does not exist), GRANT {role.name} TO {owner}; then repeat the migration."
        ) from problem


def _create_role(session: object, cursor: object, role: RuntimeRole) -> None:
    """The password is hashed here, so that no log of the server has it."""
    hashed = ""
    if role.password:
        hashed = session.encrypt_password(  # type: ignore[attr-defined]
            role.password.encode(), role.name.encode(), b"scram-sha-256"
        ).decode()
    clause = sql.SQL(" PASSWORD {}").format(sql.Literal(hashed)) if hashed else sql.SQL("")
    cursor.execute(  # type: ignore[attr-defined]
        sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role.name)) + clause
    )


def grant_rows(role: str) -> None:
    """Give a role the rows of all tables, also of future ones, and nothing more. Called as the owner, after the
    migrations; it may be repeated."""
    name = sql.Identifier(role)
    with transaction.atomic():
        lock_grants()
        for statement in (
            "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}",
            "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {}",
        ):
            execute_sql(sql.SQL(statement).format(name))
        for table in READ_ONLY_TABLES:
            read_only = sql.SQL("REVOKE INSERT, UPDATE, DELETE ON {} FROM {}")
            execute_sql(read_only.format(sql.Identifier(table), name))
        database = sql.Identifier(execute_sql("SELECT current_database()").fetchone()[0])
        for composed in (
            sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(name),
            sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC, {}").format(name),
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name),
            # A temporary table would hide ours from the functions of the triggers.
            sql.SQL("REVOKE CREATE, TEMPORARY ON DATABASE {} FROM PUBLIC, {}").format(database, name),
        ):
            try:
                with transaction.atomic():
                    execute_sql(composed)
            except ProgrammingError:  # the schema or database has another owner; `find_powers` names what remains
                continue


def find_powers(role: str) -> Sequence[str]:
    """What a role at run time can do beyond reading and writing rows, as the ends of sentences about it."""
    found = []
    for power, query in _POWERS.items():
        if execute_sql(f"{query} LIMIT 1", [role]).fetchone() is not None:
            found.append(power)
    return found


def powers_warning(role: str) -> str | None:
    """The sentence for the operator if the role at run time can do more than it should."""
    powers = find_powers(role)
    if not powers:
        return None
    return (
        f"The role {role} of DATABASE_URL {'; it '.join(powers)}. SQL brought into a process could switch off the "
        "rules of the database. Name a lesser role in DATABASE_URL and the owner in OSMO_OWNER_DATABASE_URL, then run: "
        "osmo-admin manage migrate"
    )
