"""`restarts.json`: which processes `osmo-admin up` had to start again, for `/ready` and `osmo-admin status`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from osmo_admin.ops.data_directory import DataDirectory, read_json_object, write_private_file
from osmo_admin.ops.services import Service

FILE = "restarts.json"


def describe_restarts(services: Iterable[Service], now: float) -> dict[str, dict[str, object]]:
    """What :func:`read_restarts` returns, of the services that died since the start."""
    return {
        each.name: {"count": each.restarts, "last": each.last_restart, "keeps_dying": each.keeps_dying(now)}
        for each in services
        if each.restarts or each.problem
    }


def record_restarts(data: DataDirectory, restarts: Mapping[str, object]) -> None:
    """Store what :func:`describe_restarts` returned. Raises OSError."""
    write_private_file(data.root / FILE, json.dumps(restarts, indent=2) + "\n")


def read_restarts(root: Path) -> dict[str, dict[str, object]]:
    """Name → `{"count": int, "last": time in UTC, "keeps_dying": bool}` of the processes that died since the start: how
    often and when each was started again (empty if it was not yet), and whether it dies again and again. Empty without
    a death or a supervisor."""
    return read_json_object(root / FILE)


def forget_restarts(data: DataDirectory) -> None:
    """The installation stops."""
    (data.root / FILE).unlink(missing_ok=True)
