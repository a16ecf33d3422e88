"""Keeps work here that would compete with a gang which comes first in its pool (`hold_after`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pools.domain.names import SHARED_QUEUE, queue_name
from pools.models import Backend
from scheduling.domain.dispatch_admission import BY_PLATFORM
from scheduling.domain.dispatch_holds import DispatchHold
from scheduling.domain.engine.explain import ReasonCode
from scheduling.models import Group
from scheduling.selectors.dispatch_holds import read_dispatch_holds
from scheduling.services.kubernetes.observation import set_waiting_reasons


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
