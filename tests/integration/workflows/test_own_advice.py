"""Quota advice from recorded history: its proposals are judged by replays of exactly these changes."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from pools.database.transactions import database_time
from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Pool
from scheduling.history.own import replays
from scheduling.models import HistoryReplay
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.workflows.recorded_story import QUOTA_4, Story, replay
from tests.support.world import apply_change

ADVISE = {"advise": True, "tries": 40}


def advice_for(who: Any, story: Story, **more: Any) -> dict[str, Any]:
    answer = replay(who, story.body(**ADVISE, **more))
    assert "advice" in answer, answer
    return answer


def pool_named(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(pool for pool in answer["advice"]["pools"] if pool["pool"] == name)


def test_the_effect_is_that_of_a_replay_with_these_changes(story: Story, admin: Any) -> None:
    advice = advice_for(admin, story)["advice"]
    proposal = pool_named({"advice": advice}, "team")["proposal"]
    named = [change for change in proposal["what_if"] if not change["set"]["name"].endswith("--_shared")]
    judged = replay(admin, story.body(*named))
    assert judged["difference"]["teams"]["team--a"] == pytest.approx(proposal["effect"]["teams"]["team--a"])
    on, against = (sum(row["waiting_gpu_h"] for row in judged[side]["teams"].values()) for side in ("on", "against"))
    assert (advice["waiting_gpu_h"], proposal["waiting_gpu_h"]) == (pytest.approx(on), pytest.approx(against))


def test_the_dry_runs_are_ready_and_change_nothing(story: Story, admin: Any) -> None:
    before = HistoryReplay.objects.count()
    proposal = pool_named(advice_for(admin, story), "team")["proposal"]
    answer = admin.post("/api/simulate", {"live": True, "changes": proposal["what_if"]})
    assert admin.status == 200, answer
    (change,) = (change for change in proposal["changes"] if change["name"] == "team--a")
    assert f"osmo pool subpool update team a --quota {change['to']} --dry-run" in proposal["commands"]
    assert proposal["commands"][0].endswith(" | osmo simulate --live --backend sim -"), "there may be several clusters"
    assert Pool.objects.get(name="team--a").last_quota == 2
    assert HistoryReplay.objects.count() == before + 1


def test_it_proposes_the_quota_that_ends_the_wait(story: Story, admin: Any) -> None:
    """Ann's second job waits for the quota of `a`, while `b` and the shared quota of `team` are not used."""
    answer = advice_for(admin, story)
    assert answer["identical"]
    (pool,) = answer["advice"]["pools"]
    assert (pool["pool"], pool["quota"]) == ("team", 8)
    assert pool["leaves"] == {"team--_shared": 2, "team--a": 2, "team--b": 4}
    proposal = pool["proposal"]
    (raised,) = (change for change in proposal["changes"] if change["name"] == "team--a")
    assert (raised["from"], raised["to"]) == (2, 4)
    assert sum(change["to"] - change["from"] for change in proposal["changes"]) == 0
    assert proposal["effect"]["better"] == ["team--a"]
    waited = answer["advice"]["waiting_gpu_h"]
    assert waited > proposal["waiting_gpu_h"]
    assert "quota of team--a 2 → 4" in " ".join(answer["sentences"])
    by_name = {rival["name"]: rival for rival in pool["rivals"]}
    assert by_name["today"]["cost_gpu_h"] == answer["advice"]["cost_gpu_h"]
    assert set(by_name) == {"today", "equal", "by_use"}
    assert sum(by_name["equal"]["leaves"].values()) == 8
    idle = {row["team"]: row["gpu_h"] for row in answer["advice"]["idle_promises"]}
    assert set(idle) <= {"team--b", "team--_shared", "other--_shared"}
    # Two GPUs waited, so of each idle quota at most two count.
    assert all(0 < hours <= waited + 1e-9 for hours in idle.values())
    assert idle["team--b"] == pytest.approx(waited)


def test_a_pool_admin_learns_nothing_of_other_pools(story: Story, caller: Any) -> None:
    answer = advice_for(caller("chief", "osmo-team-admin"), story)
    assert [pool["pool"] for pool in answer["advice"]["pools"]] == ["team"]
    assert not {"olga", "other", "own-1"} & set(json.dumps(answer).replace('"', " ").replace("--", " ").split())


def test_quotas_that_changed_in_the_window_are_those_of_its_end(story: Story, admin: Any) -> None:
    waited = advice_for(admin, story)["advice"]["waiting_gpu_h"]
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=4))
    reconcile_backend(story.backend.pk)
    story.end = database_time()
    answer = advice_for(admin, story)
    assert answer["advice"]["quotas_changed"]
    assert pool_named(answer, "team")["leaves"]["team--a"] == 4
    assert answer["advice"]["waiting_gpu_h"] < waited, "with 4 GPUs for the whole time the second job had not waited"
    assert pool_named(answer, "team")["proposal"] is None


def test_time_that_runs_out_leaves_what_was_tried(story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = admin.post("/api/replay", story.body(**ADVISE))
    seen: list[float] = []

    def must_stop(self: Any, share: float) -> bool:
        seen.append(share)
        self.is_out_of_time = share > 0.2
        return self.is_out_of_time

    monkeypatch.setattr(replays._Work, "must_stop", must_stop)
    replays.run_replay(UUID(begun["id"]))
    answer = admin.get(f"/api/replay/{begun['id']}")["answer"]
    assert answer["advice"]["out_of_time"]
    assert answer["advice"]["replays"] < 12
    assert seen == sorted(seen)
    assert "The time for this advice ended" in " ".join(answer["sentences"])


def test_a_bad_question_is_refused_with_its_place(story: Story, admin: Any) -> None:
    for more, path in (
        ({"advise": "yes"}, "advise"),
        ({"advise": True, "tries": "many"}, "tries"),
        ({"advise": True, "tries": True}, "tries"),
        ({"advise": True, "tries": 1}, "tries"),
        ({"advise": True, "tries": 201}, "tries"),
        ({"tries": 10}, "tries"),
        ({"advise": True, "changes": [QUOTA_4]}, "changes"),
    ):
        refused = replay(admin, {**story.body(), **more})
        assert admin.status == 400, more
        assert [detail["path"] for detail in refused["details"]] == [path], more
