"""`osmo-admin up`: start and stop all processes in order, as one unit.

Order of the start: database and broker, migrations and defaults, then web, worker, beat and clusters together (and the
webhook server, if a port is given). Order of the stop: those services together, then the broker, then the database.
If one child dies, all others are stopped, because a part of the system would mislead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from osmo_admin.ops import certificates, keys, log_files, orphans, ports, postgres, process_commands, readiness, valkey
from osmo_admin.ops.data_directory import DataDirectory, DataDirectoryLock, write_private_file
from osmo_admin.ops.errors import OperationError
from osmo_admin.ops.privileges import can_reach, change_owner, find_database_account
from osmo_admin.ops.processes import ChildProcess, start_child, stop_children

READY_SECONDS = 90.0
BOOTSTRAP_SECONDS = 600.0
# In total less than ten seconds, the limit for Ctrl-C.
SERVICES_GRACE = 5.0
BROKER_GRACE = 1.5
DATABASE_GRACE = 2.5
WATCH_SECONDS = 0.2
TRIM_SECONDS = 60.0
# The shortest limit of all supported systems (macOS), less the longest file name in the folder.
SOCKET_DIR_LENGTH = 103 - len("/.s.PGSQL.5432.lock")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """Options of the operator. `port` None: 8000 or the next free one."""

    data_dir: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    demo: bool = True
    check: bool = False
    dev: bool = False
    webhook_port: int | None = None


class _StopRequested(Exception):
    """A signal requested the stop during the start."""


class Supervisor:
    """One run of `osmo-admin up`."""

    def __init__(self, options: SupervisorOptions, report: Callable[[str], None]) -> None:
        self.options = options
        self.report = report
        self.data = DataDirectory.open(options.data_dir)
        self.lock = DataDirectoryLock(self.data)
        self.socket_dir: Path | None = None
        self.database: postgres.PostgresServer | None = None
        self.broker: valkey.ValkeyServer | None = None
        self.services: list[ChildProcess] = []
        self.env: dict[str, str] = {}
        self.url = ""
        self._signals = 0

    def run(self) -> int:
        """Run until a signal requests the stop. Returns the exit code; raises OperationError if the start fails."""
        self._refuse_exposed_dev_login()
        self.data.prepare()
        self.lock.acquire()
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self._on_signal)
            try:
                self._start_everything()
                code = self._run_check() if self.options.check else self._watch()
            except _StopRequested:
                code = 0
        finally:
            self._stop_everything()
        return code

    # --- up ---------------------------------------------------------------------------------------------------------
    def _start_everything(self) -> None:
        for name in orphans.end_orphans(self.data):
            self.report(f"Ended {name}, which a killed start had left running.")
        log_files.trim_logs(self.data.logs)
        port = ports.choose_port(self.options.host, self.options.port)
        self.url = readiness.local_url(self.options.host, port)
        public_url = os.environ.get("OSMO_PUBLIC_URL") or self.url
        runtime = {
            "DATABASE_URL": os.environ.get("DATABASE_URL") or self._start_database(),
            "REDIS_URL": os.environ.get("REDIS_URL") or self._start_broker(),
            "OSMO_SECRET_KEY": os.environ.get("OSMO_SECRET_KEY") or keys.load_secret_key(self.data),
            "OSMO_PUBLIC_URL": public_url,
            "OSMO_LOCAL_URL": self.url,
        }
        self.env = self._service_environment(runtime)
        login = self._run_bootstrap()
        write_private_file(self.data.runtime, json.dumps(runtime, indent=2) + "\n")
        self._start_service(
            process_commands.WEB, process_commands.web_command(self.options.host, port), self._prepare_metrics_folder()
        )
        self._start_webhook()
        self._start_service(process_commands.WORKER, process_commands.worker_command())
        self._start_service(process_commands.BEAT, process_commands.beat_command())
        self._start_service(process_commands.CLUSTERS, process_commands.clusters_command())
        self._wait_ready()
        self._print_summary(public_url, login)

    def _start_database(self) -> str:
        account = find_database_account()
        home = self.data.postgres_home(account)
        log = self.data.logs / "postgres.log"
        self.database = postgres.launch_postgres(
            home, self._ensure_socket_dir(), account, log=log, report=self.report, check_stop=self._raise_if_stopping
        )
        self._record_children()
        postgres.ensure_database(self.database)
        self._raise_if_stopping()
        return self.database.url()

    def _start_broker(self) -> str:
        self.broker = valkey.launch_valkey(
            self.data.valkey, self._ensure_socket_dir(), log=self.data.logs / "valkey.log"
        )
        self._record_children()
        self._raise_if_stopping()
        return self.broker.url()

    def _ensure_socket_dir(self) -> Path:
        """A private folder for Unix sockets: in the data directory if its path is short, else a temporary one."""
        if self.socket_dir is None:
            account = find_database_account()
            inside = self.data.root / "run"
            if len(str(inside)) <= SOCKET_DIR_LENGTH and can_reach(account, self.data.root):
                inside.mkdir(mode=0o700, exist_ok=True)
                self.socket_dir = inside
            else:
                self.socket_dir = Path(tempfile.mkdtemp(prefix="osmo-", dir=_short_temporary_folder()))
            change_owner(account, self.socket_dir)
        return self.socket_dir

    def _service_environment(self, runtime: Mapping[str, str]) -> dict[str, str]:
        """The environment of web, worker, beat and clusters, the same for all."""
        hosts = [part for part in os.environ.get("OSMO_ALLOWED_HOSTS", "").split(",") if part]
        return {
            **os.environ,
            **runtime,
            "OSMO_ADMIN_HOME": str(self.data.root),
            "OSMO_ALLOWED_HOSTS": ",".join(dict.fromkeys([*hosts, *LOOPBACK, *_host_names(self.options.host)])),
            "OSMO_DEV_LOGIN": "true" if self.options.dev else os.environ.get("OSMO_DEV_LOGIN", "false"),
            "DJANGO_SETTINGS_MODULE": "osmo_admin.settings",
            "PYTHONUNBUFFERED": "1",
            orphans.INSTALLATION_VARIABLE: str(self.data.root),
        }

    def _run_bootstrap(self) -> str:
        """Migrate and seed. Returns the login hint, which shows a generated password only this once."""
        configured = os.environ.get("OSMO_ADMIN_PASSWORD")
        password = configured or keys.generate_password()
        log = self.data.logs / "bootstrap.log"
        log.unlink(missing_ok=True)
        arguments = ["--demo"] if self.options.demo else []
        child = start_child(
            "bootstrap",
            process_commands.bootstrap_command(*arguments),
            log=log,
            env={**self.env, "OSMO_ADMIN_PASSWORD": password},
        )
        self.services.append(child)
        deadline = time.monotonic() + BOOTSTRAP_SECONDS
        while (code := child.exit_code()) is None:
            self._raise_if_stopping()
            self._check_children(expected=child)
            if time.monotonic() > deadline:
                raise OperationError(f"Preparing the database took longer than {BOOTSTRAP_SECONDS:.0f} s; see {log}.")
            time.sleep(0.05)
        self.services.remove(child)
        if code:
            raise OperationError(f"The database could not be prepared (exit code {code}):\n{child.log_tail()}")
        if not _last_json_object(child.log_tail(200)).get("admin_created"):
            return "admin, with the password of the first start"
        if configured:
            return "admin, with the password in OSMO_ADMIN_PASSWORD"
        return f"admin / {password}   (shown this once; change it after logging in)"

    def _start_service(self, name: str, command: list[str], extra_env: Mapping[str, str] | None = None) -> None:
        env = {**self.env, **(extra_env or {})}
        self.services.append(start_child(name, command, log=self.data.logs / f"{name}.log", env=env))
        self._record_children()

    def _start_webhook(self) -> None:
        """Start the webhook server, if a port is given. Its certificate is created or renewed first."""
        port = self.options.webhook_port
        if port is None:
            return
        public_host = urlsplit(os.environ.get("OSMO_WEBHOOK_URL", "")).hostname
        hosts = {
            "localhost",
            "127.0.0.1",
            "::1",
            *_host_names(self.options.host),
            *([public_host] if public_host else []),
        }
        certificate = certificates.ensure_certificate(self.data.webhook, {host.strip("[]") for host in hosts})
        allowed = ",".join([self.env["OSMO_ALLOWED_HOSTS"], *sorted(certificate.hosts)])
        extra_env = {process_commands.METRICS_DIR: str(self.data.metrics), "OSMO_ALLOWED_HOSTS": allowed}
        command = process_commands.webhook_command(self.options.host, port, certificate.certificate, certificate.key)
        self._start_service(process_commands.WEBHOOK, command, extra_env)

    def _prepare_metrics_folder(self) -> dict[str, str]:
        shutil.rmtree(self.data.metrics, ignore_errors=True)
        self.data.metrics.mkdir(mode=0o700)
        return {process_commands.METRICS_DIR: str(self.data.metrics)}

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            self._raise_if_stopping()
            self._check_children()
            answer = readiness.check_readiness(self.url)
            if answer.is_ready:
                return
            if time.monotonic() > deadline:
                raise OperationError(f"Not ready after {READY_SECONDS:.0f} s ({answer.reason}). Logs: {self.data.logs}")
            time.sleep(0.1)

    def _print_summary(self, public_url: str, login: str) -> None:
        logs = ", ".join(sorted(path.name for path in self.data.logs.glob("*.log")))
        self.report(f"Ready:  {public_url}")
        self.report(f"Login:  {login}")
        if self.options.webhook_port is not None:
            self.report(f"Hooks:  https, port {self.options.webhook_port}; osmo-admin webhook install BACKEND --url …")
        self.report(f"Data:   {self.data.root}")
        if self.data.postgres_location.exists():
            self.report(
                f"        database in {self.data.postgres_location.read_text().strip()}: its user cannot enter that one"
            )
        self.report(f"Logs:   {self.data.logs}/ ({logs})")
        if self.options.dev:
            self.report("Dev login is on: everyone who reaches this address may log in under any name.")
        if self.database is not None:
            self.report(
                "PostgreSQL and Valkey are embedded, for one machine; set DATABASE_URL and REDIS_URL for others."
            )
        self.report(f"Stop:   Ctrl-C, or: osmo-admin down --data-dir {self.data.root}")

    # --- running ----------------------------------------------------------------------------------------------------
    def _watch(self) -> int:
        trimmed = time.monotonic()
        while not self._signals:
            self._check_children()
            if time.monotonic() - trimmed > TRIM_SECONDS:
                log_files.trim_logs(self.data.logs)
                trimmed = time.monotonic()
            time.sleep(WATCH_SECONDS)
        return 0

    def _run_check(self) -> int:
        """`--check`: submit one workflow, wait until a Celery task has started it, then stop."""
        log = self.data.logs / "check.log"
        log.unlink(missing_ok=True)
        child = start_child("check", process_commands.round_trip_command(self.url), log=log, env=self.env)
        self.services.append(child)
        while (code := child.exit_code()) is None:
            self._raise_if_stopping()
            self._check_children(expected=child)
            time.sleep(0.05)
        self.services.remove(child)
        self.report(child.log_tail())
        return 1 if code else 0

    def _running_children(self) -> list[ChildProcess]:
        servers = [server.child for server in (self.database, self.broker) if server is not None]
        return [*servers, *self.services]

    def _check_children(self, *, expected: ChildProcess | None = None) -> None:
        """Raises OperationError with the end of the log if a child has died."""
        for child in self._running_children():
            code = child.exit_code()
            if code is None or child is expected:
                continue
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise OperationError(
                f"{child.name} (process {child.pid}) {how}; stopping everything. "
                f"The last lines of {child.log}:\n{child.log_tail()}"
            )

    # --- down -------------------------------------------------------------------------------------------------------
    def _stop_everything(self) -> None:
        if self._running_children():
            self.report("Stopping.")
        stop_children(self.services, grace=SERVICES_GRACE)
        if self.broker is not None:
            stop_children([self.broker.child], grace=BROKER_GRACE)
        if self.database is not None:
            stop_children([self.database.child], grace=DATABASE_GRACE)
        self.data.runtime.unlink(missing_ok=True)
        self.data.children.unlink(missing_ok=True)
        if self.socket_dir is not None:
            shutil.rmtree(self.socket_dir, ignore_errors=True)
        self.lock.release()

    def _on_signal(self, number: int, frame: object) -> None:
        """The first signal requests the stop; a second one kills the remaining children."""
        self._signals += 1
        if self._signals > 1:
            for child in self._running_children():
                child.kill_group()

    def _raise_if_stopping(self) -> None:
        if self._signals:
            raise _StopRequested

    def _record_children(self) -> None:
        orphans.record_children(self.data, self._running_children(), self.socket_dir)

    def _refuse_exposed_dev_login(self) -> None:
        if self.options.dev and self.options.host not in {"127.0.0.1", "localhost", "::1"}:
            raise OperationError(
                f"--dev lets everyone log in under any name and --host {self.options.host} lets others reach it. "
                "Use only one of the two."
            )


def _short_temporary_folder() -> str:
    """A parent with a short path for a private folder: the runtime folder of the session, or /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() != 0 and runtime and Path(runtime).is_dir() and len(runtime) < SOCKET_DIR_LENGTH // 2:
        return runtime
    return "/tmp"  # noqa: S108  (mkdtemp makes a private folder in it)


def _host_names(host: str) -> list[str]:
    """Host names that a browser may use for a server that listens on `host`."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  (compared, not listened on)
        return [socket.gethostname(), socket.getfqdn()]
    return [f"[{host}]" if ":" in host else host]


def _last_json_object(text: str) -> dict[str, Any]:
    """The JSON object on the last line that holds one."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            value: dict[str, Any] = json.loads(line)
            return value
    return {}


def print_line(line: str) -> None:
    """Print a line; the terminal may have been closed."""
    try:
        print(line, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (for the rest of the process)
