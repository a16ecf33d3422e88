"""A team's pool in a running installation, and its users, who use `osmo` and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from tests.support.stack import Stack

JOB = """workflow:
  name: job
  resources: {{default: {{gpu: {gpus}}}}}
  tasks:
  - {{name: train, image: ubuntu, command: [sleep, infinity]}}
"""


class Team:
    """One pool with its subpools on a simulated backend of namespace `ns`, a platform admin and a user of the pool.

    Work ends only when the test ends it.
    """

    def __init__(
        self, stack: Stack, folder: Path, name: str, quota: int, subpools: dict[str, int], maximum: int, capacity: int
    ) -> None:
        self.stack, self.folder, self.name = stack, folder, name
        self.platform_admin = stack.admin_client
        self.backend = stack.unique_name("sim")
        self.put(
            f"backend/{self.backend}",
            {"type": "simulated", "namespace": "ns", "nodes": [{"name": "n1", "gpus": capacity}]},
        )
        gpu = {"guarantee": quota, "maximum": maximum, "weight": 1}
        self.put(f"pool/{name}", {"configs": {"backend": self.backend, "resources": {"gpu": gpu}}})
        self.user_name = stack.unique_name("user")
        self.user = stack.client_for(self.user_name, f"osmo-{name}-user")
        self.admin_name = stack.unique_name("admin")
        self.admin = stack.client_for(self.admin_name, f"osmo-{name}-admin")
        for short, gpus in subpools.items():
            body = {"subpool_name": short, "quota": gpus}
            answer = self.admin.post(f"/api/configs/pool/{name}/subpool", json=body)
            assert answer.status_code == 200, answer.text

    def put(self, what: str, body: dict[str, Any]) -> None:
        """Configure something as platform admin."""
        answer = self.platform_admin.put(f"/api/configs/{what}", json=body)
        assert answer.status_code == 200, answer.text

    def osmo(self, *words: str, by: str = "admin", fails: bool = False) -> str:
        """Run our client in this process as the pool's admin (or `by="user"`); its output, with both streams if it
        fails."""
        person, role = (self.admin_name, "admin") if by == "admin" else (self.user_name, "user")
        login = {"OSMO_URL": self.stack.base_url, "OSMO_CONFIG_FILE_DIR": str(self.folder), "COLUMNS": "200"}
        login["OSMO_TOKEN"] = self.stack.access_token(person, f"osmo-{self.name}-{role}")
        ran = CliRunner().invoke(app, words, env=login)
        assert (ran.exit_code != 0) is fails, ran.output
        return ran.output if fails else ran.stdout

    def write_job(self, gpus: int) -> str:
        """A workflow file that requests this number of GPUs; its path."""
        path = self.folder / f"job-{gpus}.yaml"
        path.write_text(JOB.format(gpus=gpus))
        return str(path)

    def submit(self, gpus: int, priority: str, *, to: str | None = None) -> dict[str, Any]:
        """Submit through the client as the pool's user; the server's answer."""
        words = (
            "workflow",
            "submit",
            "--pool",
            to or self.name,
            "--priority",
            priority,
            self.write_job(gpus),
            "-o",
            "json",
        )
        answer: dict[str, Any] = json.loads(self.osmo(*words, by="user"))
        return answer

    def expect_refusal(self, gpus: int, priority: str, *, to: str | None = None) -> httpx.Response:
        """Submit over HTTP and expect a refusal."""
        answer = self.user.post(
            f"/api/pool/{to or self.name}/workflow",
            params={"priority": priority},
            json={"file": JOB.format(gpus=gpus), "set_variables": [], "set_string_variables": []},
        )
        assert answer.status_code == 400, answer.text
        return answer

    def read_workflow(self, name: str) -> dict[str, Any]:
        """One workflow as its owner sees it."""
        found: dict[str, Any] = self.user.get(f"/api/workflow/{name}").json()
        return found

    def wait_until_running(self, name: str) -> dict[str, Any]:
        """The workflow once the worker has started it."""
        self.stack.wait_until(lambda: self.read_workflow(name)["status"] == "RUNNING", what=f"{name} runs")
        return self.read_workflow(name)

    def start(self, gpus: int, priority: str, *, to: str | None = None) -> str:
        """Submit and wait until it runs; its id."""
        name = str(self.submit(gpus, priority, to=to)["name"])
        self.wait_until_running(name)
        return name

    def expect_pending(self, name: str) -> None:
        """Reconcile and check that the workflow stays PENDING."""
        answer = self.platform_admin.post(f"/api/backend/{self.backend}/settle")
        assert answer.status_code == 200, answer.text
        assert self.read_workflow(name)["status"] == "PENDING"

    def end_workflow(self, name: str) -> None:
        """Report that a workflow has completed."""
        answer = self.admin.post(f"/api/workflow/{name}/end", json={"status": "COMPLETED"})
        assert answer.status_code == 200, answer.text

    def read_tree(self, *, archived: bool = False) -> dict[str, Any]:
        """The pool, its shared leaf and its subpools; the sum of the quotas is checked too."""
        query = {"include_archived": "True"} if archived else {}
        found: dict[str, Any] = self.admin.get(f"/api/configs/pool/{self.name}/subpool", params=query).json()
        allocated = sum(part["quota"] for part in found["subpools"])
        assert found["shared"]["quota"] + allocated == found["quota"]
        return found

    def read_queues(self) -> dict[str, int]:
        """Leaf queue → quota, for the scheduler (without the container)."""
        tree = self.read_tree()
        leaves = [tree["shared"], *tree["subpools"]]
        return {leaf["queue"]: leaf["scheduling_quota"] for leaf in leaves}

    def queue_name(self, leaf: str = "_shared") -> str:
        """The logical name of a leaf queue (design, D2)."""
        return f"osmo-pool-ns-{self.name}--{leaf}"

    def list_cells(self, name: str | None = None) -> list[str]:
        """The cells of one row of `osmo pool list`."""
        for line in self.osmo("pool", "list", by="user").splitlines():
            cells = line.replace("├─", "").replace("└─", "").split()
            if cells and cells[0] == (name or self.name):
                return cells
        raise AssertionError(f"{name or self.name} is not in the list")


@pytest.fixture
def team(stack: Stack, tmp_path: Path) -> Callable[..., Team]:
    """Makes a pool, `team(100, a=30, b=40)`; its name is fresh unless `named`; its node has `capacity` GPUs."""

    def make(quota: int, *, named: str | None = None, maximum: int = -1, capacity: int = 500, **subpools: int) -> Team:
        return Team(stack, tmp_path, named or stack.unique_name("team"), quota, subpools, maximum, capacity)

    return make
