"""`serve`: one process of OSMO Admin in the foreground, for containers and service managers that supervise it."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.ops.programs import process_commands


class ServedProcess(StrEnum):
    """Processes that `serve` can run."""

    WEB = process_commands.WEB
    WORKER = process_commands.WORKER
    BEAT = process_commands.BEAT
    CLUSTERS = process_commands.CLUSTERS
    WEBHOOK = process_commands.WEBHOOK
    PREPARE = "prepare"


def serve(
    process: Annotated[
        ServedProcess, typer.Argument(help="prepare: migrate the database, create the defaults, then exit.")
    ],
    host: Annotated[str, typer.Option(help="Listen address of web and webhook.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Listen port of web and webhook.")] = 8000,
    data_dir: DataDirOption = None,
) -> None:
    """Run one process against DATABASE_URL and REDIS_URL. Any number of each may run; one beat works.

    webhook serves admission reviews over TLS, with tls.crt and tls.key in the folder webhook of the data directory.
    """
    if data_dir is not None:
        os.environ["OSMO_ADMIN_HOME"] = str(data_dir)
    command = _command(process, host, port, data_dir)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    if process is not ServedProcess.PREPARE:
        for name in process_commands.SETUP_SECRETS:
            os.environ.pop(name, None)
    counting = {ServedProcess.WEB, ServedProcess.WEBHOOK}
    if process_commands.METRICS_PORT in os.environ:
        counting |= {ServedProcess.WORKER, ServedProcess.CLUSTERS}
    if process in counting and process_commands.METRICS_DIR not in os.environ:
        os.environ[process_commands.METRICS_DIR] = tempfile.mkdtemp(prefix="osmo-metrics-")
    from osmo_admin.processes.start_checks import refuse_unfit_process

    refuse_unfit_process()
    os.execv(command[0], command)  # noqa: S606  (signals must reach the process itself)


def _command(process: ServedProcess, host: str, port: int, data_dir: Path | None) -> list[str]:
    if process is ServedProcess.WEBHOOK:
        from osmo_admin.ops.files.certificates import copy_for_server

        certificate, key = copy_for_server(DataDirectory.open(data_dir).webhook)
        client_ca = os.environ.get("OSMO_WEBHOOK_CLIENT_CA", "")
        return process_commands.webhook_command(host, port, certificate, key, Path(client_ca) if client_ca else None)
    return {
        ServedProcess.WEB: process_commands.web_command(host, port),
        ServedProcess.WORKER: process_commands.worker_command(),
        ServedProcess.BEAT: process_commands.beat_command(),
        ServedProcess.CLUSTERS: process_commands.clusters_command(),
        ServedProcess.PREPARE: process_commands.bootstrap_command(),
    }[process]
