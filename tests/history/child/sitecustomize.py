"""Loaded by the interpreter of every process under test, because its folder is on their PYTHONPATH.

The product has no switch for faults; this module reaches into a process from outside:

* `HISTORY_CLOCK` names a file with a number of seconds by which the wall clock of this process is shifted (time-machine
  replaces the clock functions of Python itself; PostgreSQL's clock and monotonic clocks stay). The file is read ten
  times a second.
* `HISTORY_PLANT` names a planted fault: rewrites of the SQL that this process sends, and functions without an effect.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.1

PLANTS: dict[str, tuple[tuple[str, str], ...]] = {
    # No row is locked before it is read.
    "lock": ((r"FOR (NO KEY )?UPDATE( OF \"?\w+\"?)?(?! *SET)", ""),),
    # A key that is known counts as new, so a repeat is carried out again.
    "replay": ((r"WHERE known\.created_at < now\(\) - make_interval\(secs => %s\)", "WHERE %s >= 0"),),
    # Statements of one answer read different states.
    "snapshot": ((r"ISOLATION LEVEL (REPEATABLE READ|SERIALIZABLE)", "ISOLATION LEVEL READ COMMITTED"),),
}

REPLACED: dict[str, tuple[tuple[str, str, str, Any], ...]] = {
    # Start reservations have no order and do not give way, so that those of different leaves hold each other.
    "reservations": (
        (
            "scheduling.domain.engine.rules.reservation",
            "StartPolicy",
            "_note_ranks",
            lambda policy: policy._ranks.clear(),
        ),
        ("scheduling.domain.engine.rules.reservation", "StartPolicy", "_could_start_together", lambda *_: True),
    ),
}
"""Methods, as module, class and name, that do something else under a planted fault."""

WITHOUT_EFFECT: dict[str, tuple[tuple[str, str], ...]] = {"snapshot": (("osmo_admin.web.middleware", "one_snapshot"),)}
"""Context managers, as module and name, that do nothing under a planted fault."""


def _follow_clock(file: Path, time_machine: Any) -> None:
    """Shift the clock of this process as the file says, until the process ends."""
    real_sleep, travel, offset = time.sleep, None, 0.0
    while True:
        real_sleep(POLL_SECONDS)
        try:
            wanted = float(file.read_text() or 0)
        except (OSError, ValueError):
            continue
        if wanted == offset:
            continue
        if travel is not None:
            travel.stop()
            travel = None
        if wanted:
            travel = time_machine.travel(time.time() + wanted, tick=True)
            travel.start()
        offset = wanted


def _start_clock(file: Path) -> None:
    # Here and not in the thread: a process that is forked during the import would have half of the module for ever.
    import time_machine

    threading.Thread(target=_follow_clock, args=(file, time_machine), daemon=True, name="shifted clock").start()


def _plant(name: str) -> None:
    from django.db.backends.signals import connection_created

    for module, owner, method, replacement in REPLACED.get(name, ()):
        setattr(getattr(importlib.import_module(module), owner), method, replacement)
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in PLANTS.get(name, ())]

    def rewrite(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if isinstance(sql, str):
            for pattern, replacement in compiled:
                sql = pattern.sub(replacement, sql)
        return execute(sql, params, many, context)

    def install(connection: Any, **_: Any) -> None:
        if rewrite not in connection.execute_wrappers:
            connection.execute_wrappers.append(rewrite)
        for module, function in WITHOUT_EFFECT.get(name, ()):
            if module in sys.modules:
                setattr(sys.modules[module], function, nullcontext)

    connection_created.connect(install, weak=False)


if clock_file := os.environ.get("HISTORY_CLOCK"):
    _start_clock(Path(clock_file))
    os.register_at_fork(after_in_child=lambda: _start_clock(Path(clock_file)))  # threads do not survive a fork
if plant := os.environ.get("HISTORY_PLANT"):
    _plant(plant)
