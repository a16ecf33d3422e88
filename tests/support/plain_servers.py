"""PostgreSQL servers with a port of their own, a standby of one, and PgBouncer in front: what a firm brings along."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psycopg

from osmo_admin.ops.programs.privileges import change_owner, find_database_account
from osmo_admin.ops.programs.processes import ChildProcess, start_child
from osmo_admin.ops.stores.postgres import find_installations, make_reachable
from tests.support.children import popen_of
from tests.support.optional_tools import find_pgbouncer
from tests.support.stack import find_free_port

SETTINGS = {"fsync": "off", "wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}


class _Server:
    """A process with a folder of its own, which are gone after `with`."""

    def __init__(self) -> None:
        self.account = find_database_account()
        self.folder = Path(tempfile.mkdtemp(prefix="osmo-plain-", dir="/tmp"))
        change_owner(self.account, self.folder)
        self.port = find_free_port()
        self.child: ChildProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it; it accepts connections when this returns."""
        raise NotImplementedError

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it with all its processes."""
        if self.child is not None:
            self.child.popen.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                popen_of(self.child).wait(10)
            self.child.kill_group()
            popen_of(self.child).wait(20)
            self.child = None

    def _launch(self, name: str, command: list[str]) -> None:
        self.child = start_child(name, command, log=self.folder / "log", account=self.account, cwd=Path("/"))
        deadline = time.monotonic() + 30
        while True:
            assert self.child.exit_code() is None, self.child.log_tail()
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert time.monotonic() < deadline, self.child.log_tail()
            time.sleep(0.05)


class PlainPostgres(_Server):
    """A server on 127.0.0.1 that trusts everybody, with the roles and the database of an installation. `primary`: it
    is a standby of this one."""

    def __init__(self, primary: PlainPostgres | None = None) -> None:
        super().__init__()
        self.primary = primary
        self.binaries = make_reachable(next(iter(find_installations())), self.folder, self.account)

    def start(self) -> None:
        """Make it at the first start; it answers queries when this returns."""
        data = self.folder / "data"
        if not data.exists():
            if self.primary is None:
                self._run("initdb", "-D", data, "-U", "postgres", "--auth", "trust", "--no-sync", "--encoding", "UTF8")
            else:
                address = ["-h", "127.0.0.1", "-p", str(self.primary.port), "-U", "postgres"]
                self._run("pg_basebackup", *address, "-D", data, "-R", "--checkpoint=fast", "--no-sync")
        settings = SETTINGS | {"port": str(self.port), "listen_addresses": "127.0.0.1"}
        command = [str(self.binaries.bin / "postgres"), "-D", str(data), "-k", str(self.folder)]
        self._launch("postgres", command + [part for item in settings.items() for part in ("-c", "=".join(item))])
        deadline = time.monotonic() + 30
        while True:
            try:
                self.query("SELECT 1")
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        if self.primary is None and not self.query("SELECT FROM pg_roles WHERE rolname = 'osmo'"):
            for statement in (
                "CREATE ROLE osmo LOGIN CREATEROLE PASSWORD 'o'",
                "CREATE ROLE osmo_app LOGIN PASSWORD 'a'",
                "CREATE DATABASE osmo OWNER osmo",
            ):
                self.query(statement)

    def query(self, text: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Rows of a query of the superuser."""
        address = f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        with psycopg.connect(address, autocommit=True) as session:
            cursor = session.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def url(self, role: str = "osmo_app", database: str = "osmo") -> str:
        """Its address for a role."""
        return f"postgresql://{role}:x@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: str | Path) -> None:
        account = self.account
        user = {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}
        command = [str(self.binaries.bin / program), *map(str, arguments)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **user)  # type: ignore[call-overload]
        assert answer.returncode == 0, answer.stderr


class PgBouncer(_Server):
    """A pooler in front of a server. `settings` are lines of `pgbouncer.ini`."""

    def __init__(self, server: PlainPostgres, **settings: str) -> None:
        super().__init__()
        self.server, self.settings = server, settings

    def start(self) -> None:
        """Start it on its port."""
        lines = {"listen_addr": "127.0.0.1", "listen_port": str(self.port), "auth_type": "any", "unix_socket_dir": ""}
        lines |= {"default_pool_size": "40", "max_client_conn": "200"} | self.settings
        ini = self.folder / "pgbouncer.ini"
        # With auth_type any the user of the server has to be named.
        ini.write_text(
            f"[databases]\nosmo = host=127.0.0.1 port={self.server.port} dbname=osmo user=osmo_app\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )
        ini.chmod(0o644)
        program = find_pgbouncer()
        assert program is not None
        self._launch("pgbouncer", [program, str(ini)])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, without waiting for its clients."""
        super().stop(how)

    def url(self) -> str:
        """The address of the database for the role at run time, by way of the pooler."""
        return f"postgresql://osmo_app:x@127.0.0.1:{self.port}/osmo"
