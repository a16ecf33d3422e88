"""The previews of changes of clusters, GPU quotas, roles and scheduler settings."""

from __future__ import annotations

from typing import Any

from django.test import Client

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import SetRoles
from pools.models import AuditEntry, Backend, GpuQuota, User
from scheduling.models import WorkflowConfig
from tests.integration.admin.conftest import SignedIn, confirm_change, submit_workflow
from tests.support.world import apply_change, reconcile
from tests.unit.gpu_quota.builders import make_amounts

CLUSTER = "/clusters/sim/configuration"
SETTINGS = "/settings"
ROLES = "/users/worker/roles"
CAPS = "/gpu-quotas/lab/configuration"


def _preview(client: Client, address: str, **typed: Any) -> Any:
    sent = client.post(address, {**typed, "step": "preview"})
    assert sent.status_code == 302, sent.content.decode()
    page = client.get(sent.headers["Location"])
    assert page.status_code == 200, page.content.decode()
    return page


def _changes(page: Any) -> dict[str, tuple[str, str]]:
    return {each.label: (each.before, each.after) for each in page.context["fields"]}


def _said(page: Any) -> str:
    return " ".join([*page.context["warnings"], *page.context["effect_messages"]])


def _cluster(**typed: str) -> dict[str, str]:
    return {"namespace": "ns", "reserve_after": "3600", "ageing": "14400", "victims": "youngest", **typed}


def test_a_cluster_names_its_fields_its_pools_and_the_work_that_waits(as_person: SignedIn) -> None:
    submit_workflow("team--a", name="runs")
    reconcile()
    submit_workflow("team--a", name="waits")
    before = AuditEntry.objects.count()
    page = _preview(
        as_person("root"), CLUSTER, **_cluster(offline="on", about="moves", reserve_after="", victims="least_lost")
    )
    assert _changes(page) == {
        "Description": ("empty", "moves"),
        "Offline": ("no", "yes"),
        "Reserve after": ("3600 seconds", "never"),
        "Preempted first": ("the youngest work first, as KAI", "the work that frees enough and loses least"),
    }
    assert "3 pools are on cluster sim (other, team, team-admin), with 1 running workflow." in _said(page)
    assert "goes offline" in _said(page)
    assert "the set that is enough and loses least is preempted" in _said(page)
    assert page.context["effect"]["could_no_longer_start"] == ["waits-1"]
    assert AuditEntry.objects.count() == before
    assert not Backend.objects.get(name="sim").offline


def test_removed_nodes_show_their_work_and_oversubscription(as_person: SignedIn) -> None:
    submit_workflow("team--a", name="runs")
    reconcile()
    root = as_person("root")
    page = _preview(root, CLUSTER, **_cluster(nodes="n1 8\nn2 4"))
    changes = _changes(page)
    assert changes["Node n0"] == ("8 GPUs, cpu=128 memory=1Ti storage=4Ti platform=default", "no node")
    assert changes["Node n2"][1].startswith("4 GPUs, ")
    assert "Node n1" not in changes
    assert "12 GPUs instead of 160; the quotas of its pools are 160 together" in _said(page)
    assert "148 more: guaranteed work may wait" in _said(page)
    assert "Work still runs on the removed nodes" in _said(page)
    assert root.post(CLUSTER, {**page.context["hidden"], "step": "confirm"}).status_code == 302
    assert sorted(Backend.objects.get(name="sim").nodes.values_list("name", "gpus")) == [("n1", 8), ("n2", 4)]


def test_nodes_that_stay_are_not_in_the_address_and_many_nodes_fit(as_person: SignedIn) -> None:
    root = as_person("root")
    shown = root.get(CLUSTER).context["form"]["nodes"].value().replace("\n", "\r\n")
    sent = root.post(CLUSTER, _cluster(nodes=shown, about="new", step="preview"))
    assert "nodes" not in sent.headers["Location"]
    assert set(_changes(root.get(sent.headers["Location"]))) == {"Description"}
    many = "\n".join(f"node-with-a-long-name-{number} 8" for number in range(600))
    sent = root.post(CLUSTER, _cluster(nodes=many, step="preview"))
    assert len(sent.headers["Location"]) < 500
    page = root.get(sent.headers["Location"])
    assert "and 420 more fields" in page.content.decode()
    edit = root.post(CLUSTER, {**page.context["hidden"], "step": "edit"}, follow=True)
    assert edit.context["form"]["nodes"].value() == many
    other = as_person("viewer").get(sent.headers["Location"])
    assert other.status_code == 403
    assert root.post(CLUSTER, {**page.context["hidden"], "step": "confirm"}).status_code == 302
    assert Backend.objects.get(name="sim").nodes.count() == 600


def test_a_cluster_that_changed_meanwhile_is_previewed_again(as_person: SignedIn) -> None:
    root = as_person("root")
    page = _preview(root, CLUSTER, **_cluster(about="mine"))
    apply_change(PutBackend(name="sim", body={"nodes": [{"name": "n1", "gpus": 8}]}))
    again = root.post(CLUSTER, {**page.context["hidden"], "step": "confirm"}, follow=True)
    assert "changed meanwhile" in again.context["notice"]
    assert set(_changes(again)) == {"Description"}, "the nodes of the other change stay"
    assert root.post(CLUSTER, {**again.context["hidden"], "step": "confirm"}).status_code == 302
    assert Backend.objects.get(name="sim").nodes.count() == 1


def test_a_gpu_quota_shows_use_against_the_new_cap(as_person: SignedIn) -> None:
    apply_change(PutGpuQuota(namespace="lab", spec={"total": {"requests": {"tflops": "100"}, "maxWorkers": 9}}))
    apply_change(AllocateWorker(namespace="lab", id="w1", request=make_amounts(50)))
    root = as_person("root")
    page = _preview(root, CAPS, requests_tflops="40", alert_threshold="90", max_gpu_count="2")
    assert _changes(page) == {
        "TFLOPS requested, in total": ("100", "40"),
        "Workers": ("9", "none"),
        "Alert above this percentage of usage": ("95", "90"),
        "GPUs of one worker": ("none", "2"),
    }
    gauges = {each.label: (each.used, each.cap_before, each.cap_after) for each in page.context["gauges"]}
    assert gauges == {"TFLOPS requested": ("50", "100", "40"), "Workers": ("1", "9", "")}
    assert "TFLOPS requested: 50 in use, and the cap is 40. Nothing is stopped" in _said(page)
    assert "An alert begins for TFLOPS requested" in _said(page)
    assert GpuQuota.objects.get(namespace="lab").spec["total"]["requests"] == {"tflops": "100"}
    assert root.post(CAPS, {**page.context["hidden"], "step": "confirm"}).status_code == 302
    gone = _preview(root, "/gpu-quotas/lab/delete")
    assert "The 1 worker of namespace lab stay" in _said(gone)


def test_roles_say_who_gains_and_loses_which_right(as_person: SignedIn) -> None:
    apply_change(CreateToken(owner="worker", name="ci", roles=["osmo-team-user"]))
    submit_workflow("team--a")
    root = as_person("root")
    page = _preview(root, ROLES, roles=["osmo-other-admin"], description="moves")
    assert _changes(page) == {
        "Role osmo-team-user": ("held", "none"),
        "Role osmo-other-admin": ("none", "held"),
    }
    said = _said(page)
    assert "worker gains in other: see the pool and its work, submit work, divide the pool into subpools" in said
    assert "worker loses in team: see the pool and its work, submit work." in said
    assert "The access token ci loses osmo-team-user, too." in said
    assert "worker has 1 workflow in these pools; running and waiting work continues." in said
    assert User.objects.get(username="worker").as_actor().roles == {"osmo-team-user"}
    edit = root.post(ROLES, {**page.context["hidden"], "step": "edit"}, follow=True)
    assert edit.context["form"]["roles"].value() == ["osmo-other-admin"]
    assert root.post(ROLES, {**page.context["hidden"], "step": "confirm"}).status_code == 302
    assert User.objects.get(username="worker").as_actor().roles == {"osmo-other-admin"}


def test_roles_that_changed_meanwhile_are_previewed_again(as_person: SignedIn) -> None:
    apply_change(SetRoles(username="worker", roles=[]))
    root = as_person("root")
    page = _preview(root, ROLES, roles=["osmo-viewer"])
    apply_change(SetRoles(username="worker", roles=["osmo-other-user"]))
    again = root.post(ROLES, {**page.context["hidden"], "step": "confirm"}, follow=True)
    assert "changed meanwhile" in again.context["notice"]
    assert User.objects.get(username="worker").as_actor().roles == {"osmo-other-user"}


def test_roles_that_cannot_be_set_are_refused_at_the_preview(as_person: SignedIn) -> None:
    root = as_person("root")
    page = root.post("/users/root/roles", {"roles": [], "step": "preview"}, follow=True)
    assert (page.status_code, "cannot take osmo-admin from yourself" in page.content.decode()) == (400, True)
    unknown = root.post(ROLES, {"roles": ["osmo-ghost-user"], "step": "preview"}, follow=True)
    assert unknown.status_code == 400


def test_settings_say_their_effect(as_person: SignedIn) -> None:
    root = as_person("root")
    page = _preview(root, SETTINGS, minutes="60", retries="4", description="calmer")
    assert _changes(page) == {
        "Check for drained subpools every": ("15 minutes", "60 minutes"),
        "Retry a task at most": ("0 times", "4 times"),
    }
    assert "archived 60 minutes later at the most, instead of 15" in _said(page)
    assert "starts again up to 4 times, instead of 0" in _said(page)
    assert 'value="confirm"' in page.content.decode()
    assert not WorkflowConfig.objects.filter(max_retry_per_task=4).exists()
    assert confirm_change(root, SETTINGS, minutes="60", retries="4", description="calmer").status_code == 302
    row = WorkflowConfig.objects.get()
    assert (row.max_retry_per_task, row.subpool_drain_interval_minutes) == (4, 60)
    assert AuditEntry.objects.filter(object="config/workflow", description="calmer").exists()
    shown = as_person("viewer").get(SETTINGS).content.decode()
    assert "60 minutes" in shown and "4 times" in shown
    wrong = root.post(SETTINGS, {"minutes": "1.5", "retries": "²", "step": "preview"}, follow=True)
    assert (wrong.status_code, set(wrong.context["form"].errors)) == (400, {"minutes", "retries"})


def test_a_change_of_nothing_says_so_and_offers_no_save(as_person: SignedIn) -> None:
    apply_change(PutCohort(name="lonely", body={"weight": 1}))
    root = as_person("root")
    for address, typed in (
        (SETTINGS, {"minutes": "15", "retries": "0"}),
        (CLUSTER, _cluster()),
        (ROLES, {"roles": ["osmo-team-user"]}),
        ("/pools/team/subpools/a/resize", {"quota": "30"}),
        ("/pools/team/configuration", {"quota": "100", "weight": "1"}),
        ("/cohorts/lonely/configuration", {"nominal": "0", "weight": "1"}),
    ):
        page = _preview(root, address, **typed).content.decode()
        assert ("Nothing changes: " in page, 'value="confirm"' in page) == (True, False), address
