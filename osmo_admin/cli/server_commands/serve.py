"""`serve`: one process of OSMO Admin in the foreground, for containers and service managers that supervise it."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from typing import Annotated

import typer

from osmo_admin.ops import process_commands


class ServedProcess(StrEnum):
    """Processes that `serve` can run."""

    WEB = process_commands.WEB
    WORKER = process_commands.WORKER
    BEAT = process_commands.BEAT
    CLUSTERS = process_commands.CLUSTERS
    PREPARE = "prepare"


def serve(
    process: Annotated[
        ServedProcess, typer.Argument(help="prepare: migrate the database, create the defaults, then exit.")
    ],
    host: Annotated[str, typer.Option(help="Listen address of web.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Listen port of web.")] = 8000,
) -> None:
    """Run one process against DATABASE_URL and REDIS_URL. Run exactly one beat, and any number of the others."""
    command = {
        ServedProcess.WEB: process_commands.web_command(host, port),
        ServedProcess.WORKER: process_commands.worker_command(),
        ServedProcess.BEAT: process_commands.beat_command(),
        ServedProcess.CLUSTERS: process_commands.clusters_command(),
        ServedProcess.PREPARE: process_commands.bootstrap_command(),
    }[process]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    if process is not ServedProcess.PREPARE:
        for name in process_commands.SETUP_SECRETS:
            os.environ.pop(name, None)
    if process is ServedProcess.WEB and process_commands.METRICS_DIR not in os.environ:
        os.environ[process_commands.METRICS_DIR] = tempfile.mkdtemp(prefix="osmo-metrics-")
    os.execv(command[0], command)  # noqa: S606  (signals must reach the process itself)
