"""A realistic installation: 12 pools on two clusters, 40 subpools in all states, 300 workflows of 25 users over 30
days, pools that lend to each other in a tree of cohorts, and two namespaces with GPU quota.

Everything is created through the services by the users who own it; only the times of past work and of
the first entries of the audit trail are written afterwards.
The numbers are the same every time; an installation that has the demo is not changed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import pgtrigger
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from pools.database.transactions import change
from pools.domain.audit_actions import AuditAction
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool, PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool
from pools.domain.changes.users import CreateUser
from pools.domain.people.roles import SYSTEM, Actor
from pools.domain.quota.tree import AMOUNT_KEYS, LIMIT_KEYS
from pools.locking import lock_pool_tree
from pools.models import AuditEntry, Pool
from pools.services.configuration.backends import put_backend
from pools.services.configuration.cohorts import put_cohort
from pools.services.configuration.pools import patch_pool, put_pool
from pools.services.configuration.subpools import create_subpool, delete_subpool
from pools.services.gpu_quota.gpu_allocations import allocate
from pools.services.gpu_quota.gpu_quotas import put_gpu_quota, sample_usage
from pools.services.people.users import create_user
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, WaitSpan, Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.usage import note_wait_causes
from scheduling.services.usage import rebuild as rebuild_usage
from scheduling.services.workflows.submission import Submission, submit_many
from scheduling.services.workflows.transitions import WorkflowTransition

DAYS = 30
WORKFLOWS = 300
ACTIVE_WORKFLOWS = 84


# pool | cluster | GPUs | subpools: * drains, - is archived | description
_POOL_TABLE = """
vision | dgx | 64 | detect 24, segment 16, track 8, pose 6, *ocr 4 | Perception models
language | dgx | 96 | pretrain 48, tune 24, eval 8, *safety 8 | Foundation and instruction models
speech | dgx | 48 | asr 20, tts 12, diarize 4, -legacy 6 | Recognition and synthesis
robotics | dgx | 32 | grasp 12, *walk 12, sim2real 4 | Manipulation and locomotion
recsys | dgx | 32 | rank 16, retrieve 8, -abtest 4 | Ranking and retrieval
research | dgx | 40 | diffusion 12, graphs 8, -theory 4, *interns 8 | Open-ended work
biology | hopper | 16 | fold 8, cells 2, -screen 4 | Protein and cell models
simulation | hopper | 24 | fluids 8, *scenes 8, weather 4 | Physics and synthetic data
evaluation | hopper | 16 | nightly 8, release 4, -adhoc 2 | Nightly regression and benchmarks
security | hopper | 8 | attack 4, -defend 1, probe 1 | Red team
platform | hopper | 8 | canary 2, perf 2, -spare 2 | The platform team's own
sandbox | hopper | 16 | new 4, course 4 | Try things out
"""
CLUSTERS = {"dgx": 42, "hopper": 12}

# cohort | cohort above | GPUs of its own | most it borrows | most it lends | pools (their most borrowed/most lent)
_COHORT_TABLE = """
company | | 0 | | |
products | company | 8 | 32 | 24 | vision -/16, language 24/-, speech 8/8, recsys -/-
science | company | 4 | 8 | 32 | research 8/16, robotics -/8
"""
# namespace | TFLOPS | memory | workers | share at which it alerts | workers there: name count x TFLOPS memory
_NAMESPACE_TABLE = """
inference-prod | 4000 | 1Ti | 40 | 70 | chat 4 x 250 40Gi, search 6 x 120 24Gi, embed 8 x 150 20Gi
inference-dev | 800 | 256Gi | 10 | 90 | try-out 2 x 60 12Gi
"""
# Three of the four replicas are enough.
GANG = """kind: PodGroup
metadata:
  name: chat-service
  annotations: {osmo/gpus-per-pod: "1"}
spec:
  minSubGroup: 3
  subGroups:
  - {name: replica-0, minMember: 2}
  - {name: replica-1, minMember: 2}
  - {name: replica-2, minMember: 2}
  - {name: replica-3, minMember: 2}
"""
JOBS = ("train", "finetune", "sweep", "eval", "export", "preprocess", "distill", "render")


@dataclass(frozen=True, slots=True)
class DemoPool:
    """A pool of the demo: its cluster, its quota, its subpools (name → quota), and which of them drain or are
    archived."""

    name: str
    backend: str
    description: str
    guarantee: int
    subpools: dict[str, int]
    draining: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()


def _read_pool_table() -> list[DemoPool]:
    pools = []
    for line in _POOL_TABLE.strip().splitlines():
        name, backend, guarantee, subpools, about = (part.strip() for part in line.split("|"))
        words = [part.split() for part in subpools.split(",")]
        pools.append(
            DemoPool(
                name=name,
                backend=backend,
                description=about,
                guarantee=int(guarantee),
                subpools={word.strip("*-"): int(quota) for word, quota in words},
                draining=tuple(word[1:] for word, _ in words if word.startswith("*")),
                archived=tuple(word[1:] for word, _ in words if word.startswith("-")),
            )
        )
    return pools


DEMO_POOLS = _read_pool_table()


def seed_demo() -> None:
    """Create the demo. Does nothing where its first pool exists."""
    if Pool.objects.filter(name=DEMO_POOLS[0].name).exists():
        return
    dice = random.Random(4711)  # noqa: S311  (the same numbers every time, no secret)
    for name, nodes in CLUSTERS.items():
        node_bodies = [{"name": f"{name}-{number:02}", "gpus": 8} for number in range(1, nodes + 1)]
        body = {"type": "simulated", "namespace": name, "nodes": node_bodies}
        put_backend(PutBackend(name=name, body=body), actor=SYSTEM, description=f"{nodes} nodes of 8 GPUs")
    leaders, members = _create_users()
    for pool in DEMO_POOLS:
        for short, quota in pool.subpools.items():
            create_subpool(CreateSubpool(parent=pool.name, subpool_name=short, quota=quota), actor=leaders[pool.name])
    _create_past_work(dice, members)
    _create_cohorts()
    _create_gpu_quotas()
    for pool in DEMO_POOLS:
        for short in pool.archived:
            delete_subpool(
                DeleteSubpool(parent=pool.name, subpool_name=short),
                actor=leaders[pool.name],
                description="the project has ended",
            )
    _create_current_work(dice, members)
    for pool in DEMO_POOLS:
        for short in pool.draining:
            delete_subpool(
                DeleteSubpool(parent=pool.name, subpool_name=short),
                actor=leaders[pool.name],
                description="moving to the pool remainder",
            )
    _write_record_of_use()


def _write_record_of_use() -> None:
    """The pools and nodes are as old as the oldest work, and the waits are those of the written times; the rest of the
    record of use follows from them."""
    age = timedelta(days=DAYS + 1)
    with transaction.atomic():
        with pgtrigger.ignore("pools.AuditEntry:append_only"):
            created = AuditEntry.objects.filter(
                action__in=[
                    AuditAction.BACKEND_CREATED,
                    AuditAction.NODE_CREATED,
                    AuditAction.POOL_CREATED,
                    AuditAction.SUBPOOL_CREATED,
                ]
            )
            created.update(time=F("time") - age)
        with pgtrigger.ignore("scheduling.WaitSpan:append_only"):
            WaitSpan.objects.all().delete()
        waited = Group.objects.filter(ready_at__isnull=False, start_time__isnull=False)
        WaitSpan.objects.bulk_create(
            WaitSpan(
                group_id=group.pk, workflow_id=group.workflow_id, gpus=group.gpus, started=True, since=group.ready_at,
                until=group.start_time,
            )
            for group in waited
            if group.ready_at is not None
        )  # fmt: skip
    note_wait_causes()
    rebuild_usage()


def _create_users() -> tuple[dict[str, Actor], dict[str, list[Actor]]]:
    """Pools with their roles, a lead for each, a researcher for each, and one user who may read everything: 25
    users."""
    leaders, members = {}, {}
    for pool in DEMO_POOLS:
        body = {
            "backend": pool.backend,
            "description": pool.description,
            "resources": {"gpu": {"guarantee": pool.guarantee, "maximum": -1, "weight": 1}},
        }
        put_pool(PutPool(name=pool.name, body=body), actor=SYSTEM)
        lead = create_user(CreateUser(id=f"{pool.name}-lead", roles=[f"osmo-{pool.name}-admin"]), actor=SYSTEM)
        user = create_user(CreateUser(id=f"{pool.name}-researcher", roles=[f"osmo-{pool.name}-user"]), actor=SYSTEM)
        leaders[pool.name] = lead.as_actor()
        members[pool.name] = [user.as_actor(), user.as_actor(), lead.as_actor()]
    create_user(CreateUser(id="auditor", roles=["osmo-viewer"]), actor=SYSTEM)
    return leaders, members


def _create_cohorts() -> None:
    """Pools lend unused quota to the pools of their cohort, and some of it to the other cohort."""
    for line in _COHORT_TABLE.strip().splitlines():
        name, parent, *amounts, pools = (part.strip() for part in line.split("|"))
        quota = {
            "flavor": "default",
            "resource": "gpu",
            **{key: int(text) if text else None for key, text in zip(AMOUNT_KEYS, amounts, strict=True)},
        }
        put_cohort(PutCohort(name=name, body={"parent": parent or None, "quotas": [quota], "weight": 1}), actor=SYSTEM)
        for pool, limits in (word.split() for word in pools.split(", ") if word):
            most = [None if limit == "-" else int(limit) for limit in limits.split("/")]
            joined = {"cohort": name, **dict(zip(LIMIT_KEYS, most, strict=True))}
            patch_pool(PatchPool(name=pool, patch=joined), actor=SYSTEM)


def _create_gpu_quotas() -> None:
    """Two namespaces of small workers, one of them past its alert threshold."""
    for line in _NAMESPACE_TABLE.strip().splitlines():
        namespace, tflops, vram, most, alert, fleets = (part.strip() for part in line.split("|"))
        amounts = {"tflops": tflops, "vram": vram}
        total = {"requests": amounts, "limits": amounts, "maxWorkers": int(most), "alertThresholdPercent": int(alert)}
        put_gpu_quota(
            PutGpuQuota(namespace=namespace, spec={"total": total, "single": {"maxGPUCount": 8}}), actor=SYSTEM
        )
        for fleet in fleets.split(", "):
            workload, count, _, each, memory = fleet.split()
            size = {"tflops": each, "vram": memory}
            for number in range(int(count)):
                worker = {"namespace": namespace, "id": f"{workload}-{number}", "workload": workload}
                allocate(AllocateWorker.from_json({**worker, "request": size, "limit": size}), actor=SYSTEM)
    sample_usage()


def _create_past_work(dice: random.Random, members: dict[str, list[Actor]]) -> None:
    """Work that has ended, over the last month."""
    now = timezone.now()
    _submit_jobs(dice, members, WORKFLOWS - ACTIVE_WORKFLOWS, archived_too=True)
    endings = (
        [TaskStatus.COMPLETED] * 16
        + [TaskStatus.FAILED] * 2
        + [TaskStatus.FAILED_CANCELED, TaskStatus.FAILED_EXEC_TIMEOUT]
    )
    for root_id in Pool.objects.roots().values_list("pk", flat=True):
        _end_all_workflows(root_id, dice, endings, now)
    times = []
    for workflow in Workflow.objects.order_by("name"):
        submitted = now - timedelta(minutes=dice.randint(60, DAYS * 24 * 60))
        started = submitted + timedelta(seconds=dice.randint(1, 4000))
        longest = (now - started) * dice.uniform(0.2, 0.95)
        assert workflow.simulated_runtime is not None
        ended = started + min(workflow.simulated_runtime, max(longest, timedelta(minutes=1)))
        node = f"dgx-{dice.randint(1, 40):02}"
        times.append(_Times(workflow.pk, submitted, started, min(ended, now - timedelta(minutes=1)), node))
    _write_times(times)


def _end_all_workflows(root_id: int, dice: random.Random, endings: Sequence[TaskStatus], now: datetime) -> None:
    with change(actor=SYSTEM, description="demo"):
        root = lock_pool_tree(root_id)
        live = Workflow.objects.active().filter(root_pool=root).order_by("name").values_list("pk", flat=True)
        work = WorkflowTransition(root, live, now=now)
        for workflow in work.workflows.values():
            work.end_open_groups(workflow, dice.choice(endings), "", include_waiting=True)
        work.save()


class _Times(NamedTuple):
    """The invented times of a workflow; `started` is None while it waits, `ended` and `node` until it ends."""

    workflow: UUID
    submitted: datetime
    started: datetime | None = None
    ended: datetime | None = None
    node: str | None = None


_TIMES = """
WITH times AS (
  SELECT * FROM unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::text[])
    AS row (workflow, submitted, started, ended, node)
)
"""
_WRITE_TIMES = (
    (
        "UPDATE scheduling_workflow SET submit_time = submitted, start_time = started, end_time = ended"
        " FROM times WHERE uuid = times.workflow"
    ),
    (
        "UPDATE pools_reservation SET created_at = submitted, held_since = started"
        " FROM times WHERE pools_reservation.workflow = times.workflow"
    ),
    (
        "UPDATE scheduling_group SET start_time = started, end_time = ended,"
        " ready_at = CASE WHEN started IS NOT NULL OR ready_at IS NOT NULL THEN submitted END"
        " FROM times WHERE workflow_id = times.workflow"
    ),
    (
        "UPDATE scheduling_task SET start_time = started, end_time = ended, node_name = coalesce(node, node_name)"
        " FROM times JOIN scheduling_group ON scheduling_group.workflow_id = times.workflow"
        " WHERE scheduling_task.group_id = scheduling_group.uuid"
    ),
)


def _write_times(times: Sequence[_Times]) -> None:
    """Write the times of these workflows and of everything that belongs to them, in a few statements: those for one
    workflow after the other took a sixth of the time of the demo."""
    columns = [list(column) for column in zip(*times, strict=True)]
    # Invented times do not belong in the audit trail.
    with transaction.atomic(), pgtrigger.ignore("scheduling.Workflow:audit"), connection.cursor() as cursor:
        for update in _WRITE_TIMES:
            cursor.execute(_TIMES + update, columns)


def _create_current_work(dice: random.Random, members: dict[str, list[Actor]]) -> None:
    """Work that runs or waits now."""
    ended = set(Workflow.objects.values_list("pk", flat=True))
    _submit_jobs(dice, members, ACTIVE_WORKFLOWS - 1, archived_too=False)
    submit_many(actor=members["language"][0], pool="language--tune", submissions=[Submission(file=GANG)])
    for backend_id in set(Pool.objects.roots().values_list("backend_id", flat=True)):
        if backend_id is not None:
            reconcile_backend(backend_id)
    now = timezone.now()
    times = []
    for workflow in Workflow.objects.exclude(pk__in=ended).order_by("name"):
        if workflow.start_time is None:
            times.append(_Times(workflow.pk, now - timedelta(minutes=dice.randint(2, 70))))
        else:
            submitted = now - timedelta(minutes=dice.randint(5, 600))
            times.append(_Times(workflow.pk, submitted, submitted + timedelta(seconds=dice.randint(1, 200))))
    _write_times(times)


def _submit_jobs(dice: random.Random, members: dict[str, list[Actor]], count: int, *, archived_too: bool) -> None:
    leaves = [
        (pool, short)
        for pool in DEMO_POOLS
        for short in (None, *pool.subpools)
        if archived_too or short not in pool.archived
    ]
    chosen = leaves + dice.choices(leaves, k=count - len(leaves))
    work: dict[tuple[str, str, Actor], list[Submission]] = defaultdict(list)
    for pool, short in chosen:
        actor = dice.choice(members[pool.name])
        largest = pool.subpools[short] if short else max(1, pool.guarantee - sum(pool.subpools.values()))
        leaf = f"{pool.name}--{short}" if short else pool.name
        work[pool.name, leaf, actor].append(_random_job(dice, pool.name, largest))
    for (_, leaf, actor), submissions in work.items():
        submit_many(actor=actor, pool=leaf, submissions=submissions)


def _random_job(dice: random.Random, pool: str, largest: int) -> Submission:
    priority = dice.choices([Priority.HIGH, Priority.NORMAL, Priority.LOW], weights=[1, 6, 3])[0]
    gpus = min(largest, 8, dice.choice([1, 1, 2, 2, 4, 8]))
    workers = dice.choice([1, 1, 1, 2]) if gpus * 2 <= largest else 1
    # From 20 minutes to two weeks: some work ends soon, and past work says how long present work will run.
    minutes = round(20 * 1000 ** dice.random())
    tasks = "\n".join(
        f"    - {{name: worker-{number}, image: 'registry/{pool}:latest', command: [python, train.py], resource: gpu,"
        f" lead: {'true' if number == 0 else 'false'}}}"
        for number in range(workers)
    )
    text = f"""workflow:
  name: {pool}-{dice.choice(JOBS)}
  labels: {{osmo/simulated-runtime: {minutes}m}}
  resources:
    gpu: {{gpu: {gpus}, cpu: {gpus * 8}, memory: {gpus * 64}Gi, storage: 100Gi}}
  groups:
  - name: main
    tasks:
{tasks}
"""
    return Submission(file=text, priority=priority)
