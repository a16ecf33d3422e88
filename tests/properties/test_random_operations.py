"""A house in which everybody does everything in any order, and every invariant asked in SQL after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pools.domain.errors import BadInput, Busy, Conflict, Forbidden, NotFound, Stale
from pools.domain.roles import Actor
from pools.models import Backend, User
from pools.services import pools as pool_services
from pools.services.subpools import archive_drained, create_subpool, delete_subpool, resize_subpool
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from scheduling.services.workflows.user_actions import cancel_workflow, end_workflow
from tests.support import factories

PEOPLE = ("chief", "team-admin", "team-user", "team2-admin", "viewer", "stranger")
POOLS = ("team", "team2")
SLICES = ("a", "b", "c")
WHO, POOL, SLICE = st.sampled_from(PEOPLE), st.sampled_from(POOLS), st.sampled_from(SLICES)
LEAF = st.sampled_from((*SLICES, None, "_shared"))
QUOTA = st.integers(-2, 25) | st.sampled_from(["25%", 7.9, "100%", "x"])
PRIORITY, NUMBER = st.sampled_from(Priority), st.integers(1, 8)
SEQUENCES = {"default": 40, "nightly": 300}

INVARIANTS = {
    "the slices of a pool were never promised more than the pool guarantees": """
        SELECT root.name FROM pools_pool root JOIN pools_pool part ON part.parent_id = root.id
        WHERE part.subpool_state = 'ACTIVE' GROUP BY root.id HAVING sum(part.last_quota) > root.guarantee
    """,
    "no counter is below zero": """
        SELECT pool_id FROM pools_leafusage
        WHERE used < 0 OR total_usage < used OR live_workflows < 0 OR committed < 0
    """,
    "counters are the sums of the reservations": """
        SELECT leaf.pool_id FROM pools_leafusage leaf
        LEFT JOIN pools_reservation held ON held.pool_id = leaf.pool_id
        GROUP BY leaf.pool_id
        HAVING leaf.live_workflows <> count(held.workflow) OR leaf.total_usage <> COALESCE(sum(held.held_gpus), 0)
            OR leaf.used <> COALESCE(sum(held.held_gpus) FILTER (WHERE held.priority <> 'LOW'), 0)
    """,
    "an archived leaf has no live work": """
        SELECT pool.name FROM pools_pool pool JOIN pools_reservation held ON held.pool_id = pool.id
        WHERE pool.subpool_state = 'ARCHIVED' OR pool.archived
    """,
    "a slice that drains has live work": """
        SELECT pool.name FROM pools_pool pool WHERE subpool_state = 'DELETING'
            AND NOT EXISTS (SELECT FROM pools_reservation WHERE pool_id = pool.id)
    """,
    "no machine is overfull": """
        SELECT node.name FROM pools_node node
        JOIN pools_pool root ON root.backend_id = node.backend_id
        JOIN scheduling_workflow workflow ON workflow.root_pool_id = root.id
        JOIN scheduling_group part ON part.workflow_id = workflow.uuid
        JOIN scheduling_task task ON task.group_id = part.uuid AND task.node_name = node.name
        WHERE task.status = 'RUNNING' GROUP BY node.id HAVING sum(task.gpu_count) > node.gpus
    """,
    "every state was reached by a legal step": """
        SELECT id FROM pools_auditentry WHERE object LIKE 'pool/%' AND before ->> 'subpool_state' IS NOT NULL
            AND before ->> 'subpool_state' <> after ->> 'subpool_state'
            AND (before ->> 'subpool_state') || '>' || (after ->> 'subpool_state')
                NOT IN ('ACTIVE>DELETING', 'ACTIVE>ARCHIVED', 'DELETING>ARCHIVED', 'ARCHIVED>ACTIVE')
    """,
    "numbers of a name are dense": """
        SELECT spec_name FROM scheduling_workflow GROUP BY spec_name
        HAVING count(*) <> max(split_part(name, '-', 2)::integer)
    """,
    "nobody without a role on a pool changed anything there": """
        SELECT entry.id FROM pools_auditentry entry JOIN pools_pool root ON root.id = entry.pool_id
        WHERE entry.actor IN ('viewer', 'stranger') OR (entry.actor = 'team2-admin' AND root.name = 'team')
            OR (entry.actor IN ('team-admin', 'team-user') AND root.name = 'team2')
            OR (entry.actor = 'team-user' AND entry.object LIKE 'pool/%')
    """,
}


class House(RuleBasedStateMachine):
    """Two pools with near names, six people, and everything they can ask for."""

    @initialize()
    def open(self) -> None:
        self._outer = transaction.atomic()
        self._outer.__enter__()
        self.backend = factories.make_backend(nodes=3, gpus=8)
        for name in POOLS:
            factories.make_pool(name, 20, on=self.backend)
        factories.make_user("chief", "osmo-admin")
        factories.make_user("team-admin", "osmo-team-admin")
        factories.make_user("team-user", "osmo-team-user")
        factories.make_user("team2-admin", "osmo-team2-admin")
        factories.make_user("viewer", "osmo-viewer")
        factories.make_user("stranger")

    def teardown(self) -> None:
        if hasattr(self, "_outer"):
            transaction.set_rollback(True)
            self._outer.__exit__(None, None, None)

    def _as(self, name: str) -> Actor:
        return User.objects.get(username=name).as_actor()

    def _try(self, deed: Callable[[], Any]) -> None:
        """Refusals are part of the game; anything else is a defect. What was refused has changed nothing."""
        before = self._rows()
        try:
            with transaction.atomic():
                deed()
                factories.check_deferred_constraints()
        except (BadInput, Conflict, Forbidden, NotFound, Stale):
            assert self._rows() == before
        except Busy as refusal:  # nobody else is here
            raise AssertionError(refusal) from refusal

    @staticmethod
    def _rows() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*), max(id) FROM pools_auditentry")
            return list(cursor.fetchall())

    @rule(who=WHO, pool=POOL, name=SLICE, quota=QUOTA)
    def create(self, who: str, pool: str, name: str, quota: object) -> None:
        self._try(lambda: create_subpool(actor=self._as(who), parent=pool, subpool_name=name, quota=quota))

    @rule(who=WHO, pool=POOL, name=SLICE, quota=st.integers(0, 25), version=st.none() | st.integers(1, 6))
    def resize(self, who: str, pool: str, name: str, quota: int, version: int | None) -> None:
        self._try(
            lambda: resize_subpool(
                actor=self._as(who), parent=pool, subpool_name=name, quota=quota, expected_version=version
            )
        )

    @rule(who=WHO, pool=POOL, name=SLICE, cancel=st.booleans())
    def delete(self, who: str, pool: str, name: str, cancel: bool) -> None:
        self._try(lambda: delete_subpool(actor=self._as(who), parent=pool, subpool_name=name, cancel_pending=cancel))

    @rule(who=WHO, pool=POOL, guarantee=st.integers(0, 30))
    def cut_or_grow_the_pool(self, who: str, pool: str, guarantee: int) -> None:
        patch = {"resources": {"gpu": {"guarantee": guarantee}}}
        self._try(lambda: pool_services.patch_pool(actor=self._as(who), name=pool, patch=patch))

    @rule(who=WHO, pool=POOL)
    def remove_the_pool(self, who: str, pool: str) -> None:
        self._try(lambda: pool_services.delete_pool(actor=self._as(who), name=pool))

    @rule(who=WHO, pool=POOL, leaf=LEAF, gpus=st.integers(0, 10), priority=PRIORITY, tasks=st.integers(1, 3))
    def submit(self, who: str, pool: str, leaf: str | None, gpus: int, priority: Priority, tasks: int) -> None:
        lines = ["workflow:", "  name: job", "  resources: {r: {gpu: %d}}" % gpus, "  groups:"]  # noqa: UP031
        lines += ["  - {name: one, tasks: ["]
        lines += [
            f"      {{name: t{n}, image: i, command: [c], resource: r, lead: {'true' if n == 0 else 'false'}}},"
            for n in range(tasks)
        ]
        lines += ["    ]}", "  - {name: two, tasks: [{name: after, image: i, command: [c], inputs: [{task: t0}]}]}"]
        name = pool if leaf is None else f"{pool}--{leaf}"
        work = Submission(file="\n".join(lines), priority=priority)
        self._try(lambda: submit(actor=self._as(who), pool=name, submission=work))

    @rule(who=WHO, number=NUMBER)
    def cancel(self, who: str, number: int) -> None:
        self._try(lambda: cancel_workflow(actor=self._as(who), name=f"job-{number}"))

    @rule(who=WHO, number=NUMBER, status=st.sampled_from([TaskStatus.COMPLETED, TaskStatus.FAILED]))
    def end(self, who: str, number: int, status: TaskStatus) -> None:
        self._try(lambda: end_workflow(actor=self._as(who), name=f"job-{number}", status=status))

    @rule()
    def settle_the_backend(self) -> None:
        self._try(lambda: reconcile_backend(self.backend.pk))
        assert reconcile_backend(self.backend.pk)["steps"] == [], "settling again changes nothing"

    @rule()
    def monitor_the_drain(self) -> None:
        self._try(archive_drained)

    @rule(offline=st.booleans())
    def lose_or_find_the_cluster(self, offline: bool) -> None:
        Backend.objects.filter(pk=self.backend.pk).update(offline=offline)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "_outer"):
            return
        with connection.cursor() as cursor:
            for sentence, sql in INVARIANTS.items():
                cursor.execute(sql)
                assert cursor.fetchall() == [], sentence
        assert verify() == []


@pytest.mark.django_db
@pytest.mark.timeout(1800)
def test_everybody_does_everything(request: pytest.FixtureRequest) -> None:
    nightly = bool(request.config.getoption("--nightly"))
    run_state_machine_as_test(
        House,
        settings=settings(
            max_examples=SEQUENCES["nightly" if nightly else "default"], stateful_step_count=30, deadline=None
        ),
    )
    assert Workflow.objects.count() == 0, "every sequence was rolled back"
