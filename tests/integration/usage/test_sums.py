"""The sums of the record of use: the six states, lent and borrowed, and the causes of waiting, on random histories.

The recount here goes through every moment of a history in Python, and shares no code with the statement. Histories of a
batch follow each other in time, so that one statement computes all of them. The same hours are also stored, by a
process that crashes on its way and begins again."""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, models, transaction

from pools.models import Node, Pool
from scheduling.models import (
    BackendUsageHour,
    Group,
    LeafUsageHour,
    NodeSpan,
    OfflineSpan,
    PoolUsageHour,
    QuotaSpan,
    Task,
    WaitCauseChange,
    WaitSpan,
    Workflow,
    WorkUsageHour,
)
from scheduling.selectors.usage.computed_sums import COMPUTE, EVERY_LEAF
from scheduling.selectors.usage.parts import part_values
from scheduling.services.usage import compute_hours
from tests.support.world import make_backend, make_pool, make_subpool, make_user

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
DAY = timedelta(days=1)
HOURS = 3
BATCH = 50
APART = 8 * HOUR
"""From one history of a batch to the next; facts of a history hold for six hours at most."""
Rows = list[dict[str, Any]]
Slots = Sequence[tuple[datetime, datetime]]
TABLES = ("new_backend", "new_leaf", "new_work")
HELD = ("guaranteed", "low_inside", "over_quota")
STATES = (*HELD, "idle", "unallocated", "offline")
NO_FLAVORS = ("default",)
FLAVORS = ("default", "h100", "a100")


def compute(slots: Slots, **joined: Any) -> dict[str, Rows]:
    """The rows of the three tables; `joined` are the parameters with which quiet subpools count as one leaf."""
    begins, ends = [begin for begin, _ in slots], [end for _, end in slots]
    slotted = {"begins": begins, "ends": ends, "begin": min(begins), "end": max(ends)}
    values = EVERY_LEAF | part_values(()) | joined | slotted
    parts = " UNION ALL ".join(f"SELECT '{table}', hour, to_jsonb({table}) - 'hour' FROM {table}" for table in TABLES)
    found: dict[str, Rows] = {table: [] for table in TABLES}
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {COMPUTE} {parts}", values)
        for table, hour, row in cursor:
            found[table].append({"hour": hour, **(json.loads(row) if isinstance(row, str) else row)})
    return found


def by_hour(rows: Rows) -> dict[datetime, Rows]:
    found: defaultdict[datetime, Rows] = defaultdict(list)
    for row in rows:
        found[row["hour"]].append(row)
    return found


class History:
    """Random spans, attempts and waits of one backend with three pools and six leaves, from `start` on. With several
    `flavors`, quotas, nodes and work are of them, and some work runs on a node of another flavor than its own."""

    def __init__(
        self, dice: random.Random, pools: list[Pool], users: list[int], start: datetime, flavors: Sequence[str]
    ) -> None:
        self.dice, self.backend, self.start, self.flavors = dice, pools[0].root.backend_id, start, flavors
        self.rows: list[models.Model] = []
        self.quotas: list[tuple[Pool, str, int, bool, bool, int, int]] = []
        self.nodes: list[tuple[int, str, int, int, int]] = []
        self.away: list[tuple[int | None, int, int]] = []
        self.work: list[tuple[Pool, int, str, UUID, str, int, int, int, int]] = []
        self.known = dict(Node.objects.order_by("pk").values_list("pk", "name")) or dict.fromkeys(range(1, 5), "")
        self.waits: list[tuple[UUID, int, int, int]] = []
        end = HOURS * HOUR_MS
        for pool in pools:
            subpools = [other for other in pools if other.parent_id == pool.pk]
            cuts = sorted({0, *(self._time() for _ in range(dice.randint(0, 3)))})
            for since, until in zip(cuts, [*cuts[1:], end * 2], strict=True):
                unlimited = pool.parent_id is None and not subpools and dice.random() < 0.2
                draining = pool.parent_id is not None and dice.random() < 0.2
                for flavor in NO_FLAVORS if unlimited else self._some_flavors():
                    quota = 0 if unlimited or draining else dice.randint(0, 12) + (40 if subpools else 0)
                    self.quotas.append((pool, flavor, quota, unlimited, draining, since, until))
        for number in list(self.known)[: dice.randint(1, 4)]:
            cuts = sorted({dice.choice([0, self._time()]), self._time()})
            for since, until in zip(cuts, [*cuts[1:], end * 2], strict=True):
                self.nodes.append((number, self._some_flavors()[0], dice.choice([4, 8, 16, 32]), since, until))
        for node in (None, *list(self.known)[:2]):
            cuts = sorted({self._time() for _ in range(dice.choice([0, 0, 2, 4]))})
            self.away += [(node, since, until) for since, until in zip(cuts[::2], cuts[1::2], strict=False)]
        for _ in range(dice.randint(0, 12)):
            self._add_work(dice.choice(pools), dice.choice(users))
        self._add_spans()
        self.cuts = sorted({0, HOURS * HOUR_MS, *(number * HOUR_MS for number in range(HOURS)), self._time()})

    def at(self, ms: int) -> datetime:
        return self.start + timedelta(milliseconds=ms)

    @property
    def slots(self) -> list[tuple[datetime, datetime]]:
        return [(self.at(begin), self.at(end)) for begin, end in itertools.pairwise(self.cuts)]

    def _time(self) -> int:
        whole = self.dice.random() < 0.2
        return self.dice.randint(0, HOURS) * HOUR_MS if whole else self.dice.randint(0, HOURS * HOUR_MS)

    def _some_flavors(self) -> Sequence[str]:
        """Without flavors the dice are not thrown, so that the histories of a seed stay what they are."""
        if len(self.flavors) == 1:
            return self.flavors
        return self.dice.sample(self.flavors, self.dice.randint(1, len(self.flavors)))

    def _add_work(self, pool: Pool, user: int) -> None:
        begin, end = sorted((self._time(), self._time()))
        priority = self.dice.choice(["HIGH", "NORMAL", "LOW", "LOW"])
        root = pool.parent_id or pool.pk
        workflow = Workflow(
            name=f"w-{self.dice.getrandbits(64)}", spec_name="w", pool=pool, root_pool_id=root, submitted_by_id=user,
            priority=priority, status="COMPLETED", submit_time=self.at(begin), spec="",
        )  # fmt: skip
        gpus = self.dice.randint(1, 10)
        group = Group(workflow=workflow, name="main", position=0, status="COMPLETED", gpus=gpus)
        waited = max(0, begin - self.dice.randint(0, HOUR_MS))
        wait = WaitSpan(
            group_id=group.pk, workflow_id=workflow.pk, gpus=gpus, started=True, since=self.at(waited),
            until=self.at(begin),
        )  # fmt: skip
        self.rows += [workflow, group, wait]
        self.waits.append((group.pk, gpus, waited, begin))
        for cause in self.dice.sample(["room", "limit", "offline", "own_quota"], self.dice.randint(0, 2)):
            since = self.dice.randint(waited, begin)
            self.rows.append(WaitCauseChange(group_id=group.pk, since=self.at(since), cause=cause))
        cuts = [begin, *sorted(self.dice.randint(begin, end) for _ in range(self.dice.randint(0, 2))), end]
        for attempt, (since, until) in enumerate(itertools.pairwise(cuts)):
            flavor, node = self._some_flavors()[0], next(iter(self.known))
            if len(self.flavors) > 1:
                node = self.dice.choice([0, *self.known])
            task = Task(
                group=group, name="t", retry_id=attempt, position=0, status="COMPLETED", gpu_count=gpus,
                start_time=self.at(since), end_time=self.at(until), flavor="" if flavor == "default" else flavor,
                node_name=self.known.get(node, ""),
            )  # fmt: skip
            self.rows.append(task)
            self.work.append((pool, user, priority, workflow.pk, flavor, node, gpus, since, until))

    def _add_spans(self) -> None:
        self.rows += [
            QuotaSpan(
                pool_id=pool.pk, parent_id=pool.parent_id, backend_id=pool.backend_id, flavor=flavor, quota=quota,
                is_unlimited=unlimited, is_draining=draining, since=self.at(since), until=self.at(until),
            )
            for pool, flavor, quota, unlimited, draining, since, until in self.quotas
        ]  # fmt: skip
        self.rows += [
            NodeSpan(
                node_id=node, backend_id=self.backend, flavor=flavor, gpus=gpus, since=self.at(since),
                until=self.at(until),
            )
            for node, flavor, gpus, since, until in self.nodes
        ]  # fmt: skip
        self.rows += [
            OfflineSpan(backend_id=self.backend, node_id=node, since=self.at(since), until=self.at(until))
            for node, since, until in self.away
        ]

    def recount(self, begin: int, end: int) -> tuple[dict[tuple[str, str], int], dict[tuple[int, str, str], int]]:
        """GPU-milliseconds by flavor and state from `begin` to `end`, and by leaf, flavor and state."""
        marks = {begin, end}
        for *_, since, until in [*self.quotas, *self.nodes, *self.away, *self.work]:
            marks |= {since, until}
        times = sorted(mark for mark in marks if begin <= mark <= end)
        total: defaultdict[tuple[str, str], int] = defaultdict(int)
        leaves: defaultdict[tuple[int, str, str], int] = defaultdict(int)
        for now, then in itertools.pairwise(times):
            for flavor in self.flavors:
                self._count_moment(flavor, now, then - now, total, leaves)
        return total, leaves

    def _count_moment(
        self,
        flavor: str,
        now: int,
        ms: int,
        total: dict[tuple[str, str], int],
        leaves: dict[tuple[int, str, str], int],
    ) -> None:
        there = {node: (kind, gpus) for node, kind, gpus, since, until in self.nodes if since <= now < until}
        nodes = {node: gpus for node, (kind, gpus) in there.items() if kind == flavor}
        away = {node for node, since, until in self.away if since <= now < until}
        moved = 0
        quota: dict[int, int] = defaultdict(int)
        kept: dict[int, str] = {}
        for pool, of_quota, amount, unlimited, draining, since, until in self.quotas:
            if since <= now < until and of_quota == flavor:
                quota[pool.pk] += amount
                if pool.parent_id:
                    quota[pool.parent_id] -= amount
                kept[pool.pk] = "unlimited" if unlimited else "draining" if draining else ""
        held: dict[tuple[int, bool], int] = defaultdict(int)
        for pool, _, priority, _, of_work, node, gpus, since, until in self.work:
            if since <= now < until:
                if of_work == flavor:
                    held[pool.pk, priority == "LOW"] += gpus
                if node in there and self.known[node] and of_work != there[node][0]:
                    moved += gpus * ((of_work == flavor) - (there[node][0] == flavor))
        over = unused = used = 0
        for leaf in {*quota, *(leaf for leaf, _ in held)}:
            high, low, room = held[leaf, False], held[leaf, True], max(0, quota[leaf])
            guaranteed = high if kept.get(leaf) else min(high, room)
            inside = low if kept.get(leaf) == "unlimited" else min(low, max(0, room - guaranteed))
            part = {
                "quota": room,
                "guaranteed": guaranteed,
                "low_inside": inside,
                "over_quota": high + low - guaranteed - inside,
            }
            for state, gpus in part.items():
                leaves[leaf, flavor, state] += gpus * ms
            for state in ("guaranteed", "low_inside", "over_quota"):
                total[flavor, state] += part[state] * ms
            used += high + low
            over += part["over_quota"]
            unused += max(0, room - guaranteed - inside)
        whole = sum(nodes.values())
        offline = whole if None in away else sum(nodes.get(node, 0) for node in away if node is not None)
        capacity = max(whole + moved, used)
        offline = min(offline, capacity - used)
        unclaimed = max(0, capacity - offline - (used - over) - unused)
        borrowed = max(0, over - unclaimed)
        idle = min(capacity - used - offline, unused - borrowed)
        for state, gpus in {
            "capacity": capacity,
            "offline": offline,
            "borrowed": borrowed,
            "idle": idle,
            "unallocated": capacity - used - offline - idle,
        }.items():
            total[flavor, state] += gpus * ms


@pytest.fixture
def pools() -> list[Pool]:
    root = make_pool("team", 100, on=make_backend(nodes=4), a=30)
    other = make_pool("other", 50, on=root.backend)
    more = make_pool("more", 50, on=root.backend, c=10)
    make_subpool("team", "b", 20)  # its number is not among those of its pool
    found = [root, *Pool.objects.filter(parent__in=[root, more]).order_by("name"), more, other]
    for spans in (QuotaSpan, NodeSpan, OfflineSpan):
        spans.objects.all().delete()  # type: ignore[attr-defined]
    return found


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class Crash(Exception):
    """The process ends here."""


@contextmanager
def crash_after(statements: int) -> Iterator[None]:
    """The process ends after this number of statements, before the next one; its transaction is rolled back."""
    left = itertools.count(statements, -1)

    def send(execute: Callable[..., Any], *arguments: Any) -> Any:
        if next(left) <= 0:
            raise Crash
        return execute(*arguments)

    with connection.execute_wrapper(send):
        yield


def check_histories(
    seeds: Sequence[int], pools: list[Pool], users: list[int], flavors: Sequence[str] = NO_FLAVORS
) -> None:
    """Every history of a batch adds up: computed in slots, with quiet subpools as one leaf, and stored by hours."""
    with rolled_back():
        histories = [
            History(random.Random(seed), pools, users, START + number * APART, flavors)
            for number, seed in enumerate(seeds)
        ]
        for model in (Workflow, Group, Task, WaitSpan, WaitCauseChange, QuotaSpan, NodeSpan, OfflineSpan):
            model.objects.bulk_create(  # type: ignore[attr-defined]
                row for history in histories for row in history.rows if type(row) is model
            )
        found = compute([slot for history in histories for slot in history.slots])
        computed = {table: by_hour(rows) for table, rows in found.items()}
        for seed, history in zip(seeds, histories, strict=True):
            for begin, end in itertools.pairwise(history.cuts):
                check_rows(history, begin, end, [computed[table][history.at(begin)] for table in TABLES], seed)
            check_joined_leaves(history, computed, pools, seed)
        check_against_attempts(found["new_work"])
        check_stored_hours(histories, seeds)


def check_rows(history: History, begin: int, end: int, mine: Sequence[Rows], seed: int) -> None:
    """The rows of backends, leaves and work of one slot are those of the recount."""
    total, by_leaf = history.recount(begin, end)
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in (row for rows in mine for row in rows):
        for column, value in row.items():
            if isinstance(value, int):
                found[row["flavor"], column] += value
    for flavor in history.flavors:
        whole = total[flavor, "capacity"]
        assert sum(found[flavor, state] for state in STATES) == found[flavor, "capacity"] == whole, (seed, flavor)
        for state in (*STATES, "borrowed"):
            assert found[flavor, state] == total[flavor, state], (seed, flavor, state)
        assert found[flavor, "lent"] == found[flavor, "borrowed"], (seed, flavor)
    of_leaves: defaultdict[tuple[int, str, str], int] = defaultdict(int)
    for row in mine[1]:
        of_leaves[row["leaf_id"], row["flavor"], "quota"] += row["quota"]
        assert row["idle"] >= 0 and row["lent"] >= 0, seed
    for row in mine[2]:
        for state in HELD:
            of_leaves[row["leaf_id"], row["flavor"], state] += row[state]
            assert row[state] >= 0
    assert {key: value for key, value in of_leaves.items() if value} == {
        key: value for key, value in by_leaf.items() if value
    }, seed
    waited = sum(gpus * max(0, min(until, end) - max(since, begin)) for _, gpus, since, until in history.waits)
    assert {flavor for flavor, _ in found} <= {*history.flavors, ""}, seed
    assert sum(value for (_, column), value in found.items() if column.startswith("waiting_")) == waited, seed


def check_joined_leaves(history: History, computed: dict[str, Any], pools: list[Pool], seed: int) -> None:
    """With the quiet subpools of a pool as one leaf, nothing changes but the number of rows: neither the sums of a pool
    nor, in a pool that is asked for in detail, those of a leaf."""
    slot = history.dice.choice(history.slots)
    detailed = history.dice.choice([[], [], ["team--a"], ["more"]])
    joined = compute([slot], may_join_leaves=True, detailed=detailed)
    for table in ("new_backend", "new_work"):
        expected = sorted(map(str, computed[table][slot[0]]))
        assert sorted(map(str, joined[table])) == expected, (seed, table)
    root_of = {pool.pk: pool.parent_id or pool.pk for pool in pools}
    alone = {root_of[pool.pk] for pool in pools if pool.name in detailed}

    def add_up(rows: Rows) -> dict[tuple[int, str, str], int]:
        sums: defaultdict[tuple[int, str, str], int] = defaultdict(int)
        for row, column in itertools.product(rows, ("quota", "idle", "lent")):
            leaf, root = row["leaf_id"], root_of[row["leaf_id"]]
            sums[leaf if root in alone else root, row["flavor"], column] += row[column]
        return {key: value for key, value in sums.items() if value}

    assert add_up(joined["new_leaf"]) == add_up(computed["new_leaf"][slot[0]]), (seed, detailed)


def check_against_attempts(work: Rows) -> None:
    """The sums of each user in each history are those of plain SQL over the attempts."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT date_bin(%s, task.start_time, %s), work.pool_id, COALESCE(NULLIF(task.flavor, ''), 'default'),
                work.submitted_by_id, work.priority,
                sum(task.gpu_count * (extract(epoch FROM task.end_time - task.start_time) * 1000))::bigint
            FROM scheduling_task task JOIN scheduling_group part ON part.uuid = task.group_id
            JOIN scheduling_workflow work ON work.uuid = part.workflow_id
            WHERE task.end_time > task.start_time
            GROUP BY 1, 2, 3, 4, 5
            """,
            [APART, START],
        )
        counted = {tuple(key): used for *key, used in cursor}
    found: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    for row in work:
        start = row["hour"] - (row["hour"] - START) % APART
        key = start, row["leaf_id"], row["flavor"], row["user_id"], row["priority"]
        found[key] += sum(row[state] for state in HELD)
    assert {key: used for key, used in found.items() if used} == counted


SUMS = (("backend", "capacity, offline, unallocated"), ("pool", "quota, idle, lent"),
        ("work", "guaranteed, low_inside, over_quota, borrowed, waiting_order, waiting_room"))  # fmt: skip


def check_stored_hours(histories: list[History], seeds: Sequence[int]) -> None:
    """A process that computes the hours crashes, then another one does it twice: the stored sums are those of the
    recount, those of pools are those of their leaves, and those of full days are those of their hours."""
    begin = START
    end = (histories[-1].at(0) + APART + DAY).replace(hour=0)
    dice = histories[0].dice
    for statements in (dice.randint(0, 20), dice.randint(0, 20), 1_000, 1_000):
        try:
            with transaction.atomic(), crash_after(statements):
                compute_hours(begin, end)
        except Crash:
            pass
    stored = [
        by_hour(list(model.objects.values()))
        for model in (BackendUsageHour, LeafUsageHour, WorkUsageHour, PoolUsageHour)
    ]
    for seed, history in zip(seeds, histories, strict=True):
        for number in range(HOURS):
            hour = history.at(number * HOUR_MS)
            mine = [[{**row, "id": None} for row in rows[hour]] for rows in stored]
            check_rows(history, number * HOUR_MS, (number + 1) * HOUR_MS, mine[:3], seed)
            for column in ("quota", "idle", "lent"):
                assert sum(row[column] for row in mine[3]) == sum(row[column] for row in mine[1]), seed
    with connection.cursor() as cursor:
        for kind, columns in SUMS:
            sums = ", ".join(f"sum({column})" for column in columns.split(", "))
            cursor.execute(f"SELECT {sums} FROM scheduling_{kind}usageday")
            of_days = cursor.fetchone()
            cursor.execute(f"SELECT {sums} FROM scheduling_{kind}usagehour")
            assert of_days == cursor.fetchone(), (kind, seeds[0])


@pytest.fixture
def users() -> list[int]:
    ids = [make_user(name).user_id for name in ("ada", "bob")]
    assert None not in ids
    return [each for each in ids if each is not None]


@pytest.fixture
def no_nodes(pools: list[Pool]) -> None:
    Node.objects.all().delete()
    NodeSpan.objects.all().delete()


@pytest.mark.usefixtures("no_nodes")
def test_random_histories_add_up(pools: list[Pool], users: list[int]) -> None:
    check_histories(range(15), pools, users)


def test_random_histories_with_flavors_add_up_in_each(pools: list[Pool], users: list[int]) -> None:
    check_histories(range(15), pools, users, FLAVORS)


@pytest.mark.nightly
@pytest.mark.usefixtures("no_nodes")
@pytest.mark.parametrize("first", range(0, 10_000, 1_000))
def test_ten_thousand_histories_add_up(pools: list[Pool], users: list[int], first: int) -> None:
    for begin in range(first, first + 1_000, BATCH):
        check_histories(range(begin, begin + BATCH), pools, users)
