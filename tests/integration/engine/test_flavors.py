"""Work in a pool with quotas by GPU flavor: it is judged, started, counted and ended in its flavor."""

from __future__ import annotations

import random

import pytest
from django.db.models import Sum
from django.test import Client

from pools.database.transactions import change
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.subpools import CreateSubpool
from pools.domain.errors import BadInput
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import FlavorUsage, LeafUsage, Pool, Reservation, User
from pools.selectors.quotas.pool_balance import read_balance
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.models import Task, Workflow
from scheduling.selectors.queue.visible_queue import waiting_gangs_of
from scheduling.selectors.work.decisions import read_flavor_starts
from scheduling.selectors.work.workflow_log import event_log_lines
from scheduling.selectors.work.workflows import get_full_workflow
from scheduling.services.verify import verify
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world
from tests.support.nightly_parts import samples

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


def test_evicted_work_may_choose_again(actor: Actor) -> None:
    borrows = [put(actor, 8, priority=Priority.LOW, to="team") for _ in range(2)]
    world.reconcile()
    assert [where(each) for each in borrows] == [[("h100", "h")], [("h100", "h")]]
    takes = put(actor, 8, "h100", to="team--a")
    world.reconcile()
    assert where(takes) == [("h100", "h")]
    assert sorted(where(each) for each in borrows) == [[("a100", "a")], [("h100", "h")]]
    assert verify() == []


def test_what_runs_counts_where_it_was_admitted(actor: Actor) -> None:
    runs = put(actor, 8, "h100", to="team")
    world.reconcile()
    [node] = Task.objects.filter(group__workflow=runs).values_list("node_name", flat=True)
    nodes = [{"name": f"h{i}", "gpus": 8, "labels": {"gpu": "a100" if f"h{i}" == node else "h100"}} for i in range(2)]
    nodes += [{"name": f"a{i}", "gpus": 8, "labels": {"gpu": "a100"}} for i in range(4)]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    others = [put(actor, 8, "a100", to="team", priority=Priority.LOW) for _ in range(5)]
    world.reconcile()
    assert usage("team") == {"h100": (8, 8, 8), "a100": (0, 32, 0)}  # the node of `runs` has nothing free
    assert sum(where(each) == [] for each in others) == 1
    world.apply_change(CancelWorkflow(name=runs.name), actor=actor)
    world.reconcile()
    assert usage("team") == {"h100": (0, 0, 0), "a100": (0, 40, 0)}
    assert verify() == []


def test_no_work_starts_on_a_node_that_has_another_flavor_now(actor: Actor) -> None:
    """LOW work holds the only nodes that were of H100: to preempt it makes no room for work on H100."""
    holds = [put(actor, 8, "h100", to="team", priority=Priority.LOW) for _ in range(2)]
    world.reconcile()
    assert [{flavor for flavor, _ in where(each)} for each in holds] == [{"h100"}, {"h100"}]
    nodes = [{"name": f"{kind}{i}", "gpus": 8, "labels": {"gpu": "a100"}} for kind, n in (("h", 2), ("a", 4))
             for i in range(n)]  # fmt: skip
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    waits = put(actor, 8, "h100", priority=Priority.HIGH)
    world.reconcile()
    assert where(waits) == []
    assert [len(where(each)) for each in holds] == [1, 1]
    (gang,) = waiting_gangs_of(actor, get_full_workflow(actor, waits.name)).values()
    assert "must be free" not in " ".join(gang.unblock)
    assert verify() == []


@pytest.mark.parametrize("seed", samples([0], [1, 2]))
def test_the_counters_of_the_flavors_are_those_of_the_leaves(actor: Actor, seed: int) -> None:
    draw = random.Random(seed)
    live: list[Workflow] = []
    for _ in range(15):
        if draw.random() < 0.3 and live:
            world.apply_change(CancelWorkflow(name=live.pop(draw.randrange(len(live))).name), actor=actor)
        else:
            flavors = draw.choice([(), ("h100",), ("a100",), ("a100", "h100")])
            priority, leaf = draw.choice(list(Priority)), draw.choice(["team", "team--a"])
            live.append(put(actor, draw.randint(0, 4), *flavors, to=leaf, priority=priority, tasks=draw.randint(1, 2)))
        if draw.random() < 0.4:
            world.reconcile()
        assert verify() == []
        for leaf in LeafUsage.objects.filter(pool__name__startswith="team"):
            of_flavors = FlavorUsage.objects.filter(pool=leaf.pool).aggregate(Sum("used"), Sum("total_usage"))
            assert (of_flavors["used__sum"] or 0, of_flavors["total_usage__sum"] or 0) == (leaf.used, leaf.total_usage)
        balance = read_balance(Pool.objects.get(name="team"))
        for each in balance.kinds.values():
            assert each.unallocated + each.allocated == each.guarantee
            assert each.used <= each.guarantee
            assert each.total_usage <= each.maximum


def test_work_is_told_which_flavor_it_got_and_why(actor: Actor) -> None:
    first, second = put(actor, 8), put(actor, 8)
    world.reconcile()
    assert [where(each) for each in (first, second)] == [[("h100", "h")], [("a100", "a")]]
    told = [starts.message for each in (first, second) for starts in read_flavor_starts(each).values()]
    assert told == [
        f"{first.name} starts in team--a with 8 h100 GPUs.",
        f"{second.name} starts in team--a with 8 a100 GPUs; h100 comes before, but the quota leaves 0.",
    ]
    assert [line.text for line in event_log_lines(get_full_workflow(actor, second.name)) if "h100" in line.text] == [
        told[1]
    ]


def test_room_elsewhere_is_room_of_a_flavor_that_the_work_may_use(actor: Actor) -> None:
    world.apply_change(CreateSubpool(parent="team", subpool_name="b", quotas={"a100": 8}))
    for _ in range(2):
        put(actor, 8)
    any_flavor, h100 = put(actor, 8), put(actor, 8, "h100")
    world.reconcile()
    client = Client()
    client.force_login(User.objects.get(username="root-admin"))
    rooms = {
        work.name: [(room.name, room.available, room.flavor) for room in answer.context["room"]]
        for work in (any_flavor, h100)
        for answer in [client.get(f"/workflows/{work.name}")]
    }
    assert rooms == {any_flavor.name: [("team--b", 8, "a100")], h100.name: []}
