"""What a replay of recorded history finds, for the roles that may read it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pgtrigger
import pytest

from pools.database.transactions import database_time
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.models import AuditEntry, Backend
from scheduling.models import Decision
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.workflows.recorded_story import QUOTA_4, Story, naive, replay
from tests.support import world
from tests.support.world import apply_change, workflow_file

HOUR = timedelta(hours=1)


def test_without_changes_it_is_the_record(story: Story, admin: Any) -> None:
    before = AuditEntry.objects.count()
    answer = replay(admin, story.body())
    assert (answer["identical"], answer["first_difference"], answer["steps"]) == (True, None, 3)
    assert (answer["against"], answer["difference"], answer["people"]) == (None, None, [])
    assert answer["on"]["teams"]["team--a"]["starts"] == 2
    assert answer["on"]["summary"]["starts"] == 3
    assert answer["recorded"] == answer["on"], "the record, counted without the engine, has the numbers of its replay"
    assert AuditEntry.objects.count() == before


def test_a_larger_quota_ends_the_wait(story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.history.replay.past_measures.NOTICED", 0)
    answer = replay(admin, story.body(QUOTA_4))
    on, against = (answer[side]["teams"]["team--a"] for side in ("on", "against"))
    assert against["wait_mean_s"] < on["wait_mean_s"]
    assert answer["difference"]["better"] == ["team--a"]
    assert answer["difference"]["worse"] == []
    ann = next(row for row in answer["people"] if row["user"] == "ann")
    assert (ann["queue"], ann["preemptions"]) == ("team--a", 0)
    assert ann["wait_s"] < 0


def test_pools_in_a_cohort(story: Story, admin: Any) -> None:
    """LOW work of `team` borrows, and not under a limit. A cohort with a pool of another cluster is refused."""
    apply_change(PutCohort(name="corp", body={"quotas": []}))
    for pool in ("team", "other"):
        apply_change(PatchPool(name=pool, patch={"cohort": "corp"}))
    begin = database_time()
    story.ann.submit("team", workflow_file("borrows", 12), query="priority=LOW")
    reconcile_backend(story.backend.pk)
    body = {"since": naive(begin), "until": naive(database_time())}
    answer = replay(admin, {**body, "changes": [{"set": {"name": "team", "limit": 8}}]})
    assert answer["identical"]
    on, against = (answer[side]["teams"]["team--_shared"]["starts"] for side in ("on", "against"))
    assert (on, against) == (1, 0)
    world.make_pool("far", 8, on=world.make_backend("elsewhere"))
    apply_change(PatchPool(name="far", patch={"cohort": "corp"}))
    refused = replay(admin, {**body, "until": naive(database_time()), "backend": story.backend.name})
    assert "Pool far of another cluster" in refused["message"]


def test_a_difference_in_other_work_tells_nothing_of_it(story: Story, caller: Any) -> None:
    with pgtrigger.ignore("scheduling.Decision:append_only"):
        Decision.objects.filter(workflow__name="own-1").update(nodes=["elsewhere"])
    answer = replay(caller("chief", "osmo-team-admin"), story.body())
    assert not answer["identical"]
    assert answer["first_difference"] == {"recorded": None, "replayed": None}


def test_a_pool_admin_sees_and_changes_the_own_pool_only(story: Story, caller: Any) -> None:
    chief = caller("chief", "osmo-team-admin")
    answer = replay(chief, story.body(QUOTA_4))
    assert set(answer["on"]["teams"]) == {"team--a"}
    assert answer["steps"] == 2, "the start of Olga's job is not counted"
    assert answer["on"]["summary"] is None
    assert not {"olga", "other", "own-1"} & set(json.dumps(answer).replace('"', " ").split())
    refused = replay(chief, story.body({"set": {"name": "other", "quota": 4}}))
    assert (chief.status, refused["details"][0]["path"]) == (400, "changes[0].set.name")
    nothing = replay(chief, story.body({"set": {"name": "nothing", "quota": 4}}))
    assert nothing["details"][0]["message"].replace("nothing", "other") == refused["details"][0]["message"]
    replay(story.ann, story.body())
    assert story.ann.status == 403


def test_a_bad_question_is_refused_with_its_place(story: Story, admin: Any) -> None:
    windows: list[tuple[dict[str, Any], str]] = [
        ({}, "since"),
        ({"since": "soon", "until": "2026-01-02T00:00:00"}, "since"),
        ({"since": "2026-01-02T00:00:00", "until": "2026-01-01T00:00:00"}, "since"),
        ({"since": "2025-01-02T00:00:00", "until": "2026-01-01T00:00:00"}, "since"),
        ({"since": "2126-01-01T00:00:00", "until": "2126-01-02T00:00:00"}, "until"),
    ]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"changes": 7}, "changes"),
        ({"changes": ["x"]}, "changes[0]"),
        ({"changes": [{"remove": "team--a"}]}, "changes[0]"),
        ({"changes": [{"set": {"name": ["team"]}}]}, "changes[0].set.name"),
        ({"changes": [{"set": {"name": "team--a", "quota": "many"}}]}, "changes[0].set.quota"),
        ({"changes": [{"set": {"name": "team--a", "quota": -4}}]}, "changes[0].set.quota"),
        ({"changes": [{"set": {"name": "team--a", "weight": -1}}]}, "changes[0].set.weight"),
        ({"changes": [{"set": {"name": "team--a", "parent": None}}]}, "changes[0].set.parent"),
        ({"changes": [QUOTA_4] * 21}, "changes"),
        ({"colour": "red"}, "colour"),
    ]
    for question, path in windows + [(story.body() | more, path) for more, path in changes]:
        refused = replay(admin, question)
        assert path in [detail["path"] for detail in refused["details"]], question


def test_a_pool_that_would_have_to_be_larger_is_named(story: Story, admin: Any) -> None:
    """`team` has 8 GPUs, 4 of them in `b`."""
    sentences = replay(admin, story.body({"set": {"name": "team--a", "quota": 24}}))["sentences"]
    assert "team would need 28 GPUs of quota for its subpools; it has 8." in sentences
    sentences = replay(admin, story.body(QUOTA_4))["sentences"]
    assert not any("would need" in sentence for sentence in sentences)


def test_every_quota_that_can_be_read_is_answered(story: Story, admin: Any) -> None:
    for name, quota in (("team--a", None), ("team--a", 1.5), ("team--a", {}), ("team", -1), ("team--_shared", 10**6)):
        answer = replay(admin, story.body({"set": {"name": name, "quota": quota}}))
        assert "on" in answer or answer["details"], (name, quota)


def test_other_kinds_of_clusters_are_refused(story: Story, admin: Any) -> None:
    Backend.objects.create(name="far", namespace="far", kind=Backend.Kind.KUBERNETES)
    refused = replay(admin, story.body(backend="far"))
    assert admin.status == 409
    assert "osmo usage export --trace" in refused["message"]
