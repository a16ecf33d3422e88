"""Random operations of all kinds of users in any order; after each step SQL checks every invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pools.domain.changes.pools import DeletePool, PatchPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.errors import BadInput, Busy, Conflict, Forbidden, NotFound, Stale
from pools.domain.people.roles import Actor
from pools.models import Backend, User
from pools.services.configuration import pools as pool_services
from pools.services.configuration.subpools import archive_drained
from scheduling.domain.changes.workflows import CancelWorkflow, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world

USERS = ("chief", "team-admin", "team-user", "team2-admin", "viewer", "stranger")
POOLS = ("team", "team2")
SUBPOOLS = ("a", "b", "c")
USER, POOL, SUBPOOL = st.sampled_from(USERS), st.sampled_from(POOLS), st.sampled_from(SUBPOOLS)
LEAF = st.sampled_from((*SUBPOOLS, None, "_shared"))
QUOTA = st.integers(-2, 25) | st.sampled_from(["25%", 7.9, "100%", "x"])
PRIORITY, NUMBER = st.sampled_from(Priority), st.integers(1, 8)
SEQUENCES = {"default": 4, "nightly": 300}

INVARIANTS = {
    "the quotas of subpools never exceed the quota of their pool": """
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
    "an archived leaf has no active work": """
        SELECT pool.name FROM pools_pool pool JOIN pools_reservation held ON held.pool_id = pool.id
        WHERE pool.subpool_state = 'ARCHIVED' OR pool.archived
    """,
    "a draining subpool has active work": """
        SELECT pool.name FROM pools_pool pool WHERE subpool_state = 'DELETING'
            AND NOT EXISTS (SELECT FROM pools_reservation WHERE pool_id = pool.id)
    """,
    "no node is overcommitted": """
        SELECT node.name FROM pools_node node
        JOIN pools_pool root ON root.backend_id = node.backend_id
        JOIN scheduling_workflow workflow ON workflow.root_pool_id = root.id
        JOIN scheduling_group part ON part.workflow_id = workflow.uuid
        JOIN scheduling_task task ON task.group_id = part.uuid AND task.node_name = node.name
        WHERE task.status = 'RUNNING' GROUP BY node.id HAVING sum(task.gpu_count) > node.gpus
    """,
    "every state was reached by a legal transition": """
        SELECT id FROM pools_auditentry WHERE object LIKE 'pool/%' AND before ->> 'subpool_state' IS NOT NULL
            AND before ->> 'subpool_state' <> after ->> 'subpool_state'
            AND (before ->> 'subpool_state') || '>' || (after ->> 'subpool_state')
                NOT IN ('ACTIVE>DELETING', 'ACTIVE>ARCHIVED', 'DELETING>ARCHIVED', 'ARCHIVED>ACTIVE')
    """,
    "numbers of a name are dense": """
        SELECT spec_name FROM scheduling_workflow GROUP BY spec_name
        HAVING count(*) <> max(split_part(name, '-', 2)::integer)
    """,
    "no user without a role on a pool changed anything there": """
        SELECT entry.id FROM pools_auditentry entry JOIN pools_pool root ON root.id = entry.pool_id
        WHERE entry.actor IN ('viewer', 'stranger') OR (entry.actor = 'team2-admin' AND root.name = 'team')
            OR (entry.actor IN ('team-admin', 'team-user') AND root.name = 'team2')
            OR (entry.actor = 'team-user' AND entry.object LIKE 'pool/%')
    """,
}


class RandomOperations(RuleBasedStateMachine):
    """Two pools with similar names, six users, and all their possible operations."""

    @initialize()
    def open(self) -> None:
        self._outer = transaction.atomic()
        self._outer.__enter__()
        self.backend = world.make_backend(nodes=3, gpus=8)
        for name in POOLS:
            world.make_pool(name, 20, on=self.backend)
        world.make_user("chief", "osmo-admin")
        world.make_user("team-admin", "osmo-team-admin")
        world.make_user("team-user", "osmo-team-user")
        world.make_user("team2-admin", "osmo-team2-admin")
        world.make_user("viewer", "osmo-viewer")
        world.make_user("stranger")

    def teardown(self) -> None:
        if hasattr(self, "_outer"):
            transaction.set_rollback(True)
            self._outer.__exit__(None, None, None)

    def _as(self, name: str) -> Actor:
        return User.objects.get(username=name).as_actor()

    def _attempt(self, operation: Callable[[], Any]) -> None:
        """Refusals are expected and change nothing; any other error is a defect."""
        before = self._rows()
        try:
            with transaction.atomic():
                operation()
                world.check_deferred_constraints()
        except (BadInput, Conflict, Forbidden, NotFound, Stale):
            assert self._rows() == before
        except Busy as refusal:  # no other writer exists
            raise AssertionError(refusal) from refusal

    @staticmethod
    def _rows() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*), max(id) FROM pools_auditentry")
            return list(cursor.fetchall())

    @rule(user=USER, pool=POOL, name=SUBPOOL, quota=QUOTA)
    def create(self, user: str, pool: str, name: str, quota: object) -> None:
        self._attempt(
            lambda: world.apply_change(CreateSubpool(parent=pool, subpool_name=name, quota=quota), actor=self._as(user))
        )

    @rule(user=USER, pool=POOL, name=SUBPOOL, quota=st.integers(0, 25), version=st.none() | st.integers(1, 6))
    def resize(self, user: str, pool: str, name: str, quota: int, version: int | None) -> None:
        self._attempt(
            lambda: world.apply_change(
                ResizeSubpool(parent=pool, subpool_name=name, quota=quota),
                actor=self._as(user),
                expected_version=version,
            )
        )

    @rule(user=USER, pool=POOL, name=SUBPOOL, cancel=st.booleans())
    def delete(self, user: str, pool: str, name: str, cancel: bool) -> None:
        self._attempt(
            lambda: world.apply_change(
                DeleteSubpool(parent=pool, subpool_name=name, cancel_pending=cancel), actor=self._as(user)
            )
        )

    @rule(user=USER, pool=POOL, guarantee=st.integers(0, 30))
    def change_the_pool_quota(self, user: str, pool: str, guarantee: int) -> None:
        patch = {"resources": {"gpu": {"guarantee": guarantee}}}
        self._attempt(lambda: pool_services.patch_pool(PatchPool(name=pool, patch=patch), actor=self._as(user)))

    @rule(user=USER, pool=POOL)
    def remove_the_pool(self, user: str, pool: str) -> None:
        self._attempt(lambda: pool_services.delete_pool(DeletePool(name=pool), actor=self._as(user)))

    @rule(user=USER, pool=POOL, leaf=LEAF, gpus=st.integers(0, 10), priority=PRIORITY, tasks=st.integers(1, 3))
    def submit(self, user: str, pool: str, leaf: str | None, gpus: int, priority: Priority, tasks: int) -> None:
        lines = ["workflow:", "  name: job", "  resources: {r: {gpu: %d}}" % gpus, "  groups:"]  # noqa: UP031
        lines += ["  - {name: one, tasks: ["]
        lines += [
            f"      {{name: t{n}, image: i, command: [c], resource: r, lead: {'true' if n == 0 else 'false'}}},"
            for n in range(tasks)
        ]
        lines += ["    ]}", "  - {name: two, tasks: [{name: after, image: i, command: [c], inputs: [{task: t0}]}]}"]
        name = pool if leaf is None else f"{pool}--{leaf}"
        work = Submission(file="\n".join(lines), priority=priority)
        self._attempt(lambda: submit(actor=self._as(user), pool=name, submission=work))

    @rule(user=USER, number=NUMBER)
    def cancel(self, user: str, number: int) -> None:
        self._attempt(lambda: world.apply_change(CancelWorkflow(name=f"job-{number}"), actor=self._as(user)))

    @rule(user=USER, number=NUMBER, status=st.sampled_from([TaskStatus.COMPLETED, TaskStatus.FAILED]))
    def end(self, user: str, number: int, status: TaskStatus) -> None:
        self._attempt(
            lambda: world.apply_change(EndWorkflow(name=f"job-{number}", status=status), actor=self._as(user))
        )

    @rule()
    def reconcile(self) -> None:
        self._attempt(lambda: reconcile_backend(self.backend.pk))
        assert reconcile_backend(self.backend.pk)["steps"] == [], "a second cycle changes nothing"

    @rule()
    def run_the_drain_monitor(self) -> None:
        self._attempt(archive_drained)

    @rule(offline=st.booleans())
    def set_the_backend_offline_or_online(self, offline: bool) -> None:
        Backend.objects.filter(pk=self.backend.pk).update(offline=offline)

    @invariant()
    def invariants_hold(self) -> None:
        if not hasattr(self, "_outer"):
            return
        with connection.cursor() as cursor:
            for statement, sql in INVARIANTS.items():
                cursor.execute(sql)
                assert cursor.fetchall() == [], statement
        assert verify() == []


@pytest.mark.django_db
@pytest.mark.timeout(1800)
def test_random_operations_keep_every_invariant(request: pytest.FixtureRequest) -> None:
    nightly = bool(request.config.getoption("--nightly"))
    run_state_machine_as_test(
        RandomOperations,
        settings=settings(
            max_examples=SEQUENCES["nightly" if nightly else "default"], stateful_step_count=30, deadline=None
        ),
    )
    assert Workflow.objects.count() == 0, "every sequence was rolled back"
