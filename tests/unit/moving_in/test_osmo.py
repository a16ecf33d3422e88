"""OSMO's configuration in its three forms, and our own files."""

from __future__ import annotations

import json

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.configuration.texts import file_texts
from scheduling.moving_in.result import BadSource, PartOutcome
from tests.support.imports import body, gpu, imported, pool, told

VALUES = """\
image: {tag: x}
services:
  ui: {}
  configs:
    enabled: true
    secretRefs: [{secretName: s}]
    service: {cli_config: {}}
    podTemplates: {default: {}}
    workflow: {max_retry_per_task: 2, backend_images: {}}
    backends:
      Prod: {description: main, scheduler_settings: {scheduler_name: kai-scheduler}, router_address: x, k8s_uid: u}
    pools:
      Team_A:
        backend: Prod
        status: ONLINE
        something_new: 1
        resources: {gpu: {guarantee: 8, maximum: 16, weight: 2}}
        common_pod_template: [default]
        platforms: {h100: {description: x, tolerations: [], odd: 1}}
    roles:
      osmo-user: {policies: [{actions: ["*"]}]}
"""


def test_helm_values() -> None:
    result = imported("osmo", VALUES)
    assert gpu(result, "team-a") == (8, 16, 2)
    assert pool(result, "team-a")["platforms"] == {"h100": {"description": "x"}}
    assert pool(result, "team-a")["backend"] == "prod"
    assert body(result, OwnedKind.BACKEND, "prod")["access"] == "in_cluster"
    assert body(result, OwnedKind.SETTINGS, "workflow")["max_retry_per_task"] == 2
    lost = told(result, PartOutcome.NO_COUNTERPART)
    for words in (
        "services.configs.service", "services.configs.podTemplates", "workflow.backend_images", "router_address",
        "Team_A.something_new", "common_pod_template", "platforms.h100.odd", "roles.osmo-user",
    ):  # fmt: skip
        assert words in lost
    state = told(result, PartOutcome.STATE)
    for words in ("image", "services.ui", "secretRefs", "k8s_uid", "Team_A.status", "tolerations"):
        assert words in state


def test_the_mounted_file_and_answers_of_the_client() -> None:
    mounted = "backends:\n  prod: {k8s_namespace: ns}\npools:\n  team: {backend: prod}\n"
    result = imported("osmo", mounted)
    assert body(result, OwnedKind.BACKEND, "prod")["namespace"] == "ns"
    shown = json.dumps({"backends": [{"name": "prod", "online": True}]})
    roles = json.dumps([{"name": "osmo-team-admin", "users": ["ann"]}, {"name": "ctrl", "policies": []}])
    result = imported("osmo", json.dumps({"pools": {"team": {"backend": "prod"}}}), shown, roles)
    assert {name for _, name in result.objects} == {"team", "prod", "osmo-team-admin"}
    assert "roles.ctrl" in told(result, PartOutcome.NO_COUNTERPART)


def test_our_own_files_stay_the_same() -> None:
    first = file_texts(imported("osmo", VALUES).objects)
    again = imported("osmo", *first.values())
    assert file_texts(again.objects) == first
    assert again.count(PartOutcome.NO_COUNTERPART) == 1  # the key that is kept for OSMO


@pytest.mark.parametrize(
    "text", ["pools: [1]", "pools: {a: 1}", "5", "pools: {a: {}}\n---\npools: {a: {}}\n", "pools: {a: {}}"]
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(BadSource):
        imported("osmo", text)
