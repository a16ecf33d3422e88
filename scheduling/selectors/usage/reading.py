"""Reads the record of use for one reader: by pool, subpool, cohort, user, priority, backend,
GPU flavor or workflow, over time.

The sums of closed hours and days are stored; the parts of hours at both ends of the window, and the open hour, are
computed in the same statement. The number of queries does not depend on the window.

Sums count whole GPUs. Parts of shared GPUs have rows of their own, by flavor.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from pools.database.statements import execute_sql
from pools.domain.people.roles import Actor, Permission
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.models import UsageProgress
from scheduling.selectors.usage.answers import HOUR, UsageAnswer, UsageQuestion, UsageRow, start_of_hour
from scheduling.selectors.usage.by_workflow import read_by_workflow
from scheduling.selectors.usage.parts import FLAVOR_HISTORY, hours_of_changed_days, part_times, part_values
from scheduling.selectors.usage.rows import Slots, add_up
from scheduling.selectors.usage.sums import add_capacity, read_sums
from scheduling.selectors.usage.waits_and_losses import add_lost, add_waits, read_losses

MAX_ROWS = 100_000


def read_usage(actor: Actor, question: UsageQuestion) -> UsageAnswer:
    """The record as this reader may see it: pools on which the reader has a role, and always the own work."""
    return read_usages(actor, [question])[0]


def read_usages(actor: Actor, questions: Sequence[UsageQuestion]) -> list[UsageAnswer]:
    """Answers to questions that differ only in `by` and `bucket`. Their sums are computed once, in one statement."""
    first = questions[0]
    progress = _read_progress(actor)
    slots = _make_slots(progress, first.since, first.until)
    has_leaves = bool(first.pools) or any(question.by is UsageKey.SUBPOOL for question in questions)
    values = _values(actor, first, slots, progress, has_leaves=has_leaves)
    sees_capacity = actor.can_read_all and not first.pools and not first.users
    found = read_sums(questions, slots, values, sees_capacity=sees_capacity, by_leaf=has_leaves)
    answers: list[UsageAnswer] = []
    for question, (sums, capacities) in zip(questions, found, strict=True):
        rows = read_by_workflow(question, slots, values) if question.by is UsageKey.WORKFLOW else sums
        totals = add_up(question.since, rows.values())
        if sees_capacity:
            add_capacity(question, capacities, rows, totals)
        add_waits(question, values, rows, totals)
        add_lost(question, values, rows, totals)
        ordered = sorted(rows.values(), key=lambda row: (row.start, row.key is None, row.key or "", row.part))
        losses = tuple(read_losses(values)) if question is first else answers[0].losses
        answers.append(UsageAnswer(question, ordered[:MAX_ROWS], totals, len(ordered) > MAX_ROWS, losses))
    return answers


def read_last_hours(actor: Actor, by: UsageKey, hours: int) -> tuple[datetime | None, Sequence[UsageRow]]:
    """The sums of whole GPUs of the last full hours of the record, and the begin of the first: rows by hour and key,
    without the lengths of waits and without what was lost. None and no rows where the record ended before them. Two
    statements: it is for pages that are fetched often."""
    found = _read_progress(actor)
    until = found[0]
    if until is None or until < timezone.now() - hours * HOUR:
        return None, ()
    question = UsageQuestion(until - hours * HOUR, until, by, Bucket.HOUR)
    slots = _make_slots(found, question.since, until)
    values = _values(actor, question, slots, found, has_leaves=False)
    [(rows, capacities)] = read_sums([question], slots, values, sees_capacity=actor.can_read_all, by_leaf=False)
    if actor.can_read_all:
        add_capacity(question, capacities, rows, add_up(question.since, rows.values()))
    return question.since, [row for row in rows.values() if not row.part]


Progress = tuple[datetime | None, datetime | None, datetime | None, str | None]
"""The end of the last stored hour, the begin of the record, the day of the reader's account, and the history of the
flavors of backends."""


def _read_progress(actor: Actor) -> Progress:
    row: Progress = execute_sql(
        "SELECT (SELECT closed_until FROM scheduling_usageprogress WHERE id = 1),"
        " (SELECT min(since) FROM scheduling_nodespan),"
        " (SELECT date_trunc('day', date_joined, 'UTC') FROM pools_user WHERE id = %s),"
        f" ({FLAVOR_HISTORY})",
        [None if actor.can_read_all else actor.user_id],
    ).fetchone()
    return row


def _make_slots(progress: Progress, since: datetime, until: datetime) -> Slots:
    closed, first, joined, _ = progress
    if first is None or first >= until:
        return Slots(since, since)
    # The sums of the hour in which the record begins are those of the whole hour: before it there is nothing.
    begin = max(since, start_of_hour(first))
    hour = start_of_hour(begin)
    stored_from = hour if hour == begin else hour + HOUR
    last = start_of_hour(until)
    stored_until = max(stored_from, min(last, closed)) if closed is not None else stored_from
    computed = [] if begin >= stored_from else [(begin, min(stored_from, until))]
    at = stored_until
    while at < until:
        computed.append((at, min(until, at + HOUR)))
        at += HOUR
    return Slots(stored_from, stored_until, computed, joined)


def _values(
    actor: Actor, question: UsageQuestion, slots: Slots, progress: Progress, *, has_leaves: bool
) -> dict[str, Any]:
    """The parameters of the statements. Of the pools of which no leaf is wanted, the sums are enough."""
    computed = slots.computed
    times = part_times(progress[-1])
    visible = [] if actor.can_read_all else list(actor.pools_with(Permission.POOL_READ))
    return {
        "stored_from": slots.stored_from,
        "stored_until": slots.stored_until,
        "days_from": slots.days_from,
        "days_until": slots.days_until,
        "joined": slots.joined,
        "begins": [begin for begin, _ in computed],
        "ends": [end for _, end in computed],
        "begin": min((begin for begin, _ in computed), default=question.since),
        "end": max((end for _, end in computed), default=question.since),
        "sees_all": actor.can_read_all,
        "visible": visible,
        "may_join_leaves": not (has_leaves and actor.can_read_all and not question.pools),
        "detailed": (list(question.pools) or visible) if has_leaves else [],
        "me": actor.user_id,
        "pools": list(question.pools),
        "has_pools": bool(question.pools),
        "users": list(question.users),
        "has_users": bool(question.users),
        "since": question.since,
        "until": question.until,
        "hours_of_changed_days": list(hours_of_changed_days(times, slots.days_from, slots.days_until)),
        **part_values(times),
    }


def read_closed_until() -> datetime | None:
    """The end of the last hour whose sums are stored."""
    return UsageProgress.objects.filter(pk=1).values_list("closed_until", flat=True).first()
