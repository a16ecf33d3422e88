"""GPU quota in the browser: permissions, and the changes of osmo-admin."""

from __future__ import annotations

import csv
import json
import re
from datetime import timedelta
from io import StringIO

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.models import AuditEntry, GpuAllocation, GpuQuota, GpuUsageSample, Pool
from pools.selectors.gpu_namespace import read_namespaces
from pools.selectors.gpu_usage import usage_history
from pools.services.gpu_quota.gpu_quotas import sample_usage
from tests.integration.admin.conftest import SignedIn, confirm_change
from tests.support.world import ModuleData, apply_change
from tests.unit.gpu_quota.builders import make_amounts

SPEC = {
    "total": {"requests": {"tflops": "100", "vram": "8Gi"}, "maxWorkers": 5},
    "single": {"maxRequests": {"tflops": "50"}, "maxGPUCount": 8, "defaultLimits": {"vram": "1Gi"}},
}
LIST, PAGE = "/gpu-quotas", "/gpu-quotas/team-a"


@pytest.fixture(scope="module")
def quota_once(pools_and_users_once: None, module_data: ModuleData) -> None:
    with module_data():
        Pool.objects.filter(name="team").update(config={"gpu_quota_namespace": "team-a"})
        apply_change(PutGpuQuota(namespace="team-a", spec=SPEC))
        worker = {"workload": "infer", "request": make_amounts(10, "1Gi"), "limit": make_amounts(20, "2Gi"), "count": 2}
        for name, is_assumed in (("w1", False), ("w2", True)):
            apply_change(AllocateWorker(namespace="team-a", id=name, assume=is_assumed, **worker))
        apply_change(AllocateWorker(namespace="team-b", id="other", request=make_amounts(1)))


@pytest.fixture
def quota(quota_once: None, pools_and_users: None) -> None:
    """Namespace team-a, where the work of pool team counts, with a worker and a reservation; and team-b, unlimited."""


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return str(answer.content.decode())


def test_who_sees_which_namespace(quota: None, as_person: SignedIn) -> None:
    for who in ("root", "viewer", "chief", "worker", "stranger", "nobody", "prefix"):
        person = as_person(who)
        page = text(person, LIST)
        is_of_platform, is_of_pool = who in {"root", "viewer"}, who in {"chief", "worker"}
        assert ("team-a" in page, "team-b" in page) == (is_of_platform or is_of_pool, is_of_platform), who
        assert ("Limit a namespace" in page) is (who == "root")
        if is_of_platform:
            assert "UNLIMITED" in page
            continue
        assert ("No namespace is limited" in page) is not is_of_pool, who
        assert person.get("/gpu-quotas/team-b").status_code == 404, who
        answers = [person.get(address).status_code for address in (PAGE, f"{PAGE}/configuration")]
        assert answers == [200 if is_of_pool else 404, 403], who
        if is_of_pool:
            assert ("/release/w1" in text(person, PAGE)) is (who == "chief")


def test_the_file_has_numbers_with_their_caps(quota: None, as_person: SignedIn) -> None:
    names, first, second = csv.reader(StringIO(text(as_person("root"), f"{LIST}?format=csv")))
    found, other = (dict(zip(names, row, strict=True)) for row in (first, second))
    assert (found["namespace"], found["requests_tflops_used"], found["requests_vram_used_bytes"]) == (
        "team-a", "20", str(2 * 2**30),
    )  # fmt: skip
    assert (other["namespace"], other["requests_tflops_used"], other["workers_cap"], other["status"]) == (
        "team-b", "1", "", "UNLIMITED",
    )  # fmt: skip


def test_the_gauges_and_the_workers_behind_them(quota: None, as_person: SignedIn) -> None:
    page = text(as_person("root"), PAGE)
    assert "TFLOPS requested: 20 of 100 used, 20 reserved, 80 percent available" in page
    for part in ("10 TFLOPS, 1Gi", "20 TFLOPS, 2Gi", "RUNNING", "RESERVED", "infer", "worker may have at most 8 GPUs"):
        assert part in page
    assert "Use in the last week" not in page
    sample_usage()
    assert "TFLOPS requested: At most 20 in the last week, now 20." in text(as_person("root"), PAGE)


def test_a_chart_spans_the_week_and_its_line_begins_with_the_first_sample(quota: None, as_person: SignedIn) -> None:
    sample_usage()
    now = timezone.now()
    (sample,) = GpuUsageSample.objects.filter(namespace="team-a")
    for age in (timedelta(days=3), timedelta(minutes=15)):
        GpuUsageSample.objects.filter(pk=sample.pk).update(at=now - age)
        found = re.search(
            r'<script id="gpu-requests-tflops" type="application/json">(.*?)</script>', text(as_person("root"), PAGE)
        )
        assert found is not None
        drawn = json.loads(found[1])
        assert (drawn["unit"], drawn["series"][0]["values"]) == ("TFLOPS", [None, 20, 20, 20, 20])
        assert (drawn["series"][1]["label"], drawn["series"][1]["values"]) == ("Cap", [None, None, 100, 100, 100])
        assert drawn["times"][1] == (now - age).timestamp()
        assert drawn["axis"][1] - drawn["axis"][0] == timedelta(days=7).total_seconds()
        assert drawn["times"][0] == drawn["axis"][0]
        assert 0 <= drawn["times"][-1] - now.timestamp() < 60


def test_the_line_of_the_cap_is_the_cap_of_that_time(quota: None) -> None:
    sample_usage()
    lower = {"requests": {"tflops": "50"}, "alertThresholdPercent": 50}
    apply_change(PutGpuQuota(namespace="team-a", spec={"total": lower}))
    apply_change(AllocateWorker(namespace="team-a", id="w3", request=make_amounts(10)))  # an alert changes no cap
    apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "80"}}}))
    charts = {each.key: each for each in usage_history(read_namespaces(["team-a"])["team-a"])}
    chart = charts["gpu-requests-tflops"]
    assert len(set(chart.times)) == len(chart.times) == 6, "the week, three changes, the sample and now"
    assert [each.values for each in chart.series] == [
        [None, None, 20, 20, 20, 30],
        [None, 100, 100, 50, 80, 80],
    ]
    assert [each.label for each in charts["gpu-requests-vram"].series] == ["Used", "Cap"]
    assert charts["gpu-requests-vram"].series[1].values[-3:] == [None] * 3, "these caps were removed"


def test_free_capacity(quota: None, as_person: SignedIn) -> None:
    page = text(as_person("worker"), f"{PAGE}?request_tflops=10&count=2")
    assert '<span class="oa-strong">3</span> more such workers fit.' in page
    assert "total.max.tflops.request" in page
    assert "count must be a whole number" in text(as_person("worker"), f"{PAGE}?count=zero")
    assert "any number fits" in text(as_person("root"), "/gpu-quotas/team-b?request_tflops=1")


def test_an_alert_is_visible(quota: None, as_person: SignedIn) -> None:
    apply_change(AllocateWorker(namespace="team-a", id="w3", request=make_amounts(50)))
    apply_change(AllocateWorker(namespace="team-a", id="w4", request=make_amounts(10)))
    apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "83"}}}))
    assert "ALERT: the threshold of 95 % was passed" in text(as_person("chief"), PAGE)
    assert "ALERT" in text(as_person("chief"), LIST)
    apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "50"}}}))
    assert "EXCEEDED: more is in use than the quota allows" in text(as_person("chief"), PAGE)


def test_caps_are_set_changed_and_deleted(quota: None, as_person: SignedIn) -> None:
    root = as_person("root")
    form = {"namespace": "team-b", "requests_tflops": "5", "max_workers": "3", "alert_threshold": "90"}
    form |= {"max_limits_vram": "1Gi", "default_requests_tflops": "1", "description": "as agreed"}
    assert confirm_change(root, "/gpu-quotas/-/create", **form).status_code == 302
    row = GpuQuota.objects.get(namespace="team-b")
    assert row.spec == {
        "total": {"requests": {"tflops": "5"}, "maxWorkers": 3, "alertThresholdPercent": 90},
        "single": {"maxLimits": {"vram": "1Gi"}, "defaultRequests": {"tflops": "1"}},
    }
    assert AuditEntry.objects.filter(object="gpu_quota/team-b", description="as agreed").exists()
    again = root.post("/gpu-quotas/-/create", form | {"step": "preview"}, follow=True)
    assert (again.status_code, "has a quota already" in again.content.decode()) == (400, True)
    page = text(root, "/gpu-quotas/team-b/configuration")
    assert 'value="1Gi"' in page
    address = "/gpu-quotas/team-b/configuration"
    shown = root.post(address, {"max_workers": "5", "step": "preview"}, follow=True)
    (workers,) = [each.meter for each in shown.context["gauges"] if each.label == "Workers"]
    assert (workers.used, workers.cap, workers.committed, workers.left) == ("1", "5", 200, 800)
    assert "Workers: 1 of 5 used, 80 percent available" in shown.content.decode()
    assert confirm_change(root, address, max_workers="4").status_code == 302
    assert GpuQuota.objects.get(namespace="team-b").spec["total"]["maxWorkers"] == 4
    assert confirm_change(root, "/gpu-quotas/team-b/delete").status_code == 302
    assert not GpuQuota.objects.filter(namespace="team-b").exists()
    assert GpuAllocation.objects.filter(namespace="team-b", state="committed").exists()
    wrong = {"requests_tflops": "-1", "limits_vram": "1 Gi", "max_workers": "many", "alert_threshold": "101"}
    refused = root.post("/gpu-quotas/team-a/configuration", wrong | {"step": "preview"}, follow=True)
    assert (refused.status_code, set(refused.context["form"].errors)) == (400, set(wrong)), "each at its field"


def test_a_worker_is_released(quota: None, as_person: SignedIn) -> None:
    assert "ends no pod" in text(as_person("chief"), "/gpu-quotas/team-a/release/w1")
    assert as_person("worker").post("/gpu-quotas/team-a/release/w1", {}).status_code in {400, 403}
    assert GpuAllocation.objects.get(name="w1").state == "committed"
    assert as_person("chief").post("/gpu-quotas/team-a/release/w1", {}).status_code == 302
    assert GpuAllocation.objects.get(name="w1").state == "released"
    assert "RELEASED" in text(as_person("chief"), f"{PAGE}?released=on")
