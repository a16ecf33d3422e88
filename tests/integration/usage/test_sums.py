"""The sums of the record of use: the six states, lent and borrowed, and the causes of waiting, on random histories.

The recount here goes through every moment of a history in Python, and shares no code with the statement."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from pools.models import Node, Pool
from scheduling.models import (
    Group,
    NodeSpan,
    OfflineSpan,
    QuotaSpan,
    Task,
    WaitCauseChange,
    WaitSpan,
    Workflow,
)
from scheduling.selectors.usage_sql import COMPUTE
from tests.support.factories import make_backend, make_pool, make_user

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 2, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
HOURS = 3
Rows = list[dict[str, Any]]


def compute(table: str, slots: list[tuple[datetime, datetime]]) -> Rows:
    begins, ends = [begin for begin, _ in slots], [end for _, end in slots]
    values = {"begins": begins, "ends": ends, "begin": min(begins), "end": max(ends)}
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {COMPUTE} SELECT * FROM {table}", values)
        assert cursor.description is not None
        return [dict(zip([column.name for column in cursor.description], row, strict=True)) for row in cursor]


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


class History:
    """Random spans, attempts and waits of one backend with two pools and four leaves."""

    def __init__(self, dice: random.Random, pools: list[Pool], users: list[int]) -> None:
        self.dice, self.backend = dice, pools[0].root.backend_id
        self.quotas: list[tuple[Pool, int, bool, bool, int, int]] = []
        self.nodes: list[tuple[int, int, int, int]] = []
        self.away: list[tuple[int | None, int, int]] = []
        self.work: list[tuple[Pool, int, str, UUID, int, int, int]] = []
        self.waits: list[tuple[UUID, int, int, int]] = []
        end = HOURS * HOUR_MS
        for pool in pools:
            subpools = [other for other in pools if other.parent_id == pool.pk]
            cuts = sorted({0, *(self._time() for _ in range(dice.randint(0, 3)))})
            for since, until in zip(cuts, [*cuts[1:], end * 2], strict=True):
                unlimited = pool.parent_id is None and not subpools and dice.random() < 0.2
                draining = pool.parent_id is not None and dice.random() < 0.2
                quota = 0 if unlimited or draining else dice.randint(0, 12) + (40 if subpools else 0)
                self.quotas.append((pool, quota, unlimited, draining, since, until))
        for number in range(1, dice.randint(2, 5)):
            cuts = sorted({dice.choice([0, self._time()]), self._time()})
            for since, until in zip(cuts, [*cuts[1:], end * 2], strict=True):
                self.nodes.append((number, dice.choice([4, 8, 16, 32]), since, until))
        for node in (None, 1, 2):
            cuts = sorted({self._time() for _ in range(dice.choice([0, 0, 2, 4]))})
            self.away += [(node, since, until) for since, until in zip(cuts[::2], cuts[1::2], strict=False)]
        for _ in range(dice.randint(0, 12)):
            self._add_work(dice.choice(pools), dice.choice(users))

    def _time(self) -> int:
        whole = self.dice.random() < 0.2
        return self.dice.randint(0, HOURS) * HOUR_MS if whole else self.dice.randint(0, HOURS * HOUR_MS)

    def _add_work(self, pool: Pool, user: int) -> None:
        begin, end = sorted((self._time(), self._time()))
        priority = self.dice.choice(["HIGH", "NORMAL", "LOW", "LOW"])
        root = pool.parent_id or pool.pk
        workflow = Workflow(
            name=f"w-{self.dice.getrandbits(64)}", spec_name="w", pool=pool, root_pool_id=root, submitted_by_id=user,
            priority=priority, status="COMPLETED", submit_time=at(begin), spec="",
        )  # fmt: skip
        gpus = self.dice.randint(1, 10)
        group = Group(workflow=workflow, name="main", position=0, status="COMPLETED", gpus=gpus)
        for model, row in ((Workflow, workflow), (Group, group)):
            model.objects.bulk_create([row])  # type: ignore[attr-defined]
        waited = max(0, begin - self.dice.randint(0, HOUR_MS))
        WaitSpan.objects.create(
            group_id=group.pk, workflow_id=workflow.pk, gpus=gpus, started=True, since=at(waited), until=at(begin)
        )
        self.waits.append((group.pk, gpus, waited, begin))
        for cause in self.dice.sample(["room", "limit", "offline", "own_quota"], self.dice.randint(0, 2)):
            since = self.dice.randint(waited, begin)
            WaitCauseChange.objects.create(group_id=group.pk, since=at(since), cause=cause)
        cuts = [begin, *sorted(self.dice.randint(begin, end) for _ in range(self.dice.randint(0, 2))), end]
        for attempt, (since, until) in enumerate(itertools.pairwise(cuts)):
            Task.objects.bulk_create(
                [
                    Task(
                        group=group, name="t", retry_id=attempt, position=0, status="COMPLETED", gpu_count=gpus,
                        start_time=at(since), end_time=at(until),
                    )
                ]
            )  # fmt: skip
            self.work.append((pool, user, priority, workflow.pk, gpus, since, until))

    def save(self) -> None:
        QuotaSpan.objects.bulk_create(
            QuotaSpan(
                pool_id=pool.pk, parent_id=pool.parent_id, backend_id=pool.backend_id, quota=quota,
                is_unlimited=unlimited, is_draining=draining, since=at(since), until=at(until),
            )
            for pool, quota, unlimited, draining, since, until in self.quotas
        )  # fmt: skip
        NodeSpan.objects.bulk_create(
            NodeSpan(node_id=node, backend_id=self.backend, gpus=gpus, since=at(since), until=at(until))
            for node, gpus, since, until in self.nodes
        )
        OfflineSpan.objects.bulk_create(
            OfflineSpan(backend_id=self.backend, node_id=node, since=at(since), until=at(until))
            for node, since, until in self.away
        )

    def recount(self, begin: int, end: int) -> tuple[dict[str, int], dict[tuple[int, str], int]]:
        """GPU-milliseconds by state from `begin` to `end`, and by leaf and state."""
        marks = {begin, end}
        for *_, since, until in [*self.quotas, *self.nodes, *self.away, *self.work]:
            marks |= {since, until}
        times = sorted(mark for mark in marks if begin <= mark <= end)
        total: defaultdict[str, int] = defaultdict(int)
        leaves: defaultdict[tuple[int, str], int] = defaultdict(int)
        for now, then in itertools.pairwise(times):
            self._count_moment(now, then - now, total, leaves)
        return total, leaves

    def _count_moment(self, now: int, ms: int, total: dict[str, int], leaves: dict[tuple[int, str], int]) -> None:
        nodes = {node: gpus for node, gpus, since, until in self.nodes if since <= now < until}
        away = {node for node, since, until in self.away if since <= now < until}
        quota: dict[int, int] = defaultdict(int)
        kept: dict[int, str] = {}
        for pool, amount, unlimited, draining, since, until in self.quotas:
            if since <= now < until:
                quota[pool.pk] += amount
                if pool.parent_id:
                    quota[pool.parent_id] -= amount
                kept[pool.pk] = "unlimited" if unlimited else "draining" if draining else ""
        held: dict[tuple[int, bool], int] = defaultdict(int)
        for pool, _, priority, _, gpus, since, until in self.work:
            if since <= now < until:
                held[pool.pk, priority == "LOW"] += gpus
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
                leaves[leaf, state] += gpus * ms
            for state in ("guaranteed", "low_inside", "over_quota"):
                total[state] += part[state] * ms
            used += high + low
            over += part["over_quota"]
            unused += max(0, room - guaranteed - inside)
        whole = sum(nodes.values())
        offline = whole if None in away else sum(nodes.get(node, 0) for node in away if node is not None)
        capacity = max(whole, used)
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
            total[state] += gpus * ms


@pytest.fixture
def pools() -> list[Pool]:
    root = make_pool("team", 100, on=make_backend(nodes=2), a=30, b=20)
    other = make_pool("other", 50, on=root.backend)
    found = [root, *Pool.objects.filter(parent=root).order_by("name"), other]
    for spans in (QuotaSpan, NodeSpan, OfflineSpan):
        spans.objects.all().delete()  # type: ignore[attr-defined]
    return found


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def check_history(seed: int, pools: list[Pool], users: list[int]) -> None:
    dice = random.Random(seed)
    with rolled_back():
        history = History(dice, pools, users)
        history.save()
        cuts = sorted({0, HOURS * HOUR_MS, *(number * HOUR_MS for number in range(HOURS)), history._time()})
        slots = [(at(begin), at(end)) for begin, end in itertools.pairwise(cuts)]
        backends, leaves, work = (compute(table, slots) for table in ("new_backend", "new_leaf", "new_work"))
        for begin, end in itertools.pairwise(cuts):
            total, by_leaf = history.recount(begin, end)
            mine = [[row for row in rows if row["hour"] == at(begin)] for rows in (backends, leaves, work)]
            found: defaultdict[str, int] = defaultdict(int)
            for row in (row for rows in mine for row in rows):
                for column, value in row.items():
                    if isinstance(value, int):
                        found[column] += value
            states = ("guaranteed", "low_inside", "over_quota", "idle", "unallocated", "offline")
            assert sum(found[state] for state in states) == found["capacity"] == total["capacity"], seed
            for state in (*states, "borrowed"):
                assert found[state] == total[state], (seed, state)
            assert found["lent"] == found["borrowed"], seed
            of_leaves: defaultdict[tuple[int, str], int] = defaultdict(int)
            for row in mine[1]:
                of_leaves[row["leaf_id"], "quota"] += row["quota"]
                assert row["idle"] >= 0 and row["lent"] >= 0, seed
            for row in mine[2]:
                for state in ("guaranteed", "low_inside", "over_quota"):
                    of_leaves[row["leaf_id"], state] += row[state]
                    assert row[state] >= 0
            assert {key: value for key, value in of_leaves.items() if value} == {
                key: value for key, value in by_leaf.items() if value
            }, seed
            waited = sum(gpus * max(0, min(until, end) - max(since, begin)) for _, gpus, since, until in history.waits)
            assert sum(value for column, value in found.items() if column.startswith("waiting_")) == waited, seed
        _check_against_attempts(cuts, work)


def _check_against_attempts(cuts: list[int], work: Rows) -> None:
    """The sums of each user are those of plain SQL over the attempts."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT work.pool_id, work.submitted_by_id, work.priority, sum(task.gpu_count * (extract(epoch FROM
                LEAST(task.end_time, %(end)s) - GREATEST(task.start_time, %(begin)s)) * 1000))::bigint
            FROM scheduling_task task JOIN scheduling_group part ON part.uuid = task.group_id
            JOIN scheduling_workflow work ON work.uuid = part.workflow_id
            WHERE task.start_time < %(end)s AND task.end_time > %(begin)s AND task.end_time > task.start_time
            GROUP BY 1, 2, 3
            """,
            {"begin": at(cuts[0]), "end": at(cuts[-1])},
        )
        counted = {(leaf, user, priority): used for leaf, user, priority, used in cursor}
    found: defaultdict[tuple[int, int, str], int] = defaultdict(int)
    for row in work:
        used = row["guaranteed"] + row["low_inside"] + row["over_quota"]
        found[row["leaf_id"], row["user_id"], row["priority"]] += used
    assert {key: used for key, used in found.items() if used} == counted


@pytest.fixture
def users() -> list[int]:
    ids = [make_user(name).user_id for name in ("ada", "bob")]
    assert None not in ids
    return [each for each in ids if each is not None]


def test_random_histories_add_up(pools: list[Pool], users: list[int]) -> None:
    Node.objects.all().delete()
    NodeSpan.objects.all().delete()
    for seed in range(15):
        check_history(seed, pools, users)


@pytest.mark.nightly
def test_ten_thousand_histories_add_up(pools: list[Pool], users: list[int]) -> None:
    Node.objects.all().delete()
    NodeSpan.objects.all().delete()
    for seed in range(10_000):
        check_history(seed, pools, users)
