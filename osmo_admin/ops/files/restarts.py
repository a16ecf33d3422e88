"""`restarts.json`: which processes `osmo-admin up` had to start again, for `/ready` and `osmo-admin status`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from osmo_admin.ops.files.data_directory import DataDirectory, read_json_object, write_private_file
from osmo_admin.ops.programs.services import Service

FILE = "restarts.json"


class RestartAnswer(TypedDict):
    """How often and when (UTC; empty: not yet) a process that died was started again, and whether it dies again."""

    count: int
    last: str
    keeps_dying: bool


def describe_restarts(services: Iterable[Service], now: float) -> dict[str, RestartAnswer]:
    """The services that died since the start, by name."""
    return {
        each.name: {"count": each.restarts, "last": each.last_restart, "keeps_dying": each.keeps_dying(now)}
        for each in services
        if each.restarts or each.problem
    }


def record_restarts(data: DataDirectory, restarts: Mapping[str, object]) -> None:
    """Store what :func:`describe_restarts` returned. Raises OSError."""
    write_private_file(data.root / FILE, json.dumps(restarts, indent=2) + "\n")


def read_restarts(root: Path) -> dict[str, RestartAnswer]:
    """The processes that died since the start, by name; empty without a death or a supervisor."""
    return read_json_object(root / FILE)


def forget_restarts(data: DataDirectory) -> None:
    """The installation stops."""
    (data.root / FILE).unlink(missing_ok=True)
