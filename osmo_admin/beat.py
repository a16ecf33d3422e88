"""Celery beat with the database schedule of django-celery-beat. It survives a restart of the database or broker."""

from __future__ import annotations

import time

import structlog
from django.db import ProgrammingError, close_old_connections
from django_celery_beat.schedulers import DatabaseScheduler
from kombu.exceptions import OperationalError as BrokerError

from osmo_admin import heartbeat
from osmo_admin.doctor.reports import Reporter
from osmo_admin.liveness import Liveness
from pools.database_errors import is_database_away
from scheduling.services.periodic_tasks import ensure_periodic_tasks

RETRY_SECONDS = 2.0
log = structlog.get_logger(__name__)


class Scheduler(DatabaseScheduler):  # type: ignore[misc]
    """Waits and retries where the scheduler of django-celery-beat would end its process.

    Its rows are those of :mod:`scheduling.services.periodic_tasks`, which are aligned with the environment at the first
    tick; later changes of rows are noticed with every tick.
    """

    _ensured = False
    _liveness = Liveness(heartbeat.BEAT)

    def setup_schedule(self) -> None:
        """Read the rows, as soon as the database and the broker answer."""
        self._liveness.start()
        Reporter(heartbeat.BEAT).start()
        while True:
            self._liveness.note_round()
            try:
                super().setup_schedule()
            except Exception as problem:
                if not _may_pass(problem):
                    raise
                log.warning("beat_waits", problem=str(problem))
                close_old_connections()
                time.sleep(RETRY_SECONDS)
            else:
                return

    def tick(self, *args: object, **kwargs: object) -> float:
        """Send the tasks that are due. Returns the seconds until the next tick."""
        self._liveness.note_round()
        try:
            if not self._ensured:
                ensure_periodic_tasks()
                self._ensured = True
            delay: float = super().tick(*args, **kwargs)
        except Exception as problem:
            if not _may_pass(problem):
                raise
            log.warning("beat_waits", problem=str(problem))
            close_old_connections()
            return RETRY_SECONDS
        heartbeat.renew_heartbeat(heartbeat.BEAT)
        return min(delay, heartbeat.LIFETIME_SECONDS / 3)


def _may_pass(problem: Exception) -> bool:
    """Whether a server is away, or the database is not prepared yet."""
    return is_database_away(problem) or isinstance(problem, ProgrammingError | BrokerError)
