"""OSMO's configuration in its three forms, and our own files."""

from __future__ import annotations

import json

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.configuration.texts import file_texts
from scheduling.moving_in.result import BadSource, PartOutcome
from tests.support.imports import body, gpu, imported, pool, silent_keys, told

VALUES = """\
image: {tag: x}
services:
  ui: {}
  configs:
    enabled: true
    secretRefs: [{secretName: s}]
    service: {cli_config: {}}
    backendTests: {}
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
        platforms: {h100: {description: x, tolerations: [], odd: 1, default_variables: {A: 1}}}
    roles:
      osmo-user: {policies: [{actions: ["*"]}]}
"""


def test_helm_values() -> None:
    result = imported("osmo", VALUES)
    assert gpu(result, "team-a") == (8, 16, 2)
    assert pool(result, "team-a")["platforms"] == {"h100": {"description": "x", "default_variables": {"A": 1}}}
    assert pool(result, "team-a")["backend"] == "prod"
    assert body(result, OwnedKind.BACKEND, "prod")["access"] == "in_cluster"
    assert body(result, OwnedKind.SETTINGS, "workflow")["max_retry_per_task"] == 2
    lost = told(result, PartOutcome.NO_COUNTERPART)
    for words in (
        "services.configs.service", "services.configs.podTemplates", "workflow.backend_images", "router_address",
        "Team_A.something_new", "common_pod_template", "platforms.h100.odd", "platforms.h100.default_variables",
    ):  # fmt: skip
        assert words in lost
    state = told(result, PartOutcome.STATE)
    assert "services.configs.backendTests: the section is empty." in state
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
    assert "roles.ctrl" in told(result, PartOutcome.STATE)


def test_the_cluster_that_the_installation_has_already() -> None:
    result = imported("osmo", VALUES, writes_backend=False, backend="k8s")
    assert [name for kind, name in result.objects if kind is OwnedKind.BACKEND] == []
    assert pool(result, "team-a")["backend"] == "k8s"
    assert "pools name the cluster k8s" in told(result, PartOutcome.BECAME)
    assert "router_address" in told(result, PartOutcome.NO_COUNTERPART)
    two = "pools: {a: {backend: x}, b: {backend: y}, c: {backend: y}}\n"
    result = imported("osmo", two, writes_backend=False, backend="k8s")
    assert told(result, PartOutcome.TO_DECIDE).count("the files have the clusters x and y; all pools are on one.") == 1


def test_each_answer_of_the_client() -> None:
    """`osmo config show` for pools, backends and the workflow configuration, as they are."""
    shown = {
        "name": "default", "description": "", "version": "6.4", "k8s_namespace": "osmo", "dashboard_url": "",
        "tests": [],
        "scheduler_settings": {"scheduler_type": "kai", "scheduler_name": "kai-scheduler", "scheduler_timeout": 30},
        "node_conditions": {"rules": None, "prefix": "osmo.nvidia.com/"}, "online": True,
    }  # fmt: skip
    workflow = {"max_num_tasks": 20, "max_retry_per_task": 2, "workflow_data": {"credential": None}}
    texts = [{"pools": {"a": {"backend": "default"}}}, {"backends": [shown]}, workflow]
    result = imported("osmo", *map(json.dumps, texts))
    assert body(result, OwnedKind.SETTINGS, "workflow")["max_retry_per_task"] == 2
    lost = told(result, PartOutcome.NO_COUNTERPART)
    for words in ("max_num_tasks", "workflow_data", "scheduler_settings.scheduler_timeout", "node_conditions"):
        assert words in lost
    for words in ("dashboard_url", "tests", "scheduler_type"):
        assert words not in lost
        assert words in told(result, PartOutcome.STATE)


def test_our_own_files_stay_the_same() -> None:
    first = file_texts(imported("osmo", VALUES).objects)
    again = imported("osmo", *first.values())
    assert file_texts(again.objects) == first
    assert again.count(PartOutcome.NO_COUNTERPART) == 2  # the keys that are kept for OSMO


@pytest.mark.parametrize(
    "text", ["pools: [1]", "pools: {a: 1}", "5", "pools: {a: {}}\n---\npools: {a: {}}\n", "pools: {a: {}}"]
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(BadSource):
        imported("osmo", text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"name": "n7", "gpus": 8}]', "policies"),
        ('[{"name": "osmo-a-user", "policies": []}, {"name": "n7"}]', "policies"),
        ('[{"id": 5, "state": "done"}]', "roles"),
        ('[{"id": "ann"}, {"id": "bob", "roles": []}]', "roles"),
    ],
)
def test_a_list_of_other_objects_says_what_it_lacks(text: str, words: str) -> None:
    with pytest.raises(BadSource) as refused:
        imported("osmo", text)
    assert f"this object has no {words}." in refused.value.details[0].message


ROLES = """\
pools:
  team: {backend: b}
  Team_B: {backend: b}
roles:
  osmo-team: {policies: [{effect: Allow, actions: ["workflow:*"], resources: ["pool/team"]}]}
  leads: {policies: [{actions: ["pool:Update", "workflow:Create"], resources: ["pool/Team_B"]}], users: [cy]}
  boss: {policies: [{actions: ["*:*"], resources: ["*"]}], immutable: true}
  both: {policies: [{actions: ["workflow:Create"], resources: ["pool/*"]}], external_roles: [g1], sync_mode: force}
  osmo-ctrl: {policies: [{actions: ["internal:Router"], resources: ["*"]}]}
"""
ACCOUNTS = json.dumps([
    {"id": "ann", "created_at": "x", "roles": [{"role_name": "osmo-team", "assigned_by": "y"}]},
    {"id": "bob", "roles": [{"role_name": "boss"}, {"role_name": "gone"}, {"role_name": "osmo-default"}]},
    {"id": "dan", "roles": []},
])  # fmt: skip


class TestRoles:
    """Policies there, names here."""

    @staticmethod
    def people(*texts: str) -> dict[str, list[str]]:
        """The roles with their people."""
        result = imported("osmo", *texts)
        return {name: list(value["users"]) for (kind, name), value in result.objects.items() if kind is OwnedKind.ROLE}

    def test_people_get_the_roles_that_allow_the_same(self) -> None:
        assert self.people(ACCOUNTS, ROLES) == {
            "osmo-admin": ["bob"],
            "osmo-team-b-admin": ["cy"],
            "osmo-team-b-user": ["cy"],
            "osmo-team-user": ["ann"],
        }

    def test_what_nobody_has_yet_is_for_a_person_to_decide(self) -> None:
        text = told(imported("osmo", ROLES, ACCOUNTS), PartOutcome.TO_DECIDE)
        assert "set ROLES of the provider to g1=osmo-team-user+osmo-team-b-user" in text
        assert "bob has the role gone, which the files do not have" in text
        assert "gives osmo-team-user, and the files do not say to whom" in told(
            imported("osmo", ROLES), PartOutcome.TO_DECIDE
        )

    @pytest.mark.parametrize(
        ("policies", "roles", "outcome", "words"),
        [
            ("{actions: ['workflow:*'], resources: [pool/team]}", ["osmo-team-user"], "no_counterpart", "cancel"),
            ("{actions: ['workflow:Create'], resources: ['pool/t*']}", ["osmo-team-user"], "became", "osmo-team-user"),
            (
                "{actions: ['workflow:Create'], resources: ['pool/*']}",
                ["osmo-team-user", "osmo-x-user"],
                "became",
                "x-u",
            ),
            ("{actions: ['workflow:Create'], resources: ['pool/tea']}", [], "to_decide", "no such pool"),
            ("{actions: ['workflow:Create'], resources: ['bucket/x']}", [], "no_counterpart", "bucket/x"),
            ("{actions: ['workflow:Create']}", [], "no_counterpart", "allows this nowhere"),
            ("{actions: ['workflow:Cancel'], resources: [pool/team]}", [], "no_counterpart", "only the admins"),
            ("{actions: ['workflow:Exec'], resources: [pool/team]}", [], "no_counterpart", "workflow:Exec"),
            ("{actions: ['*:*'], resources: [pool/team]}", ["osmo-team-admin"], "no_counterpart", "only osmo-admin"),
            ("{actions: ['*:*'], resources: ['*']}", ["osmo-admin"], "became", "osmo-admin"),
            (
                "{actions: ['*:*'], resources: ['*']}, {effect: Deny, actions: ['workflow:*'], resources: [pool/x]}",
                ["osmo-team-admin", "osmo-x-admin"],
                "no_counterpart",
                "nothing is denied here",
            ),
            (
                "{actions: ['workflow:*'], resources: ['*']}, {effect: Deny, actions: ['*:*'], resources: ['pool/x']}",
                ["osmo-team-user"],
                "no_counterpart",
                "nothing is denied here",
            ),
            ("{actions: ['config:Read'], resources: ['config/*']}", [], "to_decide", "only osmo-viewer reads"),
            ("{actions: ['config:Update'], resources: ['config/*']}", [], "to_decide", "only osmo-admin changes"),
            ("{actions: ['workflow:Read'], resources: ['*']}", [], "to_decide", "needs osmo-viewer"),
            ("{actions: ['auth:Token', 'profile:*']}", [], "state", "themselves"),
            ("{actions: ['app:*', 'credentials:*']}", [], "no_counterpart", "no role here has"),
            ("{actions: [{base: http, path: /api, method: '*'}]}", [], "no_counterpart", "by address"),
            ("{actions: ['*']}", [], "no_counterpart", "not an action"),
        ],
    )
    def test_policies(self, policies: str, roles: list[str], outcome: str, words: str) -> None:
        pools = "pools: {team: {backend: b}, x: {backend: b}}"
        result = imported("osmo", f"{pools}\nroles:\n  r: {{users: [ann], policies: [{policies}]}}\n")
        assert sorted(name for kind, name in result.objects if kind is OwnedKind.ROLE) == roles
        lines = [line for line in result.lines if line.outcome == outcome and words in f"{line.place.key} {line.text}"]
        assert lines
        assert all(line.place.line == 3 for line in lines)

    def test_a_name_gives_nothing(self) -> None:
        assert self.people("roles: {osmo-admin: {policies: []}}", ACCOUNTS.replace("boss", "osmo-team-admin")) == {}

    def test_a_prefix_that_names_several_pools_is_told(self) -> None:
        text = "pools: {team: {backend: b}, team2: {backend: b}}\nroles: {r: {users: [ann], policies: [{actions: "
        text += "['workflow:Create'], resources: ['pool/team*']}]}}\n"
        assert "pool/team* names several pools: team, team2" in told(imported("osmo", text), PartOutcome.TO_DECIDE)

    @pytest.mark.parametrize(
        "role",
        [
            "{policies: 5}", "{policies: [5]}", "{policies: [{effect: Maybe, actions: []}]}",
            "{policies: [{actions: x}]}",
            "{policies: [], users: ann}", "{policies: [], external_roles: [5]}",
            "{policies: [{actions: ['a:B'], resources: [{}]}]}",
        ],
    )  # fmt: skip
    def test_other_forms_are_refused(self, role: str) -> None:
        with pytest.raises(BadSource):
            imported("osmo", f"roles: {{r: {role}}}")

    @pytest.mark.parametrize(
        "account", ['{"id": 5, "roles": []}', '{"id": "a", "roles": 5}', '[{"id": "a", "roles": [5]}]']
    )
    def test_other_forms_of_accounts_are_refused(self, account: str) -> None:
        with pytest.raises(BadSource):
            imported("osmo", account)

    def test_each_key_is_read_or_told(self) -> None:
        keys = "description: x, immutable: true, sync_mode: force, external_roles: [g], odd: 1"
        policy = "{effect: Allow, actions: ['workflow:Create'], resources: ['pool/team'], odd: 1}"
        text = f"pools: {{team: {{backend: b}}}}\nroles:\n  r: {{users: [ann], policies: [{policy}], {keys}}}\n"
        assert set(silent_keys("osmo", text)) <= {".roles.r.policies[0].effect"}  # Allow is what a policy does anyway


EVERY_KEY = """\
services:
  configs:
    enabled: true
    backends:
      prod:
        description: main
        k8s_namespace: ns
        scheduler_settings: {scheduler_name: other-scheduler, coscheduling: true}
        router_address: x
        k8s_uid: u
        tests: [a]
    pools:
      team:
        backend: prod
        description: x
        enable_maintenance: true
        resources: {gpu: {guarantee: 8, maximum: 16, weight: 2}}
        cohort: c
        borrowing_limit: 1
        lending_limit: 2
        platforms: {h100: {description: x, host_network_allowed: true}, b: {description: y}}
        default_platform: b
        max_exec_timeout: 2d
        default_exit_actions: {FAIL: "1"}
        common_pod_template: [default]
        topology_keys: [{key: rack, label: cloud/rack}]
        new: 1
    cohorts: {c: {quotas: [{resource: gpu, nominal: 3}], weight: 2}}
    workflow: {max_retry_per_task: 2, subpool_drain_interval_minutes: 3, backend_images: {a: b}}
    service: {a: b}
    sth: {a: b}
"""


def test_every_key_does_something_or_stands_in_the_report() -> None:
    named_with_the_part_around = (".service.", ".sth.", ".backend_images.", ".tests.")
    silent = silent_keys("osmo", EVERY_KEY)
    assert [key for key in silent if not any(part in key for part in named_with_the_part_around)] == []
