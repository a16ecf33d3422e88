"""Background work: load an id, call the service."""

from __future__ import annotations

from celery import shared_task

from pools.domain.errors import Busy
from pools.models import Backend
from pools.services.cohort_circles import watch_circles
from pools.services.gpu_allocations import expire_assumed, forget_released
from pools.services.gpu_quotas import sample_usage
from pools.services.idempotency import forget_old
from pools.services.subpools import archive_drained
from scheduling.services import notifications
from scheduling.services.decisions import forget_old_decisions
from scheduling.services.kubernetes.connection_test import run_test
from scheduling.services.kubernetes.heartbeats import find_silent
from scheduling.services.kubernetes.queue_sync import due_backends, follows_the_ledger, sync_backend, sync_while_asked
from scheduling.services.notifications import SETTLE_ONE, SYNC_BY_HAND, SYNC_ONE, TEST_ONE
from scheduling.services.simulated.dirty import Look
from scheduling.services.simulated.reconcile import settle_while_asked

SETTLE_EVERYTHING = "scheduling.settle_all"
SYNC_EVERYTHING = "scheduling.sync_all_queues"
DRAIN_MONITOR = "scheduling.archive_drained"
FORGET_KEYS = "scheduling.forget_idempotency_keys"
FORGET_DECISIONS = "scheduling.forget_old_decisions"
EXPIRE_RESERVATIONS = "scheduling.expire_gpu_reservations"
SAMPLE_GPU_USAGE = "scheduling.sample_gpu_usage"
FIND_SILENT = "scheduling.find_silent_clusters"
WATCH_CIRCLES = "scheduling.watch_circles"


@shared_task(name=SETTLE_ONE, autoretry_for=(Busy,), retry_backoff=True, max_retries=5)
def settle_backend(backend_id: int, look: str = Look.HINT) -> None:
    """Something moved on a backend: a simulated one is settled, a cluster's agent looks and its queues follow."""
    settle_while_asked(backend_id, Look(look))
    notifications.tell_agent(backend_id)
    if not follows_the_ledger(backend_id):
        notifications.ask_to_sync(backend_id)


@shared_task(name=SETTLE_EVERYTHING)
def settle_all() -> None:
    """The beat's tick: ends what is due, and finds what a lost hint left waiting."""
    for backend_id in Backend.objects.filter(kind=Backend.Kind.SIMULATED).values_list("pk", flat=True):
        settle_backend.delay(backend_id, Look.TICK)


@shared_task(name=SYNC_ONE, autoretry_for=(Busy,), retry_backoff=True, max_retries=3)
def sync_queues(backend_id: int) -> None:
    """Bring the queues of one cluster in step with the ledger."""
    sync_while_asked(backend_id)


@shared_task(name=SYNC_BY_HAND, autoretry_for=(Busy,), retry_backoff=True, max_retries=8)
def sync_queues_by_hand(backend_id: int, queues: list[str] | None) -> None:
    """Somebody asked for it, maybe for some queues only."""
    sync_backend(backend_id, by_hand=True, only=queues)


@shared_task(name=TEST_ONE)
def test_connection(backend_id: int) -> None:
    """Try one cluster out."""
    run_test(backend_id)


@shared_task(name=SYNC_EVERYTHING)
def sync_all_queues() -> None:
    """The beat's tick: finds what a lost hint left, and what somebody changed in a cluster."""
    for backend_id in due_backends():
        notifications.ask_to_sync(backend_id)


@shared_task(name=DRAIN_MONITOR)
def monitor_drain() -> None:
    """The net under the drain (D3)."""
    archive_drained()


@shared_task(name=FORGET_KEYS)
def forget_idempotency_keys() -> None:
    """Drop stored answers older than a day."""
    forget_old()


@shared_task(name=FORGET_DECISIONS)
def forget_decisions() -> None:
    """Drop the decisions that are too old or too many."""
    forget_old_decisions()


@shared_task(name=EXPIRE_RESERVATIONS)
def expire_gpu_reservations() -> None:
    """Give back what was reserved of a GPU quota and never became a worker."""
    expire_assumed()


@shared_task(name=SAMPLE_GPU_USAGE)
def sample_gpu_usage() -> None:
    """Keep the history of use of GPU quotas, and no more of it than is looked at."""
    sample_usage()
    forget_released()


@shared_task(name=FIND_SILENT)
def find_silent_clusters() -> None:
    """Set clusters OFFLINE that nobody has heard for too long."""
    find_silent()


@shared_task(name=WATCH_CIRCLES)
def watch_cohort_circles() -> None:
    """Tell of parents of cohorts that run in a circle, which nobody can write but past the house."""
    watch_circles()
