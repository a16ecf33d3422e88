"""On random installations: a dry run's `may_be_reclaimed` equals the later effect, and new work starts on the same
nodes when all other work is only counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.db import transaction
from hypothesis import event, given, settings
from hypothesis import strategies as st

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.errors import BadInput, Conflict
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, Node
from pools.services.changes.dry_run import read_effect
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Decision, Workflow
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world

SUBPOOLS = (("team", "a"), ("team", "b"), ("other", "x"))
LEAVES = ("team", "other", *(f"{pool}--{short}" for pool, short in SUBPOOLS))
Operation = Callable[[], object]
FEWER = settings.default.max_examples // 4  # every example is a scene in the database


@dataclass(frozen=True)
class GangRequest:
    """A workflow of one gang of tasks of one GPU each."""

    leaf: str
    priority: Priority
    gpus: int


@dataclass(frozen=True)
class PreviewScene:
    """Two pools on the same nodes, perhaps in one cohort. LOW work is submitted first and starts where it can; HIGH and
    NORMAL work is submitted while the backend is offline; then quotas are cut, and the backend is online again. So HIGH
    and NORMAL work waits for quota, and LOW work holds the nodes. `spare` is the quota of the pools without that of
    their subpools."""

    nodes: tuple[int, ...]
    spare: tuple[int, int]
    quotas: tuple[int, int, int]
    cuts: tuple[int, int, int]
    in_cohort: bool
    low: tuple[GangRequest, ...]
    firm: tuple[GangRequest, ...]


def _work_strategy(
    priorities: Sequence[Priority], leaves: Sequence[str], least: int
) -> st.SearchStrategy[tuple[GangRequest, ...]]:
    one = st.builds(GangRequest, st.sampled_from(leaves), st.sampled_from(priorities), st.integers(1, 4))
    return st.lists(one, min_size=least, max_size=5).map(tuple)


SCENES = st.builds(
    PreviewScene,
    nodes=st.sampled_from([(8,), (4, 4), (8, 2), (4, 2, 2)]),
    spare=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    quotas=st.tuples(st.integers(2, 4), st.integers(0, 2), st.integers(0, 2)),
    cuts=st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2)),
    in_cohort=st.booleans(),
    low=_work_strategy([Priority.LOW], LEAVES, 3),
    firm=_work_strategy([Priority.HIGH, Priority.NORMAL, Priority.NORMAL], ["team--a", "team--a", *LEAVES], 3),
)


def build(scene: PreviewScene) -> Backend:
    """The scene after a scheduling cycle."""
    backend = world.make_backend(nodes=0)
    Node.objects.bulk_create(
        [Node(backend=backend, name=f"n{place}", gpus=gpus) for place, gpus in enumerate(scene.nodes)]
    )
    a, b, x = scene.quotas
    for pool, guarantee in (("team", a + b + scene.spare[0]), ("other", x + scene.spare[1])):
        world.make_pool(pool, guarantee, on=backend)
        if scene.in_cohort:
            world.apply_change(PatchPool(name=pool, patch={"cohort": "org"}))
    for (pool, short), quota in zip(SUBPOOLS, scene.quotas, strict=True):
        world.make_subpool(pool, short, quota)
    send(scene.low)
    reconcile_backend(backend.pk)
    Backend.objects.update(offline=True)
    send(scene.firm)
    for (pool, short), quota, cut in zip(SUBPOOLS, scene.quotas, scene.cuts, strict=True):
        world.apply_change(ResizeSubpool(parent=pool, subpool_name=short, quota=min(quota, cut)))
    Backend.objects.update(offline=False)
    assert reconcile_backend(backend.pk)["settled"]
    return backend


def send(works: Sequence[GangRequest]) -> None:
    """Submit; refusals are ignored."""
    for work in works:
        tasks = ", ".join(
            f"{{name: t{n}, image: i, command: [c], resource: r, lead: {str(n == 0).lower()}}}"
            for n in range(work.gpus)
        )
        file = f"workflow:\n  name: job\n  resources: {{r: {{gpu: 1}}}}\n  groups:\n  - {{name: g, tasks: [{tasks}]}}"
        try:
            submit(actor=world.admin_actor(), pool=work.leaf, submission=Submission(file=file, priority=work.priority))
        except BadInput:
            continue


def _resize(where: tuple[str, str], quota: int) -> Operation:
    return lambda: world.apply_change(ResizeSubpool(parent=where[0], subpool_name=where[1], quota=quota))


def _restore(quotas: Sequence[int]) -> Operation:
    return lambda: [_resize(where, quota)() for where, quota in zip(SUBPOOLS, quotas, strict=True)]


def _delete(where: tuple[str, str], cancel: bool) -> Operation:
    return lambda: world.apply_change(DeleteSubpool(parent=where[0], subpool_name=where[1], cancel_pending=cancel))


def _create(pool: str, quota: int) -> Operation:
    return lambda: world.apply_change(CreateSubpool(parent=pool, subpool_name="new", quota=quota))


def _pool(pool: str, guarantee: int, maximum: int) -> Operation:
    gpu = {"guarantee": guarantee, "maximum": max(guarantee, maximum) if maximum >= 0 else -1}
    return lambda: world.apply_change(PatchPool(name=pool, patch={"resources": {"gpu": gpu}}))


def _cohort(nominal: int) -> Operation:
    quota = {"flavor": "default", "resource": "gpu", "nominal": nominal}
    return lambda: world.apply_change(PutCohort(name="org", body={"quotas": [quota]}))


POOL, SUBPOOL = st.sampled_from(["team", "other"]), st.sampled_from(SUBPOOLS)
CHANGES = st.one_of(
    st.builds(_resize, SUBPOOL, st.integers(0, 6)),
    st.builds(_delete, SUBPOOL, st.booleans()),
    st.builds(_create, POOL, st.integers(0, 4)),
    st.builds(_pool, POOL, st.integers(0, 14), st.sampled_from([-1, 4, 8])),
    st.builds(_cohort, st.integers(0, 6)),
)


@contextmanager
def rolled_back_scene() -> Iterator[None]:
    """Every example has a scene of its own and leaves nothing."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.timeout(3600)
@settings(max_examples=FEWER)
@given(SCENES, st.booleans(), CHANGES)
def test_the_preview_equals_the_later_effect(scene: PreviewScene, restores: bool, operation: Operation) -> None:
    """Preview, apply, reconcile, compare. Half of the changes restore the quotas that were cut."""
    with rolled_back_scene():
        _compare(build(scene), _restore(scene.quotas) if restores else operation)


IMPACT_KEYS = ("may_be_reclaimed", "could_start", "could_no_longer_start")


def _compare(backend: Backend, operation: Operation) -> None:
    running, waiting = set(_running_firm_names()), set(_pending_names())
    effect = read_effect(operation, read_state=lambda: None, actor=SYSTEM)
    last = Decision.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    if effect["violations"]:
        assert [dict(effect)[key] for key in IMPACT_KEYS] == [[], [], []]
        with pytest.raises((BadInput, Conflict)):
            operation()
        return
    operation()
    assert reconcile_backend(backend.pk)["settled"]
    taken = Decision.objects.filter(pk__gt=last, action__in=[Decision.Action.RECLAIM, Decision.Action.PREEMPT])
    assert effect["may_be_reclaimed"] == list(
        dict.fromkeys(taken.order_by("pk").values_list("workflow__name", flat=True))
    )
    assert [dict(effect)[f"{key}_elsewhere"] for key in IMPACT_KEYS] == [0, 0, 0]
    still, cancelled = set(_pending_names()), waiting - set(_active_names())
    assert set(effect["could_start"]) == waiting - still - cancelled, (
        "the scene was reconciled, so all of it is the effect of the change"
    )
    assert set(effect["could_no_longer_start"]) <= still
    assert running <= set(_running_firm_names()), "HIGH and NORMAL work is never preempted"
    for key in IMPACT_KEYS:
        event(f"{key} {min(2, len(dict(effect)[key]))}")


def _pending_names() -> list[str]:
    return list(Workflow.objects.filter(status=WorkflowStatus.PENDING).values_list("name", flat=True))


def _active_names() -> list[str]:
    return list(Workflow.objects.active().values_list("name", flat=True))


def _running_firm_names() -> list[str]:
    rows = Workflow.objects.filter(status=WorkflowStatus.RUNNING).exclude(priority=Priority.LOW)
    return list(rows.values_list("name", flat=True))


@pytest.mark.django_db
@pytest.mark.timeout(3600)
@settings(max_examples=FEWER)
@given(SCENES, _work_strategy(list(Priority), LEAVES, 1))
def test_new_work_starts_with_totals_as_with_full_facts(scene: PreviewScene, works: tuple[GangRequest, ...]) -> None:
    """Whether and where one gang starts on free nodes does not depend on the list of other gangs."""
    with rolled_back_scene():
        backend = build(scene)
        before = set(_active_names())
        send(works[:1])
        new = set(_active_names()) - before
        listed, counted = (
            read_live_facts(backend, new_workflows=new),
            read_live_facts(backend, new_workflows=new, totals_only=True),
        )
        assert set(counted.gangs) == {name for name, row in listed.gangs.items() if row.workflow_name in new}
        with_all = run_cycle(listed.facts).steps
        starts = [step for step in with_all if step.action is StepAction.START]
        free = list(with_all) == starts and {step.gang for step in starts} <= set(counted.gangs)
        assert list(run_cycle(counted.facts).steps) == (starts if free else [])
        event("starts" if free and starts else "nothing free" if not free else "waits")
