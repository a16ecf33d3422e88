"""Reads the record of use for one reader: by pool, subpool, cohort, user, priority, backend,
GPU flavor or workflow, over time.

The sums of closed hours and days are stored; the parts of hours at both ends of the window, and the open hour, are
computed in the same statement. The number of queries does not depend on the window.

Sums count whole GPUs. Parts of shared GPUs have rows of their own, by flavor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from pools.database.statements import execute_sql
from pools.domain.names import SEPARATOR, SHARED_QUEUE
from pools.domain.people.roles import Actor, Permission
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.receipts.causes import EndCause
from scheduling.domain.receipts.words import CAUSE_LABELS, OTHER_POOL
from scheduling.models import UsageProgress
from scheduling.selectors.reports.usage_parts import (
    FLAVOR_HISTORY,
    counts_parts,
    hours_of_changed_days,
    part_times,
    part_values,
)
from scheduling.selectors.reports.usage_sql import COMPUTE, EVERY_LEAF, FLAVOR, WORK_COLUMNS

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MAX_ROWS = 100_000
MAX_WORKFLOW_WINDOW = timedelta(days=31)
"""The longest window by workflow: its rows are not kept as hourly sums."""

WAITING = tuple(f"waiting_{cause}" for cause in WaitCause)
SUM_COLUMNS = (*WORK_COLUMNS, "quota", "idle", "lent")
BACKEND_COLUMNS = ("capacity", "offline", "unallocated")


def start_of_hour(at: datetime) -> datetime:
    """The full hour at or before a time."""
    return at.replace(minute=0, second=0, microsecond=0)


def start_of_day(at: datetime) -> datetime:
    """The start of the day in UTC at or before a time in UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """`since` and `until` are in UTC; `pools` are names of leaves, `users` names of users; empty is all."""

    since: datetime
    until: datetime
    by: UsageKey
    bucket: Bucket
    pools: Sequence[str] = ()
    users: Sequence[str] = ()


@dataclass(slots=True)
class UsageRow:
    """The sums of one key in one bucket, in GPU-milliseconds by column; None where the row has no such amount: the
    work of a user has no quota, and only a backend has a capacity. Waits are seconds. A row with a `part` counts parts
    of shared GPUs of that flavor, which is the end of its key: `team/t4`."""

    start: datetime
    key: str | None
    sums: dict[str, int | None]
    wait_p50: float | None = None
    wait_p90: float | None = None
    lost: int = 0
    """GPU-milliseconds of the receipts of attempts that something else ended in this time."""
    part: str = ""

    @property
    def subject(self) -> str | None:
        """Its key without the flavor of parts; None where there is none."""
        return (self.key or "").removesuffix(f"/{self.part}") or None if self.part else self.key

    def add(self, other: UsageRow) -> None:
        """Add the sums of another row."""
        self.lost += other.lost
        for column, value in other.sums.items():
            if value is not None:
                self.sums[column] = (self.sums[column] or 0) + value

    @property
    def used(self) -> int:
        """GPU-milliseconds that work held."""
        return sum(self.sums[column] or 0 for column in ("guaranteed", "low_inside", "over_quota"))

    @property
    def waiting(self) -> int:
        """GPU-milliseconds for which work waited."""
        return sum(self.sums[column] or 0 for column in WAITING)


@dataclass(frozen=True, slots=True)
class LostShare:
    """What a pool lost by one cause to the work of one pool. `taker` is empty where no work got the place, and where
    the reader may not know it (`is_hidden`)."""

    pool: str
    cause: str
    taker: str
    is_hidden: bool
    attempts: int
    gpu_ms: int
    part: str = ""
    """The flavor of parts of shared GPUs that were lost; empty for whole GPUs."""

    @property
    def rule(self) -> str:
        """The cause in one or two words."""
        return CAUSE_LABELS[EndCause(self.cause)]

    @property
    def taken_by(self) -> str:
        """The pool that took it, as far as the reader may know it; empty where none did."""
        return OTHER_POOL if self.is_hidden else self.taker


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    """The rows by start and key, and the totals of those of whole GPUs; the totals count the work of all rows.
    `has_more`: there are more than :data:`MAX_ROWS` rows."""

    question: UsageQuestion
    rows: list[UsageRow]
    totals: UsageRow
    has_more: bool = False
    losses: tuple[LostShare, ...] = ()
    """What was lost by pool, cause and the pool that took it, most first."""

    def of_key(self, key: str) -> UsageAnswer:
        """The rows of one key and of its parts of GPUs, with the totals of its whole GPUs."""
        rows = [row for row in self.rows if row.subject == key]
        return UsageAnswer(self.question, rows, self._added_up(key, [row for row in rows if not row.part]))

    def by_part(self) -> list[UsageAnswer]:
        """The rows of each flavor that counts parts of shared GPUs, with its own totals; by flavor."""
        parts = sorted({row.part for row in self.rows if row.part})
        found = [[replace(row, part="") for row in self.rows if row.part == part] for part in parts]
        return [
            UsageAnswer(self.question, rows, self._added_up(part, rows))
            for part, rows in zip(parts, found, strict=True)
        ]

    def _added_up(self, key: str, rows: Iterable[UsageRow]) -> UsageRow:
        total = UsageRow(self.totals.start, key, dict.fromkeys(self.totals.sums))
        for row in rows:
            total.add(row)
        return total


@dataclass(frozen=True, slots=True)
class _Slots:
    """The window as stored full hours [`stored_from`, `stored_until`) and computed slots. `joined` is the day in which
    the reader's account was made: of own work in other pools only its later hours are visible."""

    stored_from: datetime
    stored_until: datetime
    computed: list[tuple[datetime, datetime]] = field(default_factory=list)
    joined: datetime | None = None

    @property
    def days_from(self) -> datetime:
        """The first full day of the stored hours."""
        day = start_of_day(self.stored_from)
        return day if day == self.stored_from else day + DAY

    @property
    def days_until(self) -> datetime:
        """The end of the last full day of the stored hours; not after `days_from` without one."""
        return start_of_day(self.stored_until)

    @property
    def whole(self) -> list[tuple[datetime, datetime]]:
        """Every hour of the window, computed or stored."""
        hours = (self.stored_until - self.stored_from) // HOUR
        stored = [(self.stored_from + number * HOUR, self.stored_from + (number + 1) * HOUR) for number in range(hours)]
        return [*self.computed, *stored]


_KEYS = {
    UsageKey.POOL: "root.name",
    UsageKey.SUBPOOL: f"CASE WHEN leaf.parent_id IS NULL THEN leaf.name || '{SEPARATOR}{SHARED_QUEUE}' "
    "ELSE leaf.name END",
    UsageKey.COHORT: "cohort.name",
    UsageKey.USER: "person.username",
    UsageKey.PRIORITY: "entry.priority",
    UsageKey.BACKEND: "backend.name",
    UsageKey.FLAVOR: "NULLIF(entry.flavor, '')",
}
_WITH_CAPACITY = {UsageKey.BACKEND, UsageKey.FLAVOR}
_OF_WORK_ONLY = {UsageKey.USER, UsageKey.PRIORITY}
_NO_QUOTA = "NULL::bigint AS quota, NULL::bigint AS idle, NULL::bigint AS lent"
_NO_WORK = ", ".join(f"NULL::bigint AS {column}" for column in WORK_COLUMNS)
_STORED = "hour >= %(stored_from)s AND hour < %(stored_until)s"
_STORED_BESIDE_DAYS = """
    (hour >= %(stored_from)s AND hour < %(days_from)s OR hour >= %(days_until)s AND hour < %(stored_until)s
        OR hour >= %(joined)s AND hour < %(joined)s::timestamptz + interval '1 day' AND hour >= %(days_from)s
            AND hour < %(days_until)s
        OR hour = ANY(%(hours_of_changed_days)s))
"""
_DAYS = """
    day >= %(days_from)s AND day < %(days_until)s AND day IS DISTINCT FROM %(joined)s
    AND day <> ALL(%(hours_of_changed_days)s)
"""
_WORK = f"hour, backend_id, leaf_id, flavor, user_id, priority, {', '.join(WORK_COLUMNS)}, {_NO_QUOTA}"
_LEAF = f"hour, backend_id, leaf_id, flavor, NULL::bigint AS user_id, NULL AS priority, {_NO_WORK}, quota, idle, lent"
_POOL = _LEAF.replace("leaf_id", "pool_id")
_JOINS = """
    LEFT JOIN pools_pool leaf ON leaf.id = entry.leaf_id
    LEFT JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
    LEFT JOIN pools_cohort cohort ON cohort.id = root.cohort_id
    LEFT JOIN pools_backend backend ON backend.id = entry.backend_id
    LEFT JOIN pools_user person ON person.id = entry.user_id
"""
_VISIBLE = """
    (%(sees_all)s OR root.name = ANY(%(visible)s)
        OR entry.user_id = %(me)s AND entry.hour >= date_trunc('hour', (
            SELECT date_joined FROM pools_user WHERE id = %(me)s), 'UTC'))
    AND (NOT %(has_pools)s OR leaf.name = ANY(%(pools)s))
    AND (NOT %(has_users)s OR person.username = ANY(%(users)s))
"""

# What `_VISIBLE` says of leaves, before they are joined: most readers and most filters want few of them.
_FEW_LEAVES = """
    (%(sees_all)s OR user_id = %(me)s OR leaf_id IN (
        SELECT leaf.id FROM pools_pool leaf JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
        WHERE root.name = ANY(%(visible)s)))
    AND (NOT %(has_pools)s OR leaf_id IN (SELECT id FROM pools_pool WHERE name = ANY(%(pools)s)))
"""


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
    found = _read_sums(questions, slots, values, sees_capacity=sees_capacity, by_leaf=has_leaves)
    answers: list[UsageAnswer] = []
    for question, (sums, capacities) in zip(questions, found, strict=True):
        rows = _read_by_workflow(question, slots, values) if question.by is UsageKey.WORKFLOW else sums
        totals = _add_up(question.since, rows.values())
        if sees_capacity:
            _add_capacity(question, capacities, rows, totals)
        _add_waits(question, values, rows, totals)
        _add_lost(question, values, rows, totals)
        ordered = sorted(rows.values(), key=lambda row: (row.start, row.key is None, row.key or "", row.part))
        losses = tuple(_read_losses(values)) if question is first else answers[0].losses
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
    [(rows, capacities)] = _read_sums([question], slots, values, sees_capacity=actor.can_read_all, by_leaf=False)
    if actor.can_read_all:
        _add_capacity(question, capacities, rows, _add_up(question.since, rows.values()))
    return question.since, [row for row in rows.values() if not row.part]


_Progress = tuple[datetime | None, datetime | None, datetime | None, str | None]
"""The end of the last stored hour, the begin of the record, the day of the reader's account, and the history of the
flavors of backends."""


def _read_progress(actor: Actor) -> _Progress:
    row: _Progress = execute_sql(
        "SELECT (SELECT closed_until FROM scheduling_usageprogress WHERE id = 1),"
        " (SELECT min(since) FROM scheduling_nodespan),"
        " (SELECT date_trunc('day', date_joined, 'UTC') FROM pools_user WHERE id = %s),"
        f" ({FLAVOR_HISTORY})",
        [None if actor.can_read_all else actor.user_id],
    ).fetchone()
    return row


def _make_slots(progress: _Progress, since: datetime, until: datetime) -> _Slots:
    closed, first, joined, _ = progress
    if first is None or first >= until:
        return _Slots(since, since)
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
    return _Slots(stored_from, stored_until, computed, joined)


def _values(
    actor: Actor, question: UsageQuestion, slots: _Slots, progress: _Progress, *, has_leaves: bool
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


def _entries(slots: _Slots, *, by_day: bool = False, by_leaf: bool = False) -> str:
    """SQL of the sums of work and of quotas, as the CTE `entry`, and of backends, as the CTE `capacity`; with `by_day`
    full days are one `hour`; without `by_leaf` the quotas of a pool are one `leaf_id`, the pool itself."""
    quotas, columns_of_quotas = ("leafusage", _LEAF) if by_leaf else ("poolusage", _POOL)
    columns = ", ".join(BACKEND_COLUMNS)
    is_split = by_day and slots.days_from < slots.days_until
    stored = _STORED_BESIDE_DAYS if is_split else _STORED
    entries = [
        f"SELECT {_WORK} FROM scheduling_workusagehour WHERE {stored}",
        f"SELECT {columns_of_quotas} FROM scheduling_{quotas}hour WHERE {stored}",
    ]
    capacities = [f"SELECT hour, backend_id, flavor, {columns} FROM scheduling_backendusagehour WHERE {stored}"]
    if is_split:
        entries += [
            f"SELECT {_WORK} FROM (SELECT *, day AS hour FROM scheduling_workusageday WHERE {_DAYS}) work",
            f"SELECT {columns_of_quotas} FROM (SELECT *, day AS hour FROM scheduling_{quotas}day WHERE {_DAYS}) quota",
        ]
        capacities.append(f"SELECT day, backend_id, flavor, {columns} FROM scheduling_backendusageday WHERE {_DAYS}")
    if slots.computed:
        entries += [f"SELECT {_WORK} FROM new_work", f"SELECT {_LEAF} FROM new_leaf"]
        capacities.append(f"SELECT hour, backend_id, flavor, {columns} FROM new_backend")
    computed = f"{COMPUTE}," if slots.computed else ""
    return f"WITH {computed} entry AS ({' UNION ALL '.join(entries)}), capacity AS ({' UNION ALL '.join(capacities)})"


_RowKey = tuple[datetime, str | None, str]
"""The start of a row, its key, and its flavor of parts."""
_Rows = dict[_RowKey, UsageRow]
_Sums = dict[str, int]


def _read_sums(
    questions: Sequence[UsageQuestion], slots: _Slots, values: dict[str, Any], *, sees_capacity: bool, by_leaf: bool
) -> list[tuple[_Rows, dict[_RowKey, _Sums]]]:
    """For each question its rows of work and quotas (none by workflow), and the capacities by start and backend, or
    flavor."""
    kinds = [(at, question) for at, question in enumerate(questions) if question.by is not UsageKey.WORKFLOW]
    keys = "".join(f", {_WAIT_KEYS[question.by]} AS key_{at}" for at, question in kinds)
    summed = ", ".join(f"sum({column})::bigint" for column in SUM_COLUMNS)
    capacities = ", ".join(f"sum(capacity.{column})::bigint" for column in BACKEND_COLUMNS)
    part = _part_sql(values)
    source = f"(SELECT entry.*, {part} AS part FROM entry WHERE {_FEW_LEAVES})"
    by_day = all(question.bucket is not Bucket.HOUR for question in questions)
    if values["sees_all"] and by_day:
        # Fewer rows to join. What other readers see of their own work depends on the hour.
        totals = ", ".join(f"sum({column})::bigint AS {column}" for column in SUM_COLUMNS)
        source = f"""(
            SELECT date_trunc('day', hour, 'UTC') AS hour, backend_id, leaf_id, flavor, user_id, priority,
                {part} AS part, {totals}
            FROM entry WHERE {_FEW_LEAVES} GROUP BY 1, 2, 3, 4, 5, 6, 7
        )"""
    nothing = ", ".join("NULL::bigint" for _ in SUM_COLUMNS[len(BACKEND_COLUMNS) :])
    parts = [
        f"""
        SELECT {at}, false, {_start_second(question, "hour")}, key_{at}, part, {summed} FROM visible
        {"WHERE user_id IS NOT NULL" if _is_of_work_only(question) else ""} GROUP BY 3, 4, 5
        """
        for at, question in kinds
    ]
    if sees_capacity:
        parts += [
            f"""
            SELECT {at}, true, {_start_second(question, "capacity.hour")},
                {"capacity.flavor" if question.by is UsageKey.FLAVOR else "backend.name"},
                {_part_sql(values, "capacity")}, {capacities}, {nothing}
            FROM capacity LEFT JOIN pools_backend backend ON backend.id = capacity.backend_id GROUP BY 3, 4, 5
            """
            for at, question in enumerate(questions)
        ]
    found: list[tuple[_Rows, dict[_RowKey, _Sums]]] = [({}, {}) for _ in questions]
    if not parts:
        return found
    sums_of_keys = execute_sql(
        f"""
        {_entries(slots, by_day=by_day, by_leaf=by_leaf)}, visible AS (
            SELECT entry.hour, entry.user_id, entry.part,
                {", ".join(f"entry.{column}" for column in SUM_COLUMNS)}{keys}
            FROM {source} entry {_JOINS} WHERE {_VISIBLE}
        )
        {" UNION ALL ".join(parts)}
        """,
        values,
    )
    starts: dict[int, datetime] = {}
    for at, is_capacity, second, subject, part, *sums in sums_of_keys:
        rows, capacity = found[at]
        key = _with_part(questions[at], subject, part)
        start = starts.get(second) or starts.setdefault(second, datetime.fromtimestamp(second, UTC))
        if is_capacity:
            capacity[start, key, part] = dict(zip(BACKEND_COLUMNS, sums, strict=False))
            continue
        if key is None and questions[at].by is UsageKey.FLAVOR and not any(sums):
            continue  # work that did not wait
        of_work_only = _is_of_work_only(questions[at])
        counted = WORK_COLUMNS if of_work_only else SUM_COLUMNS
        named = dict(zip(SUM_COLUMNS, sums, strict=True))
        rows[start, key, part] = _row(start, key, {column: named[column] or 0 for column in counted}, part)
    return found


def _with_part(question: UsageQuestion, key: str | None, part: str) -> str | None:
    """The key of a row from what it is about: parts of shared GPUs are never in the row of whole ones."""
    return f"{key or ''}/{part}" if part and question.by is not UsageKey.FLAVOR else key


def _start_second(question: UsageQuestion, column: str) -> str:
    """SQL of the start of a row in seconds since 1970: many rows have few starts, and a time is slow to read."""
    return f"extract(epoch FROM date_trunc('{question.bucket}', {column}, 'UTC'))::bigint"


def _is_of_work_only(question: UsageQuestion) -> bool:
    """Whether its rows have no quota, because they are about people."""
    return question.by in _OF_WORK_ONLY or bool(question.users)


def _row(start: datetime, key: str | None, sums: dict[str, int], part: str = "") -> UsageRow:
    empty: dict[str, int | None] = dict.fromkeys((*SUM_COLUMNS, *BACKEND_COLUMNS))
    return UsageRow(start, key, {**empty, **sums}, part=part)


_COUNTS = ("workflows", "preemptions")
"""What is no time of GPUs."""


def _add_up(start: datetime, rows: Iterable[UsageRow]) -> UsageRow:
    """The sums of whole GPUs, and the work of all rows."""
    sums: dict[str, int] = dict.fromkeys(WORK_COLUMNS, 0)
    for row in rows:
        for column, value in row.sums.items():
            if value is not None and (not row.part or column in _COUNTS):
                sums[column] = sums.get(column, 0) + value
    return _row(start, None, sums)


def _add_capacity(question: UsageQuestion, capacities: dict[_RowKey, _Sums], rows: _Rows, totals: UsageRow) -> None:
    """The capacity of backends, what was offline and what nobody used: in rows by backend or flavor, and in the
    totals."""
    totals.sums |= dict.fromkeys(BACKEND_COLUMNS, 0)
    for (start, name, part), found in capacities.items():
        for column, value in found.items():
            if not part:
                totals.sums[column] = (totals.sums[column] or 0) + value
        if question.by in _WITH_CAPACITY:
            zero = dict.fromkeys(SUM_COLUMNS, 0)
            rows.setdefault((start, name, part), _row(start, name, zero, part)).sums.update(found)


_WAIT_KEYS = _KEYS | {UsageKey.WORKFLOW: "entry.name"}


def _add_waits(
    question: UsageQuestion,
    values: dict[str, Any],
    rows: _Rows,
    totals: UsageRow,
) -> None:
    """The median and the 90th percentile of the waits that ended with a start in each row, and in all rows."""
    found = execute_sql(
        f"""
        WITH entry AS (
            SELECT work.name, work.pool_id AS leaf_id, root.backend_id, work.submitted_by_id AS user_id,
                {_of_flavor(question, values, _FLAVOR_OF_START)} work.priority, wait.until AS hour,
                extract(epoch FROM wait.until - wait.since)::float AS seconds
            FROM scheduling_waitspan wait JOIN scheduling_workflow work ON work.uuid = wait.workflow_id
            JOIN pools_pool root ON root.id = work.root_pool_id
            WHERE wait.started AND wait.until >= %(since)s AND wait.until < %(until)s
        ), visible AS (
            SELECT date_trunc('{question.bucket}', entry.hour, 'UTC') AS start,
                {_WAIT_KEYS[question.by]} AS key, {_part_sql(values)} AS part, seconds
            FROM entry {_JOINS} WHERE {_VISIBLE}
        )
        SELECT grouping(start), start, key, part, percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY seconds)
        FROM visible GROUP BY GROUPING SETS ((start, key, part), ())
        """,
        values,
    )
    for is_total, start, key, part, percentiles in found:
        row = totals if is_total else rows.get((start, _with_part(question, key, part), part))
        if row is not None and percentiles is not None:
            row.wait_p50, row.wait_p90 = percentiles


def _of_flavor(question: UsageQuestion, values: dict[str, Any], flavor: str) -> str:
    """SQL of the column `flavor` of entries, where the rows need it."""
    return f"{flavor} AS flavor," if question.by is UsageKey.FLAVOR or values["part_backends"] else ""


def _part_sql(values: dict[str, Any], table: str = "entry") -> str:
    """SQL of the flavor of an entry, or of another table with a backend and a flavor, that counts parts of shared GPUs;
    empty for whole GPUs."""
    if not values["part_backends"]:
        return "''"
    is_part = counts_parts(f"{table}.backend_id", f"{table}.flavor", f"{table}.hour")
    return f"CASE WHEN {is_part} THEN {table}.flavor ELSE '' END"


# The flavor in which a gang started: that of its first attempt.
_FLAVOR_OF_START = f"""(
    SELECT {FLAVOR} FROM scheduling_task task
    WHERE task.group_id = wait.group_id AND task.start_time = wait.until AND task.gpu_count > 0
    ORDER BY task.position LIMIT 1
)"""
_FLAVOR_OF_RECEIPT = f"(SELECT {FLAVOR} FROM scheduling_task task WHERE task.uuid = receipt.task_id)"


def _lost(flavor: str = "") -> str:
    """SQL of the receipts of the window; their sums are what was lost, in the whole and in every part."""
    return f"""
    entry AS (
        SELECT work.name, work.pool_id AS leaf_id, why.backend_id, work.submitted_by_id AS user_id, work.priority,
            {flavor} why.time AS hour, why.cause, taker.pool_id AS taker_leaf_id,
            taker.submitted_by_id AS taker_user_id, receipt.lost_gpu_ms AS lost
        FROM scheduling_interruption why JOIN scheduling_receipt receipt ON receipt.interruption_id = why.id
        JOIN scheduling_workflow work ON work.uuid = why.workflow_id
        LEFT JOIN scheduling_workflow taker ON taker.uuid = why.for_workflow_id
        WHERE why.time >= %(since)s AND why.time < %(until)s
    )
    """


def _add_lost(
    question: UsageQuestion,
    values: dict[str, Any],
    rows: _Rows,
    totals: UsageRow,
) -> None:
    """What was lost, in each row and in all. A row that has nothing else is added."""
    found = execute_sql(
        f"""
        WITH {_lost(_of_flavor(question, values, _FLAVOR_OF_RECEIPT))}, visible AS (
            SELECT date_trunc('{question.bucket}', entry.hour, 'UTC') AS start,
                {_WAIT_KEYS[question.by]} AS key, {_part_sql(values)} AS part, lost
            FROM entry {_JOINS} WHERE {_VISIBLE}
        )
        SELECT start, key, part, sum(lost)::bigint FROM visible GROUP BY start, key, part
        """,
        values,
    )
    for start, subject, part, lost in found:
        counted = WORK_COLUMNS if _is_of_work_only(question) else SUM_COLUMNS
        key = _with_part(question, subject, part)
        row = rows.setdefault((start, key, part), _row(start, key, dict.fromkeys(counted, 0), part))
        row.lost += lost
        totals.lost += 0 if part else lost


def _read_losses(values: dict[str, Any]) -> Iterator[LostShare]:
    """What was lost by pool, cause and taker. Only those who may see its work see the pool of the taker."""
    rows = execute_sql(
        f"""
        WITH {_lost(f"{_FLAVOR_OF_RECEIPT} AS flavor," if values["part_backends"] else "")}
        SELECT root.name, entry.cause,
            CASE WHEN {_SEES_TAKER} THEN COALESCE(taker_root.name, '') ELSE '' END AS taker,
            taker_root.id IS NOT NULL AND NOT ({_SEES_TAKER}) AS is_hidden,
            count(*), sum(lost)::bigint, {_part_sql(values)}
        FROM entry {_JOINS}
        LEFT JOIN pools_pool taker_leaf ON taker_leaf.id = entry.taker_leaf_id
        LEFT JOIN pools_pool taker_root ON taker_root.id = COALESCE(taker_leaf.parent_id, taker_leaf.id)
        WHERE {_VISIBLE} GROUP BY 1, 2, 3, 4, 7 ORDER BY 6 DESC, 1, 2, 3, 4, 7
        """,
        values,
    )
    for each in rows:
        yield LostShare(*each)


_SEES_TAKER = "%(sees_all)s OR taker_root.name = ANY(%(visible)s) OR entry.taker_user_id = %(me)s"


def _read_by_workflow(question: UsageQuestion, slots: _Slots, values: dict[str, Any]) -> _Rows:
    """The work of each workflow. What its leaf held inside the quota of a flavor in an hour is shared by the workflows
    of the same kind (LOW, or HIGH and NORMAL) in proportion to their use, so the sums are those of the other keys."""
    inside: defaultdict[_Kind, int] = defaultdict(int)
    borrowed: defaultdict[_Kind, int] = defaultdict(int)
    rows = execute_sql(
        f"""
        {_entries(slots)}
        SELECT hour, leaf_id, flavor, priority = 'LOW', sum(guaranteed + low_inside)::bigint, sum(borrowed)::bigint
        FROM entry WHERE user_id IS NOT NULL GROUP BY 1, 2, 3, 4
        """,
        values,
    )
    for hour, leaf, flavor, is_low, kept, lent in rows:
        kind = hour, leaf, flavor, is_low
        inside[kind], borrowed[kind] = kept, lent
    every = slots.whole
    if not every:
        return {}
    whole = {
        "begins": [begin for begin, _ in every],
        "ends": [end for _, end in every],
        "begin": min(begin for begin, _ in every),
        "end": max(end for _, end in every),
    }
    causes = ", ".join(f"COALESCE(sum(waiting) FILTER (WHERE cause = '{cause}'), 0)::bigint" for cause in WaitCause)
    found = execute_sql(
        f"""
        WITH {COMPUTE}, amount AS (
            SELECT slot, workflow, flavor, gpus * (b - a) AS used, 0::bigint AS waiting, NULL AS cause, 0 AS start,
                0 AS lost
            FROM held WHERE b > a
            UNION ALL
            SELECT slot, workflow_id, flavor, 0, waiting, cause, 0, 0 FROM waited_piece
            UNION ALL
            SELECT slot, workflow_id, flavor, 0, 0, NULL, is_start::int, (NOT is_start)::int FROM counted_event
        ), entry AS (
            SELECT slot AS hour, work.name, work.pool_id AS leaf_id, root.backend_id, work.priority,
                work.submitted_by_id AS user_id, amount.flavor, sum(used)::bigint AS used, {causes},
                sum(amount.start)::bigint AS workflows, sum(lost)::bigint AS preemptions
            FROM amount JOIN scheduling_workflow work ON work.uuid = amount.workflow
            JOIN pools_pool root ON root.id = work.root_pool_id
            GROUP BY slot, work.uuid, root.backend_id, amount.flavor
        )
        SELECT entry.*, date_trunc('{question.bucket}', entry.hour, 'UTC'), {_part_sql(values)}, {_VISIBLE}
        FROM entry {_JOINS} ORDER BY entry.hour, entry.name, entry.flavor
        """,
        values | EVERY_LEAF | whole,
    ).fetchall()
    return _share_out(question, found, inside, borrowed)


_Kind = tuple[datetime, int, str, bool]
"""An hour, a leaf, a GPU flavor, and whether the work is LOW."""

_WORKFLOW_COUNTS = (*WAITING, "workflows", "preemptions")


def _share_out(
    question: UsageQuestion,
    found: Sequence[Sequence[Any]],
    inside: dict[_Kind, int],
    borrowed: dict[_Kind, int],
) -> _Rows:
    used_by: defaultdict[_Kind, int] = defaultdict(int)
    for hour, _, leaf, _, priority, _, flavor, used, *_ in found:
        used_by[hour, leaf, flavor, priority == "LOW"] += used
    before: defaultdict[_Kind, tuple[int, int]] = defaultdict(lambda: (0, 0))
    rows: _Rows = {}
    for hour, name, leaf, _, priority, _, flavor, used, *counts, start, part, is_visible in found:
        kind = hour, leaf, flavor, priority == "LOW"
        upto, over_upto = before[kind]
        kept = _part(inside[kind], upto, used, used_by[kind])
        over = used - kept
        lent = _part(borrowed[kind], over_upto, over, used_by[kind] - inside[kind])
        before[kind] = upto + used, over_upto + over
        if not is_visible:
            continue
        named = _with_part(question, name, part)
        row = rows.setdefault((start, named, part), _row(start, named, dict.fromkeys(WORK_COLUMNS, 0), part))
        column = "low_inside" if priority == "LOW" else "guaranteed"
        for key, value in [
            (column, kept),
            ("over_quota", over),
            ("borrowed", lent),
            *zip(_WORKFLOW_COUNTS, counts, strict=True),
        ]:
            row.sums[key] = (row.sums[key] or 0) + value
    return {key: row for key, row in rows.items() if any(row.sums.values())}


def _part(total: int, upto: int, weight: int, whole: int) -> int:
    """The part of a total for a weight after `upto`; the parts of all weights add up to the total."""
    return total * (upto + weight) // whole - total * upto // whole if whole else 0


def read_closed_until() -> datetime | None:
    """The end of the last hour whose sums are stored."""
    return UsageProgress.objects.filter(pk=1).values_list("closed_until", flat=True).first()
