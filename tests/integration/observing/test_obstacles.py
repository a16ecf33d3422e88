"""What cannot be done to observed work is not offered, and refused in the same words."""

from __future__ import annotations

import pytest

from pools.domain.changes.backends import PutBackend
from pools.services.configuration.backends import put_backend
from scheduling.models import Workflow
from tests.integration.observing.test_seen_work import Lab
from tests.support import world

BY_ITS_TOOLS = "Stop it with the tools of that cluster"
NO_FILE = "it has no workflow file"


@pytest.fixture
def lab(db: None) -> Lab:
    found = Lab()
    world.make_user("root", "osmo-admin")
    world.make_pool("science", 8, on=found.backend)
    for name in ("runs", "failed"):
        found.firm.add_pod(name, namespace="science", node="n1")
    found.look()
    found.firm.set_phase("failed", "Failed", namespace="science")
    found.look()
    return found


def test_lists_and_pages_do_not_offer_what_is_refused(lab: Lab) -> None:
    admin = world.sign_in("root")
    for address in ("/workflows", "/workflows/runs-1", "/workflows/failed-1"):
        page = admin.get(address).content.decode()
        assert "runs-1" in page or "failed-1" in page
        for offer in ("Cancel the selected", "Retry the selected", ">Cancel</a>", ">Retry</a>", ">Submit again</a>"):
            assert offer not in page, (address, offer)


def test_the_page_of_an_action_says_why_not(lab: Lab) -> None:
    """The address is known to people; with several workflows the others go on."""
    admin = world.sign_in("root")
    for address, name, why in (("cancel", "runs-1", BY_ITS_TOOLS), ("retry", "failed-1", NO_FILE)):
        one = admin.get(f"/workflows/-/{address}?name={name}").content.decode()
        assert why in one
        assert 'value="confirm"' not in one
        both = admin.get(f"/workflows/-/{address}?name=runs-1&name=failed-1").content.decode()
        assert why in both
        sent = admin.post(f"/workflows/-/{address}", {"name": ["runs-1", "failed-1"], "step": "confirm", "message": ""})
        assert why in sent.content.decode()
    assert set(Workflow.objects.values_list("name", "status")) == {("runs-1", "RUNNING"), ("failed-1", "FAILED")}


def test_programs_are_refused_in_the_same_words(lab: Lab) -> None:
    root = world.call_as("root")
    queries: tuple[tuple[str, dict[str, str]], ...] = (
        ("/api/workflow/runs-1/cancel", {}),
        ("/api/pool/science/workflow/failed-1/restart", {}),
        ("/api/pool/science/workflow", {"workflow_id": "failed-1"}),
    )
    for address, query in queries:
        answer = root("POST", address, query=query)
        assert answer.status in {400, 409}, address
        assert BY_ITS_TOOLS in answer.body["message"] or NO_FILE in answer.body["message"], address
    assert Workflow.objects.count() == 2


def test_work_that_was_observed_once_has_no_file(lab: Lab) -> None:
    """Also when the cluster is managed now, and its pools take work."""
    put_backend(PutBackend(name="lab", body={"mode": "manage"}), actor=world.admin_actor())
    assert Workflow.objects.get(name="runs-1").status == "FAILED_CANCELED"
    page = world.sign_in("root").get("/workflows/runs-1").content.decode()
    assert ">Retry</a>" not in page
    answer = world.call_as("root")("POST", "/api/pool/science/workflow/runs-1/restart")
    assert answer.status == 400
    assert NO_FILE in answer.body["message"]
    form = world.sign_in("root").get("/workflows/submit?like=runs-1").content.decode()
    assert "observed:" not in form


def test_programs_see_that_work_is_observed(lab: Lab) -> None:
    admin = world.call_as("root")
    seen = {
        "backend": "lab", "kind": "pod", "namespace": "science", "name": "runs", "queue": "science", "is_open": True
    }  # fmt: skip
    assert admin("GET", "/api/workflow/runs-1").body["observed"] == seen
    assert admin("GET", "/api/workflow/failed-1").body["observed"] == seen | {"name": "failed", "is_open": False}
    query = {"all_users": "True", "details": "True"}
    rows = admin("GET", "/api/workflow", query=query).body["workflows"]
    assert {row["name"]: row["observed"]["is_open"] for row in rows} == {"runs-1": True, "failed-1": False}
    (_, *lines) = world.sign_in("root").get("/workflows?format=csv").content.decode().splitlines()
    assert all(",lab," in line for line in lines)
