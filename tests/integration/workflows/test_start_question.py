"""A dry run says when the work would start, and which other way in is shorter; it tells nothing about other teams."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.api.rendering import zoned_text
from pools.models import Backend, Node
from scheduling.history.starts import proposed_gangs
from scheduling.history.starts import question as start_question
from scheduling.history.starts.background import forecast_starts
from scheduling.locking import FORECAST_LOCK_SPACE
from scheduling.models import Group, StartForecast, Workflow
from tests.support.world import make_pool, sign_in, submit_workflow, workflow_file

KEYS = {"text", "p10", "p50", "p90", "samples", "made_at", "never", "record"}
GANG = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: sweep, annotations: {osmo/gpus-per-pod: "1"}}
spec:
  subGroups:
  - {name: a, minMember: 2}
  - {name: b, minMember: 2}
"""


def ask(person: Any, pool: str, file: str, more: str = "") -> Any:
    return person.submit(pool, file, query=f"dry_run=true{more}")


@pytest.fixture
def full(alice: Any, reconcile_pool: Callable[[], Any]) -> Any:
    """28 of the 30 GPUs of `team--a` are in use; `team` itself has 70."""
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    return alice


def test_work_that_fits_starts_in_the_next_pass(alice: Any) -> None:
    start = ask(alice, "team--a", workflow_file("next", 5))["start"]
    assert set(start) == KEYS
    assert start["p10"] == start["p50"] == start["p90"] == start["made_at"]


def test_work_that_would_wait_has_a_start_and_nothing_is_written(full: Any) -> None:
    start = ask(full, "team--a", workflow_file("next", 5))["start"]
    assert start["never"] is None
    assert start["samples"] >= start_question.LEAST_FUTURES
    assert start["made_at"] < start["p10"] <= start["p50"] <= start["p90"]
    assert Workflow.objects.count() == 1
    assert not StartForecast.objects.exists()


def test_start_false_makes_no_forecast_and_a_submission_has_none(full: Any) -> None:
    assert ask(full, "team--a", workflow_file("next", 5), "&start=false")["start"] is None
    assert "start" not in full.submit("team--a", workflow_file("next", 5))


@pytest.fixture
def large(full: Any) -> Any:
    """The same on a cluster of more nodes than a plain dry run reads."""
    backend = Backend.objects.get(pools__name="team")
    Node.objects.bulk_create(
        Node(backend=backend, name=f"more{number}", gpus=0) for number in range(proposed_gangs.MOST_NODES)
    )
    return full


def test_on_a_large_cluster_a_plain_dry_run_reads_what_is_kept(large: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_question, "BackendPresent", None)  # would fail if the state were read
    assert ask(large, "team--a", workflow_file("next", 5))["start"] is None
    before = large.submit("team--a", workflow_file("before", 5))["name"]
    forecast_starts()
    kept = StartForecast.objects.get(group_id=Group.objects.get(workflow__name=before).pk)
    start = ask(large, "team--a", workflow_file("next", 5))["start"]
    assert (start["p50"], start["made_at"]) == (zoned_text(kept.p50), zoned_text(kept.made_at))
    assert ask(large, "team--a", workflow_file("next", 5), "&priority=HIGH")["start"] is None, "it stands before"
    assert ask(large, "team", workflow_file("next", 5))["start"] is None


def test_on_a_large_cluster_a_start_is_computed_when_it_is_asked_for(large: Any) -> None:
    start = ask(large, "team--a", workflow_file("next", 5), "&start=true")["start"]
    assert start["samples"] >= start_question.LEAST_FUTURES
    assert ask(large, "team", workflow_file("next", 5), "&start=true")["start"]["samples"] == 1


def test_the_workflows_of_a_batch_are_forecast_together(full: Any) -> None:
    body = {"workflows": [{"file": workflow_file("one", 2)}, {"file": workflow_file("two", 2)}]}
    first, second = full.post("/api/pool/team--a/workflows", body, query="dry_run=true")["workflows"]
    assert first["start"]["p50"] == first["start"]["made_at"]
    assert second["start"]["p50"] > second["start"]["made_at"]


@pytest.mark.parametrize("most_apart", [start_question.MOST_APART, 0], ids=["apart", "together"])
def test_other_ways_in_are_listed_the_earliest_first(
    full: Any, most_apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_question, "MOST_APART", most_apart)
    answer = ask(full, "team--a", workflow_file("next", 8), "&ways=true")
    ways = {(way["code"], way["pool"]): way for way in answer["ways"]}
    assert not ways["as_asked", "team--a"]["starts_now"]
    assert answer["start"] == ways["as_asked", "team--a"]["start"]
    assert ways["pool", "team"]["starts_now"]
    assert ways["pool", "team"]["text"] == "on team"
    assert ways["priority", "team--a"]["starts_now"]  # LOW work may go over the quota
    assert ways["priority", "team--a"]["priority"] == "LOW"
    fewer = [way for way in answer["ways"] if way["code"] == "gpus"]
    assert [(way["gpus"], way["starts_now"]) for way in fewer] == [(2, True), (4, False)]
    middles = [way["start"]["p50"] for way in answer["ways"]]
    assert middles == sorted(middles)
    assert [way["code"] for way in answer["ways"] if way["starts_now"]] == ["pool", "priority", "gpus"]
    assert Workflow.objects.count() == 1


@pytest.fixture
def behind(full: Any, reconcile_pool: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> StartForecast:
    """The kept forecast of the last of three gangs of 5 GPUs that wait in `team--a`, where futures are shared."""
    monkeypatch.setattr(start_question, "MOST_APART", 0)
    for _ in range(3):
        full.submit("team--a", workflow_file("before", 5))
    reconcile_pool()
    forecast_starts()
    return StartForecast.objects.get(group_id=Group.objects.get(workflow__name="before-3").pk)


def test_work_behind_work_like_it_reads_its_futures(
    full: Any, behind: StartForecast, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert behind.gpus_before == 10
    assert behind.sampled_waits is not None
    assert len(behind.sampled_waits) == behind.samples
    with monkeypatch.context() as patch:
        patch.setattr(start_question, "sample_waits", None)  # would fail if a future was made
        start = ask(full, "team--a", workflow_file("next", 5))["start"]
    assert (start["samples"], start["made_at"]) == (behind.samples, zoned_text(behind.made_at))
    assert start["made_at"] < start["p10"] < start["p50"] < start["p90"]
    assert start["p50"] > zoned_text(behind.p50), "it comes later"


@pytest.mark.parametrize(
    ("gpus", "more"),
    [(9, ""), (6, ""), (5, "&priority=HIGH")],
    ids=["other size", "more GPUs a task", "comes before it"],
)
def test_other_work_has_futures_of_its_own(full: Any, behind: StartForecast, gpus: int, more: str) -> None:
    start = ask(full, "team--a", workflow_file("next", gpus), more)["start"]
    assert start["made_at"] > zoned_text(behind.made_at)


def test_old_futures_are_not_read(full: Any, behind: StartForecast) -> None:
    """Something has happened since. Without an event they hold at any age."""
    old = behind.made_at - timedelta(days=300)
    StartForecast.objects.update(made_at=old)
    assert ask(full, "team--a", workflow_file("next", 5))["start"]["made_at"] == zoned_text(old)
    StartForecast.objects.update(facts_key="other")
    start = ask(full, "team--a", workflow_file("next", 5))["start"]
    assert start["made_at"] > zoned_text(behind.made_at)


def test_a_workflow_of_two_groups_starts_when_both_have_started(full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the 30 GPUs are free: one group fits and the other one does not."""
    groups = [
        {"name": f"g{gpus}", "tasks": [{"name": f"t{gpus}", "image": "u", "command": ["sh"], "resource": f"r{gpus}"}]}
        for gpus in (2, 5)
    ]
    resources = {f"r{gpus}": {"gpu": gpus} for gpus in (2, 5)}
    file = json.dumps({"workflow": {"name": "two", "resources": resources, "groups": groups}})
    for most_apart in (start_question.MOST_APART, 0):
        monkeypatch.setattr(start_question, "MOST_APART", most_apart)
        (way,) = [way for way in ask(full, "team--a", file, "&ways=true")["ways"] if way["code"] == "as_asked"]
        assert not way["starts_now"]
        assert way["start"]["p50"] > way["start"]["made_at"]


def test_a_way_that_starts_now_is_one_that_really_starts(full: Any, reconcile_pool: Callable[[], Any]) -> None:
    ways = ask(full, "team--a", workflow_file("next", 8), "&ways=true")["ways"]
    (there,) = [way for way in ways if way["code"] == "pool" and way["pool"] == "team"]
    assert there["starts_now"]
    full.submit(there["pool"], workflow_file("next", 8))
    full.submit("team--a", workflow_file("wait", 8))
    reconcile_pool()
    assert Workflow.objects.get(name="next-1").status == "RUNNING"
    assert Workflow.objects.get(name="wait-1").status == "PENDING"


def test_an_elastic_gang_may_start_with_half_its_minimum(full: Any) -> None:
    answer = ask(full, "team--a", GANG, "&ways=true")
    (way,) = [way for way in answer["ways"] if way["code"] == "minimum"]
    assert (way["gpus"], way["starts_now"]) == (2, True)
    assert way["text"] == "with half the minimum: it starts with 2 GPUs instead of 4"


def test_a_person_sees_no_pool_that_they_may_not_submit_to(full: Any, caller: Any) -> None:
    make_pool("secret", 16, hidden=8)
    submit_workflow(caller("mallory", "osmo-secret-user").actor, "secret--hidden", 8, name="covert")
    answer = ask(full, "team--a", workflow_file("next", 5), "&ways=true")
    text = json.dumps(answer)
    assert not any(word in text for word in ("secret", "covert", "mallory", "hidden"))


def test_a_reader_who_may_not_submit_gets_no_forecast(full: Any, caller: Any) -> None:
    vera, nobody = caller("vera", "osmo-viewer"), caller("nobody")
    ask(vera, "team--a", workflow_file("next", 5), "&ways=true")
    assert vera.status == 403
    ask(nobody, "team--a", workflow_file("next", 5), "&ways=true")
    assert nobody.status == 404


def test_one_forecast_of_a_person_at_a_time(full: Any, other_connection: Any) -> None:
    other_connection.execute("SELECT pg_advisory_lock(%s, %s)", [FORECAST_LOCK_SPACE, full.user.pk])
    assert ask(full, "team--a", workflow_file("two", 5))["start"] is None
    ask(full, "team--a", workflow_file("two", 5), "&ways=true")
    assert full.status == 429
    other_connection.execute("SELECT pg_advisory_unlock(%s, %s)", [FORECAST_LOCK_SPACE, full.user.pk])
    assert ask(full, "team--a", workflow_file("two", 5))["start"] is not None


def test_the_number_of_queries_does_not_grow_with_the_work(full: Any, reconcile_pool: Callable[[], Any]) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            ask(full, "team--a", workflow_file("next", 5))
        return len(queries)

    ask(full, "team--a", workflow_file("next", 5))
    few = count()
    for number in range(12):
        submit_workflow(full.actor, "team--a", 3, name=f"wait{number}")
    reconcile_pool()
    assert count() <= few


def test_the_page_says_when_it_would_start_and_compares_ways_in(full: Any) -> None:
    client = sign_in(full.user)
    form = {"pool": "team--a", "priority": "", "file": workflow_file("next", 8), "variables": ""}
    address = "/submit"
    checked = client.post(address, form | {"step": "check"}).content.decode()
    assert 'id="start-forecast"' in checked
    assert "Compare other ways to start" in checked
    compared = client.post(address, form | {"step": "ways"}).content.decode()
    assert "Other ways to start, the earliest first" in compared
    assert "with priority LOW: it may be preempted" in compared
    assert "with 2 GPUs instead of 8" in compared
    fits = client.post(address, form | {"file": workflow_file("next", 2), "step": "check"}).content.decode()
    assert "It can start now." in fits
    assert "Compare other ways to start" not in fits
    assert Workflow.objects.count() == 1


def test_a_listed_workflow_that_waits_has_its_start(full: Any, reconcile_pool: Callable[[], Any]) -> None:
    full.submit("team--a", workflow_file("next", 8))
    reconcile_pool()
    forecast_starts()
    rows = {row["name"]: row for row in full.get("/api/workflow", details="true")["workflows"]}
    assert rows["big-1"]["start"] is None
    assert set(rows["next-1"]["start"]) == KEYS
