"""The log of promised starts of a simulated backend: the certain latest starts of its reservations, as rows.

A full cycle compares the open promises with what has happened and with the bounds of its settled result, and writes
the differences alone. The end of a wait is a row that a trigger wrote with the start or end of the gang itself, so a
process that dies before it has written the log loses nothing: the next cycle finds the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef

from pools.database.transactions import change, database_time
from pools.domain.people.roles import SYSTEM
from pools.models import Backend
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.promised_starts import PromiseOutcome, WaitEnd, judge_promise
from scheduling.models import Group, PromisedStart, WaitSpan
from scheduling.models.history.promised_start import NOT_KEPT
from scheduling.selectors.queue.live_facts import LiveFacts
from scheduling.services.simulated.start_reservations import planned_reservations, time_of


@dataclass(frozen=True, slots=True)
class ReservationBound:
    """The certain latest start of a gang that has a start reservation; None where it is not certain."""

    gang: str
    latest_start: datetime | None


Bounds = Mapping[UUID, ReservationBound]
"""All start reservations of a backend, by the id of the group."""


@dataclass(frozen=True, slots=True)
class PromiseChanges:
    """The rows to write: promises that have ended or have an earlier time now, and new ones."""

    changed: Sequence[PromisedStart]
    made: Sequence[PromisedStart]

    def __bool__(self) -> bool:
        return bool(self.changed or self.made)


def read_bounds(live: LiveFacts, plan: CycleResult) -> Bounds | None:
    """The bounds in the settled result of a plan. None for a plan with steps: its work starts some seconds later than
    planned, and so do the ends of it that bounds follow from. The next full cycle knows them."""
    policy, found = plan.world.policy, dict[UUID, ReservationBound]()
    if plan.steps:
        return None
    if policy is None:
        return found
    for each in planned_reservations(plan):
        latest = policy.latest_start(each.gang)
        time = latest.time if latest is not None and latest.is_certain else None
        found[live.gangs[each.gang].group] = ReservationBound(each.gang, None if time is None else time_of(time))
    return found


def find_promise_changes(backend: Backend, bounds: Bounds | None) -> PromiseChanges:
    """What the log of this backend lacks. `bounds`: empty while the backend is offline; None where they are not known.
    Two queries where nothing is promised, four at most."""
    now = database_time()
    rows = list(
        PromisedStart.objects.filter(backend_id=backend.pk, outcome=PromiseOutcome.OPEN).select_related("group")
    )
    ends = _wait_ends(rows)
    changed = [row for row in rows if _judge(row, ends.get(row.group_id), bounds, now)]
    promised = {row.group_id for row in rows if row.outcome in NOT_KEPT}
    new = {
        group: (each.gang, each.latest_start)
        for group, each in (bounds or {}).items()
        if each.latest_start is not None and group not in promised
    }
    made = [
        PromisedStart(
            group_id=group, backend_id=backend.pk, gang=new[group][0], waits_since=since, made_at=now,
            latest_start=new[group][1],
        )
        for group, since in _waits_without_broken_promise(new)
    ]  # fmt: skip
    return PromiseChanges(changed, made)


def save_promise_changes(backend: Backend, changes: PromiseChanges) -> None:
    """Write them. The caller holds the backend's lock."""
    if not changes:
        return
    with change(actor=SYSTEM, description="reconciled", controller_of=backend.pk):
        PromisedStart.objects.bulk_update(changes.changed, ["outcome", "latest_start", "ended_at", "reason"])
        PromisedStart.objects.bulk_create(changes.made)


def _judge(row: PromisedStart, wait_end: WaitEnd | None, bounds: Bounds | None, now: datetime) -> bool:
    """Change an open promise to what has become of it. Returns whether something has changed."""
    unchanged = ReservationBound(row.gang, row.latest_start)
    reservation = unchanged if bounds is None else bounds.get(row.group_id)
    verdict = judge_promise(
        row.latest_start,
        wait_end=wait_end,
        bound=None if reservation is None else reservation.latest_start,
        has_reservation=reservation is not None,
        now=now,
    )
    is_changed = (verdict.outcome, verdict.latest_start) != (row.outcome, row.latest_start)
    row.outcome, row.latest_start = verdict.outcome, verdict.latest_start
    row.ended_at, row.reason = verdict.ended_at, verdict.reason
    return is_changed


def _wait_ends(promises: Sequence[PromisedStart]) -> dict[UUID, WaitEnd]:
    """How the waits have ended in which these promises were made, by the id of the group."""
    if not promises:
        return {}
    waits = {(row.group_id, row.waits_since) for row in promises}
    # By the workflow too, which has an index.
    spans = WaitSpan.objects.filter(
        workflow_id__in={row.group.workflow_id for row in promises}, group_id__in={row.group_id for row in promises}
    )
    return {
        span.group_id: WaitEnd(span.until, is_start=span.started)
        for span in spans
        if span.until is not None and (span.group_id, span.since) in waits
    }


def _waits_without_broken_promise(groups: Collection[UUID]) -> list[tuple[UUID, datetime]]:
    """Those of the groups that still wait, each with the time since when. A gang that waits beyond a promise gets no
    other one in the same wait, which would only hide the first."""
    if not groups:
        return []
    broken = PromisedStart.objects.filter(
        group=OuterRef("pk"), outcome=PromiseOutcome.BROKEN, waits_since=OuterRef("ready_at")
    )
    rows = Group.objects.filter(~Exists(broken), pk__in=groups, start_time__isnull=True, end_time__isnull=True)
    found = rows.order_by("pk").values_list("pk", "ready_at")
    return [(group, since) for group, since in found if since is not None]
