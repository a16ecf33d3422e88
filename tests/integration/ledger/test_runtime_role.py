"""The role of the processes reads and writes rows. It cannot switch off, drop, alter, truncate or create anything, in
any table: each table of the database is tested, so a new one is covered."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.apps import apps
from django.db import connection
from psycopg import sql

from osmo_admin.ops.stores.postgres import RUNTIME
from osmo_admin.processes import database_roles
from tests.support.services import Services

pytestmark = pytest.mark.django_db

ATTACKS = {
    "disable its triggers": "ALTER TABLE {} DISABLE TRIGGER ALL",
    "disable its user triggers": "ALTER TABLE {} DISABLE TRIGGER USER",
    "drop": "DROP TABLE {} CASCADE",
    "truncate": "TRUNCATE {} CASCADE",
    "add a column": "ALTER TABLE {} ADD COLUMN extra integer",
    "change its owner": "ALTER TABLE {} OWNER TO CURRENT_USER",
    "attach a trigger": "CREATE TRIGGER mine BEFORE INSERT ON {} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "attach a rule": "CREATE RULE mine AS ON DELETE TO {} DO INSTEAD NOTHING",
    "inherit": "CREATE TABLE mine () INHERITS ({})",
}
OTHER_ATTACKS = {
    "switch off all triggers": "SET session_replication_role = replica",
    "create a table": "CREATE TABLE mine (a integer)",
    "hide a table by a temporary one": "CREATE TEMPORARY TABLE pools_leafusage (pool_id bigint)",
    "create a schema": "CREATE SCHEMA mine",
    "create a function": "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "create a role": "CREATE ROLE mine",
    "become the owner": "SET ROLE postgres",
    "read a file of the server": "COPY (SELECT 1) TO PROGRAM 'true'",
    "record a migration": "INSERT INTO django_migrations (app, name, applied) VALUES ('pools', 'x', now())",
    "forget a migration": "DELETE FROM django_migrations",
}


@pytest.fixture
def runtime(django_db_setup: None, running_services: Services) -> Iterator[psycopg.Connection]:
    """A connection as the processes have it."""
    name = running_services.database_name("test")
    with psycopg.connect(running_services.runtime_url(name), autocommit=True) as session:
        assert session.execute("SELECT current_user").fetchone() == (RUNTIME,)
        yield session


def all_tables() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
        return sorted(name for (name,) in cursor.fetchall())


@pytest.mark.parametrize(("attack", "statement"), ATTACKS.items(), ids=ATTACKS)
def test_no_table_can_be(runtime: psycopg.Connection, attack: str, statement: str) -> None:
    tables = all_tables()
    assert {model._meta.db_table for model in apps.get_models()} <= set(tables)
    for table in tables:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            runtime.execute(sql.SQL(statement).format(sql.Identifier(table)))


@pytest.mark.parametrize("statement", OTHER_ATTACKS.values(), ids=OTHER_ATTACKS)
def test_it_cannot(runtime: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        runtime.execute(statement)


def test_no_trigger_can_be_skipped(runtime: psycopg.Connection) -> None:
    ignore_all = "SELECT set_config('pgtrigger.ignore', (SELECT array_agg(tgname)::text FROM pg_trigger), false)"
    which = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND _pgtrigger_should_ignore(tgname)"
    runtime.execute(ignore_all)
    assert runtime.execute(which).fetchone() == (0,)
    with pytest.raises(psycopg.errors.CheckViolation):
        runtime.execute("UPDATE pools_leafusage SET used = used")
    with connection.cursor() as cursor:  # the owner, for whom fixtures and the demo rely on it
        cursor.execute(ignore_all)
        cursor.execute(which)
        assert cursor.fetchone()[0] > 100
        cursor.execute("SELECT set_config('pgtrigger.ignore', NULL, false)")


def test_no_young_audit_entry_can_be_forgotten(runtime: psycopg.Connection) -> None:
    for days in ("29", "-1", "NULL"):
        with pytest.raises(psycopg.errors.CheckViolation, match="at least 30 days"):
            runtime.execute(f"SELECT osmo_forget_audit({days}, 10)")
    assert runtime.execute("SELECT osmo_forget_audit(30, 10)").fetchone() == (0,)
    assert runtime.execute("SELECT current_setting('pgtrigger.ignore')").fetchone() == ("",)


def test_it_reads_and_writes_every_table_that_the_code_writes(runtime: psycopg.Connection) -> None:
    for table in sorted(set(all_tables()) - set(database_roles.READ_ONLY_TABLES)):
        for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            found = runtime.execute("SELECT has_table_privilege(%s, %s)", [f"public.{table}", privilege]).fetchone()
            assert found == (True,), (table, privilege)


def test_a_table_of_the_next_version_is_granted_without_a_second_migration(runtime: psycopg.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE future_table (id bigint GENERATED BY DEFAULT AS IDENTITY)")
        cursor.execute("SELECT has_table_privilege(%s, 'future_table', 'INSERT')", [RUNTIME])
        assert cursor.fetchone() == (True,)
        cursor.execute("SELECT has_sequence_privilege(%s, 'future_table_id_seq', 'USAGE')", [RUNTIME])
        assert cursor.fetchone() == (True,)


def test_the_role_of_the_processes_has_no_other_power() -> None:
    assert database_roles.find_powers(RUNTIME) == []
    assert database_roles.powers_warning(RUNTIME) is None


@pytest.mark.parametrize(
    ("grant", "power"),
    [
        ("ALTER TABLE pools_pool OWNER TO osmo_app", "owns tables"),
        ("GRANT TRUNCATE ON pools_pool TO osmo_app", "can truncate"),
        ("GRANT CREATE ON SCHEMA public TO osmo_app", "can create objects"),
        ("GRANT SET ON PARAMETER session_replication_role TO osmo_app", "can switch off all triggers"),
        ("ALTER ROLE osmo_app CREATEROLE", "can create roles"),
        ("ALTER ROLE osmo_app SUPERUSER", "is a superuser"),
    ],
)
def test_each_further_power_is_named_to_the_operator(grant: str, power: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(grant)
    assert any(power in found for found in database_roles.find_powers(RUNTIME))
    warning = database_roles.powers_warning(RUNTIME)
    assert warning is not None
    assert power in warning
    assert "OSMO_OWNER_DATABASE_URL" in warning


def test_grants_can_be_repeated_and_take_back_what_was_added() -> None:
    with connection.cursor() as cursor:
        cursor.execute("GRANT TRUNCATE ON pools_pool TO osmo_app; GRANT CREATE ON SCHEMA public TO osmo_app")
    for _ in range(2):
        database_roles.grant_rows(RUNTIME)
        assert database_roles.find_powers(RUNTIME) == []
