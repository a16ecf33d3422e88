"""The webhook configuration and the rights that a cluster needs."""

from __future__ import annotations

import base64
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from scheduling.kube import rbac, webhook_configuration
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import ResourceKind
from scheduling.kube.webhook_configuration import WebhookAddress, WebhookSpec
from scheduling.services.webhooks.authorities import join_authorities
from tests.support.fake_cluster import FakeCluster

PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
URL = WebhookAddress(PEM, url="https://hooks.example:8443/")
SPEC = WebhookSpec("prod", "ns", "1-mark", URL, fails_closed=True, gpu_namespaces=("team-a",))


def made(**changes: Any) -> list[dict[str, Any]]:
    return list(webhook_configuration.webhook_configuration(replace(SPEC, **changes))["webhooks"])


def test_by_url() -> None:
    clients = [hook["clientConfig"] for hook in made()]
    assert [client["url"] for client in clients] == [
        "https://hooks.example:8443/webhooks/pod/prod/1-mark",
        "https://hooks.example:8443/webhooks/podgroup/prod/1-mark",
        "https://hooks.example:8443/webhooks/podgroup/prod/1-mark",
        "https://hooks.example:8443/webhooks/gpu_quota/prod/1-mark",
        "https://hooks.example:8443/webhooks/gpu_quota/prod/1-mark",
        "https://hooks.example:8443/webhooks/gpu_quota/prod/1-mark",
    ]
    assert {base64.b64decode(client["caBundle"]).decode() for client in clients} == {PEM}


def test_by_service() -> None:
    hooks = made(address=WebhookAddress(PEM, service=("osmo", "admin"), port=8443))
    assert hooks[0]["clientConfig"]["service"] == {
        "namespace": "osmo", "name": "admin", "path": "/webhooks/pod/prod/1-mark", "port": 8443,
    }  # fmt: skip


def test_only_webhooks_about_claims_of_ours_fail_closed() -> None:
    policies = {hook["name"].partition(".")[0]: (hook["failurePolicy"], hook["timeoutSeconds"]) for hook in made()}
    assert policies == {
        "pod": ("Fail", 5),
        "podgroup": ("Fail", 5),
        "podgroup-minimums": ("Ignore", 1),
        "gpu-quota": ("Fail", 5),
        "gpu-quota-elsewhere": ("Ignore", 1),
        "gpu-quota-binding": ("Ignore", 1),
    }
    assert {hook["failurePolicy"] for hook in made(fails_closed=False)} == {"Ignore"}


def test_system_namespaces_are_excluded_unless_namespaces_are_chosen() -> None:
    (expression,) = made()[0]["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], "kube-system" in expression["values"]) == ("NotIn", True)
    chosen = made(namespace_selector={"matchLabels": {"team": "a"}})
    assert {str(hook["namespaceSelector"]) for hook in chosen} == {"{'matchLabels': {'team': 'a'}}"}


def test_installing_looking_and_removing() -> None:
    cluster = FakeCluster()
    assert webhook_configuration.read_configuration(cluster, "prod") is None
    webhook_configuration.install_configuration(cluster, replace(SPEC, fails_closed=False))
    webhook_configuration.install_configuration(cluster, SPEC)
    found = webhook_configuration.read_configuration(cluster, "prod")
    assert found is not None
    assert webhook_configuration.configuration_differences(found, SPEC) == []
    installed = webhook_configuration.read_installed(found, "prod")
    assert installed is not None
    assert (installed.fails_closed, installed.namespace_selector) == (True, None)
    assert installed.address == replace(URL, url="https://hooks.example:8443")
    assert webhook_configuration.remove_configuration(cluster, "prod") is True
    assert webhook_configuration.remove_configuration(cluster, "prod") is False


@pytest.mark.parametrize("url", ["https://h:1/webhooks/pod/prod", "https://h:1/webhooks/pod/prod/1-x", "https://h:1/x"])
def test_reading_the_address_of_this_and_of_older_versions(url: str) -> None:
    hook = {"name": "pod.prod.osmo-admin.local", "clientConfig": {"url": url}, "failurePolicy": "Ignore"}
    found = webhook_configuration.read_installed({"webhooks": [hook]}, "prod")
    assert (found and found.address.url) == (None if url.endswith("/x") else "https://h:1")
    assert webhook_configuration.read_installed({"webhooks": [hook]}, "other") is None


CHANGES = {
    "a webhook is missing": lambda hooks: hooks.pop(),
    "a webhook of somebody": lambda hooks: hooks.append({"name": "foreign"}),
    "another policy": lambda hooks: hooks[0].update(failurePolicy="Ignore"),
    "another mark": lambda hooks: hooks[0]["clientConfig"].update(url="https://hooks.example:8443/webhooks/pod/prod"),
    "no condition": lambda hooks: hooks[1].update(matchConditions=[]),
    "one condition more": lambda hooks: hooks[1]["matchConditions"].append({"name": "x", "expression": "false"}),
    "fewer operations": lambda hooks: hooks[0]["rules"][0].update(operations=["CREATE"]),
    "objects are exempt": lambda hooks: hooks[0].update(objectSelector={"matchLabels": {"never": "there"}}),
    "namespaces are exempt": lambda hooks: hooks[0]["namespaceSelector"].update(matchLabels={"never": "there"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_every_change_is_a_difference(change: Any) -> None:
    hooks = deepcopy(made())
    for hook in hooks:
        hook["clientConfig"]["defaulted"] = "by the API server"
    assert webhook_configuration.configuration_differences({"webhooks": hooks}, SPEC) == []
    change(hooks)
    (difference,) = webhook_configuration.configuration_differences({"webhooks": hooks}, SPEC)
    assert "1-mark" not in difference


def test_two_authorities_are_trusted_during_a_change() -> None:
    other = PEM.replace("x", "y")
    assert join_authorities(other, PEM, PEM) == other + PEM
    assert join_authorities("", "rubbish") == ""


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(resource_kinds).values() if isinstance(kind, ResourceKind)], ids=str
)
def test_every_used_kind_has_its_rights(kind: ResourceKind) -> None:
    rules = [rule for item in rbac.rbac_manifests("ns") for rule in item.get("rules", [])]
    assert any(kind.group in rule["apiGroups"] and kind.plural in rule["resources"] for rule in rules)


def test_no_right_is_wider_than_needed() -> None:
    everything = rbac.rbac_manifests("ns")
    words = [word for item in everything for rule in item.get("rules", []) for part in rule.values() for word in part]
    assert "*" not in words
    (wide,) = [item for item in everything if item["kind"] == "ClusterRole"]
    secrets = [rule for rule in wide["rules"] if "secrets" in rule["resources"]]
    assert secrets == []
    writes = {"create", "patch", "update", "delete"}
    assert not any(writes & set(rule["verbs"]) for rule in wide["rules"] if "pods" in rule["resources"])


@pytest.mark.parametrize(
    ("role", "resource", "names"),
    [
        ("ClusterRole", "validatingwebhookconfigurations", ["osmo-admin-prod", "osmo-admin-second"]),
        ("ClusterRole", "priorityclasses", ["osmo-high", "osmo-normal", "osmo-low"]),
        ("ClusterRole", "namespaces", ["work"]),
        ("Role", "leases", ["osmo-admin-work"]),
    ],
)
def test_a_right_on_objects_of_known_names_is_for_these_names(role: str, resource: str, names: list[str]) -> None:
    (manifest,) = [each for each in rbac.rbac_manifests("work", backends=["prod", "second"]) if each["kind"] == role]
    rules = [rule for rule in manifest["rules"] if resource in rule["resources"]]
    for rule in rules:
        if set(rule["verbs"]) <= {"create", "list", "watch"}:
            assert "resourceNames" not in rule, "Kubernetes cannot limit these verbs to names"
        else:
            assert not {"create", "list", "watch"} & set(rule["verbs"])
            assert sorted(rule["resourceNames"]) == sorted(names)
    verbs = [verb for rule in rules for verb in rule["verbs"]]
    table = {kind.plural: given for kind, given in (*rbac.CLUSTER_RULES, *rbac.NAMESPACE_RULES)}
    assert sorted(verbs) == sorted(table[resource])
