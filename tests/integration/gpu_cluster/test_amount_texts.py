"""One text of an amount gets one verdict in every way: the annotations of a worker's pod, the API, and a quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.models import Backend, GpuAllocation
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.services.webhooks.marks import current_mark
from scheduling.services.webhooks.queue_guard import queue_guard_for
from tests.support.agent_harness import kubernetes_backend
from tests.support.api_client import ApiClient
from tests.support.world import apply_change, call_as, make_user

pytestmark = pytest.mark.django_db
PREFIX = "tensor-fusion.ai/"

READABLE = ("0", "0.1", "333m", "1e2", "250m", "1.5Gi", "+1", "5.", ".5", "00012", "7E", "9223372036854775807")
UNREADABLE = (
    "",
    " 1000",
    "1000 ",
    "1 Gi",
    "banana",
    "NaN",
    "Inf",
    "-5",
    "--1",
    "1e400",
    "1n",
    "1000.0001",
    "9223372036854775808",
    "8Ei",
    "16Ei",
    "100GI",
    "100x",
    "Gi",
    "0x10",
    "1_0",
    "1,5",
    "1.2.3",
    "１０",
    "1\n",
    "1" * 65,
)
READABLE_COUNTS = ("1", "8", "128", "007")
UNREADABLE_COUNTS = ("", "0", "129", "x", "-1", "+1", "1.0", "1e1", " 1", "1 ", "٣", "0x1", "99999999999999999999")
AMOUNTS = ("tflops-request", "tflops-limit", "vram-request", "vram-limit")


@pytest.fixture(scope="module", autouse=True)
def lab(module_data: Callable[[], Any]) -> None:
    with module_data():
        kubernetes_backend("ns")
        apply_change(PutQueueGuard(backend="lab", mode="enforce"))


@pytest.fixture
def call(db: None) -> ApiClient:
    make_user("root", "osmo-admin")
    return call_as("root")


def pod(marks: Mapping[str, Any], uid: str = "u1") -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "team-a", "uid": uid, "labels": {f"{PREFIX}component": "worker"}}
    return {"metadata": {**metadata, "annotations": {f"{PREFIX}{key}": each for key, each in marks.items()}}}


def review(marks: Mapping[str, Any], *, old: Mapping[str, Any] | None = None, uid: str = "u1") -> dict[str, Any]:
    mark = current_mark(queue_guard_for(Backend.objects.get(name="lab")))
    request = {
        "uid": "q1",
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "team-a",
        "name": "w",
        "userInfo": {"username": "sa"},
        "object": pod(marks, uid),
        "oldObject": None if old is None else pod(old, uid),
        "dryRun": False,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = Client().post(f"/webhooks/gpu_quota/lab/{mark}", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return dict(answer.json()["response"])


def refused_fields(answer: Mapping[str, Any]) -> list[str]:
    assert not answer["allowed"]
    return [cause["field"].removeprefix(f"metadata.annotations[{PREFIX}")[:-1] for cause in answer_causes(answer)]


def answer_causes(answer: Mapping[str, Any]) -> list[dict[str, str]]:
    return list(answer["status"]["details"]["causes"])


@pytest.mark.parametrize("text", [*READABLE, *UNREADABLE])
def test_an_amount_gets_the_same_verdict_everywhere(call: ApiClient, text: str) -> None:
    status = 200 if text in READABLE else 400
    for name in AMOUNTS:
        answer = review({name: text}, uid=name)
        assert answer["allowed"] is (status == 200), (name, answer)
        if status != 200:
            assert refused_fields(answer) == [name]
            assert answer["status"]["code"] == 422
            assert answer["status"]["message"].startswith(f"{PREFIX}{name} ")
        resource, side = name.split("-")
        allocation = {"id": f"a-{name}", side: {resource: text}}
        assert call("POST", "/api/gpu_quota/team-a/allocation", allocation).status == status
        query = urlencode({f"{side}_{resource}": text})
        assert call("GET", f"/api/gpu_quota/team-a/room?{query}").status == status
        for part in ("defaultRequests", "maxRequests", "defaultLimits", "maxLimits"):
            spec = {"spec": {"single": {part: {resource: text}}}}
            assert call("PUT", "/api/configs/gpu_quota/team-b", spec).status == status


@pytest.mark.parametrize("text", [*READABLE_COUNTS, *UNREADABLE_COUNTS])
def test_a_number_of_gpus_gets_the_same_verdict_everywhere(call: ApiClient, text: str) -> None:
    is_good = text in READABLE_COUNTS
    answer = review({"gpu-count": text})
    assert answer["allowed"] is is_good
    if not is_good:
        assert refused_fields(answer) == ["gpu-count"]
        assert "must be a whole number from 1 to 128" in answer["status"]["message"]
    fits = call("GET", f"/api/gpu_quota/team-a/room?{urlencode({'count': text})}")
    assert (fits.status == 200) is is_good


def test_every_unreadable_annotation_is_named() -> None:
    marks = {"tflops-request": "banana", "vram-limit": "-5", "gpu-count": "x", "compute-percent-limit": "101"}
    answer = review(marks)
    assert refused_fields(answer) == ["tflops-request", "vram-limit", "gpu-count", "compute-percent-limit"]
    assert not GpuAllocation.objects.exists()


@pytest.mark.parametrize("value", [1000, None, ["10"], {"a": "b"}, True])
def test_an_annotation_that_is_no_text_is_refused(value: Any) -> None:
    assert refused_fields(review({"tflops-request": value})) == ["tflops-request"]


class TestPercentages:
    """A percentage of a GPU has no TFLOPS that we know."""

    @pytest.mark.parametrize("text", ["", "101", "-1", "50%", "banana", "1e400"])
    @pytest.mark.parametrize("side", ["request", "limit"])
    def test_one_that_cannot_be_read_is_refused_everywhere(self, side: str, text: str) -> None:
        assert refused_fields(review({f"compute-percent-{side}": text})) == [f"compute-percent-{side}"]

    @pytest.mark.parametrize(
        ("side", "spec"),
        [
            ("request", {"total": {"requests": {"tflops": "10"}}}),
            ("request", {"single": {"maxRequests": {"tflops": "10"}}}),
            ("request", {"total": {"requests": {"tflops": "10"}}, "single": {"defaultRequests": {"tflops": "1"}}}),
            ("limit", {"total": {"limits": {"tflops": "10"}}}),
            ("limit", {"single": {"maxLimits": {"tflops": "10"}}}),
        ],
    )
    def test_under_a_cap_on_tflops_it_is_refused(self, side: str, spec: Any) -> None:
        apply_change(PutGpuQuota(namespace="team-a", spec=spec))
        answer = review({f"compute-percent-{side}": "100"})
        assert refused_fields(answer) == [f"compute-percent-{side}"]
        assert answer["status"]["code"] == 403
        assert f"{PREFIX}tflops-{side}" in answer["status"]["message"], "the message says what to give instead"
        assert not GpuAllocation.objects.exists()

    def test_without_such_a_cap_it_passes_with_a_warning(self) -> None:
        apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"limits": {"tflops": "10"}, "maxWorkers": 5}}))
        answer = review({"compute-percent-request": "100"})
        assert answer["allowed"]
        assert "compute-percent-request" in answer["warnings"][0]
        assert GpuAllocation.objects.get().uncounted == "compute-percent-request"

    def test_without_a_quota_nothing_is_said(self) -> None:
        assert review({"compute-percent-request": "100"}) == {"uid": "q1", "allowed": True}

    def test_zero_percent_is_none(self) -> None:
        apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "10"}}}))
        assert review({"tflops-request": "10", "compute-percent-request": "0"})["allowed"]

    @pytest.mark.parametrize("tflops", ["request", "limit"])
    @pytest.mark.parametrize("percent", ["request", "limit"])
    def test_two_ways_in_one_pod_are_refused(self, tflops: str, percent: str) -> None:
        answer = review({f"tflops-{tflops}": "50", f"compute-percent-{percent}": "50"})
        assert refused_fields(answer) == [f"compute-percent-{percent}"]
        assert answer["status"]["code"] == 422
        assert f"{PREFIX}tflops-{tflops}" in answer["status"]["message"]


class TestChanges:
    """An update is judged by what it changes."""

    def test_a_change_to_an_unreadable_amount_is_refused(self) -> None:
        assert review({"tflops-request": "10"})["allowed"]
        changed = {"tflops-request": "banana"}
        assert refused_fields(review(changed, old={"tflops-request": "10"})) == ["tflops-request"]
        assert refused_fields(review(changed, old={"tflops-request": "apple"})) == ["tflops-request"]

    def test_a_pod_from_before_passes_while_its_amounts_stay(self) -> None:
        old = {"tflops-request": "banana"}
        assert review({**old, "gpu-ids": "a"}, old=old)["allowed"]

    def test_it_may_be_corrected(self) -> None:
        assert review({"tflops-request": "10"}, old={"tflops-request": "banana"})["allowed"]
        assert GpuAllocation.objects.get().request_tflops == 10

    def test_another_spelling_is_no_change_of_size(self) -> None:
        apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": 0}}))
        assert review({"tflops-request": "1000m"}, old={"tflops-request": "1"})["allowed"]

    def test_a_new_percentage_is_judged(self) -> None:
        apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"requests": {"tflops": "10"}}}))
        changed = {"compute-percent-request": "100"}
        assert refused_fields(review(changed, old={})) == ["compute-percent-request"]


@pytest.mark.parametrize("mode", ["audit", "off"])
def test_a_guard_that_does_not_enforce_refuses_nothing(mode: str) -> None:
    apply_change(PutQueueGuard(backend="lab", mode=mode))
    answer = review({"tflops-request": "banana"})
    assert answer["allowed"]
    assert ("would refuse" in " ".join(answer.get("warnings", ()))) is (mode == "audit")
