"""No refusal repeats the value that was sent: it may be a secret in the wrong field (docs/values.md, "Refusals")."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from functools import partial, reduce
from operator import getitem
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import transaction
from django.test import Client

from pools.domain.configuration import cluster_config, platforms, pool_config
from pools.models import AuditEntry, Notice
from scheduling.models import Workflow
from tests.support import world
from tests.support.addresses import create_example_installation, readable_addresses
from tests.support.product_source import described_addresses
from tests.support.world import sign_in

pytestmark = pytest.mark.django_db

CANARY = "Canary7secret"
HUGE = 10**400
NAMES_OF_OBJECTS = {"pool", "root", "workflow_id"}
"""The object that a request asks for; the answer says by its name that it does not exist."""

STREAMS = {"/api/events", "/metrics", "/api/usage/trace"}
PLACES = {
    "name": "team", "pool": "team", "parent": "team", "subpool": "a", "platform": "default", "backend": "sim",
    "user": "root-admin", "namespace": "ns", "workflow": "job-1", "other": "job-1", "config_type": "POOL",
    "revision": "1", "role": "osmo-admin", "provider": "p", "approval": "1", "notice": "1", "target": "t",
    "replay": "1", "page": "pools", "mark": "m", "node": "sim-n1", "news": "1",
}  # fmt: skip

PLATFORM = {
    "description": "d", "host_network_allowed": True, "privileged_allowed": True, "allowed_mounts": ["/a"],
    "resource_validations": ["a"], "override_pod_template": ["a"], "default_variables": {"a": 1},
    "gpu_tflops": "10", "gpu_vram": "1Gi",
}  # fmt: skip
POOL = {
    "description": "d", "backend": "sim", "download_type": "download", "enable_maintenance": False,
    "default_platform": "p", "default_exec_timeout": "1h", "default_queue_timeout": "1h", "max_exec_timeout": "2h",
    "max_queue_timeout": "2h", "default_exit_actions": {"FAIL": "3"},
    "resources": {"gpu": {"guarantee": 4, "maximum": 8, "weight": 1}}, "cohort": "c", "borrowing_limit": 1,
    "lending_limit": 1, "topology_keys": [{"key": "rack", "label": "x/rack"}], "gpu_quota_namespace": "ns",
    "approval_above": 4, "hold_after": 60, "platforms": {"p": PLATFORM}, "common_default_variables": {"a": 1},
    "common_resource_validations": ["a"], "common_pod_template": ["a"], "common_group_templates": ["a"],
    "when_can_borrow": "borrow", "when_can_preempt": "next",
}  # fmt: skip
POOL_BY_FLAVOR = {
    "backend": "sim", "cohort": "c", "resources": {
        "flavors": {"default": {"guarantee": 4, "maximum": 8, "borrowing_limit": 1, "lending_limit": 1}},
    },
}  # fmt: skip
NODE = {"name": "n", "gpus": 1, "cpu": 1, "memory": "1Gi", "storage": "1Gi", "platform": "default",
        "labels": {"zone": "b"}}  # fmt: skip
FLAVORS = [{"name": "h100", "node_labels": {"zone": "b"}}]
SIMULATED = {"type": "simulated", "namespace": "ns", "description": "d", "nodes": [NODE], "auto_end": True,
             "reserve_after": 5, "ageing": 5, "victims": "least_lost", "degraded": "ordered", "flavors": FLAVORS,
             "offline": False}  # fmt: skip
CLUSTER = {"type": "kubernetes", "namespace": "ns", "access": "kubeconfig", "kubeconfig": "{}", "kubeconfig_file": "f",
           "context": "c", "scheduler_name": "s", "node_pool_key": "k", "node_pool": "p",
           "sync_mode": "apply", "mode": "manage", "queue_pools": {"q": "p"},
           "owner_label": "user"}  # fmt: skip
COHORT = {"parent": "c", "weight": 1, "quotas": [
    {"flavor": "default", "resource": "gpu", "nominal": 1, "borrowing_limit": 1, "lending_limit": 1}]}  # fmt: skip
GPU_QUOTA = {"spec": {
    "total": {"requests": {"tflops": "10", "vram": "1Gi"}, "limits": {"tflops": "10", "vram": "1Gi"},
              "workers": 2, "alertThresholdPercent": 90},
    "single": {"max": {"requests": {"tflops": "10", "vram": "1Gi"}}, "default": {"requests": {"tflops": "1"}},
               "maxWorkers": 1}}}  # fmt: skip
ALLOCATION = {"id": "a", "workload": "w", "request": {"tflops": "1", "vram": "1Gi"},
              "limit": {"tflops": "1", "vram": "1Gi"}, "count": 1}  # fmt: skip
TASK = {
    "name": "t", "image": "ubuntu", "command": ["sh"], "args": ["a"], "environment": {"A": "b"}, "resource": "default",
    "lead": True, "inputs": [{"url": "s3://b/x", "regex": "."}], "outputs": [{"dataset": {"name": "d"}}],
    "files": [{"path": "/tmp/f", "contents": "x", "base64": False}], "credentials": {"c": "/d"},
    "exitActions": {"FAIL": "3"}, "privileged": False, "hostNetwork": False, "volumeMounts": ["/a:/b"],
    "checkpoint": [{"path": "/a", "url": "s3://b", "frequency": "1m", "regex": "."}],
    "kpis": [{"index": "i", "path": "p"}], "downloadType": "download", "cacheSize": "1Gi",
}  # fmt: skip
WORKFLOW = {"version": 2, "workflow": {
    "name": "w", "groups": [{"name": "g", "tasks": [TASK], "barrier": True, "ignoreNonleadStatus": True}],
    "timeout": {"exec_timeout": "1h", "queue_timeout": "1h"}, "labels": {"a": "b"},
    "resources": {"default": {"cpu": 1, "gpu": 1, "memory": "1Gi", "storage": "1Gi", "platform": "default",
                              "nodesExcluded": ["n"], "topology": [{"key": "rack", "group": "g",
                                                                    "requirementType": "required"}]}}}}  # fmt: skip
POD_GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {
        "osmo/pods": "2", "osmo/gpus-per-pod": "1", "osmo/image": "i", "osmo/command": "[c]",
        "osmo/platform": "default"}},
    "spec": {"minSubGroup": 1, "priorityClassName": "train", "subGroups": [
        {"name": "a", "minSubGroup": 1}, {"name": "b", "parent": "a", "minMember": 1}]},
}  # fmt: skip
SCENARIO = {
    "nodes": [{"name": "n", "gpus": 4}, {"name": "m", "resources": {"gpu": 1}}], "capacity": 5,
    "cohorts": [{"name": "c", "quota": 1, "borrowing_limit": 1, "lending_limit": 1, "weight": 1}],
    "queues": [{"name": "q", "parent": "c", "quota": {"gpu": 1}, "limit": 4, "borrowing_limit": 1, "lending_limit": 1,
                "weight": 1, "priority": 1, "created": 1}],
    "usage": {"q": 1}, "demand": {"q": 1}, "policy": {"now": 1, "reserve_after": 1, "ageing": 1, "victims": "youngest"},
    "workloads": [{"name": "w", "queue": "q", "priority": "LOW", "preemptible": True, "submitted": 1,
                   "state": "pending", "time_limit": 5, "expected_time": 5,
                   "gang": {"min_sub_group": 1, "sub_groups": [{"name": "g", "min_member": 1}]},
                   "tasks": [{"name": "t", "count": 1, "gpus": 1, "state": "pending", "sub_group": "g"}]}],
    "changes": [{"set": {"name": "q", "quota": 2}}, {"finish": "w"}, {"remove": "q"}],
}  # fmt: skip
SAMPLES: list[tuple[str, str, Any]] = [
    ("PUT", "/api/configs/pool/team", POOL),
    ("PUT", "/api/configs/pool/team", POOL_BY_FLAVOR),
    ("PATCH", "/api/configs/pool/team/subpool/a", {"quotas": {"default": 1}}),
    ("PUT", "/api/configs/pool", {"configs": {"new": POOL}, "description": "d", "tags": ["t"]}),
    ("PATCH", "/api/configs/pool/team", {"configs_dict": POOL, "description": "d"}),
    ("PUT", "/api/configs/pool/team/platform/p", PLATFORM),
    ("PUT", "/api/configs/pool/team/platform/default/rename", {"new_name": "x"}),
    ("PUT", "/api/configs/pool/team/rename", {"new_name": "x"}),
    ("POST", "/api/configs/pool/team/subpool", {"subpool_name": "b", "quota": 1}),
    ("PATCH", "/api/configs/pool/team/subpool/a", {"quota": 1, "until": "2030-01-01T00:00:00Z"}),
    ("PATCH", "/api/configs/pool/team/subpool/a", {"drain_by": "2030-01-01T00:00:00Z"}),
    ("DELETE", "/api/configs/pool/team/subpool/a", {"cancel_pending": False, "drain_by": "2030-01-01T00:00:00Z"}),
    ("PATCH", "/api/configs/subpool_quotas", {"quotas": {"team--a": 1}}),
    ("PUT", "/api/configs/backend/new", SIMULATED),
    ("PUT", "/api/configs/backend/lab", CLUSTER),
    ("PUT", "/api/configs/backend/sim/webhook", {"mode": "off", "identity": "i", "accounts": ["a"],
                                                 "strict_minimums": False}),
    ("PUT", "/api/configs/cohort/x", COHORT),
    ("PATCH", "/api/configs/cohort/c", COHORT),
    ("PUT", "/api/configs/gpu_quota/ns", GPU_QUOTA),
    ("POST", "/api/gpu_quota/ns/allocation", ALLOCATION),
    ("PUT", "/api/configs/workflow", {"subpool_drain_interval_minutes": 1, "max_retry_per_task": 1}),
    ("POST", "/api/configs/history/rollback", {"revision": 1, "config_type": "POOL", "description": "d"}),
    ("POST", "/api/configs/history/POOL/revision/1/tags", {"set_tags": ["a"], "delete_tags": ["b"]}),
    ("POST", "/api/auth/user", {"id": "u", "roles": ["osmo-team-user"]}),
    ("POST", "/api/auth/user/root-admin/roles", {"role_name": "osmo-team-user"}),
    ("POST", "/api/notices/target", {"name": "t", "channel": "webhook", "address": "https://example.com/x",
                                     "kinds": ["quota"], "pools": ["team"]}),
    ("POST", "/api/profile/settings", {"pool": "team", "email_notification": True, "slack_notification": True,
                                       "email": "a@example.com"}),
    ("PUT", "/api/profile/views/pools/mine", {"query": "q=1"}),
    ("POST", "/api/pool/team/workflow", {"file": "x: 1", "set_variables": ["a=1"], "set_string_variables": ["a=1"],
                                         "uploaded_templated_spec": "x"}),
    ("POST", "/api/pool/team/workflows", {"workflows": [{"file": "x: 1", "priority": "LOW"}]}),
    ("POST", "/api/replay", {"since": "2026-01-01", "until": "2026-01-02", "backend": "sim", "advise": False,
                             "tries": 1, "changes": [{"set": {"name": "team", "quota": 1}}]}),
    ("POST", "/api/simulate", SCENARIO),
    ("POST", "/api/podgroup/validate", POD_GROUP),
    ("POST", "/api/podgroup/plan", {"podgroup": POD_GROUP, "pods": [{"name": "x", "subGroup": "b", "phase": "Running"}],
                                    "room": 1}),
    ("POST", "/api/gpu_quota/rebuild", {"namespace": "ns"}),
]  # fmt: skip
REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
          "request": {"uid": "1", "kind": {"kind": CANARY}, "operation": "CREATE", "namespace": "n"}}  # fmt: skip
FILES = {"workflow file": WORKFLOW, "PodGroup manifest": POD_GROUP}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a body, maps and lists included."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(inner, (*path, key))


def with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the body with one other value."""
    copy = json.loads(json.dumps(body))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return copy


@pytest.fixture
def client() -> Client:
    row = world.make_pool("team", 20, a=5)
    world.submit_workflow(world.admin_actor(), "team")
    client = sign_in("root-admin", raise_request_exception=False)
    assert row.pk
    return client


class Faults:
    """What a refused call shows of the canary."""

    def __init__(self, client: Client, caplog: pytest.LogCaptureFixture) -> None:
        self.client, self.caplog, self.found = client, caplog, []
        caplog.set_level(logging.DEBUG)

    def call(self, method: str, address: str, body: Any = None, *, what: str = "", sent: str = CANARY) -> None:
        self.caplog.clear()
        content = "" if body is None else json.dumps(body)
        answer = self.client.generic(method, address, content, content_type="application/json")
        text = answer.getvalue().decode() + str(dict(answer.headers))
        if answer.status_code >= 500:
            self.found.append(f"{method} {address} {what}: {answer.status_code}")
        elif sent in json.dumps(_violations(answer)).replace(f"Pool {sent} not found.", ""):
            self.found.append(f"{method} {address} {what}: dry run {_violations(answer)}"[:300])
        elif answer.status_code >= 400 and sent in text.replace(self._shown_path(address), ""):
            self.found.append(f"{method} {address} {what}: answer {text[max(text.index(sent) - 80, 0) :][:140]}")
        if answer.status_code >= 400:
            logged = "\n".join(
                record.getMessage() for record in self.caplog.records if record.name != "django.db.backends"
            )
            if sent in logged.replace(self._shown_path(address), ""):
                self.found.append(f"{method} {address} {what}: log {logged[:200]}")

    @staticmethod
    def _shown_path(address: str) -> str:
        return address.partition("?")[2] or "\0"

    def check(self) -> None:
        refused = "\n".join(self.found)
        assert not self.found, refused


def _violations(answer: Any) -> Any:
    """What a dry run refuses, in an answer that is not refused itself. OSMO's contract names the pool of a profile."""
    is_effect = answer.status_code == 200 and answer.headers["Content-Type"].startswith("application/json")
    body = json.loads(answer.getvalue()) if is_effect else None
    return body.get("violations") if isinstance(body, dict) else None


def fresh(call: Any) -> None:
    """Run the call and undo what it wrote."""
    point = transaction.savepoint()
    call()
    transaction.savepoint_rollback(point)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample[0]} {sample[1]}")
def test_bodies(client: Client, caplog: pytest.LogCaptureFixture, sample: tuple[str, str, Any]) -> None:
    method, address, body = sample
    faults = Faults(client, caplog)
    before = AuditEntry.objects.count(), Notice.objects.count()
    for path in leaves(body):
        is_map_or_list = isinstance(reduce(getitem, path, body), dict | list)
        for value in (CANARY,) if is_map_or_list else (CANARY, HUGE):
            what = f"{'.'.join(map(str, path))} = {str(value)[:20]}"
            changed = with_value(body, path, value)
            fresh(partial(faults.call, method, f"{address}?dry_run=true", changed, what=what, sent=str(value)))
    faults.check()
    assert (AuditEntry.objects.count(), Notice.objects.count()) == before


@pytest.mark.parametrize("name", FILES)
def test_submitted_files(client: Client, caplog: pytest.LogCaptureFixture, name: str) -> None:
    faults = Faults(client, caplog)
    for path in leaves(FILES[name]):
        file = json.dumps(with_value(FILES[name], path, CANARY))
        faults.call(
            "POST", "/api/pool/team/workflow?validation_only=True", {"file": file}, what=".".join(map(str, path))
        )
    faults.check()


def test_queries(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults(client, caplog)
    for path, operations in described_addresses().items():
        if path in STREAMS or path.startswith("/webhooks"):
            continue
        address = path.format(**PLACES)
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []) if isinstance(operation, dict) else ():
                if parameter.get("in") == "query" and parameter["name"] not in NAMES_OF_OBJECTS:
                    query = urlencode({parameter["name"]: CANARY})
                    fresh(partial(faults.call, method.upper(), f"{address}?{query}"))
    faults.check()


def test_the_samples_have_every_key() -> None:
    assert set(POOL) == set(pool_config.EDITABLE_KEYS)
    assert set(PLATFORM) == set(platforms.KEYS)
    assert set(CLUSTER) >= set(cluster_config.KEYS)


TYPED = re.compile(
    r"<textarea\b.*?</textarea>|<option\b.*?</option>|<label\b.*?</label>"
    r'|<span class="oa-chip__text">.*?</span>|<[^>]*>',
    re.DOTALL,
)
"""Where a page keeps what was typed (boxes, and the chips of filters), and all tags: the rest is what it says."""


def _as_typed(form: Any) -> dict[str, Any]:
    """The fields of a form as a browser would send them unchanged."""
    values = {each.html_name: each.value() for each in form}
    return {name: "on" if value is True else value for name, value in values.items() if value not in (None, False)}


def test_forms_of_pages() -> None:
    """Each form of each page, with one field after the other that has the canary."""
    create_example_installation()
    root = sign_in("root", raise_request_exception=False)
    found, forms, refused = [], set(), 0
    for address in readable_addresses():
        if address.startswith(("/api", "/webhooks", "/health", "/ready", "/metrics", "/client/")):
            continue
        page = root.get(address)
        filters = (page.context or {}).get("filters")
        form = (page.context or {}).get("form") or getattr(filters, "form", None)
        if page.status_code != 200 or form is None or type(form).__name__ in forms:
            continue
        forms.add(type(form).__name__)
        for name in form.fields:
            typed = _as_typed(form) | {form[name].html_name: CANARY}
            for method in (root.get,) if filters else (root.post,):
                point = transaction.savepoint()
                sent = typed if filters else {**typed, "step": "preview"}
                answer = method(address.partition("?")[0], sent, follow=True)
                transaction.savepoint_rollback(point)
                text = TYPED.sub("", answer.content.decode())
                refused += answer.status_code >= 400
                if answer.status_code >= 500 or (CANARY in text and (answer.status_code >= 400 or filters)):
                    near = text[max(text.find(CANARY) - 120, 0) :][:160]
                    found.append(f"{type(form).__name__}.{name} {address}: {answer.status_code} {near!r}")
    assert not found, "\n".join(found)
    assert len(forms) > 25
    assert refused > 60


@pytest.mark.parametrize(
    ("method", "address", "body", "headers"),
    [
        ("POST", f"/api/notices/{CANARY}/replay", None, {}),
        ("POST", f"/notices/-/replay/{CANARY}", None, {}),
        ("PUT", f"/api/profile/views/{CANARY}/mine", {"query": "q=1"}, {}),
        ("GET", f"/api/configs/{CANARY}", None, {}),
        ("GET", "/api/workflow/{work}/logs?task_name=" + CANARY, {}, {}),
        ("POST", "/api/workflow/{work}/end", {"status": "COMPLETED", "group": CANARY}, {}),
        ("POST", "/api/workflow/{work}/end", {"status": CANARY}, {}),
        ("POST", "/api/profile/settings", {"pool": "team"}, {"HTTP_CONTENT_ENCODING": CANARY}),
        ("POST", "/webhooks/pod", {"apiVersion": CANARY, "request": {}}, {}),
        ("POST", "/webhooks/pod", REVIEW, {}),
        ("POST", "/webhooks/gpu_quota", REVIEW, {}),
        ("POST", "/api/replay", {"since": "2026-01-01", "backend": CANARY}, {}),
    ],
)
def test_other_places(client: Client, method: str, address: str, body: Any, headers: dict[str, Any]) -> None:
    """Addresses, headers, and bodies of another kind than those of the samples."""
    address = address.format(work=Workflow.objects.get().name)
    content = json.dumps(body or {})
    answer = client.generic(method, address, content, content_type="application/json", **headers)
    if answer.status_code == 302:  # the next page says it
        answer = client.get(answer.headers["Location"])
        assert "This is not the id of a notice" in answer.content.decode()
    else:
        assert answer.status_code >= 400
    assert CANARY.lower() not in answer.content.decode().lower()
