"""What is said of parts of shared GPUs says parts: drains, notices, logs, receipts, nodes, approvals, shortages and
previews of clusters."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from osmo_admin.cli.commands.subpool import _result_message
from osmo_admin.cli.commands.work.workflow_queue import _entry_facts
from osmo_admin.cli.local.offline_text import _loss_sections
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.configuration.flavors import SHARED_GPUS, SHARED_GPUS_WHOLE
from pools.domain.errors import Conflict
from pools.domain.people.roles import SYSTEM
from pools.domain.shortage.degraded import degraded_message
from pools.models import Pool
from pools.selectors.quotas.degraded import read_degraded, read_promises
from scheduling.domain.priorities import Priority
from scheduling.models import Task
from scheduling.selectors.cluster.node_map import read_node_map
from scheduling.selectors.cluster.node_tiles import ColourBy, draw_tiles
from scheduling.selectors.status.problems import long_drains
from scheduling.selectors.what_if.live_question import answer_live_question
from scheduling.services.notices.planning import _gpus_by_owner
from tests.support import world
from tests.support.flavors import add_flavored_pool, submit_gpus
from tests.support.world import ModuleData

pytestmark = pytest.mark.django_db
PARTS = {"gpu": "t4", SHARED_GPUS: SHARED_GPUS_WHOLE}


def _nodes(t4: int = 32, **labels: str) -> list[dict[str, Any]]:
    return [
        {"name": "h0", "gpus": 16, "labels": {"gpu": "h100"}},
        {"name": "t0", "gpus": t4, "labels": labels or PARTS},
    ]


@pytest.fixture(scope="module")
def cut_once(module_data: ModuleData) -> None:
    flavors = [{"name": "h100", "node_labels": {"gpu": "h100"}}, {"name": "t4", "node_labels": PARTS}]
    with module_data():
        world.apply_change(PutBackend(name="sim", body={"nodes": _nodes(), "flavors": flavors}))
        add_flavored_pool("team", {"h100": 16, "t4": 32}, {"h100": 8, "t4": 8})
        world.make_user("root", "osmo-admin")


@pytest.fixture
def cut(cut_once: None, db: None) -> None:
    """16 H100 and 32 parts of T4; the subpool a has 8 of each."""


def _page(path: str, **typed: Any) -> str:
    client = world.sign_in("root")
    if typed:
        sent = client.post(path, {**typed, "step": "preview"})
        assert sent.status_code == 302, sent.content.decode()
        path = sent.headers["Location"]
    text: str = client.get(path).content.decode()
    return text


def test_a_drain_counts_parts_as_parts(cut: None, caller: Callable[..., Any]) -> None:
    ann = caller("ann", "osmo-team-user")
    submit_gpus(ann.actor, 2, "h100")
    work = submit_gpus(ann.actor, 1, "t4")
    world.reconcile()
    assert "[main-group] waits for 1 t4 part of GPUs" in ann.get(f"/api/workflow/{work.name}/events")
    preview = _page("/pools/team/subpools/a/delete", description="over")
    assert ">1 t4 part of GPUs<" in preview and ">2 h100 GPUs<" in preview
    root = caller("root")
    answer = root("DELETE", "/api/configs/pool/team/subpool/a").body
    said = "1 t4 part of GPUs"
    assert f"(guaranteed in use: 2 h100 GPUs and {said})" in _result_message(answer, "deleted")
    assert [each.get("shared") for each in answer["flavors"]] == [None, True]
    assert root.get("/api/configs/pool/team/subpool/a")["flavors"] == answer["flavors"]
    assert _gpus_by_owner(Pool.objects.get(name="team--a").pk) == {"ann": f"2 h100 GPUs and {said}"}, "in the notice"
    page = _page("/pools/team")
    assert f"2 workflows still hold 2 h100 GPUs and {said}. When" in page and f">{said}<" in page
    [problem] = long_drains(SYSTEM, timezone.now() + timedelta(days=2))
    assert problem.message.endswith(f"2 active workflows hold 2 h100 GPUs and {said}.")
    assert dict(problem.numbers) == {"workflows": 2, "gpus": 3}


def test_other_candidates_are_said_with_their_flavor(cut: None, caller: Callable[..., Any]) -> None:
    for gpus in (20, 5):
        submit_gpus(world.admin_actor(), gpus, "t4", to="team", priority=Priority.LOW)
        world.reconcile()
    Task.objects.update(start_time=F("start_time") - timedelta(hours=1))
    submit_gpus(world.admin_actor(), 8, "t4")
    world.reconcile()
    reads = caller("root")
    lost = next(each for each in ("job-1", "job-2") if reads.get(f"/api/workflow/{each}/receipts")["receipts"])
    [spared] = reads.get(f"/api/workflow/{lost}/receipts")["receipts"][0]["spared"]
    assert spared["gpus"] in {5, 20}
    page = _page(f"/workflows/{lost}")
    assert f"<dt>GPUs</dt><dd>{25 - spared['gpus']} t4 parts of GPUs</dd>" in page
    assert f"({spared['gpus']} t4 parts of GPUs)" in page
    assert " t4 parts of GPUs at once" in page


def test_a_node_and_a_gang_that_waits_say_parts(cut: None, caller: Callable[..., Any]) -> None:
    submit_gpus(world.admin_actor(), 6, "t4")
    world.reconcile()
    found = read_node_map(world.admin_actor(), "sim", limit=10)
    titles = [tile.title for tile in draw_tiles(found.nodes, ColourBy.POOL, found.part_flavors).tiles]
    assert titles[0].startswith("h0: 16 of 16 GPUs free")
    assert titles[1].startswith("t0: 26 of 32 parts of GPUs free")
    world.make_pool("other", 0, on=world.make_backend("sim"))
    world.make_user("sue", "osmo-other-user")
    text = world.sign_in("sue").get("/nodes/sim/t0").content.decode()
    assert "6 parts of GPUs are used by workflows of pools that you may not see" in text
    assert "6 GPUs are" not in text and '<th scope="row">Parts of GPUs</th>' in text
    submit_gpus(world.admin_actor(), 4, "t4")
    world.reconcile()
    [entry] = caller("root").get("/api/queue")["entries"]
    shown = dict(_entry_facts(entry).pairs)
    assert (shown["Requested"], shown["Free"], shown["Missing"]) == (4, "2 t4", "2 t4")
    world.apply_change(PutBackend(name="sim", body={"nodes": _nodes(4, gpu="h100")}))
    notes = read_node_map(world.admin_actor(), "sim", name="t0", limit=1).nodes[0].usage.notes
    assert "running work with 6 parts of GPUs counts as t4, in which it was admitted, until it ends" in notes
    assert "running work holds more than the node has: 6 of 4 GPUs" in notes


def test_the_forms_of_quotas_ask_for_parts(cut: None) -> None:
    page = _page("/pools/team/subpools/a/resize")
    assert "A whole number of parts of GPUs, or a share" in page and "A whole number of GPUs, or a share" in page
    page = _page("/pools/team/configuration")
    assert "A whole number of parts of GPUs. Subpools" in page and "A whole number of GPUs. Subpools" in page
    add_flavored_pool("few", {"t4": 0}, {"t4": 0})
    page = _page("/pools/few/subpools/a/resize")
    assert "A whole number of parts of GPUs, or a share" in page and "number of GPUs" not in page
    assert "GPUs of few are free for it" not in page


def test_an_approval_names_what_it_counts(cut: None, caller: Callable[..., Any]) -> None:
    world.apply_change(PatchPool(name="team", patch={"approval_above": 4}))
    with pytest.raises(Conflict) as found:
        world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quotas={"t4": 20}))
    assert "The quota of t4 of team--a would change from 8 parts of GPUs to 20 parts of GPUs." in found.value.message
    assert "Changes of more than 4 parts of GPUs need" in found.value.message
    assert "quota of team--a would change from 16 GPUs or parts of GPUs to 28 GPUs or" in found.value.message
    with pytest.raises(Conflict) as found:
        world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quotas={"h100": 16}))
    assert "The quota of h100 of team--a would change from 8 GPUs to 16 GPUs." in found.value.message
    with pytest.raises(Conflict, match=r"is 4 GPUs or parts of GPUs and would be removed"):
        world.apply_change(PatchPool(name="team", patch={"approval_above": None}))
    asked = caller("chief", "osmo-team-admin")
    address = "/api/configs/pool/team/subpool/a?request_approval=true"
    number = asked("PATCH", address, {"quotas": {"t4": 20}}).body["id"]
    assert "<dd>4 GPUs or parts of GPUs: larger changes" in _page(f"/activity/approvals/{number}")


def test_missing_parts_are_no_missing_gpus(cut: None) -> None:
    world.apply_change(PutBackend(name="sim", body={"nodes": _nodes(24)}))
    [found] = read_degraded().values()
    message = degraded_message(found, None)
    missing = "8 t4 parts of GPUs are missing"
    assert f"has too few usable parts of GPUs: {missing}. Now team can have 24 of its 32 t4." in message
    assert read_promises(world.admin_actor(), "sim").is_degraded
    page = _page("/clusters/sim")
    assert ">8 t4 parts of GPUs missing</span>" in page and ">parts</span>" in page


def test_the_preview_of_a_cluster_says_its_parts(cut: None) -> None:
    flavors = f"h100 gpu=h100\nt4 gpu=t4 {SHARED_GPUS}={SHARED_GPUS_WHOLE}"
    nodes = f"h0 16 labels=gpu=h100\nt0 24 labels=gpu=t4,{SHARED_GPUS}={SHARED_GPUS_WHOLE}"
    typed = {"namespace": "default", "reserve_after": "3600", "ageing": "14400", "victims": "youngest"}
    text = _page("/clusters/sim/configuration", **typed, flavors=flavors, nodes=nodes)
    assert "Its nodes have 24 t4 parts of GPUs instead of 32; the quotas of its pools are 32 together." in text
    assert "24 parts of GPUs," in text and "Its nodes have 16 GPUs" not in text


def test_the_submit_page_says_parts(cut: None) -> None:
    file = """
workflow:
  name: job
  resources: {default: {gpu: 4%s}}
  tasks:
  - {name: main, image: x, command: [sh]}
"""
    client = world.sign_in("root")
    for named, words in ((", gpu_flavors: [t4]", "t4 parts of GPUs"), ("", "GPUs or parts of GPUs")):
        typed = {"pool": "team--a", "file": file % named, "step": "ways"}
        text = client.post("/submit", typed).content.decode()
        assert f"at least 4 {words} at once" in text
        assert f"with 2 {words} instead of 4" in text


def test_a_lost_node_says_its_parts(cut: None) -> None:
    submit_gpus(world.admin_actor(), 6, "t4")
    world.reconcile()
    question = {"live": True, "changes": [{"remove_node": "t0"}]}
    loss = answer_live_question(world.admin_actor(), question)["loss"]
    assert loss["gpus_text"] == "32 t4 parts of GPUs"
    [work] = loss["workloads"]
    assert work["gpus_text"] == "6 t4 parts of GPUs"
    text = "\n".join(_loss_sections(loss))
    assert "(32 T4 PARTS OF GPUS)" in text and "0 of 32 t4 parts of GPUs, 32 missing" in text
    page = _page("/clusters/sim/losses?nodes=t0")
    assert page.count(">parts</span>") == 1
    assert "6 t4 parts of GPUs" in page and "can have 0 of its quota of 32 t4 parts of GPUs: 32 are missing" in page
    rows = csv.DictReader(_page("/clusters/sim/losses?format=csv").splitlines())
    assert {row["node"]: row["flavor"] for row in rows} == {"h0": "h100", "t0": "t4"}
