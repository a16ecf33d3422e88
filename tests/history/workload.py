"""A seeded schedule of operations for several clients, on few pools with small quotas, so that they meet.

The schedule does not depend on answers: names of workflows, allocations and tokens follow from the number of the
operation that makes them, and later operations refer to these names. Only versions (`if_match`) are read at run time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

IfMatch = Literal["", "seen", "stale"]
"""`seen`: the version that this client saw last at this address; `stale`: a version that never existed."""

BACKENDS: dict[str, dict[str, Any]] = {
    # Its work ends only by a report.
    "one": {
        "type": "simulated", "namespace": "one", "auto_end": False,
        "nodes": [{"name": f"one-n{n}", "gpus": 8} for n in (1, 2, 3)],
    },
    # Its work ends by itself.
    "two": {
        "type": "simulated", "namespace": "two", "auto_end": True,
        "nodes": [{"name": f"two-n{n}", "gpus": 8} for n in (1, 2)],
    },
    # Its work ends by itself, and gangs that need whole nodes soon get start reservations.
    "three": {
        "type": "simulated", "namespace": "three", "auto_end": True, "reserve_after": 2, "ageing": 8,
        "nodes": [{"name": f"three-n{n}", "gpus": 8} for n in (1, 2, 3, 4)],
    },
}  # fmt: skip
COHORTS: dict[str, dict[str, Any]] = {
    "org": {"parent": None, "quotas": [{"flavor": "default", "resource": "gpu", "nominal": 4}], "weight": 1},
    "pair": {"parent": None, "quotas": [], "weight": 1},
}
POOLS: dict[str, dict[str, Any]] = {
    "alpha": {"backend": "one", "guarantee": 14},
    "beta": {"backend": "one", "guarantee": 8, "cohort": "org", "borrowing_limit": 4},
    "gamma": {"backend": "two", "guarantee": 8, "cohort": "org", "lending_limit": 2},
    "delta": {"backend": "two", "guarantee": 10},
    "epsilon": {"backend": "three", "guarantee": 16, "cohort": "pair"},
    "zeta": {"backend": "three", "guarantee": 16, "cohort": "pair"},
}
WHOLE_NODE_POOLS = ("epsilon", "zeta")
"""Pools whose quotas stay as they are, for work that waits for whole nodes. Their LOW gangs may need all that both own
together, and nobody cancels one: a scheduler that lets two of them wait for each other never starts either."""
CLUSTER_POOL = "omega"
"""A pool on a Kubernetes cluster, where there is one; its work ends by itself."""

SUBPOOLS = ("a", "b", "c")
NAMESPACES = ("team-x", "team-y")
SCRATCH_USERS = ("visitor-1", "visitor-2", "visitor-3")
FIRST_QUOTAS = {"a": 3, "b": 3}
"""GPUs of the subpools of each pool at the start."""
WHOLE_NODE_QUOTAS = {"a": 8}
"""The same of the pools for whole nodes."""

GUARANTEES = (6, 8, 10, 12, 12, 14, 16)
WORKERS = (6, 8, 10, 12)


def gpu_spec(workers: int) -> dict[str, Any]:
    """The spec of a GPU quota of about this many workers."""
    return {
        "total": {
            "requests": {"tflops": str(workers * 10), "vram": f"{workers}Gi"},
            "limits": {"tflops": str(workers * 20), "vram": f"{workers * 2}Gi"},
            "maxWorkers": workers,
        },
        "single": {"maxRequests": {"tflops": "40", "vram": "8Gi"}, "maxLimits": {"tflops": "80", "vram": "16Gi"}},
    }


def is_platform_admin(client: int) -> bool:
    """Whether this client's user is a platform admin; the others are admins of every pool."""
    return client % 4 != 3


def pool_config(settings: dict[str, Any]) -> dict[str, Any]:
    """The body that makes a pool."""
    settings = dict(settings)
    guarantee = settings.pop("guarantee")
    return {"configs": {**settings, "resources": {"gpu": {"guarantee": guarantee, "maximum": -1, "weight": 1}}}}


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a client. `key` is the Idempotency-Key; `repeats` is the number of the earlier step of the same
    client that it repeats, or 0."""

    number: int
    client: int
    name: str
    method: str
    path: str
    body: Any = None
    key: str = ""
    if_match: IfMatch = ""
    repeats: int = 0


Draft = tuple[str, str, Any] | tuple[str, str, Any, IfMatch]


class _Client:
    """The choices of one client. Each has a random stream of its own, so one client's schedule does not depend on the
    number of the others' operations."""

    def __init__(self, seed: int, number: int, pools: tuple[str, ...]) -> None:
        self.number = number
        self.pools = pools
        self.random = random.Random(f"{seed}/{number}")
        self.is_platform_admin = is_platform_admin(number)
        self.live: list[tuple[int, str]] = []
        """Workflows with the number of the step of this client from which on they are to end."""
        self.allocations: list[tuple[int, str, str]] = []
        self.tokens: list[str] = []
        self.keyed: list[Step] = []
        self.steps = 0

    # --- work ---
    def submit(self, number: int) -> Draft:
        file, priority = self._file(f"h{number}"), self.random.choice(["HIGH", "NORMAL", "NORMAL", "LOW", "LOW"])
        self.live.append((self.steps + self.random.randint(2, 14), f"h{number}-1"))
        return "POST", f"/api/pool/{self._leaf()}/workflow?priority={priority}", {"file": file}

    def submit_many(self, number: int) -> Draft:
        files = [{"file": self._file(f"h{number}{letter}"), "priority": "LOW"} for letter in "xy"]
        self.live += [(self.steps + self.random.randint(2, 14), f"h{number}{letter}-1") for letter in "xy"]
        return "POST", f"/api/pool/{self._leaf()}/workflows", {"workflows": files}

    def submit_elastic(self, number: int) -> Draft:
        minimum = self.random.randint(1, 2)
        manifest = {
            "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {
                "name": f"h{number}",
                "annotations": {"osmo/gpus-per-pod": str(self.random.randint(1, 2)), "osmo/image": "ubuntu"},
                "labels": {"osmo/simulated-runtime": "1s"},
            },
            "spec": {
                "minSubGroup": minimum,
                "subGroups": [{"name": f"part-{n}", "minMember": self.random.randint(1, 2)} for n in range(3)],
            },
        }  # fmt: skip
        self.live.append((self.steps + self.random.randint(2, 14), f"h{number}-1"))
        priority = self.random.choice(["NORMAL", "LOW"])
        return "POST", f"/api/pool/{self._leaf()}/workflow?priority={priority}", {"file": yaml.safe_dump(manifest)}

    def submit_whole_nodes(self, number: int) -> Draft:
        priority = self.random.choice(["HIGH", "NORMAL", "LOW", "LOW", "LOW"])
        most = 4 if priority == "LOW" else 1  # a leaf guarantees one node
        tasks, gpus = self.random.choice([(1, 2), (1, 8), (most, 8), (most, 8)])
        pool = self.random.choice(WHOLE_NODE_POOLS)
        leaf = self.random.choice([pool, f"{pool}--a"])
        file = self._lines(f"h{number}", "1s", tasks, gpus)
        return "POST", f"/api/pool/{leaf}/workflow?priority={priority}", {"file": "\n".join(file) + "\n"}

    def end(self, number: int) -> Draft | None:
        due = [each for each in self.live if each[0] <= self.steps]
        if not due:
            return None
        name = self.random.choice(due)[1]  # stays on the list: it may still wait, and is cancelled later
        return "POST", f"/api/workflow/{name}/end", {"status": self.random.choice(["COMPLETED", "FAILED"])}

    def cancel(self, number: int) -> Draft | None:
        due = [each for each in self.live if each[0] + 6 <= self.steps or self.random.random() < 0.1]
        if not due:
            return None
        chosen = due[0]
        self.live.remove(chosen)
        return "POST", f"/api/workflow/{chosen[1]}/cancel?force=True", {}

    def _leaf(self) -> str:
        pool = self.random.choice(self.pools)
        subpool = self.random.choice((*SUBPOOLS, "", ""))
        return f"{pool}--{subpool}" if subpool else pool

    def _file(self, name: str) -> str:
        runtime = self.random.choice(["1s", "2s", "4s"])
        gpus = self.random.choice([1, 1, 1, 2, 2, 4])
        tasks = self.random.choice([1, 1, 2, 3])
        lines = self._lines(name, runtime, tasks, gpus)
        if self.random.random() < 0.2:
            task = "{name: after, image: ubuntu, command: [sh], resource: r, inputs: [{task: t0}]}"
            lines.append(f"  - name: second\n    tasks:\n    - {task}")
        return "\n".join(lines) + "\n"

    @staticmethod
    def _lines(name: str, runtime: str, tasks: int, gpus: int) -> list[str]:
        """A workflow file with a gang of equal tasks."""
        labels = "{osmo/simulated-runtime: " + runtime + "}"
        return [
            f"workflow:\n  name: {name}\n  labels: {labels}\n  resources:\n    r: {{gpu: {gpus}}}\n  groups:",
            "  - name: first\n    tasks:",
            *(
                f"    - {{name: t{n}, image: ubuntu, command: [sh], resource: r, lead: {str(n == 0).lower()}}}"
                for n in range(tasks)
            ),
        ]

    # --- subpools, pools and cohorts ---
    def _subpool(self) -> str:
        return f"/api/configs/pool/{self.random.choice(self.pools)}/subpool/{self.random.choice(SUBPOOLS)}"

    def _quota(self) -> Any:
        return self.random.choice([0, 1, 2, 3, 3, 4, 4, 5, 6, "25%", "50%"])

    def _if_match(self) -> IfMatch:
        return self.random.choice(("", "", "seen", "seen", "seen", "stale"))

    def create_subpool(self, number: int) -> Draft:
        pool = self.random.choice(self.pools)
        body = {"subpool_name": self.random.choice(SUBPOOLS), "quota": self._quota()}
        return "POST", f"/api/configs/pool/{pool}/subpool", body

    def resize_subpool(self, number: int) -> Draft:
        return "PATCH", self._subpool(), {"quota": self._quota()}, self._if_match()

    def delete_subpool(self, number: int) -> Draft:
        return "DELETE", self._subpool(), {"cancel_pending": self.random.random() < 0.5}, self._if_match()

    def preview_resize(self, number: int) -> Draft:
        return "PATCH", self._subpool() + "?dry_run=True", {"quota": self._quota()}

    def change_pool(self, number: int) -> Draft:
        pool = self.random.choice(self.pools)
        body = {"configs": {"resources": {"gpu": {"guarantee": self.random.choice(GUARANTEES)}}}}
        return "PATCH", f"/api/configs/pool/{pool}", body, self._if_match()

    def change_cohort(self, number: int) -> Draft:
        body = {**COHORTS["org"], "quotas": [{**COHORTS["org"]["quotas"][0], "nominal": self.random.randint(0, 6)}]}
        return "PUT", "/api/configs/cohort/org", body

    # --- GPU quota ---
    def allocate(self, number: int) -> Draft:
        namespace, name = self.random.choice(NAMESPACES), f"a{number}"
        amount = self.random.choice([5, 10, 10, 20])
        self.allocations.append((self.steps + self.random.randint(3, 12), namespace, name))
        body = {
            "id": name, "workload": "infer", "count": self.random.choice([1, 1, 2]),
            "request": {"tflops": str(amount), "vram": "1Gi"}, "limit": {"tflops": str(2 * amount), "vram": "2Gi"},
        }  # fmt: skip
        query = self.random.choice(["", "", "", "?assume=True"])
        return "POST", f"/api/gpu_quota/{namespace}/allocation{query}", body

    def commit_allocation(self, number: int) -> Draft | None:
        if not self.allocations:
            return None
        _, namespace, name = self.random.choice(self.allocations)
        return "POST", f"/api/gpu_quota/{namespace}/allocation/{name}/commit", {}

    def resize_allocation(self, number: int) -> Draft | None:
        if not self.allocations:
            return None
        _, namespace, name = self.random.choice(self.allocations)
        amount = self.random.choice([5, 15, 25])
        body = {
            "request": {"tflops": str(amount), "vram": "1Gi"}, "limit": {"tflops": str(2 * amount), "vram": "2Gi"},
        }  # fmt: skip
        return "PATCH", f"/api/gpu_quota/{namespace}/allocation/{name}", body

    def release(self, number: int) -> Draft | None:
        due = [each for each in self.allocations if each[0] <= self.steps]
        if not due:
            return None
        _, namespace, name = chosen = self.random.choice(due)
        self.allocations.remove(chosen)
        return "DELETE", f"/api/gpu_quota/{namespace}/allocation/{name}", None

    def change_gpu_quota(self, number: int) -> Draft:
        body = {"spec": gpu_spec(self.random.choice(WORKERS))}
        return "PUT", f"/api/configs/gpu_quota/{self.random.choice(NAMESPACES)}", body, self._if_match()

    # --- people ---
    def create_token(self, number: int) -> Draft:
        self.tokens.append(f"t{number}")
        return "POST", f"/api/auth/access_token/t{number}", None

    def delete_token(self, number: int) -> Draft | None:
        return ("DELETE", f"/api/auth/access_token/{self.tokens.pop(0)}", None) if self.tokens else None

    def grant_role(self, number: int) -> Draft:
        role = f"osmo-{self.random.choice(self.pools)}-user"
        return "POST", f"/api/auth/user/{self.random.choice(SCRATCH_USERS)}/roles", {"role_name": role}

    def revoke_role(self, number: int) -> Draft:
        role = f"osmo-{self.random.choice(self.pools)}-user"
        return "DELETE", f"/api/auth/user/{self.random.choice(SCRATCH_USERS)}/roles/{role}", None

    # --- reads ---
    def read(self, number: int) -> Draft:
        pool, namespace = self.random.choice(self.pools), self.random.choice(NAMESPACES)
        path = self.random.choice([
            f"/api/configs/pool/{pool}/subpool",
            f"/api/configs/pool/{pool}/subpool",
            f"/api/configs/pool/{pool}",
            "/api/pool_quota?all_pools=True",
            "/api/quota_tree",
            "/api/queue?limit=200",
            f"/api/configs/gpu_quota/{namespace}",
            f"/api/gpu_quota/{namespace}/allocation",
            "/api/audit?limit=20",
        ])  # fmt: skip
        return "GET", path, None

    def read_workflow(self, number: int) -> Draft | None:
        return ("GET", f"/api/workflow/{self.random.choice(self.live)[1]}", None) if self.live else None


WEIGHTS: dict[str, int] = {
    "submit": 15,
    "submit_many": 2,
    "submit_elastic": 3,
    "submit_whole_nodes": 3,
    "end": 12,
    "cancel": 11,
    "create_subpool": 7,
    "resize_subpool": 8,
    "delete_subpool": 3,
    "preview_resize": 1,
    "change_pool": 3,
    "change_cohort": 1,
    "allocate": 12,
    "commit_allocation": 2,
    "resize_allocation": 3,
    "release": 9,
    "change_gpu_quota": 1,
    "create_token": 1,
    "delete_token": 1,
    "grant_role": 1,
    "revoke_role": 1,
    "read": 16,
    "read_workflow": 4,
    "repeat": 5,
}
OPERATIONS = tuple(WEIGHTS)
_PLATFORM_ONLY = {
    "change_pool", "change_cohort", "allocate", "commit_allocation", "resize_allocation", "release",
    "change_gpu_quota", "grant_role", "revoke_role",
}  # fmt: skip
_KEYED_SHARE = 0.85
_REPEATABLE = 12
"""A client repeats one of its latest acknowledged requests, this many at most."""


def generate(seed: int, operations: int, clients: int, *, with_cluster: bool = False) -> list[list[Step]]:
    """The steps of each client, in order. Numbers begin at 1 and are unique among all clients."""
    pools = tuple(name for name in POOLS if name not in WHOLE_NODE_POOLS)
    pools += (CLUSTER_POOL,) if with_cluster else ()
    everyone = [_Client(seed, number, pools) for number in range(clients)]
    found: list[list[Step]] = [[] for _ in everyone]
    for number in range(1, operations + 1):
        client = everyone[(number - 1) % clients]
        found[client.number].append(_next_step(client, number))
        client.steps += 1
    return found


def _next_step(client: _Client, number: int) -> Step:
    for name in _choices(client.random):
        if name in _PLATFORM_ONLY and not client.is_platform_admin:
            continue
        if name == "repeat":
            if client.keyed:
                first = client.random.choice(client.keyed[-_REPEATABLE:])
                return Step(number, client.number, name, first.method, first.path, first.body, first.key,
                            repeats=first.number)  # fmt: skip
            continue
        make: Callable[[int], Draft | None] = getattr(client, name)
        if draft := make(number):
            method, path, body, *more = draft
            has_key = method == "POST" and client.random.random() < _KEYED_SHARE
            key = f"key-{number}" if has_key else ""
            step = Step(number, client.number, name, method, path, body, key, more[0] if more else "")
            if key:
                client.keyed.append(step)
            return step
    raise AssertionError("a read is always possible")


def _choices(choose: random.Random) -> Iterator[str]:
    """Names by weight, until one is possible."""
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    while True:
        yield choose.choices(names, weights)[0]
