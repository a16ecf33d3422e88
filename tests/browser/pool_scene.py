"""The subject of browser tests: one pool, its users, and work in it."""

from __future__ import annotations

from dataclasses import dataclass

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from pools.domain.changes.users import CreateUser
from tests.support.stack import ADMIN_PASSWORD, Stack

NODES = 20
GPUS = 8

WORKFLOW = """\
workflow:
  name: {name}
  resources:
    default: {{gpu: {gpus}, cpu: 1, memory: 1Gi, storage: 1Gi}}
  tasks:
  - name: main
    image: ubuntu:24.04
    command: [sleep, "60"]
"""


@dataclass
class PoolScene:
    """`pool` has a quota of 100 GPUs on a backend of its own (20 nodes of 8), whose work ends only when reported."""

    stack: Stack
    pool: str
    pool_admin: str
    pool_user: str
    password: str = ADMIN_PASSWORD

    @classmethod
    def build(cls, stack: Stack) -> PoolScene:
        """Create the pool, its admin and its user."""
        scene = cls(stack, stack.unique_name("team"), stack.unique_name("chief"), stack.unique_name("user"))
        with stack.orm():
            from pools.domain.people.roles import SYSTEM
            from pools.services.configuration.backends import put_backend
            from pools.services.configuration.pools import put_pool
            from pools.services.people.users import create_user

            nodes = [{"name": f"n{number}", "gpus": GPUS} for number in range(NODES)]
            body = {"namespace": scene.pool, "auto_end": False, "nodes": nodes}
            put_backend(PutBackend(name=scene.pool, body=body), actor=SYSTEM)
            gpu = {"guarantee": 100, "maximum": -1, "weight": 1}
            put_pool(PutPool(name=scene.pool, body={"backend": scene.pool, "resources": {"gpu": gpu}}), actor=SYSTEM)
            for name, role in ((scene.pool_admin, "admin"), (scene.pool_user, "user")):
                create_user(
                    CreateUser(id=name, roles=(f"osmo-{scene.pool}-{role}",)), actor=SYSTEM, password=scene.password
                )
        return scene

    @property
    def pool_page(self) -> str:
        """The pool's address."""
        return f"/pools/{self.pool}"

    def create_platform_admin(self) -> str:
        """A new platform admin, who has no work of their own, whatever other tests have left to user `admin`."""
        name = self.stack.unique_name("platform")
        with self.stack.orm():
            from pools.domain.people.roles import SYSTEM
            from pools.services.people.users import create_user

            create_user(CreateUser(id=name, roles=("osmo-admin",)), actor=SYSTEM, password=self.password)
        return name

    def give_flavors(self, **quotas: int) -> None:
        """Give the nodes these flavors in turn, and the pool these quotas of them in this order of preference."""
        names = list(quotas)
        nodes = [
            {"name": f"n{number}", "gpus": GPUS, "labels": {"gpu": names[number % len(names)]}}
            for number in range(NODES)
        ]
        flavors = [{"name": name, "node_labels": {"gpu": name}} for name in names]
        of_pool = {name: {"guarantee": gpus} for name, gpus in quotas.items()}
        client = self.stack.admin_client
        for answer in (
            client.put(f"/api/configs/backend/{self.pool}", json={"nodes": nodes, "flavors": flavors}),
            client.patch(f"/api/configs/pool/{self.pool}", json={"resources": {"flavors": of_pool}}),
        ):
            assert answer.status_code == 200, answer.text

    def remove_flavors(self) -> None:
        """End the work, remove the subpools, and take the flavors from the pool and its cluster: other tests use the
        same installation."""
        active = "SELECT w.name FROM scheduling_workflow w JOIN pools_pool p ON p.id = w.root_pool_id"
        for row in self.stack.query(f"{active} WHERE p.name = %s AND w.end_time IS NULL", self.pool):
            self.stack.admin_client.post(f"/api/workflow/{row['name']}/cancel")
        client, address = self.stack.admin_client, f"/api/configs/pool/{self.pool}"
        of_pool = {"resources": {"flavors": {"$action": "delete"}, "gpu": {"guarantee": 100}}}
        for row in self.stack.query("SELECT subpool_name FROM pools_pool WHERE name LIKE %s", f"{self.pool}--%"):
            answer = client.delete(f"{address}/subpool/{row['subpool_name']}")
            assert answer.status_code == 200, answer.text
        for answer in (
            client.patch(address, json=of_pool),
            client.put(f"/api/configs/backend/{self.pool}", json={"flavors": []}),
        ):
            assert answer.status_code == 200, answer.text

    def create_subpool(self, name: str, quota: int | dict[str, int]) -> None:
        """Create a subpool with a quota, or with one of each flavor."""
        how = {"quotas": quota} if isinstance(quota, dict) else {"quota": quota}
        answer = self.stack.admin_client.post(
            f"/api/configs/pool/{self.pool}/subpool", json={"subpool_name": name, **how}
        )
        assert answer.status_code == 200, answer.text

    def run_workflows(self, leaf: str, *, gpus: int, count: int = 1, priority: str = "NORMAL") -> list[str]:
        """Submit `count` workflows of one task each and wait until they run; their names."""
        names = [self.submit_workflow(leaf, gpus=gpus, priority=priority) for _ in range(count)]
        with self.stack.orm():
            from pools.models import Backend
            from scheduling.services.simulated.reconcile import reconcile_backend

            reconcile_backend(Backend.objects.get(name=self.pool).pk, lock_timeout=10)
        self.stack.wait_until(lambda: self.are_running(names), what=f"{names} run")
        return names

    def submit_workflow(self, leaf: str, *, gpus: int, priority: str = "NORMAL") -> str:
        """Submit one workflow of one task; its name."""
        with self.stack.orm():
            from pools.models import User
            from scheduling.domain.priorities import Priority
            from scheduling.services.workflows.submission import Submission, submit

            actor = User.objects.get(username=self.pool_user).as_actor()
            text = WORKFLOW.format(name=self.stack.unique_name("work"), gpus=gpus)
            receipt = submit(actor=actor, pool=leaf, submission=Submission(file=text, priority=Priority(priority)))
        assert receipt.workflow is not None
        return receipt.workflow.name

    def end_workflow(self, workflow: str) -> None:
        """Report that a workflow has completed."""
        answer = self.stack.admin_client.post(f"/api/workflow/{workflow}/end", json={"status": "COMPLETED"})
        assert answer.status_code == 200, answer.text

    def subpool_state(self, leaf: str) -> tuple[str, int]:
        """(state, last quota) of a subpool, from the database."""
        (row,) = self.stack.query("SELECT subpool_state, last_quota FROM pools_pool WHERE name = %s", leaf)
        return row["subpool_state"], row["last_quota"]

    def are_running(self, names: list[str]) -> bool:
        """Whether all of these workflows run."""
        rows = self.stack.query("SELECT status FROM scheduling_workflow WHERE name = ANY(%s)", names)
        return len(rows) == len(names) and all(row["status"] == "RUNNING" for row in rows)
