"""Keeps work here that would compete with a gang which comes first in its pool (`hold_after`), and work whose queue in
the cluster belongs to others or does not exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef

from pools.domain.names import SHARED_QUEUE, k8s_queue_name, queue_name
from pools.models import Backend
from scheduling.domain.judgement.dispatch_admission import BY_PLATFORM
from scheduling.domain.judgement.dispatch_holds import HeldBack, HeldInFlavors
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.statuses import UNFINISHED_TASK_STATUSES
from scheduling.models import Group, Task
from scheduling.selectors.cluster.queue_sync_state import read_closed_queues
from scheduling.selectors.queue.dispatch_holds import read_dispatch_holds
from scheduling.services.kubernetes.dispatching.observation import set_waiting_reasons


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
            reason = {
                "code": ReasonCode.QUEUE_CLOSED,
                "message": message,
                "by": BY_PLATFORM,
                "queue": queue,
                "limit": None,
            }
            if reason != known:
                reasons[pk] = reason
    set_waiting_reasons(reasons)
    return [group for group in groups if group not in kept]


def hold_back(backend: Backend, groups: Sequence[UUID]) -> tuple[list[UUID], Mapping[UUID, Collection[str]]]:
    """Those of the gangs that may be dispatched, and the GPU flavors in which some of these may not; the others get the
    waiting reason `held_back`."""
    if not groups:
        return [], {}
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
                    holds.all_before(kept[pk]),
                    root,
                    queue_name(backend.namespace, root, leaf or SHARED_QUEUE),
                ),
            )
            for pk, known, root, leaf in rows
        }
        set_waiting_reasons({pk: reason for pk, (known, reason) in reasons.items() if reason != known})
    return [group for group in groups if group not in kept], holds.barred


def _reason(held: HeldInFlavors, before: Sequence[str], pool: str, queue: str) -> dict[str, Any]:
    """The gangs that come first are not part of the message: only some readers may know their names."""
    messages = {flavor: _message(each, pool) for flavor, each in held.items()}
    message = messages[next(iter(messages))]
    if len(set(messages.values())) > 1:
        message = " ".join([
            "It is not sent to the cluster yet in any GPU flavor that it may use; one of them is enough.",
            *(f"{flavor}: {text}" for flavor, text in messages.items()),
        ])  # fmt: skip
    return {
        "code": ReasonCode.HELD_BACK,
        "message": message,
        "by": BY_PLATFORM,
        "queue": queue,
        "limit": "reservation",
        "gangs": list(before),
    }


def _message(held: HeldBack, pool: str) -> str:
    holds = sorted(held.holds, key=lambda hold: hold.since)
    first = holds[0]
    after = round(first.since - first.holder.ready)
    is_one = len(holds) == 1
    who = "a gang of its pool has" if is_one else f"{len(holds)} gangs of its pool have"
    until = "that gang has" if is_one else f"all {len(holds)} of them have"
    message = (
        f"It is not sent to the cluster yet: {who} waited since {_text(first.holder.ready)} and "
        f"{'comes' if is_one else 'come'} first. Later work has been held back since {_text(first.since)}, until "
        f"{until} started, as the setting hold_after of pool {pool} says ({after} seconds)."
    )
    if held.following:
        more = "1 other gang has" if held.following == 1 else f"{held.following} other gangs have"
        message += f" {more} waited so long too, and may come first after that."
    if first.latest_start is not None:
        message += f" Work with a time limit that ends it before {_text(first.latest_start)} goes on."
    return message


def _text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M} UTC"
