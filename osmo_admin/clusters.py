"""The process that works with Kubernetes clusters: `python -m osmo_admin.clusters`, until a signal ends it.

Its main thread keeps an agent and a keeper of GPU quotas for each backend going and passes on what the ledger hints.
Without hints, and without the broker, each looks by itself every few seconds. Any number of these processes may run
side by side.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType

import django

POLL_SECONDS = 2.0
logger = logging.getLogger("osmo_admin.clusters")


def main() -> None:
    """Run until told to stop."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    django.setup()
    from django.db import DatabaseError, InterfaceError, connection

    from osmo_admin import heartbeat
    from scheduling.services.gpu_quota.controller import GpuQuotaController
    from scheduling.services.kubernetes.agents import ClusterWorkers
    from scheduling.services.notifications import listen_for_wakeups

    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    everybody = (ClusterWorkers(), ClusterWorkers(GpuQuotaController))

    def wake(backend_id: int) -> None:
        for agents in everybody:
            agents.wake(backend_id)

    threading.Thread(target=listen_for_wakeups, args=[wake, stop], name="hints", daemon=True).start()
    while not stop.is_set():
        try:
            for agents in everybody:
                agents.start_missing()
        except (DatabaseError, InterfaceError) as problem:
            logger.warning("waits for the database: %s", problem)
        finally:
            connection.close()  # the main thread asks rarely; the agents keep their own
        if all(agents.are_alive for agents in everybody):
            heartbeat.renew_heartbeat(heartbeat.CLUSTERS)
        stop.wait(POLL_SECONDS)
    for agents in everybody:
        agents.stop()


if __name__ == "__main__":
    main()
