"""`up`, `status`, `down`, `reset`: start, check, stop and delete the installation in one data directory."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption
from osmo_admin.ops.files.data_directory import DataDirectory, find_running_pid, read_json_object
from osmo_admin.ops.programs.errors import OperationError

DOWN_SECONDS = 15.0


def up(
    data_dir: DataDirOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on. Default: 8000, or the next free one.")
    ] = None,
    demo: Annotated[bool, typer.Option(help="Create demo pools, users and workflows in a new installation.")] = True,
    check: Annotated[bool, typer.Option("--check", help="Start, run one workflow through all parts, stop.")] = False,
    dev: Annotated[bool, typer.Option("--dev", help="Trust the x-osmo-user header: login without a secret.")] = False,
    webhook_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, envvar="OSMO_WEBHOOK_PORT", help="Port of the webhook server for clusters, over TLS."
        ),
    ] = None,
    webhook_client_ca: Annotated[
        Path | None,
        typer.Option(
            envvar="OSMO_WEBHOOK_CLIENT_CA",
            help="PEM file: the webhook server accepts only clients with a certificate of this authority.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Start everything: database, broker, web, worker, beat. Ctrl-C stops it."""
    from osmo_admin.ops.supervisor import Supervisor, SupervisorOptions, print_line

    options = SupervisorOptions(
        data_dir=data_dir,
        host=host,
        port=port,
        demo=demo,
        check=check,
        dev=dev,
        webhook_port=webhook_port,
        webhook_client_ca=webhook_client_ca,
    )
    raise typer.Exit(Supervisor(options, print_line).run())


def status(data_dir: DataDirOption = None) -> None:
    """Show the address and the readiness of OSMO Admin. Exit code 0: ready; 1: not ready."""
    from osmo_admin.ops.files import disk_space, restarts
    from osmo_admin.ops.programs import readiness

    data = DataDirectory.open(data_dir)
    pid = find_running_pid(data)
    if pid is None:
        raise OperationError(f"Not running on {data.root}. Start it with: osmo-admin up --data-dir {data.root}")
    url = read_json_object(data.runtime).get("OSMO_LOCAL_URL", "")
    answer = readiness.check_readiness(url) if url else readiness.Readiness(False, "still starting")
    print(f"Running on {data.root} (process {pid}){' at ' + url if url else ''}.")
    for name, facts in restarts.read_restarts(data.root).items():
        if facts["keeps_dying"]:
            print(f"{name} keeps dying and is started again and again. The reason is in {data.logs / f'{name}.log'}.")
        if facts["count"]:
            print(f"{name} died and was started again: {facts['count']} × since the start, last at {facts['last']}.")
    if full := disk_space.describe_full_disk(data.root):
        print(f"{full} {data.root}")
    if not answer.is_ready:
        raise OperationError(f"Not ready: {answer.reason}. Logs: {data.logs}")
    print("Ready: database, migrations, broker, worker and beat answer.")


def down(data_dir: DataDirOption = None) -> None:
    """Stop OSMO Admin on this data directory."""
    data = DataDirectory.open(data_dir)
    pid = find_running_pid(data)
    if pid is None:
        print(f"Not running on {data.root}.")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while find_running_pid(data) is not None:
        if time.monotonic() > deadline:
            raise OperationError(f"Process {pid} has not stopped after {DOWN_SECONDS:.0f} s. Logs: {data.logs}")
        time.sleep(0.1)
    print("Stopped.")


def reset(
    data_dir: DataDirOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a stopped installation: database, queue, logs and secrets. This cannot be undone."""
    data = DataDirectory.open(data_dir)
    if find_running_pid(data) is not None:
        raise OperationError(f"OSMO Admin on {data.root} is running. Stop it first: osmo-admin down")
    if not data.marker.exists():
        raise OperationError(f"{data.root} is not a data directory of osmo-admin; nothing was deleted.")
    if not yes and not typer.confirm(f"Delete all data of OSMO Admin in {data.root}?"):
        raise OperationError("Nothing was deleted.")
    data.remove()
    print(f"Deleted the data in {data.root}.")
