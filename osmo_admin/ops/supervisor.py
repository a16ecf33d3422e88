"""`osmo-admin up`: start and stop all processes in order, as one unit.

Order of the start: database and broker, migrations and defaults, then web, worker, beat and clusters together (and the
webhook server, if a port is given). Order of the stop: those services together, then the broker, then the database.
A process that dies later is started again (`services.py`), at growing intervals and without an end, while the others go
on. A death during the start ends the start. What this process writes on the disk of the data directory while it runs
are notes: where the disk is full, it goes on without them.
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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from osmo_admin.ops.files import disk_space, keys, log_files, orphans, restarts
from osmo_admin.ops.files.data_directory import DataDirectory, DataDirectoryLock, write_private_file
from osmo_admin.ops.programs import ports, preloader, process_commands, readiness
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.preloader import Preloader, can_preload
from osmo_admin.ops.programs.privileges import can_reach, change_owner, find_database_account
from osmo_admin.ops.programs.processes import (
    ChildProcess,
    end_group,
    reap_adopted,
    run_in_fork,
    start_child,
    stop_children,
)
from osmo_admin.ops.programs.services import MANY_DEATHS, WINDOW_SECONDS, Service, describe_end
from osmo_admin.ops.stores import postgres, valkey

READY_SECONDS = 90.0
BOOTSTRAP_SECONDS = 600.0
# In total less than ten seconds, the limit for Ctrl-C.
SERVICES_GRACE = 5.0
BROKER_GRACE = 1.5
DATABASE_GRACE = 2.5
WATCH_SECONDS = 0.2
TRIM_SECONDS = 60.0
DISK_SECONDS = 2.0
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
    webhook_client_ca: Path | None = None


class _StopRequested(Exception):
    """A signal requested the stop during the start."""


class _DataLost(OperationError):
    """A restart would hide that data is missing."""


class Supervisor:
    """One run of `osmo-admin up`."""

    def __init__(self, options: SupervisorOptions, report: Callable[[str], None]) -> None:
        self.options = options
        self.report = report
        self.data = DataDirectory.open(options.data_dir)
        self.lock = DataDirectoryLock(self.data)
        self.socket_dir: Path | None = None
        self.metrics = self.data.metrics
        self.database: Service | None = None
        self.broker: Service | None = None
        self.preloader: Preloader | None = None
        self.services: list[Service] = []
        self.helper: ChildProcess | None = None  # bootstrap or check, which end by themselves
        self.env: dict[str, str] = {}
        self.owner_url = os.environ.get(process_commands.OWNER_URL, "")
        self.url = ""
        self._signals = 0
        self._noted: Mapping[str, object] = {}
        self._full_disk = ""
        self._lost_notes: set[str] = set()

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
        self._watch_disk()
        port = ports.choose_port(self.options.host, self.options.port)
        self.url = readiness.local_url(self.options.host, port)
        public_url = os.environ.get("OSMO_PUBLIC_URL") or self.url
        runtime = {
            "DATABASE_URL": os.environ.get("DATABASE_URL") or self._start_database(),
            "REDIS_URL": os.environ.get("REDIS_URL") or self._start_broker(),
            "OSMO_SECRET_KEY": os.environ.get("OSMO_SECRET_KEY") or keys.load_secret_key(self.data),
            "OSMO_SECRET_KEY_FALLBACKS": os.environ.get("OSMO_SECRET_KEY_FALLBACKS")
            or ",".join(keys.load_former_keys(self.data)),
            "OSMO_PUBLIC_URL": public_url,
            "OSMO_LOCAL_URL": self.url,
        }
        self.env = self._service_environment(runtime)
        metrics = self._prepare_metrics_folder()
        self._start_preloader(metrics)
        login = self._run_bootstrap()
        # The owner of the embedded database has no password, so the file keeps no secret of it.
        known = runtime if self.database is None else {**runtime, process_commands.OWNER_URL: self.owner_url}
        write_private_file(self.data.runtime, json.dumps(known, indent=2) + "\n")
        self._start_service(process_commands.WEB, process_commands.web_command(self.options.host, port), metrics)
        self._start_webhook()
        self._start_service(process_commands.WORKER, process_commands.worker_command(), metrics)
        self._start_service(process_commands.BEAT, process_commands.beat_command())
        shown = metrics | {process_commands.WEBHOOK_AUTHORITY: str(self.data.webhook / "ca.crt")}
        self._start_service(process_commands.CLUSTERS, process_commands.clusters_command(), shown)
        self._wait_ready()
        self._print_summary(public_url, login)

    def _start_database(self) -> str:
        account = find_database_account()
        home = self.data.postgres_home(account)
        sockets, log = self._ensure_socket_dir(), self.data.logs / "postgres.log"

        def launch() -> postgres.PostgresServer:
            return postgres.launch_postgres(
                home, sockets, account, log=log, report=self.report, check_stop=self._raise_if_stopping
            )

        def restart() -> ChildProcess:
            # The first start would create an empty database where the data of this one has disappeared.
            if not (home / "data" / "PG_VERSION").exists():
                raise _DataLost(f"The data of the database in {home} has disappeared; PostgreSQL is not started again.")
            return launch().child

        server = launch()
        self.database = Service(server.child.name, restart, server.child)
        self._record_children()
        run_in_fork(lambda: postgres.ensure_database(server))
        self.owner_url = server.url(user=postgres.OWNER)
        self._raise_if_stopping()
        return server.url()

    def _start_broker(self) -> str:
        sockets, log = self._ensure_socket_dir(), self.data.logs / "valkey.log"

        def launch() -> valkey.ValkeyServer:
            return valkey.launch_valkey(self.data.valkey, sockets, log=log)

        server = launch()
        self.broker = Service(server.child.name, lambda: launch().child, server.child)
        self._record_children()
        self._raise_if_stopping()
        return server.url()

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
            **{name: value for name, value in os.environ.items() if name not in process_commands.SETUP_SECRETS},
            **runtime,
            "OSMO_ADMIN_HOME": str(self.data.root),
            "OSMO_ALLOWED_HOSTS": ",".join(dict.fromkeys([*hosts, *LOOPBACK, *_host_names(self.options.host)])),
            "OSMO_DEV_LOGIN": "true" if self._is_dev_login_on() else "false",
            "DJANGO_SETTINGS_MODULE": "osmo_admin.settings",
            "PYTHONUNBUFFERED": "1",
            orphans.INSTALLATION_VARIABLE: str(self.data.root),
            **({"OSMO_WEBHOOK_CLIENT_CA": str(ca)} if (ca := self.options.webhook_client_ca) is not None else {}),
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
            env={**self.env, "OSMO_ADMIN_PASSWORD": password, process_commands.OWNER_URL: self.owner_url},
        )
        self.helper = child
        deadline = time.monotonic() + BOOTSTRAP_SECONDS
        while (code := child.exit_code()) is None:
            self._raise_if_stopping()
            self._check_children()
            if time.monotonic() > deadline:
                raise OperationError(f"Preparing the database took longer than {BOOTSTRAP_SECONDS:.0f} s; see {log}.")
            time.sleep(0.05)
        self.helper = None
        if code:
            raise OperationError(f"The database could not be prepared (exit code {code}):\n{child.log_tail()}")
        if not _last_json_object(child.log_tail(200)).get("admin_created"):
            return "admin, with the password of the first start"
        if configured:
            return "admin, with the password in OSMO_ADMIN_PASSWORD"
        return f"admin / {password}   (shown this once; change it after logging in)"

    def _start_service(
        self, name: str, command: list[str], extra_env: Mapping[str, str] | None = None, *, preloads: bool = True
    ) -> None:
        """`preloads=False`: its environment differs in settings that are read while the program is loaded."""
        env, log = {**self.env, **(extra_env or {})}, self.data.logs / f"{name}.log"
        forks = self.preloader if preloads else None

        def start() -> ChildProcess:
            if forks is None:
                return start_child(name, command, log=log, env=env)
            return forks.start_service(name, command, log=log, env=env)

        self._launch(Service(name, start))

    def _start_preloader(self, metrics: Mapping[str, str]) -> None:
        """Start to load the program for the services, while the database is prepared."""
        if can_preload():
            log = self.data.logs / f"{preloader.NAME}.log"
            self.preloader = Preloader(log=log, env={**self.env, **metrics})
            self._launch(Service(preloader.NAME, self.preloader.start))

    def _launch(self, service: Service) -> None:
        service.launch()
        self.services.append(service)
        self._record_children()

    def _start_webhook(self) -> None:
        """Start the webhook server, if a port is given. Its certificate is created or renewed first."""
        port = self.options.webhook_port
        if port is None:
            return
        from osmo_admin.ops.files import certificates

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
        extra_env = {process_commands.METRICS_DIR: str(self.metrics), "OSMO_ALLOWED_HOSTS": allowed}
        command = process_commands.webhook_command(
            self.options.host, port, certificate.certificate, certificate.key, self.options.webhook_client_ca
        )
        self._start_service(process_commands.WEBHOOK, command, extra_env, preloads=False)

    def _prepare_metrics_folder(self) -> dict[str, str]:
        """The folder of the counters that processes share, empty. It is in memory where the system has a place for it:
        a process that writes to a mapped file ends (SIGBUS) when the disk is full."""
        self.metrics = self.data.metrics_in_memory if self.data.metrics_in_memory.parent.is_dir() else self.data.metrics
        for folder in (self.data.metrics, self.data.metrics_in_memory):
            shutil.rmtree(folder, ignore_errors=True)
        try:
            self.metrics.mkdir(mode=0o700)
        except OSError:  # somebody else has made it, or may not write there
            self.metrics = self.data.metrics
            self.metrics.mkdir(mode=0o700)
        return {process_commands.METRICS_DIR: str(self.metrics)}

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
        if os.geteuid() == 0:
            self.report(
                "Warning: this runs as root, so an error in any process has all rights on this machine. Start it as an "
                "ordinary user, as deploy/osmo-admin.service does."
            )
        if self._is_dev_login_on():
            self.report("Dev login is on: everyone who reaches this address may log in under any name.")
        if self.database is not None:
            self.report(
                "PostgreSQL and Valkey are embedded, for one machine; set DATABASE_URL and REDIS_URL for others."
            )
        self.report(f"Stop:   Ctrl-C, or: osmo-admin down --data-dir {self.data.root}")

    # --- running ----------------------------------------------------------------------------------------------------
    def _watch(self) -> int:
        trimmed = looked = time.monotonic()
        while not self._signals:
            now = time.monotonic()
            if now - looked > DISK_SECONDS:
                self._watch_disk()
                looked = now
            for service in self._all_services():
                self._keep_running(service)
            reap_adopted({child.pid for child in _children(self._all_services())})
            self._note_restarts()
            if now - trimmed > TRIM_SECONDS:
                self._note("the logs are not cut", lambda: log_files.trim_logs(self.data.logs))
                trimmed = now
            time.sleep(WATCH_SECONDS)
        return 0

    def _watch_disk(self) -> None:
        """Say when the disk is full, and when it has room again; what waited for a start is started at once then."""
        was_full, self._full_disk = self._full_disk, disk_space.describe_full_disk(self.data.root)
        if self._full_disk and not was_full:
            self.report(f"{self._full_disk} {self.data.root}")
        if was_full and not self._full_disk:
            self.report("The disk has room again.")
            for service in self._all_services():
                if service.restart_at is not None:
                    service.restart_at = time.monotonic()
        if "children.json" in self._lost_notes:
            self._record_children()

    def _note_restarts(self) -> None:
        found = restarts.describe_restarts(self._all_services(), time.monotonic())
        if found != self._noted and self._note("restarts.json", lambda: restarts.record_restarts(self.data, found)):
            self._noted = found

    def _note(self, what: str, write: Callable[[], None]) -> bool:
        """Write a note of this process on the disk. A failure is a warning, the first time."""
        try:
            write()
        except OSError as problem:
            if what not in self._lost_notes:
                self.report(f"Warning: {what}: {problem.strerror or problem}. {self._full_disk}".rstrip())
            self._lost_notes.add(what)
            return False
        self._lost_notes.discard(what)
        return True

    def _keep_running(self, service: Service) -> None:
        """Start a dead service again, at once or after its pause."""
        now = time.monotonic()
        if service.restart_at is None:
            if service.child is not None and not service.is_running():
                end_group(service.child.pid)
                self._plan_restart(service, describe_end(service.child), now)
            return
        if now < service.restart_at:
            return
        try:
            service.restart()
        except _DataLost:
            raise
        except (OperationError, OSError) as problem:
            service.child = None
            self._plan_restart(service, f"{service.name} could not start: {problem}", time.monotonic())
            return
        self._record_children()
        self.report(f"{service.name} runs again (process {service.child.pid if service.child else 'none'}).")

    def _plan_restart(self, service: Service, problem: str, now: float) -> None:
        was_dying = service.keeps_dying(now)
        delay = service.note_death(now, problem)
        self.report(f"{problem}; starting it again {f'in {delay:.0f} s' if delay else 'now'}.")
        if service.keeps_dying(now) and not was_dying:
            log = self.data.logs / f"{service.name}.log"
            self.report(
                f"{service.name} has died {MANY_DEATHS} times in {WINDOW_SECONDS / 60:.0f} minutes. It is started "
                f"again and again, and the others go on. The reason is in {log}."
            )

    def _run_check(self) -> int:
        """`--check`: submit one workflow, wait until a Celery task has started it, then stop."""
        log = self.data.logs / "check.log"
        log.unlink(missing_ok=True)
        self.helper = child = start_child("check", process_commands.round_trip_command(self.url), log=log, env=self.env)
        while (code := child.exit_code()) is None:
            self._raise_if_stopping()
            self._check_children()
            time.sleep(0.05)
        self.helper = None
        self.report(child.log_tail())
        return 1 if code else 0

    def _all_services(self) -> list[Service]:
        """All services in the order of their start."""
        return [service for service in (self.database, self.broker, *self.services) if service is not None]

    def _running_children(self) -> list[ChildProcess]:
        children = [service.child for service in self._all_services()]
        return [child for child in (*children, self.helper) if child is not None and child.exit_code() is None]

    def _check_children(self) -> None:
        """During the start: raises OperationError with the end of the log if a service has died."""
        for service in self._all_services():
            child = service.child
            if child is not None and child.exit_code() is not None:
                raise OperationError(
                    f"{describe_end(child)}; stopping everything. The last lines of {child.log}:\n{child.log_tail()}"
                )

    # --- down -------------------------------------------------------------------------------------------------------
    def _stop_everything(self) -> None:
        if self._running_children():
            self.report("Stopping.")
        if self.preloader is not None:
            self.preloader.close()
        helpers = [self.helper] if self.helper is not None else []
        stop_children([*_children(self.services), *helpers], grace=SERVICES_GRACE)
        stop_children(_children([self.broker]), grace=BROKER_GRACE)
        stop_children(_children([self.database]), grace=DATABASE_GRACE)
        restarts.forget_restarts(self.data)
        self.data.runtime.unlink(missing_ok=True)
        self.data.children.unlink(missing_ok=True)
        shutil.rmtree(self.data.metrics_in_memory, ignore_errors=True)
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
        running = self._running_children()
        self._note("children.json", lambda: orphans.record_children(self.data, running, self.socket_dir))

    def _refuse_exposed_dev_login(self) -> None:
        if self._is_dev_login_on() and self.options.host not in {"127.0.0.1", "localhost", "::1"}:
            raise OperationError(
                f"{'--dev' if self.options.dev else 'OSMO_DEV_LOGIN'} lets everyone log in under any name and --host "
                f"{self.options.host} lets others reach it. Use only one of the two."
            )

    def _is_dev_login_on(self) -> bool:
        configured = os.environ.get("OSMO_DEV_LOGIN", "").lower()
        return self.options.dev or configured in {"1", "t", "true", "y", "yes", "on"}


def _children(services: Iterable[Service | None]) -> list[ChildProcess]:
    """The processes of these services, also dead ones: their groups may still have members."""
    return [service.child for service in services if service is not None and service.child is not None]


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
