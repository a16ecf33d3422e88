"""Work in a pool with quotas by GPU flavor: it is judged, started, counted and ended in its flavor."""

from __future__ import annotations

import pytest

from pools.database.transactions import change
from pools.domain.changes.backends import PutBackend
from pools.domain.errors import BadInput
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import FlavorUsage, Pool, Reservation
from scheduling.domain.priorities import Priority
from scheduling.models import Task, Workflow
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool() -> Pool:
    """team has 16 H100 and 32 A100; team--a has 8 and 8 of them. Two nodes of H100 and
    four of A100 have 8 GPUs each."""
    nodes = [{"name": f"h{i}", "gpus": 8, "labels": {"gpu": "h100"}} for i in range(2)]
    nodes += [{"name": f"a{i}", "gpus": 8, "labels": {"gpu": "a100"}} for i in range(4)]
    flavors = [{"name": name, "node_labels": {"gpu": name}} for name in ("h100", "a100")]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes, "flavors": flavors}))
    root = world.make_pool("team", 48, a=16)
    with change(actor=SYSTEM):
        Pool.objects.filter(name="team").update(
            flavors=[{"flavor": "h100", "quota": 16}, {"flavor": "a100", "quota": 32, "maximum": 40}]
        )
        Pool.objects.filter(name="team--a").update(
            flavors=[{"flavor": "h100", "quota": 8}, {"flavor": "a100", "quota": 8}]
        )
    world.check_deferred_constraints()
    root.refresh_from_db()
    return root


@pytest.fixture
def actor(pool: Pool) -> Actor:
    return world.admin_actor()


def put(
    actor: Actor, gpus: int, *flavors: str, to: str = "team--a", priority: Priority = Priority.NORMAL, tasks: int = 1
) -> Workflow:
    named = f", gpu_flavors: [{', '.join(flavors)}]" if flavors else ""
    file = f"""
workflow:
  name: job
  resources: {{default: {{gpu: {gpus}{named}}}}}
  groups:
  - name: gang
    tasks:
""" + "".join(f"    - {{name: t{i}, image: x, command: [sh], lead: {str(not i).lower()}}}\n" for i in range(tasks))
    receipt = submit(actor=actor, pool=to, submission=Submission(file, priority))
    assert receipt.workflow is not None
    return receipt.workflow


def usage(leaf: str) -> dict[str, tuple[int, int, int]]:
    rows = FlavorUsage.objects.filter(pool__name=leaf)
    return {row.flavor: (row.used, row.total_usage, row.committed) for row in rows}


def where(workflow: Workflow) -> list[tuple[str, str]]:
    tasks = Task.objects.filter(group__workflow=workflow, status="RUNNING").order_by("position")
    return [(task.flavor, task.node_name[:1]) for task in tasks]


def test_a_submission_needs_room_in_one_flavor_that_it_may_use(actor: Actor) -> None:
    with pytest.raises(BadInput) as refused:
        put(actor, 9, "h100")
    [fault] = refused.value.violations
    assert dict(fault.numbers) == {"requested": 9, "limit": 8, "flavor": "h100"}
    with pytest.raises(BadInput) as refused:
        put(actor, 9)
    assert [dict(fault.numbers)["flavor"] for fault in refused.value.violations] == ["h100", "a100"]
    put(actor, 9, priority=Priority.LOW)
    put(actor, 24, "a100", to="team", tasks=1)
    with pytest.raises(BadInput) as refused:
        put(actor, 25, "a100", to="team")
    assert dict(refused.value.violations[0].numbers)["limit"] == 24


def test_an_unknown_flavor_is_refused_with_the_known_ones(actor: Actor) -> None:
    with pytest.raises(BadInput) as refused:
        put(actor, 1, "h10")
    [fault] = refused.value.violations
    assert (fault.path, fault.code) == ("workflow.resources.default.gpu_flavors", "unknown_flavor")
    assert 'Did you mean "h100"?' in fault.message


def test_waiting_work_is_counted_in_each_flavor_that_it_may_use(actor: Actor) -> None:
    put(actor, 4, "a100", "h100")
    put(actor, 2, "h100")
    assert usage("team--a") == {"h100": (0, 0, 6), "a100": (0, 0, 4)}
    assert verify() == []


def test_work_starts_on_nodes_of_its_flavor_and_counts_there(actor: Actor) -> None:
    on_h100, on_a100 = put(actor, 8, "h100"), put(actor, 4, "a100", tasks=2)
    waits = put(actor, 1, "h100")
    world.reconcile()
    assert where(on_h100) == [("h100", "h")]
    assert where(on_a100) == [("a100", "a"), ("a100", "a")]
    assert where(waits) == []
    assert usage("team--a") == {"h100": (8, 8, 9), "a100": (8, 8, 8)}
    assert Reservation.objects.get(workflow=on_a100.pk).by_flavor == {"a100": [8, 8]}
    assert verify() == []


def test_low_work_borrows_in_its_flavor_up_to_the_maximum(actor: Actor) -> None:
    borrows = [put(actor, 8, "a100", priority=Priority.LOW) for _ in range(4)]
    world.reconcile()
    assert [where(each) for each in borrows] == [[("a100", "a")]] * 4
    assert usage("team--a") == {"a100": (0, 32, 0)}
    reclaims = put(actor, 8, "a100", to="team")
    world.reconcile()
    assert where(reclaims) == [("a100", "a")]
    assert usage("team--a") == {"a100": (0, 24, 0)}
    assert usage("team") == {"a100": (8, 8, 8)}
    assert verify() == []


def test_a_gang_takes_the_first_flavor_that_serves_and_stays_whole(actor: Actor) -> None:
    first, second, third = (put(actor, 4, tasks=2) for _ in range(3))
    world.reconcile()
    assert where(first) == [("h100", "h"), ("h100", "h")]
    assert where(second) == [("a100", "a"), ("a100", "a")]
    assert where(third) == []
    assert usage("team--a") == {"h100": (8, 8, 16), "a100": (8, 8, 16)}
    assert verify() == []
