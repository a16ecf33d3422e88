"""The two stories of hierarchical cohorts, through HTTP and a real worker on a simulated cluster: production borrows
from research and not the reverse; a special low-priority queue borrows from every organisation."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import JOB
from tests.support.stack import Stack

pytestmark = pytest.mark.acceptance


class Company:
    """Cohorts and pools of one test, on a simulated node with this number of GPUs. Work ends when the test ends it."""

    def __init__(self, stack: Stack, gpus: int) -> None:
        self.stack, self.admin = stack, stack.admin_client
        self.backend = stack.unique_name("sim")
        self.put(
            f"backend/{self.backend}",
            {"type": "simulated", "namespace": self.backend, "nodes": [{"name": "n1", "gpus": gpus}]},
        )
        self.users: dict[str, httpx.Client] = {}

    def put(self, what: str, body: dict[str, Any]) -> None:
        answer = self.admin.put(f"/api/configs/{what}", json=body)
        assert answer.status_code == 200, answer.text

    def put_cohort(self, role: str, parent: str | None = None, **limits: int) -> str:
        name = self.stack.unique_name(role)
        self.put(f"cohort/{name}", {"parent": parent, "quotas": [{"resource": "gpu", "nominal": 0, **limits}]})
        return name

    def put_pool(self, role: str, cohort: str, guarantee: int) -> str:
        """A pool in a cohort, and a user with access to this pool only."""
        name = self.stack.unique_name(role)
        gpu = {"guarantee": guarantee, "maximum": -1, "weight": 1}
        self.put(f"pool/{name}", {"configs": {"backend": self.backend, "cohort": cohort, "resources": {"gpu": gpu}}})
        self.users[name] = self.stack.client_for(self.stack.unique_name("user"), f"osmo-{name}-user")
        return name

    def submit(self, pool: str, gpus: int, priority: str) -> httpx.Response:
        return self.users[pool].post(
            f"/api/pool/{pool}/workflow",
            params={"priority": priority},
            json={"file": JOB.format(gpus=gpus), "set_variables": [], "set_string_variables": []},
        )

    def submit_accepted(self, pool: str, gpus: int, priority: str = "LOW") -> str:
        answer = self.submit(pool, gpus, priority)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["name"])

    def read_status(self, workflow: str) -> str:
        return str(self.admin.get(f"/api/workflow/{workflow}").json()["status"])

    def start(self, pool: str, gpus: int, priority: str = "LOW") -> str:
        """Submit, and wait until the worker has started it."""
        name = self.submit_accepted(pool, gpus, priority)
        self.stack.wait_until(lambda: self.read_status(name) == "RUNNING", seconds=60, what=f"{name} runs")
        return name

    def expect_pending(self, pool: str, gpus: int, priority: str = "LOW") -> dict[str, Any]:
        """Submit work that may not start now; the reason that its owner reads."""
        name = self.submit_accepted(pool, gpus, priority)
        address = f"/api/backend/{self.backend}/settle"
        self.stack.wait_until(
            lambda: self.admin.post(address).status_code == 200, seconds=60, what="a manual reconciliation"
        )
        assert self.read_status(name) == "PENDING"
        (entry,) = self.users[pool].get("/api/queue").json()["entries"]
        assert entry["workflow"] == name
        found: dict[str, Any] = entry["reason"]
        return found

    def read_numbers(self, root: str) -> dict[str, dict[str, Any]]:
        """The GPUs of every cohort and pool in a tree."""
        nodes = self.admin.get("/api/quota_tree", params={"root": root}).json()["nodes"]
        return {node["name"]: node["quotas"][0] for node in nodes if node["kind"] in ("cohort", "pool")}


@pytest.mark.parametrize(
    ("production", "research", "limit"),
    [({}, {"borrowing_limit": 0}, "borrowing_limit"), ({"lending_limit": 0}, {}, "quota")],
    ids=["research may not borrow", "production does not lend"],
)
def test_production_borrows_from_research_and_not_the_reverse(
    stack: Stack, production: dict[str, int], research: dict[str, int], limit: str
) -> None:
    scene = Company(stack, gpus=16)
    company = scene.put_cohort("company")
    prod, lab = scene.put_cohort("production", company, **production), scene.put_cohort("research", company, **research)
    serving, training = scene.put_pool("serving", prod, 10), scene.put_pool("training", lab, 6)

    # Research stays within its own 6, though 16 GPUs are idle: larger work is refused, further work waits.
    refused = scene.submit(training, 7, "LOW")
    assert refused.status_code == 400
    (fault,) = refused.json()["details"]
    named = {"borrowing_limit": lab, "quota": company}[limit]
    assert (fault["code"], fault["requested"], fault["limit"]) == ("above_tree", 7, 6)
    assert (fault["node"], fault["node_limit"]) == (named, limit)
    first = scene.start(training, 6)
    reason = scene.expect_pending(training, 1)
    assert (reason["queue"], reason["limit"], reason["missing"]) == (named, limit, 1)
    for work in scene.users[training].get("/api/workflow").json()["workflows"]:
        answer = scene.users[training].post(f"/api/workflow/{work['name']}/cancel")
        assert answer.status_code == 200, answer.text
    stack.wait_until(lambda: scene.read_status(first) == "FAILED_CANCELED", seconds=60)

    # Production uses all 16 while research is idle, and loses 6 as soon as research uses its own quota.
    own, borrowed = scene.start(serving, 10), scene.start(serving, 6)
    before = scene.read_numbers(company)
    assert (before[prod]["borrowed"], before[lab]["lent"], before[company]["t"]) == (6, 6, 0)
    scene.start(training, 6, "NORMAL")
    assert sorted([scene.read_status(own), scene.read_status(borrowed)]) == ["PENDING", "RUNNING"]
    after = scene.read_numbers(company)
    assert {name: after[name]["debt"] for name in after} == dict.fromkeys(after, 0)
    assert (after[prod]["borrowed"], after[training]["usage"]) == (0, 6)


def test_a_special_queue_borrows_from_all_organisations_which_do_not_borrow_from_each_other(stack: Stack) -> None:
    scene = Company(stack, gpus=8)
    top = scene.put_cohort("top")
    first, second = (scene.put_cohort(name, top, borrowing_limit=0) for name in ("first", "second"))
    one, two = scene.put_pool("one", first, 4), scene.put_pool("two", second, 4)
    special = scene.put_pool("special", top, 0)

    refused = scene.submit(one, 5, "LOW").json()["details"][0]
    assert (refused["limit"], refused["node"], refused["node_limit"]) == (4, first, "borrowing_limit")
    assert scene.submit(special, 1, "NORMAL").status_code == 400, "it has no quota: its work is LOW"
    work = [scene.start(special, 2) for _ in range(4)]
    numbers = scene.read_numbers(top)
    assert [numbers[name]["lent"] for name in (first, second)] == [4, 4]
    assert numbers[special]["borrowed"] == 8
    assert scene.expect_pending(special, 1)["queue"] == top

    scene.start(one, 4, "NORMAL")
    numbers = scene.read_numbers(top)
    assert (numbers[one]["usage"], numbers[special]["usage"], numbers[two]["usage"]) == (4, 4, 0)
    assert sorted(scene.read_status(name) for name in work) == ["PENDING", "PENDING", "RUNNING", "RUNNING"]
    assert (numbers[first]["lent"], numbers[second]["lent"]) == (0, 4), "the rest is borrowed from the second"
