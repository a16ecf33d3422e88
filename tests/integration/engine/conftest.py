"""A small cluster whose pools share its nodes, used through the API like users do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.test import Client

from pools.models import Backend, Node, User
from scheduling.models import Task, Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from tests.support import world


class Cluster:
    """One simulated backend and its pools. Names of workflows are those of their files: `wf1` is `wf1-1`."""

    def __init__(self, nodes: Mapping[str, int], pools: Mapping[str, Any]) -> None:
        self.backend = Backend.objects.create(name="sim", namespace="ns", auto_end=False)
        Node.objects.bulk_create([Node(backend=self.backend, name=name, gpus=gpus) for name, gpus in nodes.items()])
        for name, quota in pools.items():
            subpools = quota if isinstance(quota, dict) else {}
            world.make_pool(
                name, subpools.pop("", sum(subpools.values())) if subpools else quota, on=self.backend, **subpools
            )
        self.admin = self.client("root", "osmo-admin")

    @staticmethod
    def client(name: str, *roles: str) -> Client:
        """A user of the API."""
        if not User.objects.filter(username=name).exists():
            world.make_user(name, *roles)
        return world.sign_in(name)

    def submit(
        self, name: str, to: str, priority: str = "NORMAL", *, gpus: int = 1, file: str = "", by: Client | None = None
    ) -> None:
        """Submit a workflow of one task (or this file)."""
        answer = (by or self.admin).post(
            f"/api/pool/{to}/workflow?priority={priority}",
            json.dumps({"file": file or world.workflow_file(name, gpus)}),
            content_type="application/json",
        )
        assert answer.status_code == 200, answer.content

    def reconcile(self) -> list[tuple[str, str]]:
        """Reconcile; returns (action, workflow without its number) of each step."""
        answer = reconcile_backend(self.backend.pk)
        assert answer["settled"]
        assert reconcile_backend(self.backend.pk) == {"steps": [], "settled": True}, (
            "a second reconciliation changes nothing"
        )
        assert verify() == []
        return [(step["action"], step["workflow"].rpartition("-")[0]) for step in answer["steps"]]

    def assert_running(self, *names: str) -> None:
        """Exactly these workflows run."""
        rows = Workflow.objects.filter(status="RUNNING").values_list("spec_name", flat=True)
        assert sorted(rows) == sorted(names)

    def end(self, name: str, status: str = "COMPLETED") -> None:
        """Report the end of a workflow."""
        answer = self.admin.post(
            f"/api/workflow/{name}-1/end", json.dumps({"status": status}), content_type="application/json"
        )
        assert answer.status_code == 200, answer.content

    def get(self, path: str, client: Client | None = None) -> Any:
        """An answer of the API."""
        answer = (client or self.admin).get(path)
        assert answer.status_code == 200, answer.content
        return answer.json()

    @staticmethod
    def attempts(name: str) -> list[tuple[str, int, str, int | None]]:
        """(task, retry, status, exit code) of each attempt of a workflow."""
        rows = Task.objects.filter(group__workflow__name=f"{name}-1").order_by("position", "name", "retry_id")
        return list(rows.values_list("name", "retry_id", "status", "exit_code"))


@pytest.fixture
def cluster(db: None) -> Callable[..., Cluster]:
    """`cluster({"n": 4}, pool1=2, pool2=2)`; a pool with subpools is `team={"": 10, "a": 4}`."""

    def make(nodes: Mapping[str, int], **pools: Any) -> Cluster:
        return Cluster(nodes, pools)

    return make
