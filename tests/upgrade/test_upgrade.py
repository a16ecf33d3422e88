"""An installation of commit 29ed02b4, with the demo and active work, is migrated and keeps working (see README.md)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest

from osmo_admin.ops.stores.postgres import OWNER, RUNTIME
from scheduling import migrations
from scheduling.services.receipts.past_receipts import PAST_RECEIPTS
from tests.support import world
from tests.support.own_servers import KillableServers
from tests.support.services import Services, current_services
from tests.support.stack import Stack
from tests.support.up import run_osmo_admin, run_preloaded

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
DUMP = Path(__file__).with_name("29ed02b4.sql.gz")
BEFORE = {
    "workflows": "SELECT name, status, submit_time, start_time, end_time FROM scheduling_workflow ORDER BY name",
    "tasks": "SELECT uuid, status, retry_id, node_name, dispatched_at, admitted_at FROM scheduling_task ORDER BY uuid",
    "decisions": "SELECT id, action, message, message_without_beneficiary FROM scheduling_decision ORDER BY id",
    "states": "SELECT backend_id, snapshot, full_cycle_at, full_cycle_seconds, full_cycle_due, waits_for_external"
    " FROM scheduling_backendschedulingstate ORDER BY backend_id",
    "nodes": "SELECT node_id, ready, labels FROM scheduling_nodestate ORDER BY node_id",
    "leases": "SELECT backend_id FROM scheduling_gpucontrollerlease ORDER BY backend_id",
    "sync": "SELECT backend_id, applied_generation, objects_observed, retry_at FROM scheduling_queuesync",
    "drift": "SELECT queue, field, theirs, ours, author, reapplied_at FROM scheduling_queuedrift",
    "bypasses": "SELECT username, code, attempts, refused FROM scheduling_bypass",
    "backends": "SELECT name, offline, offline_requested FROM pools_backend ORDER BY name",
    "pools": "SELECT name, subpool_state, last_quota, guarantee, version FROM pools_pool ORDER BY name",
    "usage": "SELECT pool_id, used, total_usage, live_workflows, committed FROM pools_leafusage ORDER BY pool_id",
    "allocations": "SELECT namespace, name, state, request_tflops FROM pools_gpuallocation ORDER BY id",
    "audit": "SELECT id, object, action, before, after FROM pools_auditentry ORDER BY id",
}
"""What must be the same before and after the migration."""

# A name that Django or PostgreSQL made from names of that time says nothing about the rule itself, and a dump writes
# the casts of a condition in other places.
SCHEMA = r"""
SELECT 'column' AS kind, table_name AS place, format('%s %s default %s, null %s, identity %s, generated %s',
  column_name, udt_name, column_default, is_nullable, identity_generation, generation_expression) AS rule
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text,
  regexp_replace(conname, '^.*_[0-9a-f]{8}_fk_.*$|^[a-z_]+_check$', 'made') || ' ' ||
  regexp_replace(pg_get_constraintdef(oid), '::(character varying|text|text\[\])|[()]', '', 'g')
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index', tablename, regexp_replace(regexp_replace(indexdef, '_[0-9a-f]{8}( |_)', '_made\1'),
  '::(character varying|text|text\[\])|[()]', '', 'g')
FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'trigger', tgrelid::regclass::text, pg_get_triggerdef(pg_trigger.oid) || prosrc || tgenabled::text
FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal
"""
"""What the tables of a database promise: one row for each column, constraint, index, and trigger with its function."""


class UpgradedStack(Stack):
    """The processes of today on the database of 29ed02b4. `before` and `after` are the rows around the migration."""

    before: dict[str, list[dict[str, Any]]]
    after: dict[str, list[dict[str, Any]]] | None = None

    def create_database(self) -> None:
        """Restore the dump as one role, which owns everything, and migrate it with two roles."""
        with psycopg.connect(self.services.database_url("postgres"), autocommit=True) as session:
            session.execute(f"CREATE ROLE {OWNER} LOGIN; CREATE ROLE {RUNTIME} LOGIN; GRANT {RUNTIME} TO {OWNER}")
            session.execute(f"CREATE DATABASE {self.database} OWNER {RUNTIME} TEMPLATE template0 ENCODING 'UTF8'")
        with psycopg.connect(self.env["DATABASE_URL"], autocommit=True) as session:
            session.execute(gzip.decompress(DUMP.read_bytes()))
        self.before = self._rows()
        self.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('pools', '0027_uncounted_amounts', now())"
        )
        code, text = self.migrate()
        assert code != 0
        assert "install commit" in text, "a version in between is refused"
        assert self._rows() == self.before
        self.execute("DELETE FROM django_migrations WHERE name = '0027_uncounted_amounts'")
        done = self.migrate()
        assert done[0] == 0, done[1]
        assert "OSMO_OWNER_DATABASE_URL" not in done[1], "nothing remains to be warned of"
        self.after = self._rows()

    def migrate(self, *target: str) -> tuple[int, str]:
        """Exit code and errors of `osmo-admin manage migrate`. `target`: an app and a migration."""
        owner_url = self.env["DATABASE_URL"].replace(f"//{RUNTIME}@", f"//{OWNER}@")
        run = run_preloaded if self.after else run_osmo_admin
        done = run("manage", "migrate", *target, env={**self.addresses(), "OSMO_OWNER_DATABASE_URL": owner_url})
        return done.returncode, done.stderr

    def execute(self, sql: str) -> None:
        """Run a statement as the superuser."""
        with psycopg.connect(self.services.database_url(self.database), autocommit=True) as session:
            session.execute(sql)

    def addresses(self) -> dict[str, str]:
        """The environment of an operator's command."""
        return {name: self.env[name] for name in ("DATABASE_URL", "REDIS_URL", "OSMO_SECRET_KEY")}

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        return {subject: self.query(sql) for subject, sql in BEFORE.items()}

    def verify(self) -> tuple[int, str]:
        """Exit code and errors of `osmo-admin verify`."""
        done = run_preloaded("verify", env=self.addresses())
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def upgraded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> Iterator[UpgradedStack]:
    worker = getattr(request.config, "workerinput", {}).get("workerid")
    servers = KillableServers.create(current_services(worker).number)
    stack = UpgradedStack(
        servers, tmp_path_factory.mktemp("upgrade"), django_db_blocker, {"OSMO_SETTLE_INTERVAL": "0.5"}
    )
    try:
        servers.start_missing()
        stack.create_database()
        yield stack
    finally:
        stack.stop()
        servers.remove()


def test_the_migration_keeps_every_row(upgraded: UpgradedStack) -> None:
    assert upgraded.after
    assert {name: len(rows) for name, rows in upgraded.before.items()} == {
        name: len(rows) for name, rows in upgraded.after.items()
    }
    assert all(upgraded.before.values()), "the dump has rows of every kind"
    for subject, rows in upgraded.before.items():
        assert rows == upgraded.after[subject], subject


def test_what_the_single_role_owned_belongs_to_the_owner(upgraded: UpgradedStack) -> None:
    owners = upgraded.query(
        "SELECT DISTINCT owner::regrole::text AS name FROM ("
        " SELECT relowner AS owner FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " UNION SELECT proowner FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " UNION SELECT datdba FROM pg_database WHERE datname = current_database()) found"
    )
    assert owners == [{"name": OWNER}]
    with psycopg.connect(upgraded.env["DATABASE_URL"], autocommit=True) as session:
        for attack in ("ALTER TABLE pools_auditentry DISABLE TRIGGER USER", "DROP TABLE pools_auditentry"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(attack)


def test_a_new_database_has_the_same_tables(upgraded: UpgradedStack, django_db_setup: None, template: Services) -> None:
    """A new database is made by the initial migrations and those after them."""
    with psycopg.connect(template.database_url(template.database_name("test"))) as session:
        of_new = {tuple(row) for row in session.execute(SCHEMA)}
        made_by = {name for (name,) in session.execute("SELECT name FROM django_migrations WHERE app = 'pools'")}
    of_upgraded = read_rules(upgraded)
    assert made_by == {"0001_initial"}
    assert {kind for kind, _, _ in of_new} == {"column", "constraint", "index", "trigger"}
    assert sorted(of_new ^ of_upgraded) == []


def read_rules(upgraded: UpgradedStack) -> set[tuple[Any, ...]]:
    """The rows of SCHEMA."""
    return {tuple(row.values()) for row in upgraded.query(SCHEMA)}


def test_an_installation_that_has_had_every_former_migration_stays_as_it_is(upgraded: UpgradedStack) -> None:
    before = read_rules(upgraded)
    bridge = import_module("scheduling.migrations.0002_upgrade_from_29ed02b4")
    upgraded.execute("DELETE FROM django_migrations WHERE name = '0002_upgrade_from_29ed02b4'")
    record_migrations(upgraded, bridge.SINCE)
    code, text = upgraded.migrate()
    assert code == 0, text
    assert read_rules(upgraded) == before


def test_an_installation_between_two_commits_is_refused(upgraded: UpgradedStack) -> None:
    """One that has all former migrations but the last: the tables of today lack what the last one made."""
    before = read_rules(upgraded)
    upgraded.execute("DELETE FROM django_migrations WHERE name = '0002_upgrade_from_29ed02b4'")
    upgraded.execute("DELETE FROM django_migrations WHERE name = '0022_observed_owner'")
    code, text = upgraded.migrate()
    assert code != 0
    assert "install commit 70e03f34" in text
    assert read_rules(upgraded) == before
    record_migrations(upgraded, {"scheduling": ["0022_observed_owner"]})
    assert upgraded.migrate()[0] == 0


def record_migrations(upgraded: UpgradedStack, names: Mapping[str, Sequence[str]]) -> None:
    """As if these had run."""
    for app, of_app in names.items():
        for name in of_app:
            upgraded.execute(f"INSERT INTO django_migrations (app, name, applied) VALUES ('{app}', '{name}', now())")


def test_verify_is_clean_right_after_the_migration(upgraded: UpgradedStack) -> None:
    code, text = upgraded.verify()
    assert code == 0, text


def test_the_work_of_before_goes_on(upgraded: UpgradedStack) -> None:
    """Processes start; waiting work starts, a drain ends, new work is accepted, and the counters are right."""
    held = upgraded.query("SELECT status FROM scheduling_workflow WHERE name IN ('held-1', 'fresh-1', 'waits-1')")
    assert sorted(row["status"] for row in held) == ["PENDING", "PENDING", "RUNNING"]
    upgraded.start_processes()
    admin = upgraded.admin_client

    def status(name: str) -> str:
        return str(admin.get(f"/api/workflow/{name}").json()["status"])

    upgraded.wait_until(lambda: status("fresh-1") == "RUNNING", what="work that nobody had planned yet starts")
    assert status("held-1") == "RUNNING"
    assert status("waits-1") == "PENDING", "the GPU quota of its namespace is used up"
    answer = admin.post(
        "/api/pool/sandbox/workflow", params={"priority": "LOW"}, json={"file": world.workflow_file("new")}
    )
    assert answer.status_code == 200, answer.text
    upgraded.wait_until(lambda: status("new-1") == "RUNNING", what="new work starts")

    assert admin.get("/api/configs/pool/team/subpool/a").json()["subpool_state"] == "DELETING"
    assert admin.post("/api/workflow/held-1/end", json={"status": "COMPLETED"}).status_code == 200
    assert admin.get("/api/configs/pool/team/subpool/a").json()["subpool_state"] == "ARCHIVED"
    upgraded.wait_until(lambda: status("waits-1") == "RUNNING", what="the released GPU quota starts what waited for it")

    backends = {row["name"]: row for row in admin.get("/api/configs/backend").json()["backends"]}
    assert (backends["away"]["offline"], backends["lab"]["offline"]) == (True, False)
    entries = admin.get("/api/audit", params={"object": "backend/away"}).json()["entries"]
    assert entries[0]["sentence"], "entries written before the upgrade are read"
    tree = admin.get("/api/quota_tree", params={"root": "company"}).json()["nodes"]
    assert {"vision", "language", "science"} <= {node["name"] for node in tree}
    code, text = upgraded.verify()
    assert code == 0, text


def test_receipts_of_the_past_are_made_as_those_of_the_demo() -> None:
    """A migration stays as it is, so the statement stands twice. When it differs here, decide whether both change."""
    bridge = Path(migrations.__path__[0], "from_29ed02b4.sql").read_text(encoding="utf-8")
    assert " ".join(PAST_RECEIPTS.split()).rstrip("; ") in " ".join(bridge.split())


def test_an_installation_that_names_no_flavors_gets_columns_and_no_rows_of_them(upgraded: UpgradedStack) -> None:
    """Every row has the default of each column of flavors."""
    columns = upgraded.query(
        "SELECT table_name, column_name FROM information_schema.columns c JOIN information_schema.tables t"
        " USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        " AND column_name LIKE '%%flavor%%' ORDER BY 1, 2"
    )
    assert {row["table_name"] for row in columns} >= {"pools_pool", "pools_node", "scheduling_task"}
    for row in columns:
        table, column = row["table_name"], row["column_name"]
        found = upgraded.query(f"SELECT DISTINCT {column}::text AS found FROM {table}")
        assert {each["found"] for each in found} <= {"default", "", "[]", "{}", None}, (table, column)
    assert upgraded.query("SELECT count(*) AS rows FROM pools_flavorusage") == [{"rows": 0}]
