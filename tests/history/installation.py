"""The installation whose history is recorded: several processes of each kind, on servers of their own."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.privileges import find_database_account
from osmo_admin.ops.programs.processes import ChildProcess
from osmo_admin.ops.stores import postgres
from tests.faults.installation import FaultyInstallation
from tests.history import cluster, workload
from tests.history.cluster import HistoryCluster
from tests.support import own_servers
from tests.support.own_servers import KillableServers
from tests.support.preloading import start_service
from tests.support.stack import SECRET_KEY, find_free_port

CHILD_HOOKS = Path(__file__).resolve().parent / "child"
LOCK_TIMEOUT_MS = 2000

# The "trigger" fault: the counters of leaves no longer follow the reservations, and changes of pools leave no entry.
DISABLE_TRIGGERS = """
DO $$ DECLARE item record; BEGIN
  FOR item IN SELECT tgrelid::regclass AS relation, tgname FROM pg_trigger WHERE NOT tgisinternal AND (
      tgrelid = 'pools_reservation'::regclass AND tgname LIKE 'pgtrigger_count_update%'
      OR tgrelid = 'pools_pool'::regclass AND tgname LIKE 'pgtrigger_audit%') LOOP
    EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %I', item.relation, item.tgname);
  END LOOP;
END $$
"""


class _NoBlocker:
    """In place of pytest-django's guard of the database: nothing to unblock."""

    @contextmanager
    def unblock(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class HistoryServers(KillableServers):
    """Servers of which PostgreSQL remembers when each transaction was committed."""

    def start_database(self) -> None:
        """Start it on its data; it answers when this returns."""
        home, log = self.folder / "postgres", self.folder / "postgres.log"
        self._running["database"] = postgres.launch_postgres(
            home, self.folder, find_database_account(), log=log, durable=False,
            settings=own_servers.SETTINGS | {"track_commit_timestamp": "on"},
        )  # fmt: skip

    def process_id(self, name: str) -> int | None:
        """The process id of `database` or `broker`; None while it is down."""
        server = self._running.get(name)
        return server.child.pid if server else None


class HistoryInstallation(FaultyInstallation):
    """`counts` is the number of processes of each kind. Start and stop processes from the main thread: a child ends
    with the thread that started it."""

    def __init__(
        self, folder: Path, counts: dict[str, int], plant: str | None, *, with_cluster: bool, like: str | None
    ) -> None:
        super().__init__(HistoryServers.create(0), folder, _NoBlocker(), like)
        self.plant = plant
        self.cluster = HistoryCluster(folder / "cluster") if with_cluster else None
        self.pools = dict(workload.POOLS)
        if with_cluster:
            self.pools[workload.CLUSTER_POOL] = {"backend": cluster.BACKEND, "guarantee": cluster.GUARANTEE}
        self.names = [f"{kind}-{number}" for kind, count in counts.items() for number in range(1, count + 1)]
        self.ports = {name: find_free_port() for name in self.names if name.startswith(process_commands.WEB)}
        self.base_urls = [f"http://127.0.0.1:{port}" for port in self.ports.values()]
        self.base_url = self.base_urls[0]
        self.env |= {
            "OSMO_SECRET_KEY": SECRET_KEY,
            "OSMO_PUBLIC_URL": self.base_url,
            "OSMO_LOCK_TIMEOUT_MS": str(LOCK_TIMEOUT_MS),
            "PYTHONPATH": os.pathsep.join([str(CHILD_HOOKS), self.env["PYTHONPATH"]]),
            "DJANGO_SETTINGS_MODULE": "history_settings",
            "HISTORY_PLANT": plant or "",
        }

    def start(self) -> None:
        """Start everything on an empty database, with the pools and users of the workload."""
        if self.cluster is not None:
            self.cluster.start()
        super().start()
        self._prepare()

    def start_processes(self) -> None:
        """Start every process; wait until `/ready` reports all kinds as working."""
        for name in self.names:
            self.start_process(name)
        self.wait_ready()

    def start_process(self, name: str) -> ChildProcess:
        """Start (again) one process."""
        kind = name.rpartition("-")[0]
        command = {
            process_commands.WEB: lambda: process_commands.web_command("127.0.0.1", self.ports[name], workers=1),
            process_commands.WORKER: lambda: process_commands.worker_command(processes=1),
            process_commands.BEAT: process_commands.beat_command,
            process_commands.CLUSTERS: process_commands.clusters_command,
        }[kind]()
        env = self.env | {"HISTORY_CLOCK": str(self.clock_file(name))}
        python, option, *words = command
        command = [python, option, "tests.history.begin", *words]
        self.children[name] = start_service(name, command, log=self.folder / f"{name}.log", env=env)
        return self.children[name]

    def stop(self) -> None:
        """Kill everything and remove its data."""
        for name in self.children:
            with suppress(ProcessLookupError):
                os.killpg(self.children[name].pid, signal.SIGCONT)
        super().stop()
        if self.cluster is not None:
            self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def plant_fault(self) -> None:
        """Switch off what the planted fault switches off in the database; the rest is in `child/sitecustomize.py`."""
        if self.plant == "trigger":
            with psycopg.connect(self.database_url, autocommit=True) as session:
                session.execute(DISABLE_TRIGGERS)

    # --- faults ---
    def clock_file(self, name: str) -> Path:
        """The file that shifts the clock of this process."""
        return self.folder / f"{name}.clock"

    def shift_clock(self, name: str, seconds: float) -> None:
        """Shift the wall clock of one process; 0 sets it right."""
        self.clock_file(name).write_text(str(seconds))

    def limit_log(self, name: str) -> None:
        """From now on no file of this process can grow, as on a full disk (EFBIG in place of ENOSPC)."""
        size = (self.folder / f"{name}.log").stat().st_size
        self._set_file_limit(name, size)

    def unlimit_log(self, name: str) -> None:
        """Files can grow again."""
        self._set_file_limit(name, resource.RLIM_INFINITY)

    def _set_file_limit(self, name: str, size: int) -> None:
        for pid in [self.children[name].pid, *self.child_pids_of(name)]:
            with suppress(ProcessLookupError):
                hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))

    def database_sessions(self) -> list[int]:
        """The process ids of PostgreSQL's sessions that serve the installation, oldest first."""
        rows = self.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend' ORDER BY backend_start, pid"
        )
        return [row["pid"] for row in rows]

    # --- preparing ---
    def _prepare(self) -> None:
        admin = self.admin_client
        for name, body in workload.BACKENDS.items():
            admin.put(f"/api/configs/backend/{name}", json=body).raise_for_status()
        for name, body in workload.COHORTS.items():
            admin.put(f"/api/configs/cohort/{name}", json=body).raise_for_status()
        if self.cluster is not None:
            body = self.cluster.backend_body()
            admin.put(f"/api/configs/backend/{cluster.BACKEND}", json=body).raise_for_status()
        for name, settings in self.pools.items():
            admin.put(f"/api/configs/pool/{name}", json=workload.pool_config(settings)).raise_for_status()
            is_whole = name in workload.WHOLE_NODE_POOLS
            quotas = workload.WHOLE_NODE_QUOTAS if is_whole else workload.FIRST_QUOTAS
            for subpool, quota in quotas.items():
                body = {"subpool_name": subpool, "quota": quota}
                admin.post(f"/api/configs/pool/{name}/subpool", json=body).raise_for_status()
        for namespace in workload.NAMESPACES:
            body = {"spec": workload.gpu_spec(10)}
            admin.put(f"/api/configs/gpu_quota/{namespace}", json=body).raise_for_status()
        for user in workload.SCRATCH_USERS:
            admin.post("/api/auth/user", json={"id": user}).raise_for_status()

    def login_tokens(self, clients: int) -> dict[str, str]:
        """User → access token, of each client: three of four are platform admins, the others admins of every pool."""
        everywhere = tuple(f"osmo-{pool}-admin" for pool in self.pools)
        return {
            f"client-{number}": self.access_token(
                f"client-{number}", *(("osmo-admin",) if workload.is_platform_admin(number) else everywhere)
            )
            for number in range(clients)
        }

    def verify(self) -> list[str]:
        """The differences that `osmo-admin verify` finds."""
        with self.orm():
            from scheduling.services.verify import verify

            found: list[Any] = verify()
            return [str(each) for each in found]
