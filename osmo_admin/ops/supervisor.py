"""`osmo-admin up`: everything of the house, in order, as one thing that is either up or down.

Order up: database and broker, migrations and defaults, then web, worker and beat together (and, where
clusters call us, the server of the webhooks). Order down: those three
together, then the broker, then the database. One child that dies takes the rest down, because half a house misleads.
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

from osmo_admin.ops import certificates, commands, keys, logfiles, orphans, ports, postgres, readiness, valkey
from osmo_admin.ops.datadir import DataDir, Held, write_private
from osmo_admin.ops.errors import OperationError
from osmo_admin.ops.privileges import database_account, give, reaches
from osmo_admin.ops.processes import Child, start, stop_all

READY_SECONDS = 90.0
BOOTSTRAP_SECONDS = 600.0
# Together below the ten seconds that Ctrl-C may take.
SERVICES_GRACE = 5.0
BROKER_GRACE = 1.5
DATABASE_GRACE = 2.5
WATCH_SECONDS = 0.2
TRIM_SECONDS = 60.0
# The shortest limit of the systems we run on (macOS), less the longest file name we put there.
SOCKET_DIR_LENGTH = 103 - len("/.s.PGSQL.5432.lock")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator asked for. `port` None: 8000 or the next free one."""

    data_dir: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    demo: bool = True
    check: bool = False
    dev: bool = False
    webhook_port: int | None = None


class _Stopped(Exception):
    """A signal asked us to stop while we were starting."""


class Supervisor:
    """One run of the house."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self.data = DataDir.open(options.data_dir)
        self.lock = Held(self.data)
        self.socket_dir: Path | None = None
        self.database: postgres.Server | None = None
        self.broker: valkey.Server | None = None
        self.services: list[Child] = []
        self.env: dict[str, str] = {}
        self.url = ""
        self._signals = 0

    def run(self) -> int:
        """Up until told to stop. Returns the exit code; raises OperationError when it cannot start."""
        self._refuse_open_dev()
        self.data.prepare()
        self.lock.take()
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self._on_signal)
            try:
                self._start()
                code = self._round_trip() if self.options.check else self._watch()
            except _Stopped:
                code = 0
        finally:
            self._stop()
        return code

    # --- up ---------------------------------------------------------------------------------------------------------
    def _start(self) -> None:
        for name in orphans.clean(self.data):
            self.say(f"Ended {name}, left over from a start that was killed.")
        logfiles.trim_all(self.data.logs)
        port = ports.choose(self.options.host, self.options.port)
        self.url = readiness.local_url(self.options.host, port)
        public_url = os.environ.get("OSMO_PUBLIC_URL") or self.url
        runtime = {
            "DATABASE_URL": os.environ.get("DATABASE_URL") or self._start_database(),
            "REDIS_URL": os.environ.get("REDIS_URL") or self._start_broker(),
            "OSMO_SECRET_KEY": os.environ.get("OSMO_SECRET_KEY") or keys.secret_key(self.data),
            "OSMO_PUBLIC_URL": public_url,
            "OSMO_LOCAL_URL": self.url,
        }
        self.env = self._environment(runtime)
        login = self._bootstrap()
        write_private(self.data.runtime, json.dumps(runtime, indent=2) + "\n")
        self._start_service(commands.WEB, commands.web(self.options.host, port), self._metrics_folder())
        self._start_webhook()
        self._start_service(commands.WORKER, commands.worker())
        self._start_service(commands.BEAT, commands.beat())
        self._start_service(commands.CLUSTERS, commands.clusters())
        self._wait_ready()
        self._announce(public_url, login)

    def _start_database(self) -> str:
        account = database_account()
        home = self.data.postgres_home(account)
        log = self.data.logs / "postgres.log"
        self.database = postgres.launch(home, self._sockets(), account, log=log, say=self.say, go_on=self._go_on)
        self._record()
        postgres.ensure_database(self.database)
        self._go_on()
        return self.database.url()

    def _start_broker(self) -> str:
        self.broker = valkey.launch(self.data.valkey, self._sockets(), log=self.data.logs / "valkey.log")
        self._record()
        self._go_on()
        return self.broker.url()

    def _sockets(self) -> Path:
        """A private folder for Unix sockets: beside the data when the path is short enough, else a temporary one."""
        if self.socket_dir is None:
            account = database_account()
            inside = self.data.root / "run"
            if len(str(inside)) <= SOCKET_DIR_LENGTH and reaches(account, self.data.root):
                inside.mkdir(mode=0o700, exist_ok=True)
                self.socket_dir = inside
            else:
                self.socket_dir = Path(tempfile.mkdtemp(prefix="osmo-", dir=_short_folder()))
            give(account, self.socket_dir)
        return self.socket_dir

    def _environment(self, runtime: Mapping[str, str]) -> dict[str, str]:
        """What web, worker, beat and clusters see. They get everything from here, so that they agree."""
        hosts = [part for part in os.environ.get("OSMO_ALLOWED_HOSTS", "").split(",") if part]
        return {
            **os.environ,
            **runtime,
            "OSMO_ADMIN_HOME": str(self.data.root),
            "OSMO_ALLOWED_HOSTS": ",".join(dict.fromkeys([*hosts, *LOOPBACK, *_names(self.options.host)])),
            "OSMO_DEV_LOGIN": "true" if self.options.dev else os.environ.get("OSMO_DEV_LOGIN", "false"),
            "DJANGO_SETTINGS_MODULE": "osmo_admin.settings",
            "PYTHONUNBUFFERED": "1",
            orphans.HOUSE: str(self.data.root),
        }

    def _bootstrap(self) -> str:
        """Migrate and seed. Returns how to log in; a password that this start made up is in it, this once."""
        given = os.environ.get("OSMO_ADMIN_PASSWORD")
        password = given or keys.new_password()
        log = self.data.logs / "bootstrap.log"
        log.unlink(missing_ok=True)
        arguments = ["--demo"] if self.options.demo else []
        child = start(
            "bootstrap", commands.bootstrap(*arguments), log=log, env={**self.env, "OSMO_ADMIN_PASSWORD": password}
        )
        self.services.append(child)
        deadline = time.monotonic() + BOOTSTRAP_SECONDS
        while (code := child.exit_code()) is None:
            self._go_on()
            self._notice_deaths(expected=child)
            if time.monotonic() > deadline:
                raise OperationError(f"Preparing the database took longer than {BOOTSTRAP_SECONDS:.0f} s; see {log}.")
            time.sleep(0.05)
        self.services.remove(child)
        if code:
            raise OperationError(f"The database could not be prepared (exit code {code}):\n{child.log_tail()}")
        if not _last_json(child.log_tail(200)).get("admin_created"):
            return "admin, with the password of the first start"
        if given:
            return "admin, with the password in OSMO_ADMIN_PASSWORD"
        return f"admin / {password}   (shown this once; change it after logging in)"

    def _start_service(self, name: str, command: list[str], more: Mapping[str, str] | None = None) -> None:
        env = {**self.env, **(more or {})}
        self.services.append(start(name, command, log=self.data.logs / f"{name}.log", env=env))
        self._record()

    def _start_webhook(self) -> None:
        """The server that clusters call, where one is wanted; its certificate is made or renewed first."""
        port = self.options.webhook_port
        if port is None:
            return
        named = urlsplit(os.environ.get("OSMO_WEBHOOK_URL", "")).hostname
        hosts = {"localhost", "127.0.0.1", "::1", *_names(self.options.host), *([named] if named else [])}
        certificate = certificates.ensure(self.data.webhook, {host.strip("[]") for host in hosts})
        allowed = ",".join([self.env["OSMO_ALLOWED_HOSTS"], *sorted(certificate.hosts)])
        more = {commands.METRICS_DIR: str(self.data.metrics), "OSMO_ALLOWED_HOSTS": allowed}
        command = commands.webhook(self.options.host, port, certificate.certificate, certificate.key)
        self._start_service(commands.WEBHOOK, command, more)

    def _metrics_folder(self) -> dict[str, str]:
        shutil.rmtree(self.data.metrics, ignore_errors=True)
        self.data.metrics.mkdir(mode=0o700)
        return {commands.METRICS_DIR: str(self.data.metrics)}

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            self._go_on()
            self._notice_deaths()
            answer = readiness.ask(self.url)
            if answer.ready:
                return
            if time.monotonic() > deadline:
                raise OperationError(f"Not ready after {READY_SECONDS:.0f} s ({answer.why}). Logs: {self.data.logs}")
            time.sleep(0.1)

    def _announce(self, public_url: str, login: str) -> None:
        logs = ", ".join(sorted(path.name for path in self.data.logs.glob("*.log")))
        self.say(f"Ready:  {public_url}")
        self.say(f"Login:  {login}")
        if self.options.webhook_port is not None:
            self.say(f"Hooks:  https, port {self.options.webhook_port}; osmo-admin webhook install BACKEND --url …")
        self.say(f"Data:   {self.data.root}")
        if self.data.location.exists():
            self.say(f"        database in {self.data.location.read_text().strip()}: its user cannot enter the above")
        self.say(f"Logs:   {self.data.logs}/ ({logs})")
        if self.options.dev:
            self.say("Dev login is on: whoever reaches this address may enter under any name.")
        if self.database is not None:
            self.say("PostgreSQL and Valkey are embedded, for one machine; set DATABASE_URL and REDIS_URL for others.")
        self.say(f"Stop:   Ctrl-C, or: osmo-admin down --data-dir {self.data.root}")

    # --- running ----------------------------------------------------------------------------------------------------
    def _watch(self) -> int:
        trimmed = time.monotonic()
        while not self._signals:
            self._notice_deaths()
            if time.monotonic() - trimmed > TRIM_SECONDS:
                logfiles.trim_all(self.data.logs)
                trimmed = time.monotonic()
            time.sleep(WATCH_SECONDS)
        return 0

    def _round_trip(self) -> int:
        """`--check`: one API call, one Celery task, its effect; then down again."""
        log = self.data.logs / "check.log"
        log.unlink(missing_ok=True)
        child = start("check", commands.round_trip(self.url), log=log, env=self.env)
        self.services.append(child)
        while (code := child.exit_code()) is None:
            self._go_on()
            self._notice_deaths(expected=child)
            time.sleep(0.05)
        self.services.remove(child)
        self.say(child.log_tail())
        return 1 if code else 0

    def _children(self) -> list[Child]:
        servers = [server.child for server in (self.database, self.broker) if server is not None]
        return [*servers, *self.services]

    def _notice_deaths(self, *, expected: Child | None = None) -> None:
        """Raises OperationError with the end of the log of a child that has died."""
        for child in self._children():
            code = child.exit_code()
            if code is None or child is expected:
                continue
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise OperationError(
                f"{child.name} (process {child.pid}) {how}; stopping everything. "
                f"The last lines of {child.log}:\n{child.log_tail()}"
            )

    # --- down -------------------------------------------------------------------------------------------------------
    def _stop(self) -> None:
        if self._children():
            self.say("Stopping.")
        stop_all(self.services, grace=SERVICES_GRACE)
        if self.broker is not None:
            stop_all([self.broker.child], grace=BROKER_GRACE)
        if self.database is not None:
            stop_all([self.database.child], grace=DATABASE_GRACE)
        self.data.runtime.unlink(missing_ok=True)
        self.data.children.unlink(missing_ok=True)
        if self.socket_dir is not None:
            shutil.rmtree(self.socket_dir, ignore_errors=True)
        self.lock.release()

    def _on_signal(self, number: int, frame: object) -> None:
        """The first asks; a second while stopping ends what is left at once."""
        self._signals += 1
        if self._signals > 1:
            for child in self._children():
                child.kill_group()

    def _go_on(self) -> None:
        if self._signals:
            raise _Stopped

    def _record(self) -> None:
        orphans.record(self.data, self._children(), self.socket_dir)

    def _refuse_open_dev(self) -> None:
        if self.options.dev and self.options.host not in {"127.0.0.1", "localhost", "::1"}:
            raise OperationError(
                f"--dev lets anybody enter under any name and --host {self.options.host} lets others reach it. "
                "Leave one of the two out."
            )


def _short_folder() -> str:
    """Where a private folder's path stays short: the session's runtime folder, or /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() != 0 and runtime and Path(runtime).is_dir() and len(runtime) < SOCKET_DIR_LENGTH // 2:
        return runtime
    return "/tmp"  # noqa: S108  (mkdtemp makes a private folder in it)


def _names(host: str) -> list[str]:
    """Host names a browser may use for a server that listens on `host`."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  (compared, not listened on)
        return [socket.gethostname(), socket.getfqdn()]
    return [f"[{host}]" if ":" in host else host]


def _last_json(text: str) -> dict[str, Any]:
    """The JSON object on the last line that is one."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def speak(line: str) -> None:
    """Print to a terminal that may be gone."""
    try:
        print(line, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (for the rest of the process)
