"""Who preempted my work: on its page, on Home, in the API, and on the page of the work that took its place."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from pools.api.rendering import zoned_text
from pools.database.transactions import database_time
from scheduling.models import Decision, Group, Interruption, Workflow
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import ModuleData, reconcile

WORK = "/workflows"


def _text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content.decode()
    return " ".join(strip_tags(answer.content.decode()).split())


def _detail(client: Client, name: str) -> Any:
    return client.get(f"/api/workflow/{name}").json()


@pytest.fixture(scope="module")
def victim(pools_and_users_once: None, module_data: ModuleData) -> str:
    """LOW work of team--a has borrowed every node; one of them is reclaimed for `urgent-1` of another pool."""
    with module_data():
        for number in range(20):
            submit_workflow("team--a", gpus=8, name=f"night{number}", priority="LOW")
        reconcile()
        submit_workflow("other--x", gpus=8, name="urgent", username="stranger")
        reconcile()
        return Decision.objects.get(action="reclaim").workflow.name


def test_a_reader_of_both_pools_sees_who_took_which_gpus_and_why(as_person: SignedIn, victim: str) -> None:
    root = as_person("root")
    words = "by urgent-1 (stranger): other--x took back 8 GPUs that team--a had borrowed."
    answer = root.get(f"{WORK}/{victim}")
    (lane,) = answer.context["chart"].lanes
    assert [bar.kind for bar in lane.bars] == ["waiting", "off", "waiting"], "the lost attempt is in the chart"
    assert answer.context["chart"].start == lane.bars[0].start < lane.bars[1].start
    page = answer.content.decode()
    assert words in " ".join(strip_tags(page).split())
    assert '<a href="/workflows/urgent-1">urgent-1</a> (stranger)' in page
    assert f"?workflow={victim}" in page
    detail = _detail(root, victim)
    (lost,) = detail["preemptions"]
    assert [lost[key] for key in ("by_workflow", "by_user", "by_pool", "gpus")] == [
        "urgent-1",
        "stranger",
        "other--x",
        8,
    ]
    assert len(detail["groups"][0]["waits"]) == 2, "it waits again"
    assert f"by {lost['by_workflow']} ({lost['by_user']})" in lost["message"]

    taker = _text(root, f"{WORK}/urgent-1")
    assert f"This preempted {victim} (worker, 8 GPUs, " in taker
    (taken,) = _detail(root, "urgent-1")["preempted"]
    assert (taken["workflow"], taken["user"]) == (victim, "worker")


def test_every_reader_counts_the_wait_from_the_preemption(as_person: SignedIn, victim: str) -> None:
    now = database_time()
    Workflow.objects.filter(name=victim).update(submit_time=now - timedelta(days=2))
    Group.objects.filter(workflow__name=victim).update(ready_at=now - timedelta(hours=3))
    root = as_person("root")
    (gang,) = root.get("/api/queue").json()["entries"]
    assert gang["waits_since"] == zoned_text(now - timedelta(hours=3))
    (pool,) = root.get("/api/overview").json()["waiting"]
    assert pool["since"] == gang["waits_since"]
    (row,) = csv.DictReader(io.StringIO(root.get("/queue?format=csv").content.decode()))
    assert int(row["waits_seconds"]) == pytest.approx(3 * 3600, abs=60)
    assert "3 h" in _text(root, "/queue")
    assert re.search(r"osmo_waiting_oldest_seconds\{[^}]*\} 108", root.get("/metrics").content.decode())


def test_the_owner_learns_the_rule_and_never_the_names_of_another_pool(as_person: SignedIn, victim: str) -> None:
    worker = as_person("worker")
    words = "by other work: another pool took back 8 GPUs that team--a had borrowed."
    for address in (f"{WORK}/{victim}", "/"):
        text = _text(worker, address)
        assert words in text, address
        assert not re.search("urgent|stranger|other--x", text), address
    (lost,) = _detail(worker, victim)["preemptions"]
    assert (lost["by_workflow"], lost["by_user"], lost["by_pool"]) == (None, None, None)
    assert not re.search("urgent|stranger|other--x", worker.get(f"/api/workflow/{victim}").content.decode())


def test_the_work_that_took_the_gpus_names_no_work_of_hidden_pools(as_person: SignedIn, victim: str) -> None:
    stranger = as_person("stranger")
    text = _text(stranger, f"{WORK}/urgent-1")
    assert "This preempted work of pools that you may not see." in text
    assert not re.search(f"{victim}|worker|team--a", text)
    assert _detail(stranger, "urgent-1")["preempted"] == []


def test_it_is_news_for_its_owner_only_and_in_the_history_of_the_work(as_person: SignedIn, victim: str) -> None:
    assert f"{victim}: Preempted" in _text(as_person("worker"), "/")
    for other in ("chief", "stranger", "root"):
        assert not as_person(other).get("/").context["preemptions"], other
    entries = as_person("worker").get(f"{WORK}/{victim}").context["entries"]
    assert f"preemption/{victim}" in {entry.object for entry in entries}


def _receipts(client: Client, name: str) -> Any:
    answer = client.get(f"/api/workflow/{name}/receipts")
    return answer.json() if answer.status_code == 200 else answer.status_code


def test_the_receipt_has_the_rule_the_numbers_the_others_and_what_came_next(as_person: SignedIn, victim: str) -> None:
    found = _receipts(as_person("root"), victim)
    (receipt,) = found["receipts"]
    assert (receipt["cause"], receipt["rule"], receipt["by_workflow"]) == ("reclaim", "Reclaim of quota", "urgent-1")
    assert (receipt["loser"]["pool"], receipt["taker"]["pool"]) == ("team--a", "other--x")
    assert receipt["loser"]["used"] > receipt["loser"]["quota"]
    assert receipt["taker"]["used"] == 0
    assert {other["by"] for other in receipt["spared"]} == {"age"}
    assert all(other["gang"].startswith("night") for other in receipt["spared"])
    assert receipt["next"]["status"] == "waits"
    assert receipt["next"]["position_in_queue"] >= 1
    (attempt,) = receipt["attempts"]
    assert attempt["lost_since"] == attempt["start_time"]
    assert receipt["lost_gpu_s"] == attempt["lost_gpu_s"] == found["lost_gpu_s"]
    page = _text(as_person("root"), f"{WORK}/{victim}")
    assert "Other candidatesnight" in page
    assert "it was submitted earlier" in page


@pytest.mark.parametrize(
    ("person", "of_victim", "of_taker"),
    [
        ("root", "all", "all"), ("viewer", "all", "all"),
        ("worker", "without names", 404), ("chief", "without names", 404),
        ("stranger", 404, "hidden"), ("nobody", 404, 404),
    ],
)  # fmt: skip
def test_who_may_know_what_of_a_receipt(
    as_person: SignedIn, victim: str, person: str, of_victim: Any, of_taker: Any
) -> None:
    client = as_person(person)
    lost, taken = _receipts(client, victim), _receipts(client, "urgent-1")
    secrets = "urgent|stranger|other--x"
    if of_victim == 404:
        assert lost == 404
    else:
        assert bool(re.search(secrets, str(lost))) is (of_victim == "all")
        (receipt,) = lost["receipts"]
        assert (receipt["cause"], receipt["taker"]["used"]) == ("reclaim", 0), "the rule and the numbers stay"
    if of_taker == 404:
        assert taken == 404
    else:
        assert taken["has_hidden"] is (of_taker == "hidden")
        assert [each["workflow"] for each in taken["taken"]] == ([victim] if of_taker == "all" else [])
        assert bool(re.search(f"{victim}|worker|team--a", str(taken))) is (of_taker == "all")


def test_spared_work_of_pools_that_the_reader_may_not_see_has_no_name(as_person: SignedIn, victim: str) -> None:
    """A reclaim for team--a evicts work of another pool; its owner could read the names of team--a's work, too."""
    for each in Interruption.objects.all():
        stays = [
            {"workflow": str(Workflow.objects.get(name="urgent-1").pk), "gang": "urgent-1", "gpus": 8, "by": "age"}
        ]
        copy = Interruption(
            time=each.time, cause="reclaim", backend=each.backend, root_pool=each.root_pool, pool=each.pool,
            workflow=each.workflow, group=each.group, spared=stays,
        )  # fmt: skip
        copy.save()
    for person, name in (("root", "urgent-1"), ("worker", "other work")):
        gangs = [other["gang"] for each in _receipts(as_person(person), victim)["receipts"] for other in each["spared"]]
        assert name in gangs, person
        assert ("urgent-1" in gangs) is (person == "root"), person
