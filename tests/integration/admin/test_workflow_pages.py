"""The list of workflows and the page of one: their numbers, their actions, and the same numbers from the REST API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from pools.domain.changes.subpools import ResizeSubpool
from scheduling.admin import submit
from scheduling.admin.submit_examples import EXAMPLES
from scheduling.domain.changes.workflows import CancelWorkflow, EndStatus, EndWorkflow
from scheduling.models import Workflow
from tests.integration.admin.conftest import WORKFLOW, SignedIn, actor_named, submit_workflow
from tests.support.world import apply_change, reconcile

LIST = "/workflows"


def _page(client: Client, address: str, **query: Any) -> str:
    answer = client.get(address, query)
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def _failed(name: str) -> Workflow:
    row = submit_workflow("team--a", gpus=8, name=name)
    reconcile()
    return apply_change(EndWorkflow(name=row.name, status=EndStatus.FAILED), actor=actor_named("root"))


def _token_of(text: str) -> str:
    """The token of the first form of a page."""
    return text.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]


def test_the_menu_marks_one_entry(as_person: SignedIn) -> None:
    chief = as_person("chief")
    for path, entry in (
        ("/workflows", "/workflows"),
        ("/submit", "/submit"),
        ("/queue", "/queue"),
        ("/queue/team", "/queue"),
    ):
        menu = chief.get(path).context["menu"]
        assert [item["link"] for section in menu for item in section["items"] if item["active"]] == [entry]


def test_the_queue_of_a_subpool_is_at_its_address(as_person: SignedIn) -> None:
    submit_workflow("team--b", gpus=8, name="ours")
    reconcile()
    worker = as_person("worker")
    for name, has_ours in (("b", True), ("a", False), ("_shared", False)):
        answer = worker.get(f"/queue/team--{name}", follow=True)
        assert answer.status_code == 200
        assert ("ours-1" in answer.content.decode()) is has_ours, name
    for nothing in ("other--x", "--x", "--"):
        assert worker.get(f"/queue/{nothing}", follow=True).status_code == 404, nothing


def test_where_no_pool_is_yet_an_admin_is_led_to_one(as_person: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "_pool_choices", lambda _: [])
    answer = as_person("root").get("/submit")
    assert answer.status_code == 409
    assert "there is no pool yet" in answer.content.decode()
    assert 'href="/pools/-/create"' in answer.content.decode()
    refused = as_person("worker").get("/submit")
    assert refused.status_code == 403
    assert "Ask an osmo-admin" in refused.content.decode()


def test_with_many_pools_a_mistyped_one_is_answered_with_the_nearest(
    as_person: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "MAX_POOL_CHOICES", 1)
    chief = as_person("chief")
    file = WORKFLOW.format(name="one", gpus=1)
    refused = chief.post("/submit", {"pool": "taem--a", "file": file, "step": "check"})
    [error] = refused.context["form"].errors["pool"]
    assert error == 'This is not a pool or subpool to which you may submit. Did you mean "team--a"?'
    checked = chief.post("/submit", {"pool": " team--a ", "file": file, "step": "check"})
    assert "receipt" in checked.context


def test_the_list_has_gpus_reason_and_times_as_the_api_does(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8, name="first")
    submit_workflow("team--a", gpus=8, name="second")
    submit_workflow("team--a", gpus=8, name="third")
    waiting = submit_workflow("team--a", gpus=8, name="fourth")
    reconcile()
    root = as_person("root")
    page = root.get(LIST)
    (row,) = [row for row in page.context["rows"] if row.workflow.name == waiting.name]
    body = root.get("/api/workflow", {"all_users": "true", "total": "true", "details": "true"}).json()
    entry = next(entry for entry in body["workflows"] if entry["name"] == waiting.name)
    assert (row.gpus, entry["gpus"]) == (8, 8)
    assert row.waiting is not None
    assert row.waiting.reason.message == entry["reason"]["message"]
    assert row.waiting.pool in entry["reason"]["message"]
    assert row.waiting.queue not in entry["reason"]["message"]
    assert entry["reason"]["message"] in page.content.decode()
    assert f"<summary>{row.waiting.reason.short}<" in page.content.decode()
    assert page.context["count"] == body["total"] == 4
    assert f'id="workflow-{waiting.name}"' in page.content.decode()
    assert all(row.run_seconds is not None for row in page.context["rows"] if row.waiting is None)


def test_the_reason_leads_to_the_holders_and_the_nodes(as_person: SignedIn) -> None:
    for name in ("first", "second", "third", "fourth"):
        submit_workflow("team--a", gpus=8, name=name)
    reconcile()
    root = as_person("root")
    (gang,) = root.get("/api/queue").json()["entries"]
    assert gang["holders"] == ["first-1", "second-1", "third-1"]
    link = '<a href="/workflows/first-1">first-1</a>'
    for address in (f"{LIST}/fourth-1", "/queue", "/queue/team"):
        assert link in _page(root, address), address


def test_columns_sort(as_person: SignedIn) -> None:
    for name in ("b", "a", "c"):
        submit_workflow("team--a", gpus=1, name=name)
    root = as_person("root")
    for key in ("name", "status", "gpus", "pool", "priority", "user", "submitted", "waited", "ran", "ended"):
        for order in (key, f"-{key}"):
            names = [row.workflow.name for row in root.get(LIST, {"sort": order}).context["rows"]]
            assert sorted(names) == ["a-1", "b-1", "c-1"]
            if order == "name":
                assert names == ["a-1", "b-1", "c-1"]
            elif order in {"submitted", "-waited"}:
                assert names == ["b-1", "a-1", "c-1"]


def test_two_completed_workflows_are_chosen_for_their_comparison(as_person: SignedIn) -> None:
    for name in ("one", "two"):
        submit_workflow("team--a", gpus=1, name=name)
    reconcile()
    for work in Workflow.objects.all():
        apply_change(EndWorkflow(name=work.name, status=EndStatus.COMPLETED), actor=actor_named("root"))
    viewer = as_person("viewer")
    plain = _page(viewer, LIST, pool="team")
    assert plain.count('type="checkbox" class="oa-select"') == 2
    assert 'href="?pool=team&amp;select=all"' in plain and 'href="?user=viewer"' in plain
    assert (plain.count(" checked"), _page(viewer, LIST, pool="team", select="all").count(" checked")) == (0, 2)
    assert f'formaction="{LIST}/-/compare"' in plain
    assert "Cancel the selected" not in plain
    names = [row.workflow.name for row in viewer.get(LIST).context["rows"]]
    compared = viewer.get(f"{LIST}/-/compare", {"filters": "pool=team", "name": names})
    assert "Side by side" in compared.content.decode()


def test_each_cancelled_row_has_its_result(as_person: SignedIn) -> None:
    live, other = (submit_workflow("team--a", gpus=1, name=name) for name in ("live", "other"))
    root, both = as_person("root"), {"name": [live.name, other.name], "filters": "pool=team"}
    apply_change(CancelWorkflow(name=other.name), actor=actor_named("root"))
    over = "other-1 has already ended (CANCELLED); there is nothing to cancel."
    assert over in _page(root, f"{LIST}/-/cancel", **both)
    alone = _page(root, f"{LIST}/-/cancel", name=other.name)
    assert over in alone and "Running tasks are stopped now" not in alone and 'value="confirm"' not in alone
    answer = root.post(f"{LIST}/-/cancel", {**both, "step": "confirm"})
    text = answer.content.decode()
    results = {row.name: row for row in answer.context["results"]}
    assert (results[live.name].is_done, results[other.name].is_done) == (True, False)
    assert "other-1 has already ended" in results[other.name].message
    assert all(part in text for part in (results[other.name].message, "1 of 2", f"{LIST}?pool=team"))
    for action in ("cancel", "retry"):
        nothing = root.get(f"{LIST}/-/{action}", {"filters": "pool=team&status=active"})
        assert (nothing.status_code, nothing["Location"]) == (302, f"{LIST}?pool=team&status=active")
        assert root.get(f"{LIST}/-/{action}", {"name": "ghost-1"}).status_code == 404


def test_a_failed_workflow_is_retried(as_person: SignedIn) -> None:
    failed = _failed("broken")
    running = submit_workflow("team--a", gpus=1, name="fine")
    reconcile()
    worker = as_person("worker")
    assert f"{LIST}/-/retry?name={failed.name}" in _page(worker, f"{LIST}/{failed.name}")
    page = _page(worker, f"{LIST}/-/retry", name=failed.name)
    assert "Retry" in page
    shown = {"name": failed.name, "step": "confirm", "csrfmiddlewaretoken": _token_of(page)}
    first, second = (worker.post(f"{LIST}/-/retry", shown) for _ in range(2))  # a double click
    again = Workflow.objects.get(parent__name=failed.name)
    assert first["Location"] == second["Location"] == f"{LIST}/{again.name}"
    assert (again.pool.name, again.priority, again.spec_name) == ("team--a", failed.priority, "broken")
    both = worker.post(f"{LIST}/-/retry", {"name": [failed.name, running.name], "step": "confirm"})
    assert {row.name: row.is_done for row in both.context["results"]} == {failed.name: True, running.name: False}
    refusal = worker.post(f"/api/pool/team--a/workflow/{running.name}/restart", {}, content_type="application/json")
    assert refusal.status_code == 400
    assert refusal.json()["message"] in both.content.decode()


def test_a_form_that_is_sent_twice_submits_once(as_person: SignedIn) -> None:
    worker, file = as_person("worker"), WORKFLOW.format(name="job", gpus=2)
    shown = {"pool": "team--a", "file": file, "step": "submit"}
    shown["csrfmiddlewaretoken"] = _token_of(_page(worker, "/submit"))
    first, second = (worker.post("/submit", shown) for _ in range(2))
    assert first["Location"] == second["Location"] == f"{LIST}/job-1"
    assert "job-1 was submitted to team--a. This form was sent before" in _page(worker, f"{LIST}/job-1")
    again = shown | {"csrfmiddlewaretoken": _token_of(_page(worker, "/submit"))}
    assert worker.post("/submit", again)["Location"] == f"{LIST}/job-2"
    other = shown | {"file": WORKFLOW.format(name="other", gpus=2)}  # the same form with other input
    assert worker.post("/submit", other)["Location"] == f"{LIST}/other-1"
    assert Workflow.objects.count() == 3
    refused = shown | {"pool": "team", "file": WORKFLOW.format(name="large", gpus=51)}
    assert worker.post("/submit", refused).status_code == 400
    apply_change(ResizeSubpool(parent="team", subpool_name="b", quota=8), actor=actor_named("root"))
    assert worker.post("/submit", refused)["Location"] == f"{LIST}/large-1", "a refused form may be sent again"


def test_the_page_of_waiting_work_names_its_subpool_its_events_and_room(as_person: SignedIn) -> None:
    for name in ("holder", "second"):
        submit_workflow("team--b", gpus=8, name=name)
    reconcile()
    waiting = submit_workflow("team--b", gpus=8, name="late")
    reconcile()
    worker = as_person("worker")
    answer = worker.get(f"{LIST}/{waiting.name}")
    text = answer.content.decode()
    assert "the quota of team--b (20) leaves 4 GPUs" in text
    assert [(row.name, row.available) for row in answer.context["room"]] == [("team--a", 30)]
    assert "has 30 guaranteed GPUs free" in text
    lines = worker.get(f"/api/workflow/{waiting.name}/events").content.decode().splitlines()
    assert [str(line) for line in answer.context["events"]] == lines
    assert all(line in text for line in lines)
    assert any("submitted by worker" in line for line in lines)


def test_the_queue_of_all_pools_as_the_api_has_it(as_person: SignedIn) -> None:
    for leaf, user in (("team--a", "worker"), ("other--x", "root")):
        submit_workflow(leaf, gpus=8, name=f"runs-{user}", username=user)
        for number in range(4):
            submit_workflow(leaf, gpus=8, name=f"waits{number}-{user}", username=user)
        submit_workflow(leaf, gpus=64, name=f"low-{user}", username=user, priority="LOW")
    reconcile()
    for user in ("root", "stranger", "worker"):
        person = as_person(user)
        entries = person.get("/api/queue").json()["entries"]
        page = person.get("/queue")
        shown = [(row.workflow, row.position_in_queue, row.position) for row in page.context["window"].rows]
        groups: dict[str, list[dict[str, Any]]] = {}
        for each in entries:
            groups.setdefault(each["pool"], []).append(each)
        ordered = [each for group in groups.values() for each in group]
        assert shown == [(each["workflow"], each["position_in_queue"], each["position"]) for each in ordered]
        if user == "root":
            assert ordered != entries, "the pools take turns in the next pass"
        assert {row.pool for row in page.context["window"].rows} == {
            "root": {"team--a", "other--x"}, "stranger": {"other--x"}, "worker": {"team--a"},
        }[user]  # fmt: skip
        assert 'href="/queue"' in page.content.decode()
    root = as_person("root")
    for query, leaves in (
        ({"pool": "other"}, {"other--x"}),
        ({"user": "worker"}, {"team--a"}),
        ({"pool": "no"}, set()),
    ):
        rows = root.get("/queue", query).context["window"].rows
        assert {row.pool for row in rows} == leaves


def test_an_example_fills_the_file_without_scripts(as_person: SignedIn) -> None:
    person = as_person("chief")
    typed = {"pool": "team", "priority": "LOW", "variables": "a=1", "file": "mine", "step": "example"}
    form = person.post("/submit", {**typed, "example": "two_nodes"}).context["form"]
    assert (form["pool"].value(), form["priority"].value(), form["variables"].value()) == ("team", "LOW", "a=1")
    assert form["file"].value() == EXAMPLES["two_nodes"][1]
    kept = person.post("/submit", {**typed, "example": ""}).context["form"]
    assert kept["file"].value() == "mine", "without a choice the text stays"
    for _, file in EXAMPLES.values():
        answer = person.post("/submit", {"pool": "team", "file": file, "step": "check"})
        assert answer.status_code == 200, answer.content.decode()
        assert not answer.context["receipt"].warnings


def test_attempts_are_drawn_over_time_and_listed(as_person: Callable[[str], Client]) -> None:
    work = submit_workflow("team--a", gpus=1, name="drawn")
    reconcile()
    page = as_person("root").get(f"{LIST}/{work.name}")
    (lane,) = page.context["chart"].lanes
    assert [bar.kind for bar in lane.bars] == ["waiting", "running"]
    text = page.content.decode()
    assert "oa-attempt--running" in text
    assert f'href="/nodes/{work.root_pool.backend.name}/{lane.bars[-1].node}"' in text
    assert "data-output" in text
