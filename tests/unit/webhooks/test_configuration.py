"""The webhook configuration and the rights that a cluster needs."""

from __future__ import annotations

import base64

import pytest

from scheduling.kube import rbac, resource_kinds, webhook_configuration
from scheduling.kube.fake import FakeCluster
from scheduling.kube.port import ResourceKind
from scheduling.kube.webhook_configuration import WebhookAddress, WebhookSpec

PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
URL = WebhookAddress(PEM, url="https://hooks.example:8443/")


def test_by_url() -> None:
    made = webhook_configuration.webhook_configuration(WebhookSpec("prod", URL, fails_closed=True))
    clients = [hook["clientConfig"] for hook in made["webhooks"]]
    assert [client["url"] for client in clients] == [
        "https://hooks.example:8443/webhooks/pod/prod",
        "https://hooks.example:8443/webhooks/podgroup/prod",
    ]
    assert {base64.b64decode(client["caBundle"]).decode() for client in clients} == {PEM}
    assert {hook["failurePolicy"] for hook in made["webhooks"]} == {"Fail"}


def test_by_service() -> None:
    address = WebhookAddress(PEM, service=("osmo", "admin"), port=8443)
    made = webhook_configuration.webhook_configuration(WebhookSpec("prod", address, fails_closed=False))
    assert made["webhooks"][0]["clientConfig"]["service"] == {
        "namespace": "osmo", "name": "admin", "path": "/webhooks/pod/prod", "port": 8443,
    }  # fmt: skip
    assert {hook["failurePolicy"] for hook in made["webhooks"]} == {"Ignore"}


def test_system_namespaces_are_excluded_unless_namespaces_are_chosen() -> None:
    (expression,) = webhook_configuration.webhook_configuration(WebhookSpec("prod", URL, False))["webhooks"][0][
        "namespaceSelector"
    ]["matchExpressions"]
    assert (expression["operator"], "kube-system" in expression["values"]) == ("NotIn", True)
    chosen = webhook_configuration.webhook_configuration(
        WebhookSpec("prod", URL, False, {"matchLabels": {"team": "a"}})
    )
    assert {str(hook["namespaceSelector"]) for hook in chosen["webhooks"]} == {"{'matchLabels': {'team': 'a'}}"}


def test_installing_looking_and_removing() -> None:
    cluster = FakeCluster()
    assert webhook_configuration.read_installed_webhook(cluster, "prod") is None
    webhook_configuration.install_configuration(cluster, WebhookSpec("prod", URL, fails_closed=False))
    webhook_configuration.install_configuration(cluster, WebhookSpec("prod", URL, fails_closed=True))
    found = webhook_configuration.read_installed_webhook(cluster, "prod")
    assert found is not None
    assert (found.fails_closed, found.ca_certificates) == (True, frozenset({PEM}))
    assert webhook_configuration.remove_configuration(cluster, "prod") is True
    assert webhook_configuration.remove_configuration(cluster, "prod") is False


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
