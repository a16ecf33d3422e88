"""Kubernetes backends over HTTP: their configuration, and credentials that no answer shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from django.db import IntegrityError, transaction
from django.test import override_settings

from pools.models import AuditEntry, Backend, KubernetesSettings
from pools.security.sealing import UnreadableSecret
from pools.services.configuration.cluster_credentials import load_kubeconfig
from tests.support import world
from tests.support.api_client import ApiClient

BACKEND = "/api/configs/backend"
TOKEN = "a-very-secret-token"


def kubeconfig(server: str = "https://kube.example:6443", **user: Any) -> str:
    """A kubeconfig of one cluster, one user, and two contexts."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority-data": "Q0E="}}],
        "users": [{"name": "osmo", "user": user or {"token": TOKEN}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "lab", "user": "osmo"}},
            {"name": "broken", "context": {"cluster": "nowhere", "user": "osmo"}},
        ],
        "current-context": "main",
    }
    return yaml.safe_dump(content)


def cluster_body(**more: Any) -> dict[str, Any]:
    return {"type": "kubernetes", "namespace": "osmo", "kubeconfig": kubeconfig()} | more


def test_a_cluster_is_stored_and_shown_without_its_credential(admin: ApiClient) -> None:
    answer = admin("PUT", f"{BACKEND}/lab", cluster_body(node_pool="gpu"))
    assert answer.status == 200
    mark = answer.body.pop("credential_mark")
    assert len(mark) == 16
    assert answer.body == {
        "name": "lab", "type": "kubernetes", "namespace": "osmo", "description": "", "nodes": [], "auto_end": True,
        "reserve_after": 3600, "ageing": 14400, "victims": "youngest", "degraded": "proportional", "offline": False,
        "access": "kubeconfig", "kubeconfig_file": "", "context": "", "server": "https://kube.example:6443",
        "scheduler_name": "kai-scheduler", "node_pool_key": "kai.scheduler/node-pool", "node_pool": "gpu",
        "mode": "manage", "sync_mode": "apply", "queue_pools": {}, "owner_label": "", "pools": [], "version": 1,
        "warnings": [],
    }  # fmt: skip
    assert admin("GET", BACKEND).body["backends"] == [answer.body | {"credential_mark": mark}]
    row = KubernetesSettings.objects.get(backend__name="lab")
    assert TOKEN not in row.sealed_kubeconfig
    assert load_kubeconfig(row)[0]["users"][0]["user"]["token"] == TOKEN


def test_put_back_nothing_changes_and_the_credential_stays(admin: ApiClient) -> None:
    shown = admin("PUT", f"{BACKEND}/lab", cluster_body())
    again = admin("PUT", f"{BACKEND}/lab", shown.body)
    assert (again.status, again.body) == (200, shown.body)
    assert admin("PUT", f"{BACKEND}/lab", cluster_body()).headers["ETag"] == '"1"', (
        "the same kubeconfig is not a change"
    )
    moved = admin("PUT", f"{BACKEND}/lab", {"scheduler_name": "kai-2", "sync_mode": "report"})
    assert (moved.body["scheduler_name"], moved.body["version"]) == ("kai-2", 2)
    assert moved.body["credential_mark"] == shown.body["credential_mark"]
    assert admin("PUT", f"{BACKEND}/lab", {"context": "main"}).body["context"] == "main"
    assert admin("PUT", f"{BACKEND}/lab", {"context": "broken"}).codes == {("kubeconfig.clusters", "unknown_name")}
    world.make_backend("sim")
    assert ("type", "bad_value") in admin("PUT", f"{BACKEND}/sim", cluster_body()).codes, "a backend keeps its type"


def test_the_audit_trail_has_changes_of_the_credential_without_its_content(admin: ApiClient) -> None:
    admin("PUT", f"{BACKEND}/lab", cluster_body())
    admin("PUT", f"{BACKEND}/lab", {"kubeconfig": kubeconfig(token="another-secret")})
    entries = list(AuditEntry.objects.filter(object="backend/lab").order_by("pk"))
    assert [entry.action for entry in entries] == ["backend.created", "backend.connected", "backend.updated"]
    moved = next(entry for entry in entries if "credential_mark" in (entry.before or {}))
    assert moved.before["credential_mark"] != moved.after["credential_mark"]
    text = str([(entry.before, entry.after) for entry in entries])
    assert TOKEN not in text
    assert "another-secret" not in text
    assert "sealed" not in text
    assert str(admin("GET", "/api/audit").body).count("another-secret") == 0


OUTSIDE = "reaches_into_house"
WRONG: list[tuple[dict[str, Any], set[tuple[str, str]]]] = [
    ({"kubeconfig": None}, {("access", "missing")}),
    ({"kubeconfig": "{"}, {("kubeconfig", "bad_value")}),
    ({"kubeconfig": "just words"}, {("kubeconfig", "bad_value")}),
    ({"kubeconfig": 7}, {("kubeconfig", "bad_value"), ("access", "missing")}),
    ({"context": "nobody"}, {("kubeconfig.contexts", "unknown_name")}),
    ({"context": "broken"}, {("kubeconfig.clusters", "unknown_name")}),
    ({"kubeconfig": kubeconfig("ftp://x")}, {("kubeconfig.clusters.server", "bad_value")}),
    ({"kubeconfig": kubeconfig("https://me:pw@x")}, {("kubeconfig.clusters.server", "bad_value")}),
    (
        {"kubeconfig": kubeconfig(exec={"command": "sh"}, **{"client-key": "/etc/shadow"})},
        {("kubeconfig.users.exec", OUTSIDE), ("kubeconfig.users.client-key", OUTSIDE)},
    ),
    ({"kubeconfig": kubeconfig(tokenFile="/etc/shadow")}, {("kubeconfig.users.tokenFile", OUTSIDE)}),
    (
        {"kubeconfig": None, "kubeconfig_file": "../secret"},
        {("kubeconfig_file", "bad_value"), ("kubeconfig_file", "no_folder")},
    ),
    ({"kubeconfig_file": "lab.yaml"}, {("access", "bad_value")}),
    ({"access": "in_cluster"}, {("access", "bad_value")}),
    (
        {"access": "x", "sync_mode": "y", "node_pool": "-", "node_pool_key": "a/b/c", "scheduler_name": "A"},
        {(key, "bad_value") for key in ("access", "sync_mode", "node_pool", "node_pool_key", "scheduler_name")},
    ),
    ({"type": "other"}, {("type", "bad_value"), ("kubeconfig", "unknown_key")}),
    ({"colour": 1}, {("colour", "unknown_key")}),
]


def test_all_faults_at_once(admin: ApiClient) -> None:
    for change, codes in WRONG:
        answer = admin("PUT", f"{BACKEND}/lab", cluster_body(**change))
        assert (answer.status, answer.codes) == (400, codes)
        assert TOKEN not in str(answer.body)
    assert not Backend.objects.exists()


def test_dangerous_settings_are_warnings(admin: ApiClient) -> None:
    content = yaml.safe_load(kubeconfig("http://kube.example:8080"))
    content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    answer = admin("PUT", f"{BACKEND}/lab", cluster_body(kubeconfig=yaml.safe_dump(content)))
    assert answer.status == 200
    assert [sentence.split()[0] for sentence in answer.body["warnings"]] == [
        "http://kube.example:8080",
        "insecure-skip-tls-verify",
    ]


def test_one_backend_per_cluster_and_namespace(admin: ApiClient) -> None:
    assert admin("PUT", f"{BACKEND}/lab", cluster_body()).status == 200
    answer = admin("PUT", f"{BACKEND}/second", cluster_body())
    assert (answer.status, answer.codes) == (409, {("namespace", "in_use")})
    assert "lab" in answer.body["message"]
    assert admin("PUT", f"{BACKEND}/second", cluster_body(namespace="other")).status == 200
    moved = admin("PUT", f"{BACKEND}/second", {"namespace": "osmo"})
    assert moved.status == 409
    second = KubernetesSettings.objects.get(backend__name="second")
    Backend.objects.filter(name="second").update(namespace="osmo")
    with pytest.raises(IntegrityError, match="on the same cluster"), transaction.atomic():
        KubernetesSettings.objects.filter(pk=second.pk).update(context="main")


def test_a_file_is_found_in_the_operators_folder_only(admin: ApiClient, tmp_path: Any, settings: Any) -> None:
    (tmp_path / "lab.yaml").write_text(kubeconfig())
    settings.OSMO = dataclasses.replace(settings.OSMO, kubeconfig_dir=tmp_path)
    answer = admin("PUT", f"{BACKEND}/lab", {"type": "kubernetes", "kubeconfig_file": "lab.yaml"})
    assert (answer.status, answer.body["access"], answer.body["server"]) == (200, "file", "")
    row = KubernetesSettings.objects.get()
    assert load_kubeconfig(row)[0]["users"][0]["user"]["token"] == TOKEN
    (tmp_path / "lab.yaml").unlink()
    with pytest.raises(UnreadableSecret, match=r"lab\.yaml in OSMO_KUBECONFIG_DIR: No such file"):
        load_kubeconfig(row)


def test_in_cluster_access_stores_no_credential(admin: ApiClient) -> None:
    admin("PUT", f"{BACKEND}/lab", cluster_body())
    answer = admin("PUT", f"{BACKEND}/lab", {"access": "in_cluster"})
    shown = tuple(answer.body[key] for key in ("access", "server", "credential_mark"))
    assert shown == ("in_cluster", "in-cluster", "")
    assert KubernetesSettings.objects.get().sealed_kubeconfig == ""
    assert admin("PUT", f"{BACKEND}/lab", {"access": "kubeconfig"}).codes == {("kubeconfig", "missing")}


def test_a_replaced_key_still_decrypts_and_a_lost_one_is_reported(admin: ApiClient, settings: Any) -> None:
    admin("PUT", f"{BACKEND}/lab", cluster_body())
    row = KubernetesSettings.objects.get()
    old = settings.SECRET_KEY
    with override_settings(SECRET_KEY="new" * 20, SECRET_KEY_FALLBACKS=[old]):
        assert load_kubeconfig(row)[0]["current-context"] == "main"
    with override_settings(SECRET_KEY="new" * 20), pytest.raises(UnreadableSecret, match="Send it again"):
        load_kubeconfig(row)


def test_deleting_the_backend_deletes_its_credential(admin: ApiClient) -> None:
    admin("PUT", f"{BACKEND}/lab", cluster_body())
    assert admin("DELETE", f"{BACKEND}/lab").status == 200
    assert not KubernetesSettings.objects.exists()
    gone = AuditEntry.objects.filter(object="backend/lab").order_by("-pk").values_list("action", flat=True)
    assert set(gone[:2]) == {"backend.disconnected", "backend.deleted"}
