"""`probe`: whether a process without an address hangs, for Kubernetes and other supervisors. Loads no Django."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption
from osmo_admin.ops.files.life_files import find_lives
from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.errors import OperationError


class ProbedProcess(StrEnum):
    """Processes without an address. web and webhook answer `/health`."""

    WORKER = process_commands.WORKER
    BEAT = process_commands.BEAT
    CLUSTERS = process_commands.CLUSTERS


def probe(
    process: Annotated[ProbedProcess, typer.Argument(help="The process to look for on this machine.")],
    data_dir: DataDirOption = None,
) -> None:
    """Tell whether a background process of this machine or container hangs.

    Exit code 0: it works, or waits for a database or broker that does not answer. 1: it hangs or does not run; start it
    again.
    """
    lives = find_lives(process, data_dir)
    if not lives:
        raise OperationError(f"No {process} runs here. Start it: osmo-admin up, or osmo-admin serve {process}")
    for life in lives:
        if life.is_hanging:
            raise OperationError(
                f"{process} (process {life.pid}) hangs: no sign of life for {life.silent_seconds:.0f} s. Restart it; "
                "its log may name the reason."
            )
    for life in lives:
        print(f"{process} (process {life.pid}) lives: last sign of life {life.silent_seconds:.0f} s ago.")
