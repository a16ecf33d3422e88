"""The picture of the fleet on the home page: it adds up, it has the hours before, and it tells nobody of others. The
list of clusters has a part of it for each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.tokens import CreateToken
from pools.services.people.access_tokens import create_token
from scheduling.domain.changes.nodes import DrainNode
from scheduling.models import NodeSpan, Task, UsageProgress
from scheduling.services.node_care import drain_node
from tests.integration.admin.conftest import SignedIn, actor_named, submit_workflow
from tests.support.world import ModuleData, apply_change, reconcile

NODES = [{"name": f"n{number}", "gpus": 8} for number in range(20)]


@pytest.fixture(scope="module")
def busy(pools_and_users_once: None, module_data: ModuleData) -> None:
    """NORMAL work of 8 GPUs in `team`, LOW work of 8 in `other`, and 16 GPUs that wait for quota."""
    with module_data():
        submit_workflow("team--a", gpus=8)
        submit_workflow("other", gpus=8, username="root", priority="LOW", name="low")
        for number in range(4):
            submit_workflow("team--b", gpus=8, name=f"b{number}")
        reconcile()


def _fleet(client: Client) -> Any:
    return client.get("/").context["fleet"]


def test_the_picture_of_a_platform_reader_has_all_nodes(busy: None, as_person: SignedIn) -> None:
    fleet = _fleet(as_person("viewer"))
    assert (fleet.has_nodes, fleet.whole, fleet.offline) == (True, 160, 0)
    assert (fleet.bar.guaranteed, fleet.bar.low_inside, fleet.bar.in_use) == (24, 8, 32)
    assert fleet.bar.length + fleet.offline == fleet.whole
    text = as_person("viewer").get("/").content.decode()
    assert "160 GPUs</h2>" in text and "<b>128</b> idle" in text and "20 %" in text


def test_an_offline_cluster_is_a_part_of_its_own(busy: None, as_person: SignedIn) -> None:
    apply_change(PutBackend(name="sim", body={"namespace": "ns", "auto_end": False, "nodes": NODES, "offline": True}))
    fleet = _fleet(as_person("root"))
    assert (fleet.offline, fleet.idle_now) == (128, 0), "what work holds is in use, not offline"
    assert fleet.bar.length + fleet.offline == fleet.whole == 160
    assert "<b>128</b> offline" in as_person("root").get("/").content.decode()


def test_what_work_holds_on_a_drained_node_is_not_offline(busy: None, as_person: SignedIn) -> None:
    holding = set(Task.objects.filter(status="RUNNING").values_list("node_name", flat=True))
    held = sum(Task.objects.filter(status="RUNNING", node_name=min(holding)).values_list("gpu_count", flat=True))
    empty = next(node["name"] for node in NODES if node["name"] not in holding)
    for name in (min(holding), empty):
        drain_node(DrainNode(backend="sim", node=name), actor=actor_named("root"))
    fleet = _fleet(as_person("root"))
    assert (fleet.offline, fleet.idle_now) == (16 - held, 160 - 32 - (16 - held))


def test_other_readers_see_the_quota_of_their_pools(busy: None, as_person: SignedIn) -> None:
    fleet = _fleet(as_person("worker"))
    assert (fleet.has_nodes, fleet.whole, fleet.bar.in_use, fleet.idle_now) == (False, 100, 24, 76)
    text = as_person("worker").get("/").content.decode()
    assert "My quota: 100 GPUs" in text and "160" not in text
    assert _fleet(as_person("nobody")).whole == 0


def test_borrowed_gpus_are_beyond_the_quota_of_the_pools(busy: None, as_person: SignedIn) -> None:
    apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 90}}}))
    for number in range(12):
        submit_workflow("team", gpus=8, priority="LOW", name=f"more{number}")
    reconcile()
    fleet = _fleet(as_person("worker"))
    assert (fleet.gpus, fleet.whole) == (90, fleet.bar.in_use) and fleet.bar.in_use > 90 and fleet.share > 100
    assert "My quota: 90 GPUs" in as_person("worker").get("/").content.decode()


def test_the_hours_before_of_the_fleet_and_of_each_cluster(busy: None, as_person: SignedIn) -> None:
    root = as_person("root")
    assert _fleet(root).used == [], "before the first closed hour there is nothing to draw"
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    NodeSpan.objects.update(since=hour - timedelta(hours=3))
    UsageProgress.objects.update_or_create(pk=1, defaults={"closed_until": hour})
    page = root.get("/")
    fleet, text = page.context["fleet"], page.content.decode()
    assert len(fleet.used) == len(fleet.idle) == len(fleet.waiting) == 24
    assert text.count('class="oa-spark"') == 3
    assert 'aria-label="Idle in the last 24 hours: 0 GPUs at first' in text
    text = root.get("/clusters").content.decode()
    assert 'aria-label="sim" title="24 guaranteed, 8 LOW inside, 128 free"' in text
    assert 'aria-label="sim, in use in the last 24 hours: 0 GPUs at first' in text


def test_idle_quota_is_no_news_for_a_person_who_cannot_move_it(busy: None, as_person: SignedIn) -> None:
    heading = "Idle quota while work waits"
    shown = {person: heading in as_person(person).get("/").content.decode() for person in ("root", "chief", "worker")}
    assert shown == {"root": True, "chief": True, "worker": False}
    assert as_person("worker").get("/api/overview").json()["idle"] == []


def test_what_changed_has_no_tokens_roles_and_work(busy: None, as_person: SignedIn) -> None:
    create_token(CreateToken(name="ci", owner="root"), actor=actor_named("root"))
    changes = as_person("root").get("/").context["overview"].changes
    kinds = {entry.action.partition(".")[0] for entry in changes}
    assert kinds and kinds <= {"pool", "subpool", "cohort", "backend", "node", "gpu_quota"}
    of_worker = as_person("worker").get("/api/overview").json()["changes"]
    assert {each["object"].split("/")[0] for each in of_worker} <= {"user"}
