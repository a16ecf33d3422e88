"""`osmo quota`: requests, tables, messages, dry runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.commands.quota import apply_cap_changes, parse_amounts
from tests.unit.client.stub_server import StubReply

QUOTA = "/api/configs/gpu_quota/team-a"
HERE = "/api/gpu_quota/team-a/allocation"
TIME = "2026-01-02T03:04:05.000000"


def quota_body(**conditions: str) -> dict[str, Any]:
    side = {"tflops": "20", "vram": "2Gi"}
    status = {"Ready": "True", "Exceeded": "False", "AlertThresholdReached": "False"} | conditions
    keys = ("requests.tflops", "requests.vram", "limits.tflops", "limits.vram", "workers")
    return {
        "namespace": "team-a",
        "spec": {
            "total": {
                "requests": {"tflops": "50", "vram": "8Gi"},
                "maxWorkers": 5,
                "alertThresholdPercent": 95,
            },
            "single": {"maxRequests": {"tflops": "30"}, "maxGPUCount": 8, "defaultLimits": {"vram": "1Gi"}},
        },
        "status": {
            "used": {"requests": side, "limits": side, "workers": 1},
            "availablePercent": dict.fromkeys(keys, "60.00"),
            "conditions": [
                {"type": name, "status": value, "reason": "R", "message": f"{name}!", "lastTransitionTime": TIME}
                for name, value in status.items()
            ],
            "lastUpdateTime": TIME,
        },
        "assumed": {"requests": side, "limits": side, "workers": 2},
        "source": "api",
        "version": 3,
    }


def allocation_body(**more: Any) -> dict[str, Any]:
    each = {"tflops": "10", "vram": "1Gi"}
    row = {"id": "w1", "namespace": "team-a", "workload": "infer", "request": each, "limit": each, "count": 2}
    return row | {"state": "committed", "source": "api", "created": TIME, "expires": None, "released": None} | more


def test_list(osmo, stub):
    stub.on("GET", "/api/configs/gpu_quota", {"quotas": [quota_body(), quota_body(Exceeded="True")]})
    lines = osmo.ok("quota", "list").splitlines()
    assert lines[2].split() == ["team-a", "20", "of", "50", "2Gi", "of", "8Gi", "20", "2Gi", "1", "of", "5", "OK"]
    assert lines[3].endswith("EXCEEDED")
    stub.on("GET", "/api/configs/gpu_quota", {"quotas": []})
    assert osmo.ok("quota", "list") == "No GPU quotas.\n"


@pytest.mark.parametrize(
    ("condition", "word"),
    [({"AlertThresholdReached": "True"}, "ALERT"), ({"Ready": "False", "Exceeded": "True"}, "INVALID")],
)
def test_show(osmo, stub, condition, word):
    stub.on("GET", QUOTA, quota_body(**condition))
    text = osmo.ok("quota", "show", "team-a")
    assert f"Status             : {word}" in text
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["requests.tflops"][1:] == ["20", "50", "60.00", "%", "30", "-"]
    assert rows["limits.vram"][1:] == ["2Gi", "-", "-", "-", "1Gi"]
    assert rows["workers"][1:] == ["1", "5", "60.00", "%", "-", "-"]
    assert "2026-01-02 03:04:05 UTC" in text


def test_set_changes_only_the_named_caps(osmo, stub):
    stub.on("GET", QUOTA, quota_body())
    stub.on("PUT", QUOTA, quota_body())
    osmo.ok("quota", "set", "team-a", "--requests", "tflops=60,vram=9Gi", "--max-workers", "none", "--max-gpus", "4")
    assert stub.last.body["spec"] == {
        "total": {"requests": {"tflops": "60", "vram": "9Gi"}, "alertThresholdPercent": 95},
        "single": {"maxRequests": {"tflops": "30"}, "maxGPUCount": 4, "defaultLimits": {"vram": "1Gi"}},
    }
    assert stub.last.headers["if-match"] == '"3"', "a concurrent change is not overwritten"


def test_set_changes_only_the_named_amount(osmo, stub):
    stub.on("GET", QUOTA, quota_body())
    stub.on("PUT", QUOTA, quota_body())
    osmo.ok("quota", "set", "team-a", "--requests", "tflops=60", "--max-requests", "vram=2Gi")
    spec = stub.last.body["spec"]
    assert spec["total"]["requests"] == {"tflops": "60", "vram": "8Gi"}
    assert spec["single"]["maxRequests"] == {"tflops": "30", "vram": "2Gi"}
    osmo.ok("quota", "set", "team-a", "--requests", "vram=none", "--max-requests", "tflops=none")
    spec = stub.last.body["spec"]
    assert spec["total"]["requests"] == {"tflops": "50"}
    assert "maxRequests" not in spec["single"]


def test_set_creates_a_quota(osmo, stub):
    stub.on("GET", QUOTA, StubReply({"message": "none", "error_code": "NOTFOUND"}, status=404))
    stub.on("PUT", QUOTA, quota_body())
    osmo.ok("quota", "set", "team-a", "--limits", "tflops=60", "-d", "new team")
    assert stub.last.body == {
        "spec": {"total": {"limits": {"tflops": "60"}}, "single": {}},
        "description": "new team",
    }
    assert "if-match" not in stub.last.headers


def test_set_reads_a_whole_spec_from_a_file(osmo, stub, tmp_path: Path):
    stub.on("PUT", QUOTA, quota_body())
    file = tmp_path / "quota.yaml"
    for text in ("kind: GPUResourceQuota\nspec: {total: {maxWorkers: 3}}\n", "total: {maxWorkers: 3}\n"):
        file.write_text(text)
        osmo.ok("quota", "set", "team-a", "--file", str(file))
        assert stub.last.body == {"spec": {"total": {"maxWorkers": 3}}}
    both = osmo("quota", "set", "team-a", "--file", str(file), "--max-gpus", "4")
    assert (both.exit_code, "not both" in both.stderr) == (2, True)
    file.write_text("{")
    assert osmo("quota", "set", "team-a", "--file", str(file)).exit_code == 2
    assert osmo("quota", "set", "team-a", "--file", str(tmp_path / "none")).exit_code == 2


def test_text_that_is_not_a_number_reaches_the_server():
    assert apply_cap_changes({}, {"total": {"maxWorkers": "-1"}, "single": {"maxGPUCount": "x"}}) == {
        "total": {"maxWorkers": -1},
        "single": {"maxGPUCount": "x"},
    }


@pytest.mark.parametrize("text", ["--5", "٣", "1" * 5000, "+1", "1_000"])
def test_text_that_only_looks_like_a_number_reaches_the_server_unchanged(text):
    assert apply_cap_changes({}, {"total": {"maxWorkers": text}})["total"] == {"maxWorkers": text}


@pytest.mark.parametrize("text", ["", "10", "tflops", "cpu=1", "tflops=1,tflops=2"])
def test_text_that_is_not_an_amount_is_refused(text):
    with pytest.raises(ClientError, match="is not a valid amount"):
        parse_amounts(text)


def test_allocate(osmo, stub):
    stub.on("POST", HERE, allocation_body())
    words = ["quota", "allocate", "team-a", "w1", "--request", "tflops=10,vram=1Gi", "--limit-to", "tflops=10,vram=1Gi"]
    text = osmo.ok(*words, "-g", "2", "--workload", "infer")
    assert text == (
        "Worker w1 in team-a is committed: 2 GPUs, each with request 10 TFLOPS and 1Gi, limit 10 TFLOPS and 1Gi.\n"
    )
    each = {"tflops": "10", "vram": "1Gi"}
    assert stub.last.body == {"id": "w1", "workload": "infer", "request": each, "limit": each, "count": 2}
    stub.on("POST", HERE, allocation_body(count=1))
    assert "is committed: 1 GPU with request 10 TFLOPS" in osmo.ok("quota", "allocate", "team-a", "w1")
    stub.on("POST", HERE, allocation_body(state="assumed", expires=TIME))
    assert "is assumed until 2026-01-02 03:04:05 UTC" in osmo.ok("quota", "allocate", "team-a", "w1", "--assume")
    assert stub.last.query == {"assume": ["True"]}


def test_a_refusal_names_every_rule(osmo, stub):
    message = "quota exceeded in namespace team-a for total.max.tflops.request: requested 10, limit 50"
    detail = {"path": "request.tflops", "code": "total.max.tflops.request", "message": message}
    stub.on("POST", HERE, StubReply({"message": message, "error_code": "RESOURCE", "details": [detail]}, status=409))
    result = osmo("quota", "allocate", "team-a", "w1")
    assert (result.exit_code, message in result.stderr) == (1, True)


def test_adjust_commit_release(osmo, stub):
    stub.on("PATCH", f"{HERE}/w1", allocation_body())
    osmo.ok("quota", "adjust", "team-a", "w1", "--request", "tflops=5")
    assert stub.last.body == {"request": {"tflops": "5"}}
    stub.on("POST", f"{HERE}/w1/commit", allocation_body())
    osmo.ok("quota", "commit", "team-a", "w1")
    stub.on("DELETE", f"{HERE}/w1", allocation_body(state="released"))
    assert osmo.ok("quota", "release", "team-a", "w1") == "Worker w1 in team-a is released.\n"
    effect = {
        "dry_run": True,
        "before": allocation_body(),
        "after": None,
        "violations": [{"path": "id", "message": "no"}],
    }
    stub.on("DELETE", f"{HERE}/w1", effect)
    assert osmo("quota", "release", "team-a", "w1", "--dry-run").exit_code == 2
    assert stub.last.query == {"dry_run": ["True"]}


def test_allocations(osmo, stub):
    stub.on("GET", HERE, {"allocations": [allocation_body()], "more_entries": True})
    text = osmo.ok("quota", "allocations", "team-a", "--released")
    assert stub.last.query["include_released"] == ["True"]
    assert "infer" in text
    assert "use --offset" in text
    stub.on("GET", HERE, {"allocations": [], "more_entries": False})
    assert osmo.ok("quota", "allocations", "team-a") == "No workers in team-a.\n"


@pytest.mark.parametrize(
    ("fits", "text"),
    [(None, "any number fits"), (0, "No such worker fits"), (1, "1 more such worker fits"), (7, "7 more such")],
)
def test_fits(osmo, stub, fits, text):
    stopped = [] if fits is None else [{"message": "because"}]
    stub.on("GET", "/api/gpu_quota/team-a/room", {"namespace": "team-a", "fits": fits, "stopped_by": stopped})
    output = osmo.ok("quota", "fits", "team-a", "--request", "tflops=10", "-g", "2")
    assert text in output
    assert ("because" in output) is bool(stopped)
    assert stub.last.query == {"request_tflops": ["10"], "count": ["2"]}


def test_delete(osmo, stub):
    stub.on("DELETE", QUOTA, None)
    assert "deleted" in osmo.ok("quota", "delete", "team-a", "--yes")


def test_a_dry_run_lists_only_the_caps(osmo, stub):
    """Conditions and percentages are left out."""
    raised = quota_body(AlertThresholdReached="True")
    raised["spec"] = {"total": {"maxWorkers": 7}}
    stub.on("GET", QUOTA, quota_body())
    stub.on("PUT", QUOTA, {"dry_run": True, "before": quota_body(), "after": raised, "violations": []})
    assert osmo.ok("quota", "set", "team-a", "--max-workers", "7", "--dry-run").splitlines()[1:] == [
        "status: OK → ALERT",
        "total.requests.tflops: 50 → -",
        "total.requests.vram: 8Gi → -",
        "total.maxWorkers: 5 → 7",
        "total.alertThresholdPercent: 95 → -",
        "single.maxRequests.tflops: 30 → -",
        "single.maxGPUCount: 8 → -",
        "single.defaultLimits.vram: 1Gi → -",
    ]
    stub.on("DELETE", QUOTA, {"dry_run": True, "before": raised, "after": None, "violations": []})
    assert osmo.ok("quota", "delete", "team-a", "--dry-run").splitlines()[1:] == [
        "status: ALERT → -",
        "total.maxWorkers: 7 → -",
    ]


def test_rebuild(osmo, stub):
    row = {"namespace": "team-a", "path": "workers", "code": "recounted", "before": "9", "after": "1"}
    stub.on("POST", "/api/gpu_quota/rebuild", {"differences": [row]})
    assert osmo.ok("quota", "rebuild", "team-a").splitlines()[2].split() == ["team-a", "workers", "recounted", "9", "1"]
    assert stub.last.body == {"namespace": "team-a"}
    stub.on("POST", "/api/gpu_quota/rebuild", {"differences": []})
    assert osmo.ok("quota", "rebuild") == "Nothing to repair: the ledger agrees with the pods.\n"
    assert stub.last.body is None
