"""Cleanup after a killed supervisor: end its processes before the next start on the same data.

`children.json` names each process group with the start time of its leader, so that a recycled process id is never
mistaken for ours. On Linux the kernel has already signalled the leaders; then this code only waits for them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from osmo_admin.ops.files.data_directory import DataDirectory, read_json_object, write_private_file
from osmo_admin.ops.programs.processes import ChildProcess, kill_process_group, process_start_time

GRACE_SECONDS = 6.0
# All child processes and their descendants have it in their environment.
INSTALLATION_VARIABLE = "OSMO_ADMIN_INSTALLATION"


def record_children(data: DataDirectory, children: Iterable[ChildProcess], socket_dir: Path | None) -> None:
    """Store the running process groups."""
    entries = [
        {"name": child.name, "pid": child.pid, "started": child.started, "signal": int(child.stop_signal)}
        for child in children
    ]
    body = {"children": entries, "socket_dir": None if socket_dir is None else str(socket_dir)}
    write_private_file(data.children, json.dumps(body, indent=2) + "\n")


def end_orphans(data: DataDirectory) -> list[str]:
    """End the processes of an earlier supervisor. Returns the names of those that still ran."""
    recorded = read_json_object(data.children)
    entries = recorded.get("children", [])
    alive = [entry for entry in entries if process_start_time(entry["pid"]) == entry["started"] != ""]
    for entry in alive:
        with suppress(ProcessLookupError):
            os.kill(entry["pid"], signal.Signals(entry["signal"]))
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and any(process_start_time(each["pid"]) == each["started"] for each in alive):
        time.sleep(0.05)
    for entry in alive:
        if process_start_time(entry["pid"]) == entry["started"]:
            kill_process_group(entry["pid"])
    groups = {entry["pid"] for entry in entries}
    for pid in _find_group_members(groups, str(data.root)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if recorded.get("socket_dir"):
        shutil.rmtree(recorded["socket_dir"], ignore_errors=True)
    data.children.unlink(missing_ok=True)
    return [entry["name"] for entry in alive]


def _find_group_members(groups: set[int], installation: str) -> list[int]:
    """Processes of these groups that belong to this installation, also without their leader (Linux only)."""
    marker = f"{INSTALLATION_VARIABLE}={installation}".encode()
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group in groups and marker in (folder / "environ").read_bytes().split(b"\0"):
                members.append(int(folder.name))
        except (OSError, ValueError, IndexError):
            continue
    return members
