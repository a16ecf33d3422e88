"""The audit log as a file, and the revert of a change from its entry."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from django.test import Client

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import DeleteCohort, PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.changes.users import SetRoles
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, Backend, Cohort, GpuQuota, KubernetesSettings, Node, Pool, User
from pools.services.gpu_quota.gpu_allocations import allocate
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.selectors.cluster.scheduler_settings import current_config
from tests.integration.admin.conftest import SignedIn, actor_named, submit_workflow
from tests.support.world import apply_change, make_subpool


def _latest(name: str) -> AuditEntry:
    return AuditEntry.objects.filter(object=name).latest("id")


def _revert(client: Client, entry: AuditEntry) -> str:
    address: str = client.get(f"/activity/audit/{entry.pk}").context["revert"]
    return address


def _confirm(client: Client, address: str) -> Any:
    page = client.get(address)
    assert page.status_code == 200, page.content.decode()
    return client.post(page.context["form_address"], {**page.context["hidden"], "step": "confirm"})


def test_the_export_has_the_rows_of_the_filters(as_person: SignedIn) -> None:
    chief = as_person("chief")
    listed = chief.get("/activity/audit?q=pool/team--a").context["window"].rows
    rows = list(csv.DictReader(StringIO(chief.get("/activity/audit?q=pool/team--a&format=csv").content.decode())))
    assert [int(row["id"]) for row in rows] == [entry.pk for entry in listed]
    assert rows[0]["sentence"]
    assert rows[0]["time"].endswith("Z")
    body = chief.get("/activity/audit?q=pool/team--a&format=json").json()
    assert body["entries"] == chief.get("/api/audit?object=pool/team--a").json()["entries"]
    assert not as_person("stranger").get("/activity/audit?q=pool/team--a&format=json").json()["entries"]


def test_a_resize_is_reverted_through_its_preview(as_person: SignedIn) -> None:
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=40), actor=actor_named("chief"))
    entry, chief = _latest("pool/team--a"), as_person("chief")
    assert _confirm(chief, _revert(chief, entry)).status_code == 302
    assert Pool.objects.get(name="team--a").last_quota == 30
    assert _latest("pool/team--a").description == f"Revert of audit entry {entry.pk}"
    assert _revert(as_person("root"), entry)
    assert as_person("viewer").get(f"/activity/audit/{entry.pk}").context["revert"] == ""


def test_a_creation_and_a_deletion_are_reverted(as_person: SignedIn) -> None:
    make_subpool("team", "new", 5)
    chief = as_person("chief")
    assert _confirm(chief, _revert(chief, _latest("pool/team--new"))).status_code == 302
    assert Pool.objects.get(name="team--new").subpool_state == "ARCHIVED"
    apply_change(DeleteSubpool(parent="team", subpool_name="b"))
    assert _confirm(chief, _revert(chief, _latest("pool/team--b"))).status_code == 302
    row = Pool.objects.get(name="team--b")
    assert (row.subpool_state, row.last_quota) == ("ACTIVE", 20)


def test_a_configuration_is_reverted_field_by_field(as_person: SignedIn) -> None:
    """Later changes of other fields stay."""
    columns = (
        "guarantee",
        "maximum",
        "cohort",
        "lending_limit",
        "borrowing_limit",
        "description",
        "enable_maintenance",
    )
    root, before = as_person("root"), Pool.objects.values_list(*columns).get(name="other")
    patch = {
        "cohort": "org",
        "lending_limit": 3,
        "borrowing_limit": 4,
        "enable_maintenance": True,
        "description": "new",
    }
    apply_change(PatchPool(name="other", patch=patch | {"resources": {"gpu": {"guarantee": 60, "maximum": 70}}}))
    entry, changed = _latest("pool/other"), Pool.objects.values_list(*columns).get(name="other")
    assert not set(zip(columns, before, strict=True)) & set(zip(columns, changed, strict=True)), "each is another"
    apply_change(PatchPool(name="other", patch={"resources": {"gpu": {"weight": 7}}}))
    assert _confirm(root, _revert(root, entry)).status_code == 302
    assert Pool.objects.values_list(*columns).get(name="other") == before
    other = Pool.objects.get(name="other")
    assert (other.weight, other.enable_maintenance) == (7, False)


def test_a_cohort_is_reverted_with_its_limits(as_person: SignedIn) -> None:
    root = as_person("root")
    rows = [{"resource": "gpu", "nominal": 8, "lending_limit": 3}, {"resource": "cpu", "nominal": 64}]
    apply_change(PutCohort(name="lab", body={"parent": "org", "quotas": rows, "weight": 2}))
    before = Cohort.objects.values("parent__name", "quotas", "weight").get(name="lab")
    apply_change(PutCohort(name="lab", body={"parent": None, "quotas": [{"resource": "gpu", "nominal": 9}]}))
    assert Cohort.objects.values("parent__name", "quotas", "weight").get(name="lab") != before
    assert _confirm(root, _revert(root, _latest("cohort/lab"))).status_code == 302
    assert Cohort.objects.values("parent__name", "quotas", "weight").get(name="lab") == before
    apply_change(DeleteCohort(name="lab"))
    assert _confirm(root, _revert(root, _latest("cohort/lab"))).status_code == 302
    assert Cohort.objects.values("parent__name", "quotas", "weight").get(name="lab") == before
    assert _confirm(root, _revert(root, _latest("cohort/lab"))).status_code == 302
    assert not Cohort.objects.filter(name="lab").exists()


def test_a_cluster_is_reverted(as_person: SignedIn) -> None:
    columns = ("description", "offline", "reserve_after", "ageing", "victims", "degraded", "flavors")
    before = Backend.objects.values_list(*columns).get(name="sim")
    nodes = [{"name": node.name, "gpus": node.gpus} for node in Node.objects.filter(backend__name="sim")]
    body = {"namespace": "ns", "description": "new", "offline": True, "reserve_after": None, "nodes": nodes}
    body |= {"victims": "least_lost", "degraded": "ordered"}
    body["flavors"] = [{"name": "h100", "node_labels": {"zone": "b"}}]
    apply_change(PutBackend(name="sim", body=body))
    assert Backend.objects.values_list(*columns).get(name="sim") != before
    root = as_person("root")
    entry = AuditEntry.objects.filter(object="backend/sim", action="backend.updated").latest("id")
    assert _confirm(root, _revert(root, entry)).status_code == 302
    assert Backend.objects.values_list(*columns).get(name="sim") == before
    assert _latest("backend/sim").description == f"Revert of audit entry {entry.pk}"
    assert _revert(as_person("viewer"), entry) == ""


def test_a_kubernetes_cluster_is_reverted_but_its_credential(as_person: SignedIn) -> None:
    first = {"type": "kubernetes", "namespace": "k", "access": "in_cluster", "sync_mode": "report"}
    apply_change(PutBackend(name="prod", body=first))
    apply_change(PutBackend(name="prod", body={"sync_mode": "off", "node_pool": "a100"}))
    root, settings = as_person("root"), _latest("backend/prod")
    apply_change(PutBackend(name="prod", body={"description": "new", "offline": True}))
    row = AuditEntry.objects.filter(object="backend/prod", after__has_key="offline_requested").latest("id")
    assert _confirm(root, _revert(root, settings)).status_code == 302
    cluster = KubernetesSettings.objects.get(backend__name="prod")
    assert (cluster.sync_mode, cluster.node_pool, cluster.access) == ("report", "", "in_cluster")
    assert Backend.objects.get(name="prod").description == "new", "a later change stays"
    assert _confirm(root, _revert(root, row)).status_code == 302
    prod = Backend.objects.get(name="prod")
    assert (prod.description, prod.offline_requested) == ("", False)
    Backend.objects.filter(name="prod").update(offline=not prod.offline)
    assert _revert(root, _latest("backend/prod")) == "", "the state of the cluster: no form changes it"
    KubernetesSettings.objects.filter(backend=prod).update(credential_mark="another")
    assert _revert(root, _latest("backend/prod")) == "", "an entry has no secret that could come back"


def test_a_gpu_quota_is_reverted(as_person: SignedIn) -> None:
    root, first = as_person("root"), {"total": {"maxWorkers": 4, "requests": {"tflops": "100", "vram": "16Gi"}}}
    apply_change(PutGpuQuota(namespace="lab", spec=first))
    before = root.get("/api/configs/gpu_quota/lab").json()["spec"]
    apply_change(PutGpuQuota(namespace="lab", spec={"total": {"maxWorkers": 1}}))
    assert _confirm(root, _revert(root, _latest("gpu_quota/lab"))).status_code == 302
    assert root.get("/api/configs/gpu_quota/lab").json()["spec"] == before
    apply_change(DeleteGpuQuota(namespace="lab"))
    assert _confirm(root, _revert(root, _latest("gpu_quota/lab"))).status_code == 302
    assert root.get("/api/configs/gpu_quota/lab").json()["spec"] == before
    created = AuditEntry.objects.filter(object="gpu_quota/lab", action="gpu_quota.created").latest("id")
    assert _confirm(root, _revert(root, created)).status_code == 302
    assert not GpuQuota.objects.filter(namespace="lab").exists()


def test_roles_are_given_back_and_taken_away(as_person: SignedIn) -> None:
    root, worker = as_person("root"), User.objects.get(username="worker")
    before = worker.as_actor().roles
    apply_change(SetRoles(username="worker", roles=[*before, "osmo-viewer"]))
    granted = AuditEntry.objects.filter(object="user/worker", action="role.granted").latest("id")
    assert _confirm(root, _revert(root, granted)).status_code == 302
    assert User.objects.get(username="worker").as_actor().roles == before
    assert _revert(root, granted) == "", "it is reverted already"
    revoked = AuditEntry.objects.filter(object="user/worker", action="role.revoked").latest("id")
    assert _confirm(root, _revert(root, revoked)).status_code == 302
    assert "osmo-viewer" in User.objects.get(username="worker").as_actor().roles


def test_scheduler_settings_are_reverted(as_person: SignedIn) -> None:
    root, before = as_person("root"), current_config()
    apply_change(UpdateSettings(subpool_drain_interval_minutes=7, max_retry_per_task=9))
    assert _confirm(root, _revert(root, _latest("config/workflow"))).status_code == 302
    now = current_config()
    assert now.subpool_drain_interval_minutes == before.subpool_drain_interval_minutes
    assert now.max_retry_per_task == before.max_retry_per_task


def test_a_change_that_no_form_makes_has_no_revert(as_person: SignedIn) -> None:
    apply_change(PatchPool(name="other", patch={"default_exec_timeout": "5m", "description": "new"}))
    assert _revert(as_person("root"), _latest("pool/other")) == ""


def test_entries_of_one_cause_are_one_row_that_unfolds(as_person: SignedIn) -> None:
    caps = {"requests": {"tflops": "1000", "vram": "100Gi"}, "limits": {"tflops": "1000", "vram": "100Gi"}}
    apply_change(PutGpuQuota(namespace="infer", spec={"total": {**caps, "maxWorkers": 50}}))
    amount = {"tflops": "10", "vram": "1Gi"}
    for number in range(4):
        worker = {"namespace": "infer", "id": f"w{number}", "workload": "embed", "request": amount, "limit": amount}
        allocate(AllocateWorker.from_json(worker), actor=SYSTEM)
    root = as_person("root")
    page = root.get("/activity/audit")
    (cause,) = [each for each in page.context["causes"] if each[0].action == "gpu_allocation.committed"]
    assert len(cause) == 4
    text = page.content.decode()
    assert "4 entries on this page, the newest: system allocated worker w3 " in text
    assert all(f'href="/activity/audit/{entry.pk}"' in text for entry in page.context["window"].rows), "all unfold"
    assert sum(map(len, page.context["causes"])) == len(page.context["window"].rows)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=40), actor=actor_named("chief"))
    first = root.get("/activity/audit").context["causes"][0]
    assert [entry.action for entry in first] == ["subpool.updated"], "one change stands alone"


def test_entries_of_work_can_be_left_out_or_shown_alone(as_person: SignedIn) -> None:
    submit_workflow("team--a")
    root = as_person("root")
    kinds = {
        show: {
            entry.action.startswith("workflow.") for entry in root.get(f"/activity/audit?{show}").context["window"].rows
        }
        for show in ("", "show=configuration", "show=work")
    }
    assert kinds == {"": {True, False}, "show=configuration": {False}, "show=work": {True}}
    assert '<span class="oa-chip__text">Show: work only' in root.get("/activity/audit?show=work").content.decode()
