"""*What if it breaks*: the table of single nodes, on page, REST and client, and what each reader may know."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from osmo_admin.cli.local.offline_text import _afterwards_text
from pools.models import Backend, Node, User
from scheduling.domain.priorities import Priority
from scheduling.locking import hold_what_if_turn
from scheduling.models import Task, WorkflowConfig
from scheduling.selectors.what_if import single_losses
from tests.support import world
from tests.support.threads import held_elsewhere
from tests.support.world import ModuleData

LOSSES = "/api/backend/sim/losses"


@pytest.fixture(scope="module")
def busy_once(module_data: ModuleData) -> Backend:
    with module_data():
        backend = world.make_backend("sim", namespace="ns", nodes=4, gpus=8)
        world.make_pool("vision", 16, on=backend)
        world.make_pool("orchid", 12, on=backend)
        world.submit_workflow(world.make_user("ann", "osmo-vision-user"), "vision", 8, name="train")
        world.reconcile()
        sue = world.make_user("sue", "osmo-orchid-user")
        world.submit_workflow(sue, "orchid", 4, name="foreign", priority=Priority.LOW)
        world.reconcile()
        world.make_user("root", "osmo-admin")
        return backend


@pytest.fixture
def busy(busy_once: Backend, db: None) -> Backend:
    """Four nodes of 8 GPUs: one full of guaranteed work that does not restart, one with LOW work, two empty."""
    return busy_once


def losses(client: Any) -> list[dict[str, Any]]:
    return [
        {key: loss[key] for key in ("gpus", "workflows", "lost_gpus", "guaranteed_gpus", "ended", "missing", "outcome")}
        | {"nodes": len(loss["nodes"])}
        for loss in client.get(LOSSES)["losses"]
    ]


def test_the_worst_node_comes_first_and_alike_ones_are_one_row(busy: Backend, caller: Any) -> None:
    calm = {"again": 0, "waiting": 0, "displaced": 0}
    assert losses(caller("root", "osmo-admin")) == [
        {"gpus": 8, "workflows": 1, "lost_gpus": 8, "guaranteed_gpus": 8, "ended": 1, "missing": 4,
         "outcome": calm, "nodes": 1},
        {"gpus": 8, "workflows": 1, "lost_gpus": 4, "guaranteed_gpus": 0, "ended": 1, "missing": 4,
         "outcome": calm, "nodes": 1},
        {"gpus": 8, "workflows": 0, "lost_gpus": 0, "guaranteed_gpus": 0, "ended": 0, "missing": 4,
         "outcome": calm, "nodes": 2},
    ]  # fmt: skip


def test_the_admin_and_the_people_of_a_pool_see_its_part(busy: Backend, caller: Any) -> None:
    Node.objects.create(backend=busy, name="other", gpus=8, platform="big")
    assert "other" in str(caller("root").get(LOSSES))
    for kind in ("admin", "user"):
        client, browser = caller(kind, f"osmo-vision-{kind}"), world.sign_in(kind)
        body = client.get(LOSSES)
        assert (body["whole"], body["nodes"]) == (False, 4)
        assert [each["workflows"] for each in body["losses"]] == [1, 0, 0]
        assert {pool["pool"] for each in body["losses"] for pool in each["pools"]} <= {"vision"}
        page = browser.get("/clusters/sim/losses?nodes=sim-n1")
        assert page.status_code == 200
        for text in (str(body), page.content.decode()):
            assert "orchid" not in text and "foreign" not in text
        assert "other" not in str(body), "nobody of the pool may use that node"
        assert browser.get("/clusters/gone/losses").status_code == 404
    assert caller("eve")("GET", LOSSES).status == 404
    assert world.sign_in("eve").get("/clusters/sim/losses?nodes=sim-n1").status_code == 404


def test_what_starts_again_is_that_of_the_whole_question(busy: Backend, caller: Any) -> None:
    """With exit actions that restart it, the work of the worst node starts on an empty one."""
    WorkflowConfig.objects.update_or_create(pk=1, defaults={"max_retry_per_task": 3})
    file = world.workflow_file("again", 8).replace("resource: r}", "resource: r, exitActions: {RESCHEDULE: '3001'}}")
    caller("ann", "osmo-vision-user").submit("vision", file)
    world.reconcile()
    admin = caller("root", "osmo-admin")
    found = {loss["nodes"][0]: loss for loss in admin.get(LOSSES)["losses"] for _ in loss["nodes"]}
    for node, loss in found.items():
        answer = admin.post("/api/simulate", {"live": True, "changes": [{"remove_node": node}]})["loss"]
        works = answer["workloads"]
        assert (loss["workflows"], loss["lost_gpus"], loss["ended"]) == (
            len(works), sum(each["gpus"] for each in works), sum(not each["restarts"] for each in works),
        )  # fmt: skip
        assert loss["outcome"] == {
            "again": sum(each["state"] == "running" for each in works),
            "waiting": sum(each["state"] in {"pending", "preempted"} for each in works),
            "displaced": len(answer["displaced"]),
        }
        assert loss["missing"] == sum(each["held_before"] - each["held"] for each in answer["guarantees"])


def test_in_a_large_cluster_only_the_worst_have_an_outcome(
    busy: Backend, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_losses, "MAX_GANGS_SCHEDULED", 1)
    assert [each["outcome"] is None for each in losses(caller("root", "osmo-admin"))] == [False, True, True]


def test_the_page_is_a_tab_of_the_cluster_and_has_a_file(busy: Backend) -> None:
    root = world.sign_in("root")
    page = root.get("/clusters/sim/losses")
    assert [tab["title"] for tab in page.context["tabs"] if tab["active"]] == ["What if it breaks"]
    worst = page.context["found"].losses[0].nodes[0]
    one = root.get(f"/clusters/sim/losses?nodes={worst}").content.decode()
    assert f"Without {worst}" in one and "do not restart it" in one and "osmo-pool" not in one
    gone = root.get("/clusters/sim/losses?nodes=gone").content.decode()
    assert "Without" not in gone and "There is no node of this name." in gone
    assert "Without 4 nodes with 32 GPUs" in root.get("/clusters/sim/losses?nodes=sim-*").content.decode()
    assert "Without 4 nodes" in root.get("/clusters/sim/losses?nodes=osmo.platform%3Ddefault").content.decode()
    assert "Without 2 nodes" in root.get("/clusters/sim/losses?nodes=sim-n1,+sim-n2").content.decode()
    smaller = root.get(f"/clusters/sim/losses?nodes={worst}&gpus=7").content.decode()
    assert f"{worst} has 7 GPUs in place of 8: 8 are held, 0 are free." in smaller
    assert "Enter a whole number" in root.get("/clusters/sim/losses?nodes=sim-n1&gpus=x").content.decode()
    rows = list(csv.DictReader(io.StringIO(root.get("/clusters/sim/losses?format=csv").content.decode())))
    assert [row["node"] for row in rows][:1] == [worst] and len(rows) == 4 and "flavor" not in rows[0]


def test_a_reload_shows_the_last_answer_while_the_next_is_computed(busy: Backend) -> None:
    root, user = world.sign_in("root"), User.objects.get(username="root")
    asked = "/clusters/sim/losses?nodes=sim-n1"
    first = root.get(asked)
    with held_elsewhere(hold_what_if_turn(user.pk)):
        again = root.get(asked)
        other = root.get("/clusters/sim/losses?nodes=sim-n2")
        assert root.get("/clusters/gone/losses").status_code == 404
        assert root.get("/clusters/sim/losses?format=csv").status_code == 429
    assert (again.status_code, other.status_code) == (200, 200)
    assert again.context["found"] == first.context["found"] and again.context["loss"] == first.context["loss"]
    assert "The answer of " in again.content.decode() and "Without sim-n1" in again.content.decode()
    assert "asks again by itself" in other.content.decode() and other.headers["Refresh"] == "2"
    assert "The answer of " not in root.get(asked).content.decode()


def test_work_that_waits_again_has_the_forecast_after_the_loss(db: None, caller: Any) -> None:
    """On REST, page and client's text; of others' work nobody learns anything."""
    world.make_pool("vision2", 8, on=world.make_backend("sim2", namespace="ns2", nodes=2, gpus=8))
    world.make_pool("orchid2", 8, on=Backend.objects.get(name="sim2"))
    WorkflowConfig.objects.update_or_create(pk=1, defaults={"max_retry_per_task": 3})
    file = world.workflow_file("again", 8).replace("resource: r}", "resource: r, exitActions: {RESCHEDULE: '3001'}}")
    other, own = caller("uma", "osmo-orchid2-admin"), caller("una", "osmo-vision2-admin")
    other.submit("orchid2", file.replace("again", "hidden"))
    world.reconcile("sim2")
    own.submit("vision2", file)
    world.reconcile("sim2")
    node = Task.objects.get(group__workflow__name="again-1").node_name
    body = {"live": True, "backend": "sim2", "changes": [{"remove_node": node}]}
    for client in (caller("root", "osmo-admin"), own):
        answer = client("POST", "/api/simulate", body).body["loss"]
        (work,) = answer["workloads"]
        assert (work["workload"], work["position"], set(work["start"])) == ("again-1", 1, {"text", "p10", "p50", "p90"})
        assert work["start"]["text"]
        assert work["start"]["text"] in _afterwards_text(work)
    page = world.sign_in("una").get("/clusters/sim2/losses", {"nodes": node}).content.decode()
    assert f"It waits again, at place 1 of the cluster. {work['start']['text']}" in " ".join(page.split())
    theirs = other("POST", "/api/simulate", body).body["loss"]["workloads"]
    assert "again" not in str(theirs)
    assert [each["start"] for each in theirs] == [None] * len(theirs)
