"""The installation of the demo: 12 pools on two clusters with 40 subpools, 26 users, pools that lend to each other in a
tree of cohorts, and two namespaces with GPU quota. Everything is created through the services, as it was a month ago;
`acts` has what people changed since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool, PutPool
from pools.domain.changes.subpools import CreateSubpool
from pools.domain.changes.users import CreateUser
from pools.domain.people.roles import PLATFORM_ADMIN, SYSTEM, Actor
from pools.domain.quota.tree import AMOUNT_KEYS, LIMIT_KEYS
from pools.services.configuration.backends import put_backend
from pools.services.configuration.cohorts import put_cohort
from pools.services.configuration.pools import patch_pool, put_pool
from pools.services.configuration.subpools import create_subpool
from pools.services.gpu_quota.gpu_allocations import allocate
from pools.services.gpu_quota.gpu_quotas import put_gpu_quota
from pools.services.people.users import create_user

# pool | cluster | GPUs | subpools: * drains, - is archived | description
_POOL_TABLE = """
vision | dgx | 64 | detect 24, segment 16, track 8, pose 6, *ocr 4 | Perception models
language | dgx | 96 | pretrain 48, tune 24, eval 8, safety 8 | Foundation and instruction models
speech | dgx | 48 | asr 20, tts 12, diarize 4, -legacy 6 | Recognition and synthesis
robotics | dgx | 32 | grasp 12, walk 12, sim2real 4 | Manipulation and locomotion
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


OPERATOR = "ops"
"""The person who runs the clusters."""
QUOTAS_BEFORE: Mapping[str, int] = {"vision--segment": 12, "language": 88}
"""The quotas that somebody changed during the month, as they were before."""


def create_installation() -> dict[str, Actor]:
    """The clusters, people, pools and cohorts; the people by name."""
    operator = create_user(CreateUser(id=OPERATOR, roles=[PLATFORM_ADMIN]), actor=SYSTEM).as_actor()
    people = {OPERATOR: operator}
    for name, nodes in CLUSTERS.items():
        bodies = [{"name": f"{name}-{number:02}", "gpus": 8} for number in range(1, nodes + 1)]
        # Without start reservations, which the file of the month does not have.
        body: dict[str, object] = {
            "type": "simulated", "namespace": name, "nodes": bodies, "reserve_after": None,
        }  # fmt: skip
        put_backend(PutBackend(name=name, body=body), actor=operator, description=f"{nodes} nodes of 8 GPUs")
    for pool in DEMO_POOLS:
        quota = QUOTAS_BEFORE.get(pool.name, pool.guarantee)
        settings: dict[str, object] = {
            "backend": pool.backend,
            "description": pool.description,
            "resources": {"gpu": {"guarantee": quota, "maximum": -1, "weight": 1}},
        }
        put_pool(PutPool(name=pool.name, body=settings), actor=operator)
        for user, role in (("lead", "admin"), ("researcher", "user")):
            created = CreateUser(id=f"{pool.name}-{user}", roles=[f"osmo-{pool.name}-{role}"])
            people[created.id] = create_user(created, actor=operator).as_actor()
    create_user(CreateUser(id="auditor", roles=["osmo-viewer"]), actor=operator)
    for pool in DEMO_POOLS:
        for short, quota in pool.subpools.items():
            before = QUOTAS_BEFORE.get(f"{pool.name}--{short}", quota)
            create_subpool(
                CreateSubpool(parent=pool.name, subpool_name=short, quota=before), actor=people[f"{pool.name}-lead"]
            )
    _create_cohorts(operator)
    for namespace, spec, _ in _namespaces():
        put_gpu_quota(PutGpuQuota(namespace=namespace, spec=spec), actor=operator)
    return people


def _create_cohorts(operator: Actor) -> None:
    """Pools lend unused quota to the pools of their cohort, and some of it to the other cohort."""
    for line in _COHORT_TABLE.strip().splitlines():
        name, parent, *amounts, pools = (part.strip() for part in line.split("|"))
        quota = {
            "flavor": "default",
            "resource": "gpu",
            **{key: int(text) if text else None for key, text in zip(AMOUNT_KEYS, amounts, strict=True)},
        }
        put_cohort(
            PutCohort(name=name, body={"parent": parent or None, "quotas": [quota], "weight": 1}), actor=operator
        )
        for pool, limits in (word.split() for word in pools.split(", ") if word):
            most = [None if limit == "-" else int(limit) for limit in limits.split("/")]
            joined = {"cohort": name, **dict(zip(LIMIT_KEYS, most, strict=True))}
            patch_pool(PatchPool(name=pool, patch=joined), actor=operator)


def _namespaces() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Two namespaces of small workers, one of them past its alert threshold: the name, the spec, the workers."""
    for line in _NAMESPACE_TABLE.strip().splitlines():
        namespace, tflops, vram, most, alert, fleets = (part.strip() for part in line.split("|"))
        amounts = {"tflops": tflops, "vram": vram}
        total = {"requests": amounts, "limits": amounts, "maxWorkers": int(most), "alertThresholdPercent": int(alert)}
        yield namespace, {"total": total, "single": {"maxGPUCount": 8}}, fleets


def allocate_workers() -> None:
    """The workers of the namespaces."""
    for namespace, _, fleets in _namespaces():
        for fleet in fleets.split(", "):
            workload, count, _, each, memory = fleet.split()
            size = {"tflops": each, "vram": memory}
            for number in range(int(count)):
                worker = {"namespace": namespace, "id": f"{workload}-{number}", "workload": workload}
                allocate(AllocateWorker.from_json({**worker, "request": size, "limit": size}), actor=SYSTEM)
