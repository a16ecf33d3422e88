"""`restarts.json`: which processes `osmo-admin up` had to start again, for `/ready` and `osmo-admin status`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from osmo_admin.ops.data_directory import DataDirectory, read_json_object, write_private_file
from osmo_admin.ops.services import Service

FILE = "restarts.json"


def record_restarts(data: DataDirectory, services: Iterable[Service]) -> None:
    """Store the number of restarts since the start, and the time of the last one, of each service that had any."""
    body = {each.name: {"count": each.restarts, "last": each.last_restart} for each in services if each.restarts}
    write_private_file(data.root / FILE, json.dumps(body, indent=2) + "\n")


def read_restarts(root: Path) -> dict[str, dict[str, object]]:
    """Name → `{"count": int, "last": time in UTC}`; empty without a restart or a supervisor."""
    return read_json_object(root / FILE)


def forget_restarts(data: DataDirectory) -> None:
    """The installation stops."""
    (data.root / FILE).unlink(missing_ok=True)
