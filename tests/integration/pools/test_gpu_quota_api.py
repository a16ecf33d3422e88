"""GPU quota over HTTP, its answers (design, A7): quotas, allocations, refusals with their numbers, roles."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from pools.models import AuditEntry, GpuAllocation, GpuQuota, GpuUsage, Pool
from pools.services.gpu_quota.gpu_allocations import expire_assumed, purge_released
from pools.services.gpu_quota.gpu_quotas import sample_usage
from tests.support import world
from tests.support.api_client import ApiAnswer, ApiClient

QUOTA = "/api/configs/gpu_quota"
HERE = "/api/gpu_quota/team-a/allocation"
SPEC = {
    "total": {
        "requests": {"tflops": "1000", "vram": "100Gi"}, "limits": {"tflops": "2000", "vram": "200Gi"},
        "maxWorkers": 50, "alertThresholdPercent": 95,
    },
    "single": {
        "maxRequests": {"tflops": "100", "vram": "16Gi"}, "maxLimits": {"tflops": "200", "vram": "32Gi"},
        "maxGPUCount": 8,
    },
}  # fmt: skip


def put_gpu_quota(admin: ApiClient, spec: Any, namespace: str = "team-a", **headers: str) -> ApiAnswer:
    return admin("PUT", f"{QUOTA}/{namespace}", {"spec": spec}, **headers)


def worker_body(name: str, tflops: object = "10", vram: object = "1Gi", count: int = 1, **more: Any) -> dict[str, Any]:
    amounts = {"tflops": tflops, "vram": vram}
    return {"id": name, "workload": "infer", "request": amounts, "limit": amounts, "count": count, **more}


def used_amounts(admin: ApiClient, namespace: str = "team-a") -> Any:
    return admin("GET", f"{QUOTA}/{namespace}").body["status"]["used"]


def test_a_quota_is_put_and_read(admin: ApiClient) -> None:
    answer = put_gpu_quota(admin, SPEC)
    assert answer.status == 200
    assert answer.body["namespace"] == "team-a"
    assert answer.body["spec"] == SPEC
    status = answer.body["status"]
    nothing = {"tflops": "0", "vram": "0"}
    assert status["used"] == {"requests": nothing, "limits": nothing, "workers": 0}
    amounts = ("requests.tflops", "requests.vram", "limits.tflops", "limits.vram", "workers")
    assert status["availablePercent"] == dict.fromkeys(amounts, "100.00")
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Ready", "True"), ("Exceeded", "False"), ("AlertThresholdReached", "False"),
    ]  # fmt: skip
    shown = {"type", "status", "reason", "message", "lastTransitionTime"}
    assert all(set(each) == shown for each in status["conditions"])
    assert answer.headers["ETag"] == '"1"'
    assert admin("GET", f"{QUOTA}/team-a").body == answer.body
    assert admin("GET", QUOTA).body == {"quotas": [answer.body]}
    assert admin("PUT", f"{QUOTA}/team-a", answer.body).headers["ETag"] == '"1"', "put back, nothing changes"
    dry = admin("PUT", f"{QUOTA}/team-b", {"spec": SPEC}, query={"dry_run": True}).body
    assert (dry["before"], dry["after"]["spec"]) == (None, SPEC)


def test_a_body_that_names_another_namespace_is_refused(admin: ApiClient) -> None:
    body = put_gpu_quota(admin, SPEC).body
    answer = admin("PUT", f"{QUOTA}/team-b", body)
    assert (answer.status, answer.codes) == (400, {("namespace", "bad_value")})
    assert list(GpuQuota.objects.values_list("namespace", flat=True)) == ["team-a"]


def test_all_faults_of_a_spec_at_once(admin: ApiClient) -> None:
    spec = {"total": {"requests": {"tflops": "-1", "compute": 1}, "maxWorkers": -1}, "one": 1}
    answer = put_gpu_quota(admin, spec, "Bad_")
    assert answer.status == 400
    assert answer.codes == {
        ("namespace", "bad_name"),
        ("spec.one", "unknown_key"),
        ("spec.total.requests.compute", "unknown_key"),
        ("spec.total.requests.tflops", "negative"),
        ("spec.total.maxWorkers", "negative"),
    }
    assert admin("PUT", f"{QUOTA}/team-a", {}).codes == {("spec", "missing")}
    assert admin("PUT", f"{QUOTA}/team-a", {"spec": {}, "specs": 1}).codes == {("specs", "unknown_key")}
    assert not GpuQuota.objects.exists()


def test_versions(admin: ApiClient) -> None:
    put_gpu_quota(admin, SPEC)
    assert put_gpu_quota(admin, {}, if_match='"7"').status == 412
    assert put_gpu_quota(admin, {}, if_match='"1"').headers["ETag"] == '"2"'
    admin("POST", HERE, worker_body("w1"))
    assert admin("GET", f"{QUOTA}/team-a").headers["ETag"] == '"2"', "use does not change the version"
    assert admin("DELETE", f"{QUOTA}/team-a", if_match='"1"').status == 412
    assert admin("DELETE", f"{QUOTA}/team-a", if_match='"2"').body is None
    assert admin("GET", f"{QUOTA}/team-a").status == 404
    assert admin("DELETE", f"{QUOTA}/team-a").status == 404


def test_an_allocation_counts_its_gpus_and_one_worker(admin: ApiClient) -> None:
    put_gpu_quota(admin, SPEC)
    answer = admin("POST", HERE, worker_body("w1", "10", "1Gi", 2))
    assert answer.status == 200
    keys = ("id", "namespace", "workload", "count", "state")
    assert [answer.body[key] for key in keys] == ["w1", "team-a", "infer", 2, "committed"]
    assert answer.body["request"] == answer.body["limit"] == {"tflops": "10", "vram": "1Gi"}
    assert answer.body["created"]
    both = {"tflops": "20", "vram": "2Gi"}
    assert used_amounts(admin) == {"requests": both, "limits": both, "workers": 1}
    assert admin("GET", HERE).body == {"allocations": [answer.body], "more_entries": False}
    assert admin("GET", f"{HERE}/w1").body == answer.body


def test_a_broken_total_cap_is_a_conflict_with_numbers(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "50"}}})
    for name in range(5):
        assert admin("POST", HERE, worker_body(f"w{name}")).status == 200
    answer = admin("POST", HERE, worker_body("w5"))
    assert answer.status == 409
    assert answer.body["error_code"] == "RESOURCE"
    message = "quota exceeded in namespace team-a for total.max.tflops.request: requested 10, limit 50, used 50"
    assert answer.body["message"] == message
    (detail,) = answer.body["details"]
    assert detail == {
        "path": "request.tflops",
        "code": "total.max.tflops.request",
        "message": message,
        "namespace": "team-a",
        "requested": "10",
        "limit": "50",
        "used": "50",
        "resolvable": True,
    }
    assert admin("DELETE", f"{HERE}/w0").body["state"] == "released"
    assert admin("POST", HERE, worker_body("w5")).status == 200


def test_a_cap_on_one_worker_is_final_and_every_broken_rule_is_listed(admin: ApiClient) -> None:
    put_gpu_quota(admin, SPEC)
    answer = admin("POST", HERE, worker_body("w1", "101", "200Gi", 9))
    assert answer.status == 400
    assert [detail["code"] for detail in answer.body["details"]] == [
        "single.max.tflops.request", "single.max.vram.request", "single.max.vram.limit", "single.max.gpuCount.limit",
        "total.max.vram.request", "total.max.vram.limit",
    ]  # fmt: skip
    first, total = answer.body["details"][0], answer.body["details"][-1]
    assert answer.body["message"] == first["message"]
    assert total["message"].endswith("requested 1800Gi, limit 200Gi, used 0")
    assert (first["requested"], first["limit"], first["used"], first["resolvable"]) == ("101", "100", None, False)
    assert (total["requested"], total["limit"], total["used"], total["resolvable"]) == ("1800Gi", "200Gi", "0", True)
    assert not GpuAllocation.objects.exists()


def test_a_repeated_allocation_of_a_live_id_changes_nothing(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"maxWorkers": 1}})
    first = admin("POST", HERE, worker_body("w1"))
    assert admin("POST", HERE, worker_body("w1")).body == first.body
    assert admin("POST", HERE, worker_body("w1", "10000m", "1024Mi")).body == first.body, "the same amounts"
    other = admin("POST", HERE, worker_body("w1", "11"))
    assert (other.status, other.codes) == (409, {("id", "other_amounts")})
    assert used_amounts(admin)["workers"] == 1
    released = admin("DELETE", f"{HERE}/w1").body
    assert released["released"] is not None, "after its release"
    assert admin("DELETE", f"{HERE}/w1").body == released, "a repetition is not an error"
    assert admin("DELETE", f"{HERE}/w2").status == 404
    again = admin("POST", HERE, worker_body("w1", "11"))
    assert (again.status, again.body["state"], again.body["request"]["tflops"]) == (200, "committed", "11")
    assert GpuAllocation.objects.filter(name="w1").count() == 2


def test_without_a_quota_everything_fits_and_is_counted(admin: ApiClient) -> None:
    assert admin("POST", HERE, worker_body("w1", "1E")).status == 200
    assert admin("GET", f"{QUOTA}/team-a").status == 404
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "10"}}})
    assert used_amounts(admin)["workers"] == 1, "a later quota counts the present workers"
    assert {each["type"]: each["status"] for each in admin("GET", f"{QUOTA}/team-a").body["status"]["conditions"]} == {
        "Ready": "True",
        "Exceeded": "True",
        "AlertThresholdReached": "True",
    }
    admin("DELETE", f"{QUOTA}/team-a")
    put_gpu_quota(admin, SPEC)
    assert used_amounts(admin)["workers"] == 1


def test_defaults_fill_what_is_missing(admin: ApiClient) -> None:
    defaults = {"defaultRequests": {"tflops": "5", "vram": "1Gi"}, "defaultLimits": {"tflops": "7"}}
    put_gpu_quota(admin, {"single": defaults})
    asked = {"id": "w1", "request": {"tflops": "0"}, "limit": {"vram": "2Gi"}}
    made = admin("POST", HERE, asked).body
    assert (made["request"], made["limit"]) == ({"tflops": "5", "vram": "1Gi"}, {"tflops": "7", "vram": "2Gi"})
    put_gpu_quota(admin, {})
    assert admin("POST", HERE, asked).status == 409
    assert admin("POST", HERE, {"id": "w1", "request": made["request"], "limit": made["limit"]}).status == 200


def test_a_dry_run_allocates_nothing(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"maxWorkers": 1}})
    answer = admin("POST", HERE, worker_body("w1"), query={"dry_run": True})
    assert (answer.status, answer.body["after"]["state"], answer.body["violations"]) == (200, "committed", [])
    assert not GpuAllocation.objects.exists()
    admin("POST", HERE, worker_body("w1"))
    refused = admin("POST", HERE, worker_body("w2"), query={"dry_run": True})
    assert (refused.status, refused.body["after"]) == (200, None)
    assert refused.body["violations"][0]["code"] == "total.max.workers.limit"
    grown = admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "50"}}, query={"dry_run": True}).body
    assert [grown[when]["request"]["tflops"] for when in ("before", "after")] == ["10", "50"]


def test_an_adjustment_checks_what_grows(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "50"}}, "single": {"maxRequests": {"tflops": "30"}}})
    admin("POST", HERE, worker_body("w1", "10", count=2))
    admin("POST", HERE, worker_body("w2", "20"))
    assert admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "15"}}).body["request"]["tflops"] == "15"
    assert used_amounts(admin)["requests"]["tflops"] == "50"
    total = admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "15.001"}})
    assert total.status == 409
    (detail,) = total.body["details"]
    assert (detail["requested"], detail["limit"], detail["used"]) == ("30002m", "50", "50")
    final = admin("PATCH", f"{HERE}/w2", {"request": {"tflops": "30.001"}})
    assert (final.status, final.body["details"][0]["code"]) == (400, "single.max.tflops.request")
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "5"}}})
    assert admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "14"}}).status == 200, "a decrease is never refused"
    assert admin("PATCH", f"{HERE}/w1", {"limit": {"tflops": "99"}}).status == 200, "no cap on limits"
    requests, limits = {"tflops": "48", "vram": "3Gi"}, {"tflops": "218", "vram": "3Gi"}
    assert used_amounts(admin) == {"requests": requests, "limits": limits, "workers": 2}


def test_a_released_allocation_cannot_change(admin: ApiClient) -> None:
    admin("POST", HERE, worker_body("w1"))
    admin("DELETE", f"{HERE}/w1")
    assert admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "1"}}).codes == {("id", "released")}
    assert admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "1"}}).status == 409
    assert admin("POST", f"{HERE}/w1/commit").status == 409
    assert admin("PATCH", f"{HERE}/none", {"request": {"tflops": "1"}}).status == 404
    assert admin("POST", f"{HERE}/none/commit").status == 404
    assert admin("GET", HERE).body["allocations"] == []
    released = admin("GET", HERE, query={"include_released": True}).body["allocations"]
    assert [each["state"] for each in released] == ["released"]


def test_a_reservation_counts_in_checks_and_not_in_the_status(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"maxWorkers": 1}})
    answer = admin("POST", HERE, worker_body("w1"), query={"assume": True})
    assert (answer.body["state"], answer.body["expires"] is not None) == ("assumed", True)
    assert used_amounts(admin)["workers"] == 0
    refused = admin("POST", HERE, worker_body("w2"))
    assert (refused.status, refused.body["details"][0]["used"]) == (409, 1)
    assert admin("POST", f"{HERE}/w1/commit").body["state"] == "committed"
    assert admin("POST", f"{HERE}/w1/commit").body["state"] == "committed", "a repetition is not an error"
    assert used_amounts(admin)["workers"] == 1
    assert GpuUsage.objects.get().assumed_workers == 0


def test_a_reservation_expires(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"maxWorkers": 1}})
    admin("POST", HERE, worker_body("w1"), query={"assume": True})
    assert expire_assumed() == 0
    GpuAllocation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_assumed() == 1
    assert admin("GET", f"{HERE}/w1").body["state"] == "released"
    late = admin("POST", f"{HERE}/w1/commit")
    assert (late.status, "expired" in late.body["message"]) == (409, True)
    assert admin("POST", HERE, worker_body("w2")).status == 200


def test_all_faults_of_an_allocation_at_once(admin: ApiClient) -> None:
    body = {"request": {"tflops": "1 Gi", "compute": 5}, "count": 0, "gpus": 1}
    assert admin("POST", HERE, body).codes == {
        ("id", "missing"),
        ("request.tflops", "bad_value"),
        ("request.compute", "unknown_key"),
        ("count", "bad_value"),
        ("gpus", "unknown_key"),
    }
    assert admin("POST", "/api/gpu_quota/Bad_/allocation", worker_body("w1")).codes == {("namespace", "bad_name")}


def test_who_reads_a_quota_and_its_workers(caller: Any, admin: ApiClient, viewer: ApiClient) -> None:
    """Who writes them: tests/integration/identity/test_authorisation.py."""
    world.make_pool("team")
    Pool.objects.filter(name="team").update(config={"gpu_quota_namespace": "team-a"})
    world.make_pool("else")
    put_gpu_quota(admin, SPEC)
    boss, user, other = caller("b", "osmo-team-admin"), caller("u", "osmo-team-user"), caller("o", "osmo-else-admin")
    assert boss("POST", HERE, worker_body("w1")).status == 200
    assert boss("POST", "/api/gpu_quota/team-b/allocation", worker_body("w1")).status == 404
    for reader in (boss, user, viewer):
        assert [reader("GET", path).status for path in (f"{QUOTA}/team-a", HERE, f"{HERE}/w1")] == [200] * 3
        assert len(reader("GET", QUOTA).body["quotas"]) == 1
    assert [other("GET", path).status for path in (f"{QUOTA}/team-a", HERE, f"{HERE}/w1")] == [404] * 3
    assert other("GET", QUOTA).body == {"quotas": []}


def test_headroom(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "50", "vram": "100Gi"}}})
    admin("POST", HERE, worker_body("w1"), query={"assume": True})
    room = admin("GET", "/api/gpu_quota/team-a/room", query={"request_tflops": "15", "count": 2}).body
    assert (room["fits"], room["stopped_by"][0]["code"]) == (1, "total.max.tflops.request")
    assert admin("GET", "/api/gpu_quota/team-a/room").body == {"namespace": "team-a", "fits": None, "stopped_by": []}
    bad = admin("GET", "/api/gpu_quota/team-a/room", query={"request_tflops": "x", "count": 0})
    assert bad.codes == {("request_tflops", "bad_value"), ("count", "bad_value")}


def test_an_alert_is_one_event_per_crossing(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "100"}}})
    admin("POST", HERE, worker_body("w0", "90"))
    for tflops in ("5.5", "6", "7", "4", "6"):
        if admin("POST", HERE, worker_body("w1", tflops)).status == 409:
            admin("PATCH", f"{HERE}/w1", {"request": {"tflops": tflops}})
    alerts = AuditEntry.objects.filter(object="gpu_quota/team-a", action="gpu_quota.alert")
    assert alerts.count() == 1
    body = admin("GET", f"{QUOTA}/team-a").body
    assert (body["alerts"], body["alert_since"] is not None) == (1, True)
    before = body["status"]["conditions"]
    admin("DELETE", f"{HERE}/w0")
    body = admin("GET", f"{QUOTA}/team-a").body
    assert body["alert_since"] is None
    assert AuditEntry.objects.filter(object="gpu_quota/team-a", action="gpu_quota.calm").count() == 1
    after = body["status"]["conditions"]
    assert before[2]["lastTransitionTime"] < after[2]["lastTransitionTime"]
    assert before[0]["lastTransitionTime"] == after[0]["lastTransitionTime"]
    admin("POST", HERE, worker_body("w0", "93"))
    assert alerts.count() == 2


def test_a_second_amount_that_passes_the_threshold_is_a_second_alert(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "100", "vram": "100"}}})

    def adjust(tflops: str, vram: str) -> tuple[Any, int, list[str]]:
        admin("POST", HERE, worker_body("w1", "1", "1"))
        admin("PATCH", f"{HERE}/w1", {"request": {"tflops": tflops, "vram": vram}})
        entries = AuditEntry.objects.filter(object="gpu_quota/team-a", action__in=["gpu_quota.alert", "gpu_quota.calm"])
        body = admin("GET", f"{QUOTA}/team-a").body
        return body["alerting"], body["alerts"], [each.action.split(".")[1] for each in entries.order_by("id")]

    assert adjust("96", "1") == (["requests.tflops"], 1, ["alert"])
    assert adjust("97", "96") == (["requests.tflops", "requests.vram"], 2, ["alert", "alert"])
    assert adjust("94", "94") == (["requests.tflops", "requests.vram"], 2, ["alert", "alert"]), "up and down around it"
    assert adjust("97", "50") == (["requests.tflops"], 2, ["alert", "alert", "calm"])
    assert adjust("10", "10") == ([], 2, ["alert", "alert", "calm", "calm"])
    assert admin("GET", f"{QUOTA}/team-a").body["alert_since"] is None


def test_the_audit_trail_names_the_user_who_allocated(admin: ApiClient) -> None:
    admin("POST", HERE, worker_body("w1", description="for the demo"))
    admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "1"}})
    admin("DELETE", f"{HERE}/w1")
    entries = AuditEntry.objects.filter(object="gpu_allocation/team-a/w1").order_by("id")
    assert [(entry.actor, entry.action, entry.description) for entry in entries] == [
        ("root", "gpu_allocation.committed", "for the demo"),
        ("root", "gpu_allocation.adjusted", ""),
        ("root", "gpu_allocation.released", ""),
    ]


def test_the_history_of_use(admin: ApiClient) -> None:
    admin("POST", HERE, worker_body("w1"))
    assert sample_usage() == 1
    assert sample_usage() == 0, "nothing changed"
    admin("POST", HERE, worker_body("w2"))
    assert sample_usage() == 1
    admin("DELETE", f"{HERE}/w1")
    history = admin("GET", "/api/gpu_quota/team-a/history").body
    assert [point["workers"] for point in history["samples"]] == [1, 2, 1]
    assert history["samples"][1]["requests"] == {"tflops": "20", "vram": "2Gi"}
    assert history["more_entries"] is False


def test_old_released_allocations_are_deleted(admin: ApiClient) -> None:
    for name in ("old", "new", "live"):
        admin("POST", HERE, worker_body(name))
    for name in ("old", "new"):
        admin("DELETE", f"{HERE}/{name}")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE pools_gpuallocation SET released_at = now() - interval '91 days' WHERE name = 'old'")
        cursor.execute("SET LOCAL session_replication_role = origin")
    before = GpuUsage.objects.values("workers", "requests_tflops").get()
    assert purge_released() == 1
    assert set(GpuAllocation.objects.values_list("name", flat=True)) == {"new", "live"}
    assert GpuUsage.objects.values("workers", "requests_tflops").get() == before


def test_a_dry_run_of_a_put_shows_before_and_after(admin: ApiClient) -> None:
    answer = admin("PUT", f"{QUOTA}/team-a", {"spec": SPEC}, query={"dry_run": True})
    assert (answer.status, answer.body["before"], answer.body["after"]["spec"]) == (200, None, SPEC)
    assert not GpuQuota.objects.exists()


def test_a_dry_run_of_an_adjustment_changes_nothing(admin: ApiClient) -> None:
    put_gpu_quota(admin, {"total": {"requests": {"tflops": "50"}}})
    admin("POST", HERE, worker_body("w1"))
    before = GpuUsage.objects.values().get()
    answer = admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "50"}}, query={"dry_run": True})
    assert (answer.body["before"]["request"]["tflops"], answer.body["after"]["request"]["tflops"]) == ("10", "50")
    refused = admin("PATCH", f"{HERE}/w1", {"request": {"tflops": "51"}}, query={"dry_run": True})
    assert (refused.body["after"], refused.body["violations"][0]["used"]) == (None, "10")
    assert GpuUsage.objects.values().get() == before
