"""`osmo-admin backup` and `restore`: from a running installation into an empty one on another database server."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from osmo_admin.backups import files
from osmo_admin.ops.stores.postgres import DATABASE, OWNER, RUNTIME, ensure_database
from scheduling.services.restored import AHEAD, VERSIONED
from tests.support import world
from tests.support.own_servers import KillableServers
from tests.support.services import current_services
from tests.support.stack import SECRET_KEY, Stack
from tests.support.up import run_osmo_admin, run_preloaded

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


class Restored(Stack):
    """An installation on servers of its own, whose database a test restores."""

    def create_database(self) -> None:
        """An empty database with the two roles."""
        self.database = DATABASE
        ensure_database(self.services._running["database"])  # type: ignore[attr-defined]
        self.database_url = self.services.database_url(DATABASE)
        self.env["DATABASE_URL"] = self.services.runtime_url(DATABASE)

    def command(self, *arguments: str | Path, env: dict[str, str] | None = None) -> Any:
        """One command of the operator on this installation."""
        owner = self.env["DATABASE_URL"].replace(f"//{RUNTIME}@", f"//{OWNER}@")
        names = ("DATABASE_URL", "REDIS_URL", "OSMO_SECRET_KEY")
        known = {name: self.env[name] for name in names} | {"OSMO_OWNER_DATABASE_URL": owner}
        return run_preloaded(*arguments, env={**known, **(env or {})}, seconds=120)


@pytest.fixture(scope="module")
def other(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> Iterator[Restored]:
    """An empty database on a server of its own, which counts its transactions from the beginning."""
    worker = getattr(request.config, "workerinput", {}).get("workerid")
    servers = KillableServers.create(current_services(worker).number)
    stack = Restored(servers, tmp_path_factory.mktemp("restored"), django_db_blocker, {"OSMO_SETTLE_INTERVAL": "600"})
    stack._numbers = itertools.count(1000)  # other names than those of the backup
    try:
        servers.start_missing()
        stack.create_database()
        yield stack
    finally:
        stack.stop()
        servers.remove()


def put(client: httpx.Client, what: str, body: dict[str, Any]) -> None:
    """Configure something."""
    answer = client.put(f"/api/configs/{what}", json=body)
    assert answer.status_code == 200, answer.text


def back_up(stack: Stack, folder: Path, *options: str | Path) -> Any:
    """The command on the running installation, as the role of the processes."""
    names = ("DATABASE_URL", "REDIS_URL", "OSMO_SECRET_KEY")
    return run_osmo_admin("backup", folder, *options, env={name: stack.env[name] for name in names})


@dataclass
class Story:
    """What happened: the names acknowledged before the backup, whether more came meanwhile, and the output."""

    pool: str
    cluster: str
    before: list[str]
    went_on: bool
    manifest: dict[str, Any]
    output: str


@pytest.fixture(scope="module")
def story(stack: Stack, other: Restored, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A backup while work is submitted, encrypted, and restored as a copy."""
    folder = tmp_path_factory.mktemp("story")
    admin, pool, backend = stack.admin_client, stack.unique_name("team"), stack.unique_name("sim")
    node = {"name": "n1", "gpus": 8}
    put(admin, f"backend/{backend}", {"type": "simulated", "namespace": "ns", "nodes": [node]})
    gpu = {"guarantee": 8, "maximum": -1, "weight": 1}
    put(admin, f"pool/{pool}", {"configs": {"backend": backend, "resources": {"gpu": gpu}, "approval_above": 2}})
    made = admin.post(f"/api/configs/pool/{pool}/subpool", json={"subpool_name": "a", "quota": 1})
    assert made.status_code == 200, made.text
    waits = admin.patch(
        f"/api/configs/pool/{pool}/subpool/a", params={"request_approval": True}, json={"quota": 8},
        headers={"If-Match": made.headers["ETag"]},
    )  # fmt: skip
    assert waits.status_code == 202, waits.text
    cluster = stack.unique_name("kube")
    put(admin, f"backend/{cluster}", {"type": "kubernetes", "namespace": cluster, "access": "in_cluster"})
    recipient = files.new_identity(folder / "identity")
    stop, accepted = threading.Event(), list[str]()

    def submit() -> None:
        while not stop.is_set():
            answer = admin.post(f"/api/pool/{pool}/workflow", json={"file": world.workflow_file("load")})
            assert answer.status_code == 200, answer.text
            accepted.append(answer.json()["name"])

    writer = threading.Thread(target=submit)
    writer.start()
    try:
        stack.wait_until(lambda: len(accepted) > 3, what="work is submitted")
        before = list(accepted)
        done = back_up(stack, folder / "backup", "--recipient", recipient)
        went_on = len(accepted) > len(before)
    finally:
        stop.set()
        writer.join()
    assert done.returncode == 0, done.stderr
    assert not (folder / "backup").stat().st_mode & 0o077
    assert (folder / "backup" / "database.dump.age").read_bytes().startswith(b"age-encryption.org/v1\n")
    manifest = json.loads((folder / "backup" / "manifest.json").read_text())
    (last,) = stack.query("SELECT size, now() - made_at < interval '5 minutes' AS is_new FROM pools_lastbackup")
    assert last == {"size": manifest["size"], "is_new": True}, "for the metric of its age"
    done = other.command("restore", folder / "backup", "--identity", folder / "identity")
    assert done.returncode == 0, done.stdout + done.stderr
    return Story(pool, cluster, before, went_on, manifest, done.stdout)


def test_a_backup_under_load_is_restored_and_verified(story: Story, other: Restored) -> None:
    assert story.went_on, "work was submitted during the backup"
    assert "Restored and verified" in story.output
    found = {row["name"] for row in other.query("SELECT name FROM scheduling_workflow")}
    assert set(story.before) <= found, "what was acknowledged before the backup is in it"
    assert len(found) == story.manifest["rows"]["scheduling_workflow"]


def test_a_copy_cannot_work_next_to_the_original(story: Story, other: Restored) -> None:
    (sentence,) = (line for line in story.output.splitlines() if line.startswith("This is a copy: its backends "))
    assert re.search(rf"\b{story.cluster}\b", sentence)  # among those of other tests
    (row,) = other.query(
        "SELECT access, kubeconfig_file, sync_mode FROM pools_kubernetessettings"
        f" JOIN pools_backend backend ON backend.id = backend_id WHERE backend.name = '{story.cluster}'"
    )
    assert row == {"access": "file", "kubeconfig_file": "restored-without-credentials", "sync_mode": "off"}


def test_numbers_of_the_former_server_are_forgotten(story: Story, other: Restored) -> None:
    (row,) = other.query(
        "SELECT max(transaction)::text AS largest, pg_current_xact_id()::text AS now,"
        " (SELECT count(*) FROM scheduling_backendschedulingstate) AS states FROM pools_auditentry"
    )
    assert int(row["largest"]) < int(row["now"])
    assert row["states"] == 0
    columns = other.query(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND data_type IN ('xid8', 'pg_snapshot') ORDER BY 1, 2"
    )
    assert [tuple(each.values()) for each in columns] == [
        ("pools_auditentry", "transaction"),
        ("scheduling_usageprogress", "horizon"),
    ], "scheduling/services/restored.py has to know each column with numbers of transactions"


def test_no_number_is_given_again(story: Story, other: Restored) -> None:
    """Clients hold versions and ids of the time that is lost."""
    tables = other.query(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'version'"
        " AND table_name NOT LIKE '%%\\_%%event' ORDER BY 1"
    )
    names = [each["table_name"] for each in tables]
    assert names == sorted(model._meta.db_table for model in VERSIONED)
    for name in names:
        assert other.query(f"SELECT 1 FROM {name} WHERE version <= {AHEAD}") == []
    assert other.query(f"SELECT sequencename FROM pg_sequences WHERE last_value < {AHEAD}") == []
    (request,) = other.query(
        "SELECT expected_version - version AS difference FROM pools_approvalrequest JOIN pools_pool ON name = subject"
        f" WHERE subject LIKE '{story.pool}%'"
    )
    assert request == {"difference": 0}, "what waits for an approval is still about the version that was seen"


def test_triggers_and_rights_are_there_again(story: Story, other: Restored) -> None:
    with psycopg.connect(other.env["DATABASE_URL"]) as session:
        with pytest.raises(psycopg.Error, match="audit"):
            session.execute("DELETE FROM pools_auditentry")
        session.rollback()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("TRUNCATE pools_auditentry")


@pytest.mark.nightly
def test_a_restored_installation_goes_on(story: Story, other: Restored) -> None:
    other.start_processes()
    client = other.client_for("admin")
    body = {"file": world.workflow_file("new", gpus=0)}
    answer = client.post(f"/api/pool/{story.pool}/workflow?priority=LOW", json=body)
    assert answer.status_code == 200, answer.text
    running = "SELECT 1 FROM scheduling_workflow WHERE name = %s AND status = 'RUNNING'"
    other.wait_until(lambda: other.query(running, answer.json()["name"]), what="new work is planned")
    with client.stream("GET", "/api/events", headers={"Last-Event-ID": "1"}) as events:
        assert next(line for line in events.iter_lines() if line.startswith("data:")), "older entries are in the stream"
    assert other.command("verify").returncode == 0


def test_a_new_data_directory_gets_the_database_and_the_secrets(stack: Stack, data_dir: Path, tmp_path: Path) -> None:
    done = back_up(stack, tmp_path / "backup", "--secrets", tmp_path / "secrets.json")
    assert done.returncode == 0, done.stderr
    assert SECRET_KEY not in (tmp_path / "backup" / "manifest.json").read_text()
    assert not (tmp_path / "secrets.json").stat().st_mode & 0o077
    restore = ("restore", tmp_path / "backup", "--data-dir", data_dir, "--replace")
    done = run_osmo_admin(*restore, "--secrets", tmp_path / "secrets.json", seconds=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Restored and verified" in done.stdout
    assert "This is a copy" not in done.stdout
    assert "OSMO_SECRET_KEY is not the one" not in done.stdout
    assert json.loads((data_dir / "secrets.json").read_text())["OSMO_SECRET_KEY"] == SECRET_KEY
    again = run_preloaded(*restore, seconds=120)
    assert again.returncode == 1
    assert "A backup is restored into an empty database only, and nothing was changed" in again.stderr
