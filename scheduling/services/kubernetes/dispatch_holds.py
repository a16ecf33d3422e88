"""Keeps work here that would compete with a gang which comes first in its pool (`hold_after`), and work whose queue in
the cluster belongs to others or does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef

from pools.domain.names import SHARED_QUEUE, k8s_queue_name, queue_name
from pools.models import Backend
from scheduling.domain.dispatch_admission import BY_PLATFORM, QUEUE_CLOSED
from scheduling.domain.dispatch_holds import DispatchHold
from scheduling.domain.engine.explain import ReasonCode
from scheduling.domain.statuses import UNFINISHED_TASK_STATUSES
from scheduling.models import Group, Task
from scheduling.selectors.dispatch_holds import read_dispatch_holds
from scheduling.selectors.queue_sync_state import read_closed_queues
from scheduling.services.kubernetes.observation import set_waiting_reasons


def keep_without_queue(backend: Backend, groups: Sequence[UUID]) -> list[UUID]:
    """Those of the gangs that may be dispatched; the others wait here until the queue sync has their queue. A gang of
    which some pods were created already goes on where it is."""
    closed = read_closed_queues(backend.pk) if groups else {}
    if not closed:
        return list(groups)
    sent = Task.objects.filter(group=OuterRef("pk"), status__in=UNFINISHED_TASK_STATUSES, dispatched_at__isnull=False)
    rows = Group.objects.filter(~Exists(sent), pk__in=groups).values_list(
        "pk", "waiting_reason", "workflow__root_pool__name", "workflow__pool__subpool_name"
    )
    kept = set()
    reasons: dict[UUID, dict[str, Any]] = {}
    for pk, known, root, leaf in rows:
        queue = queue_name(backend.namespace, root, leaf or SHARED_QUEUE)
        if (message := closed.get(k8s_queue_name(queue))) is not None:
            kept.add(pk)
            reason = {"code": QUEUE_CLOSED, "message": message, "by": BY_PLATFORM, "queue": queue, "limit": None}
            if reason != known:
                reasons[pk] = reason
    set_waiting_reasons(reasons)
    return [group for group in groups if group not in kept]


def hold_back(backend: Backend, groups: Sequence[UUID]) -> list[UUID]:
    """Those of the gangs that may be dispatched; the others get the waiting reason `held_back`."""
    if not groups:
        return []
    holds = read_dispatch_holds(backend)
    kept = {group: holds.held[group] for group in groups if group in holds.held}
    if kept:
        rows = Group.objects.filter(pk__in=kept).values_list(
            "pk", "waiting_reason", "workflow__root_pool__name", "workflow__pool__subpool_name"
        )
        reasons = {
            pk: (
                known,
                _reason(
                    kept[pk],
                    holds.names[kept[pk].holder.group],
                    root,
                    queue_name(backend.namespace, root, leaf or SHARED_QUEUE),
                ),
            )
            for pk, known, root, leaf in rows
        }
        set_waiting_reasons({pk: reason for pk, (known, reason) in reasons.items() if reason != known})
    return [group for group in groups if group not in kept]


def _reason(hold: DispatchHold, holder: str, pool: str, queue: str) -> dict[str, Any]:
    """The gang that comes first is not part of the message: only some readers may know its name."""
    message = (
        f"It is not sent to the cluster yet: a gang of its pool has waited since {_text(hold.holder.ready)} and comes "
        f"first. Later work has been held back since {_text(hold.since)}, until that gang has started, as the setting "
        f"hold_after of pool {pool} says ({round(hold.since - hold.holder.ready)} seconds)."
    )
    if hold.latest_start is not None:
        message += f" Work with a time limit that ends it before {_text(hold.latest_start)} goes on."
    return {
        "code": ReasonCode.HELD_BACK,
        "message": message,
        "by": BY_PLATFORM,
        "queue": queue,
        "limit": "reservation",
        "gang": holder,
    }


def _text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M} UTC"
