"""A topology key that the pool does not have is refused at every way in (docs/kubernetes.md, "Topology keys")."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.pools import PutPool
from pools.models import Pool
from tests.support import world
from tests.support.agent_harness import AgentHarness, kubernetes_backend, task_statuses
from tests.support.fake_cluster import FakeCluster

RACK = [{"key": "rack", "label": "topology.kubernetes.io/rack"}]


def topology_file(key: str, kind: str = "required") -> str:
    """Two tasks that must share one value of a key."""
    return f"""workflow:
  name: near
  resources:
    default: {{gpu: 1, topology: [{{key: {key}, requirementType: {kind}}}]}}
  groups:
  - name: g
    tasks:
    - {{name: one, image: ubuntu, command: [sh], lead: true}}
    - {{name: two, image: ubuntu, command: [sh]}}
"""


def set_keys(row: Pool, keys: list[dict[str, str]]) -> None:
    Pool.objects.filter(pk=row.pk).update(config={**row.config, "topology_keys": keys})


@pytest.mark.parametrize(("cluster", "kind"), [("simulated", "required"), ("kubernetes", "preferred")])
def test_an_unknown_key_is_refused(alice: Any, team: Pool, cluster: str, kind: str) -> None:
    if cluster == "kubernetes":
        Pool.objects.filter(pk=team.pk).update(backend=kubernetes_backend("lab"))
    for keys in ([], RACK):
        set_keys(team, keys)
        for query in ("", "dry_run=True", "dry_run=True&start=True", "validation_only=True"):
            answer = alice.submit("team", topology_file("nosuch", kind), query=query)
            assert alice.status == 400, query
            (fault,) = answer["details"]
            assert (fault["code"], fault["line"]) == ("unknown_topology", 4), query
            assert ("It has rack." if keys else "It has none.") in fault["message"]


def test_a_known_key_is_accepted_and_a_simulated_backend_says_that_it_places_nothing(alice: Any, team: Pool) -> None:
    set_keys(team, RACK)
    (warning,) = alice.submit("team", topology_file("rack"), query="validation_only=True")["warnings"]
    assert "topology" in warning
    assert "one, two" in warning
    Pool.objects.filter(pk=team.pk).update(backend=kubernetes_backend("lab"))
    assert alice.submit("team", topology_file("rack"), query="validation_only=True")["warnings"] == []


def test_the_other_ways_in_leave_out_pools_without_the_key(caller: Any, team: Pool) -> None:
    world.make_pool("other", 4)
    alice = caller("alice", "osmo-team-user", "osmo-other-user")
    set_keys(team, RACK)
    answer = alice.submit("team", topology_file("rack"), query="dry_run=True&start=True&ways=True")
    assert alice.status == 200
    assert {way["pool"] for way in answer["ways"]} == {"team", "team--a"}


class TestChangedKeys:
    """The keys of a pool change while work waits."""

    @pytest.fixture
    def harness(self, db: None) -> AgentHarness:
        return AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo", pool="racks")

    def _put(self, keys: list[dict[str, str]]) -> tuple[str, ...]:
        body = {"backend": "lab", "resources": {"gpu": {"guarantee": 100}}, "topology_keys": keys}
        return world.apply_change(PutPool(name="racks", body=body), actor=world.admin_actor()).warnings

    def test_the_change_names_the_waiting_work(self, harness: AgentHarness) -> None:
        set_keys(harness.pool, RACK)
        waiting = harness.submit(topology_file("rack"))
        harness.submit(topology_file("rack", "preferred"))
        assert self._put([*RACK, {"key": "host", "label": "h"}]) == ()
        (warning,) = self._put([{"key": "host", "label": "h"}])
        assert waiting.name in warning
        assert "rack" in warning
        assert "1 waiting workflow" in warning

    def test_work_whose_required_key_is_gone_ends_with_the_reason(self, harness: AgentHarness) -> None:
        set_keys(harness.pool, RACK)
        workflow = harness.submit(topology_file("rack"))
        other = harness.submit(topology_file("rack", "preferred"))
        set_keys(harness.pool, [])
        harness.run_agent()
        assert harness.list_pods(workflow) == []
        assert len(harness.list_pods(other)) == 2
        workflow.refresh_from_db()
        assert workflow.status == "FAILED_BACKEND_ERROR"
        assert {code for _, _, code, _ in task_statuses(workflow)} == {"FAILED_BACKEND_ERROR"}
        message = workflow.groups.get().failure_message
        assert "topology key rack" in message
