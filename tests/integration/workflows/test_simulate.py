"""`/api/simulate`: scenario files as on the command line, and the live state with changes, for the roles that may read
it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osmo_admin.ops.programs.process_commands import WEB_THREADS
from pools.models import AuditEntry, Backend, Node
from scheduling.api import simulation
from scheduling.locking import ENGINE_QUESTIONS, hold_what_if_turn, try_forecast_turn
from scheduling.scenario import answer
from scheduling.scenario.answer import ScenarioAnswer
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.shapes import assert_has_shape
from tests.support.threads import held_elsewhere
from tests.support.world import workflow_file

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "scenarios"
A, SHARED = "osmo-pool-ns-team--a", "osmo-pool-ns-team--_shared"
G = "default/gpu"


def sent(caller: ApiClient, text: str) -> Any:
    """The answer to a body that is text."""
    return caller("POST", "/api/simulate", yaml=text).body


@pytest.fixture
def chief(team: Any, caller: Any) -> Any:
    """The admin of `team`."""
    return caller("chief", "osmo-team-admin")


@pytest.mark.parametrize(
    "example", [EXAMPLES / "flavors.yaml", EXAMPLES / "preemption.yaml"], ids=lambda path: path.stem
)
def test_a_file_is_answered_as_without_a_server(alice: Any, example: Path) -> None:
    text = example.read_text()
    answered = sent(alice, text)
    assert answered == json.loads(json.dumps(answer(text)))
    assert alice.status == 200
    assert_has_shape(answered, ScenarioAnswer)


def test_an_unreadable_body_is_a_scenario_error(chief: Any) -> None:
    for text, path, code, line in (
        ("queues:\n- {name: a}\n- {name: b, parent: c}\n", "queues[1].parent", "unknown_name", 3),
        ("queues: [{name: a, colour: red}]", "queues[0].colour", "unknown_key", None),
        ("nodes: [", "", "bad_value", 2),
        ("- 1\n- 2\n", "", "bad_value", 1),
        ('{"live": true, "changes": [{"finish": "gone"}]}', "changes[0].finish", "unknown_name", None),
        ('{"live": true, "queues": []}', "queues", "unknown_key", None),
        ('{"live": "yes"}', "live", "bad_value", None),
        ('{"live": false}', "live", "bad_value", None),
        ('{"live": true, "changes": 1}', "changes", "bad_value", None),
    ):
        refused = sent(chief, text)
        assert (chief.status, refused["error_code"]) == (400, "SCENARIO"), text
        (fault,) = [each for each in refused["details"] if each["path"] == path]
        assert (fault["code"], fault.get("line")) == (code, line), text


def test_a_scenario_has_the_limits_of_a_web_request(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "WEB_BOUNDS", replace(simulation.WEB_BOUNDS, tasks=5))
    refused = sent(alice, "queues: [{name: q}]\nworkloads: [{name: w, queue: q, tasks: [{count: 6, gpus: 1}]}]")
    assert (alice.status, refused["details"][0]["path"]) == (400, "workloads[0].tasks[0].count")


def test_the_live_state_with_changes_and_nothing_is_written(alice: Any, chief: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("w", 5))
    before = AuditEntry.objects.count()

    now = chief.post("/api/simulate", {"live": True})
    assert (now["live"], now["backend"], now["settled"], now["steps"]) == (True, "sim", True, [])
    assert now["workloads"]["w-1"]["reason"]["code"] == "over_quota"
    assert now["workloads"]["w-1"]["position"] == 1
    (waits,) = chief.get("/api/queue")["entries"]
    told = now["workloads"]["w-1"]
    assert (told["reason"]["message"], told["unblock"]) == (waits["reason"]["message"], waits["unblock"])
    assert now["queues"][A]["usage"][G] == 28
    assert now["workloads"]["big-1"]["tasks"]["train"] == {"state": "running", "node": "sim-n1"}

    grown = chief.post("/api/simulate", {"live": True, "changes": [{"set": {"name": "team--a", "quota": 33}}]})
    assert [(step["action"], step["workload"]) for step in grown["steps"]] == [("start", "w-1")]
    assert grown["steps"][0]["message"] == "w-1 starts in team--a with 5 GPUs."
    ended = chief.post("/api/simulate", {"live": True, "backend": "sim", "changes": [{"finish": ["big-1"]}]})
    assert [ended["workloads"][name]["state"] for name in ("big-1", "w-1")] == ["finished", "running"]
    new = {"name": "new", "queue": "team", "priority": "HIGH", "tasks": [{"count": 2, "gpus": 32}]}
    answer = chief.post("/api/simulate", {"live": True, "changes": [{"submit": new}]})
    assert answer["workloads"]["new"]["state"] == "running"
    assert answer["queues"][SHARED]["usage"][G] == 64

    assert chief.post("/api/simulate", {"live": True}) == now
    assert AuditEntry.objects.count() == before
    assert alice.get("/api/workflow/w-1")["status"] == "PENDING"


def test_the_rights_to_simulate_and_the_visible_names(alice: Any, chief: Any, caller: Any, reconcile_pool: Any) -> None:
    """The admin of a pool sees this pool; other work on shared nodes is shown with its numbers and without its
    names."""
    world.make_pool("private", 8, secret=4)
    other = caller("olga", "osmo-private-user")
    other.submit("private--secret", workflow_file("hidden", 4))
    reconcile_pool()
    alice.submit("team", workflow_file("mine", 2))

    seen = chief.post("/api/simulate", {"live": True})
    text = json.dumps(seen)
    assert "mine-1" in seen["workloads"]
    assert not any(word in text for word in ("private", "secret", "hidden", "olga"))
    assert "others:pool-1--2" in seen["queues"]
    assert seen["workloads"]["others:work-1"]["state"] == "running"
    probe = chief.post("/api/simulate", {"live": True, "changes": [{"finish": "hidden-1"}]})
    never = chief.post("/api/simulate", {"live": True, "changes": [{"finish": "nothing-1"}]})
    assert [each["details"][0]["code"] for each in (probe, never)] == ["unknown_name", "unknown_name"]

    everything = caller("vera", "osmo-viewer").post("/api/simulate", {"live": True})
    assert everything["workloads"]["hidden-1"]["state"] == "running"
    both = caller("both", "osmo-team-admin", "osmo-private-user")
    both.submit("private", workflow_file("own", 1))
    reconcile_pool()
    assert both.post("/api/simulate", {"live": True})["workloads"]["own-1"]["state"] == "running"


def test_a_node_that_fails(alice: Any, chief: Any, admin: Any, caller: Any, reconcile_pool: Any) -> None:
    """The admin of a pool names the nodes of their platforms, and learns no name of other pools' work."""
    world.make_pool("private", 8)
    caller("olga", "osmo-private-user").submit("private", workflow_file("hidden", 4))
    alice.submit("team", workflow_file("mine", 2))
    reconcile_pool()
    Node.objects.create(backend=Backend.objects.get(name="sim"), name="secret-node", gpus=8, platform="big")

    lost = chief.post("/api/simulate", {"live": True, "changes": [{"remove_backend": "sim"}]})["loss"]
    text = json.dumps(lost["workloads"])
    assert "mine-1" in text
    assert not any(word in text for word in ("private", "hidden", "olga"))
    assert [(each["gpus"], each["restarts"], each["state"]) for each in lost["workloads"]] == [
        (4, False, "finished"),
        (2, False, "finished"),
    ]
    for change in ({"remove_node": "secret-node"}, {"remove_nodes": ["secret-node"]},
                   {"remove_nodes": {"name": "secret*"}}, {"remove_nodes": {"label": "osmo.platform=big"}},
                   {"set_node": {"name": "secret-node", "gpus": 1}}):  # fmt: skip
        refused = chief.post("/api/simulate", {"live": True, "changes": [change]})
        assert [each["code"] for each in refused["details"]] == ["unknown_name"], change
        assert admin.post("/api/simulate", {"live": True, "changes": [change]})["loss"]["nodes"] in (
            ["secret-node"],
            [],
        )
    alice.post("/api/simulate", {"live": True, "changes": [{"remove_node": "sim-n1"}]})
    assert alice.status == 403
    only = admin.post("/api/simulate", {"live": True, "changes": [{"remove_nodes": {"label": "osmo.platform=big"}}]})
    assert (only["loss"]["nodes"], only["loss"]["gpus"], only["loss"]["workloads"]) == (["secret-node"], 8, [])
    Node.objects.filter(name="secret-node").update(labels={"rack": "r12"})
    of_rack = admin.post("/api/simulate", {"live": True, "changes": [{"remove_nodes": {"label": "rack=r12"}}]})
    assert of_rack["loss"]["nodes"] == ["secret-node"], "a label of the configuration of a simulated cluster"


def test_with_several_backends_one_is_named(chief: Any, admin: Any, caller: Any, team: Any) -> None:
    far = world.make_backend("far", namespace="far", nodes=1, gpus=8)
    world.make_pool("remote", 8, on=far)
    refused = admin.post("/api/simulate", {"live": True})
    assert (admin.status, refused["details"][0]["path"]) == (400, "backend")
    assert "far, sim" in refused["message"]
    for address, body in (("/api/simulate", {"live": True}), ("/api/replay", {"since": "2026-01-01T00:00:00"})):
        assert "cannot be read" not in admin.post(address, body)["message"], "the question itself is sound"
        assert admin.status == 400
    assert set(admin.post("/api/simulate", {"live": True, "backend": "far"})["queues"]) == {
        "osmo-pool-far-remote",
        "osmo-pool-far-remote--_shared",
    }
    assert chief.post("/api/simulate", {"live": True})["backend"] == "sim"
    chief.post("/api/simulate", {"live": True, "backend": "far"})
    assert chief.status == 404
    admin.post("/api/simulate", {"live": True, "backend": ["far"]})
    assert admin.status == 404


def test_groups_that_wait_and_platforms_of_pools(alice: Any, chief: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit(
        "team",
        "workflow:\n  name: chain\n  resources: {default: {gpu: 2}}\n  groups:\n"
        "  - {name: first, tasks: [{name: a, image: i, command: [sh], lead: true}]}\n"
        "  - {name: second, tasks: [{name: b, image: i, command: [sh], inputs: [{task: a}]}]}\n",
    )
    reconcile_pool()
    assert set(chief.post("/api/simulate", {"live": True})["workloads"]) == {"chain-1/first"}
    Node.objects.create(backend=Backend.objects.get(name="sim"), name="other-kind", gpus=64, platform="big")
    work = {"name": "new", "queue": "team", "tasks": [{"gpus": 40}]}
    answer = admin.post("/api/simulate", {"live": True, "changes": [{"submit": work}]})
    assert answer["workloads"]["new"]["reason"]["code"] == "never_fits"


def test_one_what_if_of_a_user_is_answered_at_a_time(alice: Any, caller: Any) -> None:
    """In all web processes: each takes up to seconds of a thread."""
    with held_elsewhere(hold_what_if_turn(alice.user.pk)):
        refused = sent(alice, "queues: [{name: a}]")
        assert (alice.status, alice.last.headers["Retry-After"]) == (429, "2")
        assert "only one of a user" in refused["message"]
        bob = caller("bob", "osmo-team-user")
        sent(bob, "queues: [{name: a}]")
        assert bob.status == 200
    sent(alice, "queues: [{name: a}]")
    assert alice.status == 200


def test_one_thread_of_a_web_process_answers_no_what_if(alice: Any) -> None:
    with hold_what_if_turn(-1), hold_what_if_turn(-2):
        refused = sent(alice, "queues: [{name: a}]")
        assert (alice.status, "of other people" in refused["message"]) == (429, True)
        with try_forecast_turn(-3) as has_turn:
            assert not has_turn
    with try_forecast_turn(-3) as has_turn:
        assert has_turn
    assert ENGINE_QUESTIONS < WEB_THREADS
