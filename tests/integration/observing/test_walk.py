"""From observe to manage, pool by pool, and back by a drain: as an admin does it, through REST and pages."""

from __future__ import annotations

import pytest

from scheduling.models import Workflow
from scheduling.services.verify import verify
from tests.integration.observing.test_seen_work import Lab
from tests.support import world
from tests.support.api_client import ApiAnswer, ApiClient

OURS = {"type": "kubernetes", "access": "in_cluster", "namespace": "ours"}


@pytest.fixture
def lab(db: None) -> Lab:
    world.make_user("root", "osmo-admin")
    found = Lab()
    for namespace in ("science", "vision"):
        world.make_pool(namespace, 4, on=found.backend)
        found.firm.add_pod("job", namespace=namespace, gpus=2, node="n1")
    found.look()
    return found


@pytest.fixture
def root(lab: Lab) -> ApiClient:
    return world.call_as("root")


def patch_pool(root: ApiClient, pool: str, query: str = "", **keys: object) -> ApiAnswer:
    return root("PATCH", f"/api/configs/pool/{pool}{query}", {"configs_dict": keys})


def counted() -> dict[str, str]:
    """The pools with observed work that counts."""
    rows = Workflow.objects.filter(observed__is_open=True)
    return dict(rows.values_list("pool__name", "status"))


def test_one_pool_after_the_other_and_back(lab: Lab, root: ApiClient) -> None:
    # A second backend of the same cluster manages, in a namespace of its own.
    assert root("PUT", "/api/configs/backend/ours", OURS).status == 200
    shown = patch_pool(root, "science", "?dry_run=True", backend="ours")
    assert shown.status == 200
    assert "1 observed workflow" in shown.text
    assert counted() == {"science": "RUNNING", "vision": "RUNNING"}, "a dry run changes nothing"

    moved = patch_pool(root, "science", backend="ours")
    assert moved.status == 200
    assert "The scheduler of cluster lab goes on with this work" in moved.text
    lab.look()
    assert counted() == {"vision": "RUNNING"}
    assert lab.unassigned() == [{"queue": "science", "workloads": 1, "gpus": 2}]
    assert lab.other_gpus() == {"n1": 2, "n2": 0}
    page = world.sign_in("root").get("/clusters/lab").content.decode()
    assert "Work without a pool" in page

    # Work goes to the pool that is managed; the other one still belongs to its own scheduler.
    answer = root.submit("science", world.workflow_file(name="mine"))
    assert root.status == 200, answer
    refused = root.submit("vision", world.workflow_file())
    assert (root.status, refused["details"][0]["code"]) == (400, "cluster_observed")

    # Back: it takes no new work, and moves when what it has is over.
    assert patch_pool(root, "science", backend="lab").status == 409
    assert patch_pool(root, "science", enable_maintenance=True).status == 200
    assert patch_pool(root, "science", backend="lab").status == 409, "its work goes on"
    assert root("POST", "/api/workflow/mine-1/cancel").status == 200
    assert patch_pool(root, "science", backend="lab", enable_maintenance=False).status == 200
    lab.look()
    assert counted() == {"science": "RUNNING", "vision": "RUNNING"}
    assert (lab.unassigned(), lab.other_gpus()) == ([], {"n1": 0, "n2": 0})
    assert verify() == []


@pytest.mark.django_db(transaction=True)
def test_all_pools_at_once_and_back(lab: Lab, root: ApiClient) -> None:
    shown = root("PUT", "/api/configs/backend/lab?dry_run=True", {"mode": "manage"})
    assert shown.status == 200
    (warning,) = shown.body["warnings"]
    assert warning.startswith("2 observed workflows leave the record. The scheduler of cluster lab goes on")
    form = {"namespace": "osmo-lab", "access": "in_cluster", "mode": "manage", "sync_mode": "apply"}
    page = world.sign_in("root").get("/clusters/lab/configuration/-/preview", form).content.decode()
    assert warning in page, "the page and the API say the same"
    assert counted() == {"science": "RUNNING", "vision": "RUNNING"}
    assert root("PUT", "/api/configs/backend/lab", {"mode": "manage"}).status == 200
    assert counted() == {}
    root.submit("science", world.workflow_file(name="mine"))
    assert root.status == 200
    refused = root("PUT", "/api/configs/backend/lab", {"mode": "observe"})
    assert (refused.status, refused.codes) == (409, {("mode", "live_work")})
    assert root("POST", "/api/workflow/mine-1/cancel").status == 200
    assert root("PUT", "/api/configs/backend/lab", {"mode": "observe"}).status == 200
    lab.look()
    assert counted() == {"science": "RUNNING", "vision": "RUNNING"}
    assert verify() == []
