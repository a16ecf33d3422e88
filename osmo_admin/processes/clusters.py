"""The process that works with Kubernetes clusters: `python -m osmo_admin.processes.clusters`, until a signal ends it.

Its main thread keeps an agent and a GPU quota controller running for each backend, or an observer for one that is only
read, renews their leases while they wait for a cluster, and passes on the notifications of the ledger. Without
notifications, also without a broker, each loop works every few seconds. Any number of these processes may run side by
side.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType

from osmo_admin.processes.django_setup import set_up_django

POLL_SECONDS = 2.0
logger = logging.getLogger("osmo_admin.processes.clusters")


def main() -> None:
    """Run until a signal requests the stop."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    from osmo_admin.processes.start_checks import end_unless_fit

    end_unless_fit("clusters")
    set_up_django()
    from django.conf import settings
    from django.db import DatabaseError, InterfaceError, connection

    from osmo_admin.doctor.reports import Reporter
    from osmo_admin.monitoring import heartbeat
    from osmo_admin.monitoring.liveness import Liveness
    from osmo_admin.processes.counter_page import serve_counters
    from scheduling.services.gpu_quota.controller import GpuQuotaController
    from scheduling.services.kubernetes.agent import ClusterAgent
    from scheduling.services.kubernetes.cluster_workers import ClusterWorkers
    from scheduling.services.kubernetes.observing.observer import ClusterObserver
    from scheduling.services.notifications import listen_for_wakeups

    serve_counters(settings.OSMO.metrics_port)
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    loops = (ClusterWorkers(ClusterAgent, ClusterObserver), ClusterWorkers(GpuQuotaController))

    def wake(backend_id: int) -> None:
        for workers in loops:
            workers.wake(backend_id)

    def end_pauses(backend_id: int) -> None:
        for workers in loops:
            workers.end_pauses(backend_id)

    listener = [wake, end_pauses, stop]
    threading.Thread(target=listen_for_wakeups, args=listener, name="notifications", daemon=True).start()
    liveness = Liveness(heartbeat.CLUSTERS)
    liveness.start()
    Reporter(heartbeat.CLUSTERS).start()
    while not stop.is_set():
        try:
            for workers in loops:
                workers.start_missing()
                workers.renew_leases()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the clusters process waits for the database: %s", error)
            connection.close()  # a new connection replaces a broken one
        if all(workers.are_alive for workers in loops):
            liveness.note_round()
            heartbeat.renew_heartbeat(heartbeat.CLUSTERS)
        stop.wait(POLL_SECONDS)
    for workers in loops:
        workers.stop()
    connection.close()


if __name__ == "__main__":
    main()
