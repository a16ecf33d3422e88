"""The process that loads the product and forks others: `python -m tests.support.preload_server FD`.

As `osmo_admin.processes.preloaded` does for `osmo-admin up`, with one difference: each fork reads its settings anew,
from its own environment. One request and one answer are lines of JSON: an order, answered by a process id; or a process
id, answered by its exit code or null.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import request_death_signal

COMMANDS = Path(process_commands.__file__).parents[2] / "cli" / "server_commands"


def main() -> None:
    """Load, then answer until the test ends."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    server = os.getpid()
    _load()
    with requests, requests.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            order = json.loads(line)
            if isinstance(order, int):
                answer = _exit_code(order)
            elif not (answer := os.fork()):
                break
            else:
                while os.getpgid(answer) != answer:
                    os.sched_yield()  # it does not lead its group yet, which a test may kill at once
            requests.sendall(json.dumps(answer).encode() + b"\n")
        else:
            return
    _become(order, server)


def _exit_code(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _load() -> None:
    from osmo_admin.processes import preloaded

    preloaded._build_static_files()
    for module in preloaded.MODULES:
        importlib.import_module(module)
    app = sys.modules["osmo_admin.celery"].app
    app.loader.import_default_modules()
    app.finalize()
    for file in COMMANDS.glob("[a-z]*.py"):
        importlib.import_module(f"osmo_admin.cli.server_commands.{file.stem}")
    preloaded._compute_once()
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()


def _become(order: dict[str, Any], server: int) -> None:
    """Run the module as if `python -m MODULE` had started it."""
    request_death_signal(signal.SIGTERM, parent=server)
    os.setsid()
    for stream, path in ((0, os.devnull), (1, order["output"]), (2, order["errors"])):
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, stream)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["env"])
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [each for each in places if each and each not in sys.path]
    settings = _forget_settings()
    module, *arguments = order["words"]
    if "celery" in order["words"]:  # it reads the address of the broker from its own settings, which are made already
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
        os.environ.setdefault("CELERY_SKIP_CHECKS", "true")  # as `osmo_admin.celery` did before the fork
        settings._setup()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _forget_settings() -> Any:
    """The settings are read at their next use, when a command has found its addresses."""
    from asgiref.local import Local
    from django.conf import LazySettings, settings
    from django.core.cache import caches
    from django.db import connections
    from django.utils.functional import empty

    module, read, former = sys.modules["osmo_admin.settings"], LazySettings._setup, settings._wrapped

    def read_anew(self: LazySettings, name: str | None = None) -> None:
        importlib.reload(module)
        read(self, name)
        for default in vars(former).keys() - vars(self._wrapped).keys():  # libraries add theirs when they are loaded
            setattr(self._wrapped, default, getattr(former, default))
        sys.modules["osmo_admin.celery"].app.conf.broker_url = settings.CELERY_BROKER_URL

    LazySettings._setup = read_anew  # type: ignore[method-assign]
    settings._wrapped = empty
    for handler in (connections, caches):
        handler.__dict__.pop("settings", None)
        handler._settings = None
        handler._connections = Local(handler.thread_critical)
    return settings


if __name__ == "__main__":
    main()
