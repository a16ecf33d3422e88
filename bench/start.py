"""From `osmo-admin up` to "Ready", and the memory of the idle installation.

`first_with_demo` is what `make run` does on an installed environment: an empty data directory, with the demo. `first`
is the same without the demo, `again` a later start on a data directory. Medians of three. The memory is the
proportional set size (PSS) of the supervisor and of all processes below it, without PostgreSQL and Valkey, half a
minute after a later start; each shared page counts once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.installation import ADMIN_PASSWORD, find_command, find_free_port, wait_until_ready

ROUNDS = 3
IDLE_SECONDS = 30
SERVERS = {"postgres", "valkey-server"}


def run(installation: object, *, seconds: int) -> dict[str, Any]:
    """`{"first_with_demo_s", "first_s", "again_s", "idle_pss_mb", "idle_processes"}`."""
    with_demo = [_first_start("--demo") for _ in range(ROUNDS)]
    first = [_first_start("--no-demo") for _ in range(ROUNDS)]
    with _folder() as folder:
        with _up(folder, "--no-demo"):
            pass
        again, memory = [], {}
        for _ in range(ROUNDS):
            with _up(folder, "--no-demo") as (process, took):
                again.append(took)
                if len(again) == ROUNDS:
                    time.sleep(IDLE_SECONDS)
                    memory = _measure_memory(process.pid)
    return {
        "first_with_demo_s": round(median(with_demo), 2),
        "first_s": round(median(first), 2),
        "again_s": round(median(again), 2),
        **memory,
    }


def _first_start(option: str) -> float:
    with _folder() as folder, _up(folder, option) as (_, took):
        return took


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="osmo-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _up(folder: Path, option: str) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The running process, and the seconds that it took until it was ready."""
    port, output = find_free_port(), folder / "up.out"
    other = {name for name in os.environ if name.startswith("OSMO_")} | {"DATABASE_URL", "REDIS_URL"}
    env = {name: value for name, value in os.environ.items() if name not in other}
    with output.open("wb") as log:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [find_command(), "up", "--data-dir", str(folder / "data"), "--port", str(port), option],
            env={**env, "OSMO_ADMIN_PASSWORD": ADMIN_PASSWORD},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}", output)
        yield process, time.perf_counter() - begin
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _measure_memory(supervisor: int) -> dict[str, Any]:
    pss = [_pss_kb(pid) for pid in _family(supervisor) if _name(pid) not in SERVERS]
    return {"idle_pss_mb": round(sum(pss) / 1024), "idle_processes": len(pss)}


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _family(int(child))


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/exe").readlink().name


def _pss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
