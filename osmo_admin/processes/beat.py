"""Celery beat with the database schedule of django-celery-beat. It survives a restart of the database or broker.

Any number of beats may run: one holds the lease and sends tasks, the others stand by
(:mod:`scheduling.services.kubernetes.leases`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import structlog
from celery import platforms
from django.db import Error, ProgrammingError, close_old_connections
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry
from kombu.exceptions import OperationalError as BrokerError

from osmo_admin.doctor.reports import Reporter
from osmo_admin.monitoring import heartbeat
from osmo_admin.monitoring.liveness import Liveness
from pools.database.errors import is_database_away
from scheduling.models import BeatLease
from scheduling.services.kubernetes.leases import AlreadyClaimed, Lease, LeaseLost, LeaseTiming
from scheduling.services.periodic_tasks import ensure_periodic_tasks

RETRY_SECONDS = 2.0
LEASE_TIMING = LeaseTiming(timedelta(seconds=15), renew_after=3.0, safe_for=10.0)
"""A beat that dies is replaced within its duration; one that lost the database sends nothing after `safe_for`."""
log = structlog.get_logger(__name__)


class Entry(ModelEntry):  # type: ignore[misc]
    """A job whose last run is not ahead: after a clock was set back it would not run until that time comes again."""

    last_run_at: datetime

    def is_due(self) -> Any:
        """Whether it is due, and the seconds until the next look at it."""
        self.last_run_at = min(self.last_run_at, self._default_now())
        return super().is_due()


class Scheduler(DatabaseScheduler):  # type: ignore[misc]
    """Waits and retries where the scheduler of django-celery-beat would end its process.

    Its rows are those of :mod:`scheduling.services.periodic_tasks`, which are aligned with the environment at the first
    tick; later changes of rows are noticed with every tick.
    """

    Entry = Entry
    _ensured = False
    _ticked_at = 0.0
    _is_leader: bool | None = None  # None: not known yet
    _liveness = Liveness(heartbeat.BEAT)
    _is_at_work = _must_end = False

    def __init__(self, *args: Any, lazy: bool = False, **kwargs: Any) -> None:
        self._lease = Lease(1, BeatLease, LEASE_TIMING)  # not once for all: processes are forked later
        if not lazy:
            # In place of Celery's, which write the schedule inside of whatever runs: in a statement it would wait for
            # the connection that the statement itself holds.
            platforms.signals.update(SIGTERM=self._end, SIGINT=self._end)
        super().__init__(*args, lazy=lazy, **kwargs)

    def setup_schedule(self) -> None:
        """Read the rows, as soon as the database and the broker answer."""
        self._liveness.start()
        Reporter(heartbeat.BEAT).start()
        while True:
            self._liveness.note_round()
            try:
                with self._undisturbed():
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
            with self._undisturbed():
                if not self._holds_lease():
                    return RETRY_SECONDS
                if not self._ensured:
                    ensure_periodic_tasks()
                    self._ensured = True
                if (now := time.time()) < self._ticked_at:
                    self._heap = None  # its times are those of the clock before it was set back
                self._ticked_at = now
                delay: float = super().tick(*args, **kwargs)
        except Exception as problem:
            if not _may_pass(problem):
                raise
            log.warning("beat_waits", problem=str(problem))
            close_old_connections()
            return RETRY_SECONDS
        heartbeat.renew_heartbeat(heartbeat.BEAT)
        return min(delay, LEASE_TIMING.renew_after)

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """Send one task. Raises LeaseLost in a process that was frozen so long that another one may send it too."""
        if not self._lease.may_write():
            self._is_leader = False
            self._dirty.clear()  # the run that is not sent is not recorded either
            raise LeaseLost("The lease of beat may have run out; another beat sends this task.", retry_after=1)
        return super().apply_async(*args, **kwargs)

    def sync(self) -> None:
        """Write the runs of the tasks."""
        with self._undisturbed():
            super().sync()

    def close(self) -> None:
        """The end of the process: another beat need not wait for the end of the lease."""
        self._must_end = False
        with self._undisturbed():
            super().close()
            if self._is_leader:
                self._is_leader = False
                with suppress(Error):
                    self._lease.release()

    def _end(self, *_: object) -> None:
        """A signal to end the process: at once where it sleeps, else after the work."""
        self._must_end = True
        if not self._is_at_work:
            raise SystemExit

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Work in which a signal to end the process waits for its end."""
        if self._is_at_work:
            yield
            return
        self._is_at_work = True
        try:
            yield
        finally:
            self._is_at_work = False
            if self._must_end:
                raise SystemExit

    def _holds_lease(self) -> bool:
        """Claim the lease, or renew it. A beat that takes over begins with the rows as the last one left them, so it
        sends nothing that was sent already."""
        try:
            if self._is_leader:
                self._lease.renew()
                return True
            BeatLease.objects.get_or_create(pk=1)
            self._lease.claim()
        except (AlreadyClaimed, LeaseLost):
            if self._is_leader is not False:
                log.info("beat_stands_by")  # another one works
            self._is_leader = False
            return False
        self._is_leader = True
        log.info("beat_works")
        self._dirty.clear()
        self._initial_read, self._heap = True, None
        return True


def _may_pass(problem: Exception) -> bool:
    """Whether a server is away, or the database is not prepared yet."""
    return is_database_away(problem) or isinstance(problem, ProgrammingError | BrokerError)
