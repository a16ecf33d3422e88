"""From Enter to the answer: the client `osmo`, as a process of its own, against a running installation.

`first` is the first start, with the current file cache and compiled bytecode; `again` is the median of the following
starts. The target is half a second for the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

from bench.installation import Installation

STARTS = 15
COMMANDS = (("--help",), ("pool", "list"), ("workflow", "list", "-o", "json"))
CLIENT = (sys.executable, "-c", "from osmo_admin.cli.client import main; main()")


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Seconds of each command: `{"pool list": {"first_seconds", "again_seconds", "cpu_seconds"}}`."""
    with tempfile.TemporaryDirectory() as home:
        login = {"OSMO_URL": installation.base_url, "OSMO_TOKEN": installation.secret, "OSMO_CONFIG_FILE_DIR": home}
        return {" ".join(words): _measure(words, {**os.environ, **login}) for words in COMMANDS}


def _measure(words: tuple[str, ...], env: dict[str, str]) -> dict[str, float]:
    took, before = [], os.times()
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run([*CLIENT, *words], env=env, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return {
        "first_seconds": round(took[0], 3),
        "again_seconds": round(median(took[1:]), 3),
        "cpu_seconds": round(cpu / STARTS, 3),
    }
