"""Background work: each task takes an id and calls a service."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import task_failure
from django.contrib.sessions.backends.db import SessionStore

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import database_time
from pools.domain.errors import Busy
from pools.services.changes.audit_retention import delete_old_entries
from pools.services.changes.idempotency import purge_old_records
from pools.services.configuration.approvals import expire_requests
from pools.services.configuration.cohort_cycles import mark_cycles_now
from pools.services.configuration.subpools import archive_drained, end_temporary_quotas
from pools.services.gpu_quota.gpu_allocations import expire_assumed, purge_released
from pools.services.gpu_quota.gpu_quotas import sample_usage
from pools.sign_on.accounts import check_due_identities
from scheduling.history.own.replays import resume_replays, run_replay
from scheduling.history.starts.background import forecast_starts
from scheduling.locking import LongWorkRuns, hold_long_work_turn
from scheduling.services import notifications, task_names
from scheduling.services.decisions import delete_old_decisions
from scheduling.services.kubernetes.connection_test import run_connection_test
from scheduling.services.kubernetes.heartbeats import set_silent_offline
from scheduling.services.kubernetes.syncing.queue_sync import (
    backends_due_for_sync,
    needs_no_sync,
    sync_backend_queues,
    sync_while_requested,
)
from scheduling.services.node_care import find_suspect_nodes
from scheduling.services.notices.conditions import find_conditions
from scheduling.services.notices.planning import plan_notices
from scheduling.services.notices.sending import delete_old_notices, send_notices
from scheduling.services.notifications import (
    CONNECTION_TEST_TASK,
    FOLLOW_LEDGER_TASK,
    HISTORY_REPLAY_TASK,
    MANUAL_QUEUE_SYNC_TASK,
    QUEUE_SYNC_TASK,
    RECONCILE_TASK,
)
from scheduling.services.periodic_tasks import note_failure
from scheduling.services.simulated.dirty import Scope
from scheduling.services.simulated.due_backends import due_backends
from scheduling.services.simulated.reconcile import reconcile_while_requested
from scheduling.services.usage import close_hours, delete_old_usage, note_wait_causes

LONG_JOB_RETRY_SECONDS = 2


def long_job(name: str) -> Callable[[Callable[[], None]], Any]:
    """A periodic task that may take seconds. One of them runs at a time; another one tries again after
    `LONG_JOB_RETRY_SECONDS`, until its message expires."""

    def decorate(function: Callable[[], None]) -> Any:
        @shared_task(
            name=name, autoretry_for=(LongWorkRuns,), default_retry_delay=LONG_JOB_RETRY_SECONDS, max_retries=None
        )
        @wraps(function)
        def run() -> None:
            with hold_long_work_turn():
                function()

        return run

    return decorate


@task_failure.connect
def count_failed_run(sender: Any, exception: BaseException, **_: Any) -> None:
    """A run of a background job ended with an error, after the last of its retries."""
    with left_out_on_error("the count of failed jobs", sender.name):
        note_failure(sender.name, exception)


@shared_task(name=RECONCILE_TASK, autoretry_for=(Busy,), retry_backoff=True, max_retries=5)
def reconcile_simulated_backend(backend_id: int, scope: str = Scope.HINT) -> None:
    """Reconcile one simulated backend, as far as the scope asks for."""
    if scope == Scope.TICK:
        notifications.periodic_reconcile_started(backend_id)
    reconcile_while_requested(backend_id, Scope(scope))


@shared_task(name=FOLLOW_LEDGER_TASK, autoretry_for=(Busy,), retry_backoff=True, max_retries=3)
def follow_ledger(backend_id: int) -> None:
    """Sync the queues of one cluster, if a change of the ledger affects them."""
    notifications.follow_started(backend_id)
    if not needs_no_sync(backend_id):
        sync_while_requested(backend_id)


@shared_task(name=task_names.RECONCILE_ALL)
def reconcile_all_backends() -> None:
    """Periodic: end what is due, and find work for which a notification was lost."""
    for backend_id in due_backends(database_time()):
        with left_out_on_error("the reconciliation of a backend", backend_id):
            notifications.enqueue_periodic_reconcile(backend_id)


@shared_task(name=QUEUE_SYNC_TASK, autoretry_for=(Busy,), retry_backoff=True, max_retries=3)
def sync_queues(backend_id: int) -> None:
    """Bring the queues of one cluster in step with the ledger."""
    sync_while_requested(backend_id)


@shared_task(name=MANUAL_QUEUE_SYNC_TASK, autoretry_for=(Busy,), retry_backoff=True, max_retries=8)
def sync_queues_manually(backend_id: int, queues: list[str] | None) -> None:
    """Sync the queues of one cluster on request, perhaps some of them only."""
    sync_backend_queues(backend_id, manual=True, only_objects=queues)


@shared_task(name=CONNECTION_TEST_TASK)
def test_connection(backend_id: int) -> None:
    """Test the connection to one cluster."""
    run_connection_test(backend_id)


@shared_task(name=HISTORY_REPLAY_TASK)
def replay_history(replay_id: str) -> None:
    """Run one requested replay; it shares the turn of long work by itself."""
    run_replay(UUID(replay_id))


@shared_task(name=task_names.RESUME_REPLAYS)
def resume_lost_replays() -> None:
    """Periodic: replays whose process died or whose notification was lost."""
    resume_replays()


@shared_task(name=task_names.SYNC_ALL_QUEUES)
def sync_all_queues() -> None:
    """Periodic: find changes for which a notification was lost, and changes that others made in a cluster."""
    for backend_id in backends_due_for_sync():
        with left_out_on_error("the sync of a cluster's queues", backend_id):
            notifications.enqueue_queue_sync(backend_id)


@shared_task(name=task_names.DRAIN_MONITOR)
def archive_drained_subpools() -> None:
    """Periodic: archive drained subpools that were missed (design, D3)."""
    archive_drained()


@shared_task(name=task_names.END_TEMPORARY_QUOTAS)
def give_temporary_quotas_back() -> None:
    """Periodic: end the temporary quotas that are due."""
    end_temporary_quotas()


@shared_task(name=task_names.EXPIRE_APPROVALS)
def expire_approvals() -> None:
    """Periodic: expire the requests for approval that nobody decided in time."""
    expire_requests()


@long_job(task_names.FORGET_KEYS)
def forget_idempotency_keys() -> None:
    """Drop stored answers that are too old, and browser sessions that have ended."""
    with left_out_on_error("the retention of stored answers"):
        purge_old_records()
    SessionStore.clear_expired()


@long_job(task_names.FORGET_DECISIONS)
def delete_decisions_past_retention() -> None:
    """Drop the decisions that are too old or too many."""
    delete_old_decisions()


@shared_task(name=task_names.EXPIRE_RESERVATIONS)
def expire_gpu_reservations() -> None:
    """Release reservations of GPU quota that never became workers."""
    expire_assumed()


@long_job(task_names.SAMPLE_GPU_USAGE)
def sample_gpu_usage() -> None:
    """Sample the usage of GPU quotas, and delete samples and allocations that are too old."""
    with left_out_on_error("the samples of GPU usage"):
        sample_usage()
    purge_released()


@shared_task(name=task_names.FIND_SILENT)
def find_silent_clusters() -> None:
    """Set clusters OFFLINE that were silent for too long."""
    set_silent_offline()


@shared_task(name=task_names.FIND_COHORT_CYCLES)
def find_cohort_cycles() -> None:
    """Find cohorts whose parents form a cycle, which only a write with disabled triggers can create."""
    mark_cycles_now()


@long_job(task_names.FORECAST_STARTS)
def forecast_starts_of_waiting_work() -> None:
    """Periodic: forecast when waiting gangs start, and score the forecasts of those that have started."""
    forecast_starts()


@long_job(task_names.NOTE_WAIT_CAUSES)
def note_causes_of_waiting() -> None:
    """Write why gangs wait, where it has changed."""
    note_wait_causes()


@long_job(task_names.CLOSE_USAGE_HOURS)
def close_usage_hours() -> None:
    """Compute the sums of use of the hours that have ended."""
    close_hours()


@long_job(task_names.FORGET_USAGE)
def delete_usage_past_retention() -> None:
    """Drop the record of use that is older than its retention."""
    delete_old_usage()


@shared_task(name=task_names.CHECK_SIGN_ONS)
def check_sign_ons() -> None:
    """Ask the identity providers whether sign-ons still hold, and for the groups."""
    check_due_identities()


@long_job(task_names.FORGET_AUDIT)
def delete_audit_entries_past_retention() -> None:
    """Drop entries of the audit trail that are older than its retention, if it has one."""
    delete_old_entries()


@long_job(task_names.SEND_NOTICES)
def make_and_send_notices() -> None:
    """Periodic: make notices of what the audit trail tells, and send those that are due."""
    with left_out_on_error("new notices"):
        plan_notices()
    send_notices()


@long_job(task_names.FIND_CONDITIONS)
def find_notice_conditions() -> None:
    """Periodic: find suspect nodes, and what people get notices of and no change announces, as long waits and late
    jobs."""
    with left_out_on_error("suspect nodes"):
        find_suspect_nodes()
    find_conditions()


@long_job(task_names.FORGET_NOTICES)
def delete_notices_past_retention() -> None:
    """Drop the notices that are older than their retention."""
    delete_old_notices()
