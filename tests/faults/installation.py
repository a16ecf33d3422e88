"""An installation with servers of its own, each part of which may be killed, and the checks that it is consistent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis

from osmo_admin.ops.programs import process_commands
from tests.support import database, world
from tests.support.children import popen_of
from tests.support.own_servers import KillableServers
from tests.support.stack import Stack

GPUS = 10_000
LOCK_TIMEOUT = 1.0
_OFFLINE = """
    UPDATE pools_backend SET offline = %s FROM pools_pool
    WHERE pools_pool.backend_id = pools_backend.id AND pools_pool.name = %s RETURNING pools_backend.id
"""


LEASES = {
    process_commands.BEAT: ("scheduling_beatlease",),
    process_commands.CLUSTERS: ("scheduling_clusterstate", "scheduling_gpucontrollerlease", "scheduling_queuesync"),
}


class FaultyInstallation(Stack):
    """The running installation, with its servers. Each part is killed and started on its own. `like`: the address of a
    migrated database."""

    def __init__(self, servers: KillableServers, folder: Path, blocker: Any, like: str | None) -> None:
        own = {
            "OSMO_LOCK_TIMEOUT_MS": str(round(LOCK_TIMEOUT * 1000)), "OSMO_ADMIN_HOME": str(folder),
            "OSMO_SETTLE_INTERVAL": "1",
        }  # fmt: skip
        super().__init__(servers, folder, blocker, own)
        self.servers, self.like = servers, like

    def start(self) -> None:
        """Start the servers and all processes on an empty database."""
        self.servers.start_missing()
        with self._blocker.unblock():
            database.ensure_template(self.servers, self.like)
        super().start()

    def stop(self) -> None:
        """Kill everything and remove its data."""
        for client in self._clients:
            client.close()
        self.close_session()
        for name in self.children:
            self.kill_process(name)
        self.servers.remove()

    def restart_dead(self) -> None:
        """Start killed parts again, as a supervisor would; does not wait until they answer."""
        self.servers.start_missing()
        for name, child in list(self.children.items()):
            if child.exit_code() is not None:
                self.kill_process(name)  # the rest of its process group
                self.end_leases(name)
                self.start_process(name)

    def end_leases(self, name: str) -> None:
        """The leases of a killed process end now and not in some seconds. That its successor waits no longer than that:
        test_two_beats.py and tests/integration/dispatch/test_killed_process.py."""
        for table in LEASES.get(name, ()):
            self.query(f"UPDATE {table} SET lease_holder = NULL, lease_expires_at = NULL RETURNING 1")

    # --- killing ---
    def kill_process(self, name: str) -> None:
        """SIGKILL to one part, with all its processes."""
        self.children[name].kill_group()
        popen_of(self.children[name]).wait(60)

    def child_pids_of(self, name: str) -> list[int]:
        """The child processes of one part."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == self.children[name].pid and state != "Z":
                found.append(int(folder.name))
        return found

    def kill_children_of(self, name: str) -> None:
        """SIGKILL to the child processes of one part; the parent lives."""
        for pid in self.child_pids_of(name):
            os.kill(pid, signal.SIGKILL)

    @contextmanager
    def suspend_process(self, name: str) -> Iterator[None]:
        """Suspend one part (SIGSTOP), then continue it."""
        group = self.children[name].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def process_ids(self) -> dict[str, int]:
        """The process ids, to show later that none was restarted."""
        assert all(child.exit_code() is None for child in self.children.values())
        return {name: child.pid for name, child in self.children.items()}

    # --- preparing ---
    def make_pools(self, count: int) -> list[str]:
        """Pools on a backend of their own with enough GPUs for all tests."""
        with self.orm():
            backend = world.make_backend(self.unique_name("backend"), nodes=4, gpus=GPUS)
            return [world.make_pool(self.unique_name("pool"), GPUS, on=backend).name for _ in range(count)]

    def set_offline(self, pool: str) -> None:
        """Nothing starts on this pool's backend."""
        self.query(_OFFLINE, True, pool)

    def set_online(self, pool: str) -> None:
        """Work may start again, without a notification: a periodic task notices it."""
        self.query(_OFFLINE, False, pool)

    def broker_client(self) -> redis.Redis:
        """A client of the broker."""
        return redis.Redis.from_url(self.env["REDIS_URL"])

    @contextmanager
    def hold_locks(self, query: str, *parameters: object) -> Iterator[None]:
        """Another session holds the locks that this query takes."""
        with psycopg.connect(self.database_url, application_name="somebody") as session:
            assert session.execute(query, parameters).fetchall()  # type: ignore[call-overload]
            yield
            session.rollback()

    @contextmanager
    def hold_tables(self, *names: str) -> Iterator[None]:
        """Another session holds exclusive locks on these tables."""
        with psycopg.connect(self.database_url, application_name="somebody") as session:
            session.execute(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE")
            yield
            session.rollback()

    def is_waiting_for_lock(self) -> bool:
        """Whether a session of the installation waits for a lock that the test holds. It may be any session: a
        periodic task too, which writes a row that refers to a locked one."""
        waiting = (
            "SELECT FROM pg_stat_activity waiting JOIN pg_stat_activity holder"
            " ON holder.pid = ANY (pg_blocking_pids(waiting.pid))"
            " WHERE waiting.application_name = 'osmo-admin' AND holder.application_name = 'somebody'"
        )
        return bool(self.query(waiting))

    def is_in_transaction(self) -> bool:
        """Whether a session of the installation has a transaction, such as one whose process was killed."""
        busy = "SELECT FROM pg_stat_activity WHERE state <> 'idle' AND application_name = 'osmo-admin'"
        return bool(self.query(busy))

    # --- checking ---
    def check_notifications(self, pool: str) -> None:
        """A notification starts work without Celery beat."""
        with self.suspend_process(process_commands.BEAT):
            self.wait_until(lambda: self._is_started_at_once(pool), what="a notification starts work")

    def _is_started_at_once(self, pool: str) -> bool:
        name = self.unique_name("notified")
        assert self.submit(pool, name).status_code == 200
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and set(self.workflow_statuses(name).values()) != {"RUNNING"}:
            time.sleep(0.05)
        return set(self.workflow_statuses(name).values()) == {"RUNNING"}

    def workflow_statuses(self, spec_name: str) -> dict[str, str]:
        """Workflow → status, of all workflows submitted under this name."""
        rows = self.query("SELECT name, status FROM scheduling_workflow WHERE spec_name = %s", spec_name)
        return {row["name"]: row["status"] for row in rows}

    def audited_workflows(self, action: str, spec_name: str) -> list[str]:
        """The workflows of this name in the audit entries of this action, once for each entry."""
        rows = self.query(
            "SELECT workflow.name FROM pools_auditentry entry JOIN scheduling_workflow workflow"
            " ON entry.object = 'workflow/' || workflow.name"
            " WHERE entry.action = %s AND workflow.spec_name = %s ORDER BY 1",
            action,
            spec_name,
        )
        return [row["name"] for row in rows]

    def wait_all_running(self, spec_name: str, *, seconds: float = 60) -> None:
        """All workflows submitted under this name start, each exactly once."""
        self.wait_until(
            lambda: set(self.workflow_statuses(spec_name).values()) == {"RUNNING"},
            seconds=seconds,
            what=f"all {spec_name} run",
        )
        assert self.audited_workflows("workflow.started", spec_name) == sorted(self.workflow_statuses(spec_name))

    def assert_consistent(self) -> None:
        """`osmo-admin verify` finds nothing."""
        with self.orm():
            from scheduling.services.verify import verify

            assert verify() == []

    def wait_serving(self, pool: str, *, seconds: float = 60) -> float:
        """New work is accepted and started. Returns the seconds that this took."""
        began, name = time.monotonic(), self.unique_name("fresh")

        def is_accepted() -> bool:
            try:
                return self.submit(pool, name).status_code == 200
            except httpx.TransportError:
                return False

        self.wait_until(is_accepted, seconds=seconds, what="a submission is accepted")
        self.wait_all_running(name, seconds=seconds)
        return time.monotonic() - began

    def submit(self, pool: str, name: str, *, count: int = 1) -> httpx.Response:
        """Submit one workflow, or many at once, as admin."""
        file = world.workflow_file(name)
        if count == 1:
            return self.admin_client.post(f"/api/pool/{pool}/workflow", json={"file": file})
        return self.admin_client.post(f"/api/pool/{pool}/workflows", json={"workflows": [{"file": file}] * count})
