"""The smallest sufficient victims on a live backend: in what-ifs, decisions and the replay of its own history."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID

import pytest

from pools.database.transactions import database_time
from pools.models import Backend
from scheduling.history.own import replays
from scheduling.models import Decision
from tests.integration.engine.conftest import Cluster

pytestmark = pytest.mark.django_db

TOLD = "Of the work that the rules allow equally, this set is enough and loses least."


def post(cluster: Cluster, path: str, body: dict[str, Any]) -> Any:
    answer = cluster.admin.post(path, json.dumps(body), content_type="application/json")
    assert answer.status_code in {200, 202}, answer.content
    return answer.json()


@pytest.mark.parametrize(("victims", "victim"), [("youngest", "a2"), ("least_lost", "a1")])
def test_previews_decisions_and_replays_have_the_same_victim(db: None, victims: str, victim: str) -> None:
    """Two nodes of two GPUs; `a` has one GPU more than its quota, and its work of two GPUs is the younger."""
    cluster = Cluster({"n1": 2, "n2": 2}, {"team": {"a": 2, "b": 2}})
    Backend.objects.update(victims=victims, reserve_after=None, ageing=None)
    begin = database_time().replace(tzinfo=None).isoformat()
    for name, to, gpus in (("a1", "team--a", 1), ("b1", "team--b", 1), ("a2", "team--a", 2)):
        cluster.submit(name, to, "LOW", gpus=gpus)
        cluster.reconcile()
    cluster.assert_running("a1", "a2", "b1")
    work = {"name": "new", "queue": "osmo-pool-ns-team--b", "priority": "LOW", "tasks": [{"gpus": 1}]}
    what_if = post(cluster, "/api/simulate", {"live": True, "changes": [{"submit": work}]})
    (reclaim,) = (step for step in what_if["steps"] if step["action"] == "reclaim")
    assert (reclaim["workload"], reclaim["message"].endswith(TOLD)) == (f"{victim}-1", victims == "least_lost")
    cluster.submit("b2", "team--b", "LOW")
    assert cluster.reconcile()[0] == ("reclaim", victim)
    decision = Decision.objects.get(action="reclaim")
    for message in (decision.message, decision.message_without_beneficiary):
        assert message.endswith(TOLD) is (victims == "least_lost")
    assert_replays_alike(cluster, begin)


def assert_replays_alike(cluster: Cluster, begin: str) -> None:
    """An unchanged replay repeats what happened."""
    until = database_time().replace(tzinfo=None).isoformat()
    replay = post(cluster, "/api/replay", {"since": begin, "until": until, "changes": []})
    replays.run_replay(UUID(replay["id"]))
    answer = cluster.get(f"/api/replay/{replay['id']}")["answer"]
    assert (answer["identical"], answer["first_difference"]) == (True, None)
    assert answer["recorded"] == answer["on"]


def test_only_the_time_since_the_last_move_counts(db: None) -> None:
    """Of two gangs of one GPU the older one has moved: its work began again, so it loses less than the other."""
    cluster = Cluster({"n1": 2, "n2": 1, "n3": 1}, {"team": {"a": 4}})
    Backend.objects.update(victims="least_lost", reserve_after=None, ageing=None)
    begin = database_time().replace(tzinfo=None).isoformat()
    for name in ("on-n2", "on-n3", "beside", "older"):
        cluster.submit(name, "team--a", "LOW")
        cluster.reconcile()
    time.sleep(1.1)  # a policy reads whole seconds
    cluster.end("on-n2")
    cluster.submit("other", "team--a", "LOW")
    cluster.reconcile()
    cluster.end("on-n3")
    cluster.end("beside")
    time.sleep(1.1)
    cluster.submit("pair", "team--a", "HIGH", gpus=2)
    assert sorted(cluster.reconcile()) == [("move", "older"), ("start", "pair")]
    cluster.submit("new", "team--a", "HIGH")
    assert cluster.reconcile() == [("preempt", "older"), ("start", "new")]
    assert_replays_alike(cluster, begin)
