"""Files by which a process without an address shows that it does not hang, for `osmo-admin probe`.

`KIND-PID` in a private folder of the same machine or container: the folder `alive` of the data directory if
`osmo-admin up` made that and it can be written, else one below the folder for temporary files. A process renews the
time of its file; the content is its start time, so that a file is not taken for one of another process with the same
number.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.processes import process_start_time

# A process renews its file each RENEW_SECONDS. Without a renewal for SILENT_SECONDS it hangs.
RENEW_SECONDS = 5.0
SILENT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Life:
    """A running process, and the seconds since it last showed that it does not hang."""

    pid: int
    silent_seconds: float

    @property
    def is_hanging(self) -> bool:
        """True without a sign of life for SILENT_SECONDS."""
        return self.silent_seconds > SILENT_SECONDS


def show_life(kind: str) -> None:
    """Create or renew the file of this process. Raises OSError or OperationError if the folder cannot be used."""
    folder, started = _folder(None), process_start_time(os.getpid())
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{kind}-{os.getpid()}"
    if path.exists() and path.read_text() == started:
        os.utime(path)  # needs no space on a full disk
    else:
        path.write_text(started)


def find_lives(kind: str, data_dir: Path | None = None) -> list[Life]:
    """The running processes of a kind. Files of processes that have ended are removed."""
    return sorted(_read_lives(kind, _folder(data_dir)), key=lambda life: life.pid)


def _read_lives(kind: str, folder: Path) -> Iterator[Life]:
    for path in folder.glob(f"{kind}-*"):
        pid = int(path.name.rpartition("-")[2])
        started, now_running = path.read_text(), process_start_time(pid)
        if now_running and started in ("", now_running):  # empty: on a full disk, or written at this moment
            yield Life(pid, max(0.0, time.time() - path.stat().st_mtime))
        else:
            path.unlink()


def _folder(data_dir: Path | None) -> Path:
    data = DataDirectory.open(data_dir)
    if data.marker.exists() and os.access(data.root, os.W_OK):
        return data.alive
    mark = hashlib.sha256(str(data.root).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"osmo-admin-alive-{os.geteuid()}-{mark}"
    # Another user could make the folder first, and write there that a process lives.
    if folder.is_symlink() or (folder.exists() and folder.stat().st_uid != os.geteuid()):
        raise OperationError(
            f"{folder} belongs to another user, so no process can show there that it lives. Remove it."
        )
    return folder
