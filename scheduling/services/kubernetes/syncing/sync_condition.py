"""The condition of a cluster's queues: whether they follow the ledger, the reason if not, and the next attempt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.utils import timezone

from pools.database.transactions import database_time
from scheduling.domain.queues.plan import QueueAction, QueueStep, Untouched
from scheduling.domain.queues.sync_advice import OBSERVED
from scheduling.kube.connection import errors
from scheduling.kube.connection.error_messages import condition_reason, error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.queues.queue_comparison import QueueComparison
from scheduling.kube.queues.queue_steps import ClusterWrite
from scheduling.kube.queues.queue_writes import WriteProgress
from scheduling.models import QueueDrift, QueueSync
from scheduling.selectors.cluster.desired_queues import DesiredState
from scheduling.services import notifications

MAX_PAUSE = timedelta(minutes=5)

Synced = QueueSync.Synced
_HELD_ELSEWHERE = "HeldElsewhere"
_OUTAGE_REASONS = frozenset(condition_reason(each("")) for each in (errors.Unreachable, errors.ServerError))


def set_off(row: QueueSync) -> None:
    """The sync of this cluster is switched off."""
    row.closed_queues = {}  # others may make the queues, and no run sees it
    _set_condition(row, Synced.UNKNOWN, "Off", "The sync of this cluster is switched off.")


def set_observed(row: QueueSync) -> None:
    """The cluster is observed: no queue is written, and those that others change are their own."""
    if row.reason == OBSERVED:
        return
    QueueDrift.objects.filter(backend=row.backend_id).delete()
    row.closed_queues = {}
    row.failures, row.retry_at = 0, None
    _set_condition(row, Synced.UNKNOWN, OBSERVED, "The cluster is observed: no queue is written.")


def set_held_elsewhere(row: QueueSync, holder: str) -> None:
    """Another installation works with the namespace: this one writes no queues."""
    message = f"Another installation works with this namespace and holds its Lease: {holder}. No queue is written."
    _set_condition(row, Synced.FALSE, _HELD_ELSEWHERE, message)


def is_held_elsewhere(backend_id: int) -> bool:
    """Whether the last run wrote nothing because another installation worked with the namespace."""
    return QueueSync.objects.filter(backend_id=backend_id, reason=_HELD_ELSEWHERE).exists()


def set_unread(row: QueueSync, error: ClusterError) -> None:
    """The cluster could not be read."""
    _delay_next_attempt(row, error)
    _set_condition(row, Synced.FALSE, condition_reason(error), error_message(error))


def set_finished(
    row: QueueSync,
    desired: DesiredState,
    comparison: QueueComparison,
    progress: WriteProgress,
    skipped: Sequence[ClusterWrite],
) -> None:
    """A run wrote what it could; `skipped` are the writes that the sync mode does not permit."""
    row.objects_observed = comparison.owned_queues
    row.untouched = [{"name": each.name, "note": each.note} for each in comparison.untouched]
    row.closed_queues = _closed_queues(desired, comparison, progress, skipped)
    if progress.fatal_error is not None or progress.failures:
        error = progress.fatal_error or progress.failures[0][1]
        _delay_next_attempt(row, error)
        _set_condition(row, Synced.FALSE, condition_reason(error), _failure_message(progress, error))
        return
    if row.reason in _OUTAGE_REASONS:
        notifications.cluster_answers(row.backend_id)
    row.failures, row.retry_at = 0, None
    needed = desired.queues.keys() | desired.topologies.keys()
    in_the_way = [each for each in comparison.untouched if each.name in needed]
    if progress.remaining:
        message = _interrupted_message(progress)
        _set_condition(row, Synced.FALSE, "Interrupted", message)
    elif skipped:
        _set_condition(row, Synced.FALSE, "WritesDue", _due_message(skipped))
    elif in_the_way:
        first = in_the_way[0]
        more = f", and {len(in_the_way) - 1} more" if len(in_the_way) > 1 else ""
        _set_condition(row, Synced.FALSE, "InTheWay", f"{_stays(first)}{more}.")
    else:
        row.applied_generation = max(row.applied_generation, desired.generation)
        row.succeeded_at = timezone.now()
        row.objects_observed = count = len(desired.queues)  # the comparison counted before the writes
        queues = "1 queue has its desired quota" if count == 1 else f"{count} queues have their desired quotas"
        message = f"{queues} (generation {desired.generation})."
        _set_condition(row, Synced.TRUE, "InStep", message)


def _closed_queues(
    desired: DesiredState, comparison: QueueComparison, progress: WriteProgress, skipped: Sequence[ClusterWrite]
) -> dict[str, str]:
    """The desired queues that belong to others, do not exist yet or are being deleted, each with the message of the
    sync about it."""
    errors_of = {id(write): error for write, error in progress.failures}
    first_error = progress.fatal_error or next(iter(errors_of.values()), None)
    closed = {each.name: f"{_stays(each)}." for each in comparison.untouched if each.name in desired.queues}
    for write in (*progress.remaining, *skipped):
        if not isinstance(write, QueueStep) or write.queue is None:
            continue
        if write.action is not QueueAction.CREATE and not write.is_terminating:
            continue
        if (error := errors_of.get(id(write), first_error)) is not None:
            reason = error_message(error)
        else:
            reason = _due_message(skipped) if write in skipped else _interrupted_message(progress)
        closed[write.name] = f"The queue {write.name} does not exist: {reason}"
    return closed


def _stays(queue: Untouched) -> str:
    return f"{queue.name} stays as it is: {queue.note}"


def _interrupted_message(progress: WriteProgress) -> str:
    return f"The run was too slow and stopped; {len(progress.remaining)} writes are left to the next one."


def _due_message(skipped: Sequence[ClusterWrite]) -> str:
    due = "1 write is due" if len(skipped) == 1 else f"{len(skipped)} writes are due"
    return f"{due}; the sync of this cluster only reports differences."


def _delay_next_attempt(row: QueueSync, error: ClusterError) -> None:
    if isinstance(error, errors.BeingDeleted):  # the next regular run sees whether the object is gone
        row.failures, row.retry_at = 0, None
        return
    pause = min(MAX_PAUSE, timedelta(seconds=2 ** min(row.failures, 10)))
    row.failures += 1
    row.retry_at = database_time() + max(pause, timedelta(seconds=error.retry_after or 0))


def _failure_message(progress: WriteProgress, error: ClusterError) -> str:
    where = next((write.description for write, each in progress.failures if each is error), "")
    more = f" {len(progress.remaining)} writes are left." if len(progress.remaining) > 1 else ""
    return f"{where}: {error_message(error)}{more}" if where else f"{error_message(error)}{more}"


def _set_condition(row: QueueSync, synced: Synced, reason: str, message: str) -> None:
    """Write the condition; `since` moves only with its status or reason. The lease's columns are left alone."""
    if (row.synced, row.reason) != (synced, reason):
        row.since = timezone.now()
    row.synced, row.reason, row.message = synced, reason, message
    row.save(update_fields=_CONDITION_COLUMNS)


_CONDITION_COLUMNS = [
    "applied_generation", "synced", "reason", "message", "since", "attempted_at", "succeeded_at", "retry_at",
    "failures", "objects_observed", "untouched", "closed_queues",
]  # fmt: skip
