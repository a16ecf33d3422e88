"""Child processes of the supervisor: each has its own process group and log file, and is ended reliably.

Each child leads its own session, so Ctrl-C in the terminal reaches only the supervisor, which stops the children in
order. On Linux the kernel signals the child when its parent dies (`PR_SET_PDEATHSIG`), so that even a supervisor that
was killed with SIGKILL leaves no process running.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.privileges import SystemAccount

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Loaded here and not in the child: between fork and exec only loaded code is safe to use.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
TAIL_LINES = 20
_PLAIN = {"PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}


def parent_death_hook(death_signal: int) -> Callable[[], None]:
    """The hook that the child runs before exec: the kernel will send `death_signal` when the parent dies."""
    parent = os.getpid()
    return lambda: request_death_signal(death_signal, parent=parent)


def request_death_signal(death_signal: int, *, parent: int) -> None:
    """In a child: the kernel will send `death_signal` when the process `parent` dies. Ends a child of a dead parent."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parent has ended (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_adopted(own: Container[int]) -> None:
    """Collect the exit codes of adopted processes that have ended; those in `own` are left to their owners."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in own:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def plain_environment() -> dict[str, str]:
    """The environment for programs of others, such as PostgreSQL: the path, the locale and the time zone."""
    return {name: value for name, value in os.environ.items() if name in _PLAIN or name.startswith("LC_")}


def run_in_fork(work: Callable[[], object]) -> None:
    """Do `work` in a fork of this process, so that this one keeps none of the modules that it loads. The process must
    have one thread. Raises OperationError with the text of an error that `work` raised."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:  # nothing of this process may run on in the fork
            problem = sys.exception()
            os.write(sender, b"" if problem is None else f"{type(problem).__name__}: {problem}".encode()[:4096])
            os._exit(0 if problem is None else 1)
    os.close(sender)
    with os.fdopen(receiver, "rb") as answer:
        error = answer.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise OperationError(error or f"A helper process ended with code {code}.")


class ForkedProcess:
    """A child of this process that another process forked; the part of `subprocess.Popen` that is needed here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """None while it runs; afterwards the exit code, negative for a signal."""
        self._wait(os.WNOHANG)
        return self.returncode

    def wait(self) -> int | None:
        """Wait for its end."""
        self._wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _wait(self, options: int) -> None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)


@dataclass(slots=True)
class ChildProcess:
    """One running process group. `name` is for messages; `log` receives its output."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes] | ForkedProcess
    stop_signal: signal.Signals = signal.SIGTERM
    started: str = field(default="")

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self.popen.pid

    def exit_code(self) -> int | None:
        """None while it runs; afterwards the exit code, negative for a signal."""
        return self.popen.poll()

    def request_stop(self) -> None:
        """Signal only the leader: servers end their own workers in order."""
        if self.exit_code() is None:
            self.popen.send_signal(self.stop_signal)

    def kill_group(self) -> None:
        """Kill the rest of the group, also workers of a dead leader."""
        kill_process_group(self.pid)

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its output."""
        return read_tail(self.log, lines)


def start_child(
    name: str,
    command: Sequence[str | os.PathLike[str]],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    account: SystemAccount | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> ChildProcess:
    """Start `command`, its output appended to `log`; `account` (root only) is the user it runs as.

    Without `env` it gets `plain_environment()`, which has no secret. Raises OSError if the command cannot be executed.
    """
    identity: dict[str, object] = {}
    if account is not None:
        identity = {"user": account.uid, "group": account.gid, "extra_groups": []}
    with log.open("ab") as output:
        popen = subprocess.Popen(  # type: ignore[call-overload]
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=plain_environment() if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=parent_death_hook(stop_signal),
            **identity,
        )
    return ChildProcess(name, log, popen, stop_signal, started=process_start_time(popen.pid))


def stop_children(children: Iterable[ChildProcess], *, grace: float) -> list[str]:
    """Ask all children to stop, wait up to `grace` seconds in total, then kill the rest.

    Returns the names of the killed ones.
    """
    waiting = list(children)
    for child in waiting:
        child.request_stop()
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(child.exit_code() is None for child in waiting):
        time.sleep(0.05)
    stubborn = [child for child in waiting if child.exit_code() is None]
    for child in waiting:
        child.kill_group()
    for child in stubborn:
        child.popen.wait()
    return [child.name for child in stubborn]


def kill_process_group(pgid: int) -> None:
    """Send SIGKILL to a whole process group; a group that has ended is ignored."""
    try:
        os.killpg(pgid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def end_group(pgid: int, *, seconds: float = 2.0) -> None:
    """Kill a process group and wait until it has ended, so that its ports are free. Unreaped members are not awaited
    for longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(pgid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.01)


def process_start_time(pid: int) -> str:
    """The start time of the process in the format of the system; empty without such a process.

    Pid and start time identify one process, so a recycled pid is never mistaken for ours.
    """
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            return ""
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def read_tail(path: Path, lines: int = TAIL_LINES, *, most_bytes: int = 64 * 1024) -> str:
    """The last `lines` lines of a file that may be long or missing, at most that many bytes."""
    try:
        with path.open("rb") as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(0, source.tell() - most_bytes))
            text = source.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
