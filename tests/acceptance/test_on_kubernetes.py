"""AC1 to AC8 once more on a Kubernetes backend: the objects of the API server after the queue sync.
KAI decides about starts and preemptions by the quotas in these queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import QUEUE
from tests.support.kube_server import KubeServer
from tests.support.stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.k8s, pytest.mark.timeout(600)]
JOB = """workflow:
  name: job
  resources: {{default: {{gpu: {gpus}}}}}
  tasks:
  - {{name: train, image: ubuntu, command: [sleep, infinity]}}
"""


class ClusterTeam:
    """A pool on a Kubernetes backend, which has the name of its namespace."""

    def __init__(self, stack: Stack, backend: str, cluster: Cluster, quota: int, subpools: dict[str, int]) -> None:
        self.stack, self.cluster = stack, cluster
        self.ns = self.backend = backend
        self.name = stack.unique_name("team")
        self._put(
            f"pool/{self.name}",
            {"configs": {"backend": self.backend, "resources": {"gpu": {"guarantee": quota, "maximum": -1}}}},
        )
        self.admin = stack.client_for(stack.unique_name("admin"), f"osmo-{self.name}-admin")
        self.user = stack.client_for(stack.unique_name("user"), f"osmo-{self.name}-user")
        for short, gpus in subpools.items():
            self.subpool("POST", json={"subpool_name": short, "quota": gpus})

    def _put(self, what: str, body: dict[str, Any]) -> None:
        answer = self.stack.admin_client.put(f"/api/configs/{what}", json=body)
        assert answer.status_code == 200, answer.text

    def subpool(self, method: str, short: str = "", **body: Any) -> None:
        """Create, change or delete a subpool as the pool's admin."""
        path = f"/api/configs/pool/{self.name}/subpool"
        answer = self.admin.request(method, f"{path}/{short}" if short else path, **body)
        assert answer.status_code == 200, answer.text

    def submit(self, gpus: int, priority: str, *, to: str = "") -> Any:
        """Submit as the pool's user."""
        return self.user.post(
            f"/api/pool/{to or self.name}/workflow",
            params={"priority": priority},
            json={"file": JOB.format(gpus=gpus), "set_variables": [], "set_string_variables": []},
        )

    def queue_name(self, leaf: str | None = "-shared") -> str:
        """The object of a leaf queue, or (None) of the container."""
        container = f"osmo-pool-{self.ns}-{self.name}"
        return container if leaf is None else f"{container}--{leaf}"

    def wait_for_quotas(self, container: int, **leaves: int) -> dict[str, Any]:
        """Wait until the API server holds exactly these GPU quotas (`shared=70, a=30`); the specs by queue."""
        expected = {f"osmo-default-{self.ns}": -1, self.queue_name(None): container}
        expected |= {self.queue_name("-shared" if leaf == "shared" else leaf): quota for leaf, quota in leaves.items()}
        leaf_prefix = self.queue_name("")
        found: dict[str, Any] = {}

        def has_expected_quotas() -> bool:
            items = self.cluster.list(QUEUE, labels=f"osmo.namespace={self.ns}").items
            specs = {item["metadata"]["name"]: item["spec"] for item in items}
            found.clear()  # other tests have pools on this backend
            found.update({name: specs[name] for name in specs if name in expected or name.startswith(leaf_prefix)})
            return {name: spec["resources"]["gpu"]["quota"] for name, spec in found.items()} == expected

        self.stack.wait_until(has_expected_quotas, what=f"the queues {expected}", seconds=120)
        return found


@pytest.fixture(scope="module")
def backend(stack: Stack, kube_server: KubeServer) -> str:
    """The name of one backend and its namespace. Each backend costs processor time until the end of the session."""
    name = stack.unique_name("kube")
    body = {"type": "kubernetes", "namespace": name, "kubeconfig": yaml.safe_dump(kube_server.kubeconfig_body())}
    answer = stack.admin_client.put(f"/api/configs/backend/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return name


@pytest.fixture
def team(stack: Stack, backend: str, kube_server: KubeServer) -> Iterator[Callable[..., ClusterTeam]]:
    """Makes a pool with subpools on a cluster, `team(100, a=30)`."""
    cluster = kube_server.connect()
    yield lambda quota, **subpools: ClusterTeam(stack, backend, cluster, quota, subpools)
    cluster.close()


def test_ac1_a_pool_without_subpools_submits_to_its_shared_queue(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100)
    answer = pool.submit(50, "HIGH").json()
    assert (answer["queue"], answer["k8s_queue"]) == (f"{pool.queue_name(None)}--_shared", pool.queue_name())
    specs = pool.wait_for_quotas(100, shared=100)
    assert specs[pool.queue_name()]["displayName"] == answer["queue"]


def test_ac2_a_pool_without_subpools_gives_all_to_its_shared_queue(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100)
    specs = pool.wait_for_quotas(100, shared=100)
    assert specs[pool.queue_name(None)]["parentQueue"] == f"osmo-default-{pool.ns}"
    assert specs[pool.queue_name()]["parentQueue"] == pool.queue_name(None)


def test_ac3_a_new_subpool_comes_out_of_the_shared_queue(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100)
    pool.wait_for_quotas(100, shared=100)
    pool.subpool("POST", json={"subpool_name": "a", "quota": 30})
    specs = pool.wait_for_quotas(100, shared=70, a=30)
    assert specs[pool.queue_name("a")]["parentQueue"] == pool.queue_name(None)


def test_ac4_guarantees_of_subpools_are_kept_from_the_parent(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100, a=30, b=40, c=20)
    refused = pool.submit(15, "HIGH")
    assert (refused.status_code, refused.json()["error_code"]) == (400, "RESOURCE")
    accepted = pool.submit(15, "LOW").json()
    assert accepted["k8s_queue"] == pool.queue_name()
    specs = pool.wait_for_quotas(100, shared=10, a=30, b=40, c=20)
    shared = specs[pool.queue_name()]["resources"]["gpu"]
    assert shared == {"quota": 10, "limit": -1, "overQuotaWeight": 1}, "LOW work may go over the 10, and be reclaimed"


def test_ac5_work_of_a_subpool_goes_to_its_own_queue(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100, a=30)
    answer = pool.submit(30, "NORMAL", to=f"{pool.name}--a").json()
    assert answer["k8s_queue"] == pool.queue_name("a")
    pool.wait_for_quotas(100, shared=70, a=30)


def test_ac6_a_deleted_subpool_returns_its_quota(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100, a=30, b=40)
    pool.wait_for_quotas(100, shared=30, a=30, b=40)
    pool.subpool("DELETE", "a")
    pool.wait_for_quotas(100, shared=60, b=40)


def test_ac7_work_that_cannot_be_preempted_has_its_quota_as_limit(team: Callable[..., ClusterTeam]) -> None:
    pool = team(10)
    first, second = pool.submit(8, "HIGH").json(), pool.submit(5, "HIGH").json()
    assert first["k8s_queue"] == second["k8s_queue"] == pool.queue_name()
    assert pool.submit(11, "HIGH").status_code == 400
    assert pool.submit(5, "LOW").status_code == 200
    specs = pool.wait_for_quotas(10, shared=10)
    for queue in (pool.queue_name(), pool.queue_name(None)):
        assert specs[queue]["resources"]["gpu"]["quota"] == 10, "KAI checks leaf and container: 8 + 5 stays pending"


def test_ac8_a_new_quota_moves_between_subpool_and_shared_queue(team: Callable[..., ClusterTeam]) -> None:
    pool = team(100, a=30, b=40)
    pool.wait_for_quotas(100, shared=30, a=30, b=40)
    pool.subpool("PATCH", "b", json={"quota": 50})
    pool.wait_for_quotas(100, shared=20, a=30, b=50)
