"""The Helm chart: what helm renders from each combination of its switches, and what an API server says to it."""

from __future__ import annotations

import itertools
import json
import random
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from environs import Env
from typer.testing import CliRunner

import osmo_admin
from osmo_admin.cli.client import app as client
from osmo_admin.cli.server import app
from osmo_admin.ops.programs import process_commands
from osmo_admin.provider_env import read_directories, read_providers
from scheduling.kube.connection import errors
from scheduling.kube.connection.port import Cluster
from scheduling.kube.rbac import rbac_manifests
from tests.support import chart
from tests.support.chart import CHART, NAMESPACE, named, pod_templates, render, template
from tests.support.kube_server import KubeServer
from tests.support.services import ROOT

pytestmark = pytest.mark.helm

# Each switch with what else it needs.
SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "webhook.enabled": {},
    "clusters.enabled": {},
    "follow.enabled": {"follow.configMapName": "osmo-config"},
    "backup.enabled": {"backup.claimName": "backups"},
    "rbac.create": {"rbac.workNamespace": "work"},
    "serviceAccount.create": {},
    "ingress.enabled": {"ingress.className": "nginx", "ingress.tlsSecretName": "osmo-tls"},
    "podDisruptionBudget.enabled": {},
    "networkPolicy.enabled": {},
    "migrate.enabled": {},
    "migrate.hook": {},
    "metrics.serviceMonitor.enabled": {"metrics.serviceMonitor.tokenSecret.name": "metrics"},
    "metrics.prometheusRule.enabled": {},
    "metrics.dashboards.enabled": {},
    "web.autoscaling.enabled": {},
    "webhook.certificate.certManager.enabled": {"webhook.certificate.certManager.issuer.name": "internal"},
}
PROVIDER = "signOn.providers.corp"
SIGN_ON: Mapping[str, Any] = {
    f"{PROVIDER}.issuer": "https://id.example/realms/corp",
    f"{PROVIDER}.clientId": "osmo",
    f"{PROVIDER}.clientSecret.name": "osmo-sign-on",
    f"{PROVIDER}.clientSecret.key": "corp",
    f"{PROVIDER}.title": "Corp",
    f"{PROVIDER}.roles.gpu-admins[0]": "osmo-admin",
    f"{PROVIDER}.roles.gpu-admins[1]": "osmo-viewer",
    f"{PROVIDER}.roles.team-a[0]": "osmo-team-a-user",
    f"{PROVIDER}.allowedGroups[0]": "gpu-admins",
    f"{PROVIDER}.allowedGroups[1]": "team-a",
    f"{PROVIDER}.scopes[0]": "email",
    f"{PROVIDER}.sessionHours": 8,
    f"{PROVIDER}.groupsAreRoles": True,
    f"{PROVIDER}.sync": "import",
    "signOn.providers.other.issuer": "https://other.example",
    "signOn.providers.other.clientId": "public",
    "signOn.providers.other.sync": "ignore",
    "signOn.passwordLogin": "admins",
    "signOn.ports[0]": 8443,
}
DIRECTORY = "signOn.directories.corp"
DIRECTORIES: Mapping[str, Any] = {
    f"{DIRECTORY}.urls[0]": "ldaps://a.example",
    f"{DIRECTORY}.urls[1]": "ldap://b.example:3389",
    f"{DIRECTORY}.caConfigMap.name": "osmo-ldap",
    f"{DIRECTORY}.caConfigMap.key": "ca.pem",
    f"{DIRECTORY}.bindDn": "cn=osmo",
    f"{DIRECTORY}.bindPassword.name": "osmo-sign-on",
    f"{DIRECTORY}.bindPassword.key": "ldap",
    f"{DIRECTORY}.userBase": "ou=people",
    f"{DIRECTORY}.loginAttributes[0]": "uid",
    f"{DIRECTORY}.loginAttributes[1]": "mail",
    f"{DIRECTORY}.idAttribute": "nsUniqueId",
    f"{DIRECTORY}.groupBase": "ou=groups",
    f"{DIRECTORY}.groupFilter": "(memberUid={username})",
    f"{DIRECTORY}.roles.team-a[0]": "osmo-team-a-user",
    f"{DIRECTORY}.sync": "import",
    "signOn.passwordLogin": "admins",
    "signOn.ports[0]": 636,
}
EVERYTHING = dict.fromkeys(SWITCHES, True) | {key: value for more in SWITCHES.values() for key, value in more.items()}
COMPONENTS = {"web", "worker", "beat", "clusters", "webhook", "migrate", "follow", "backup"}

Values = Mapping[str, Any]
# The other values of the chart: for each of them the settings that differ in what is rendered.
SETTINGS: Mapping[str, Mapping[str, Values]] = {
    "secrets.setup": {"none": {}, "named": {"secrets.setup": "osmo-setup"}},
    "image": {
        "by tag": {},
        "by digest": {"image.digest": f"sha256:{'0' * 64}", "image.pullSecrets[0]": "registry"},
    },
    "replicas": {"default": {}, "other": {"web.replicas": 3, "worker.replicas": 2, "clusters.replicas": 2}},
    "signOn": {
        "none": {},
        "providers": SIGN_ON,
        "directories": DIRECTORIES,
        "both": {**DIRECTORIES, **{key.replace("corp", "idp"): value for key, value in SIGN_ON.items()}},
    },
    "tracing": {"off": {}, "on": {"tracing.url": "https://otel.example/v1/traces", "tracing.share": 0.5}},
    "kubeconfigs": {"none": {}, "mounted": {"kubeconfigs.secretName": "kubeconfigs"}},
    "serviceAccount.name": {
        "default": {},
        "given": {"serviceAccount.name": "robot", "serviceAccount.annotations.team": "gpu"},
    },
    "settings": {
        "none": {},
        "some": {"settings.OSMO_ALLOWED_HOSTS": "a.example", "settings.OSMO_CSRF_TRUSTED_ORIGINS": "https://a.example"},
    },
    "networkPolicy": {
        "default": {},
        "narrow": {
            "networkPolicy.webFrom[0].podSelector.matchLabels.app": "ingress",
            "networkPolicy.webhookFrom[0].ipBlock.cidr": "10.0.0.0/8",
            "networkPolicy.extraEgress[0].ports[0].port": 587,
            "networkPolicy.databasePorts[0]": 6432,
            "networkPolicy.clusterPorts": "null",
        },
    },
    "placement": {
        "anywhere": {},
        "chosen": {
            "nodeSelector.disk": "ssd",
            "tolerations[0].operator": "Exists",
            "priorityClassName": "high",
            "podAnnotations.team": "gpu",
        },
    },
    "ingress": {"plain": {}, "annotated": {"ingress.annotations.a": "b", "ingress.className": ""}},
    "migrate": {"default": {}, "patient": {"migrate.activeDeadlineSeconds": 3600, "migrate.backoffLimit": 0}},
    "backup.recipients": {"none": {}, "two": {"backup.recipients[0]": "age1abc", "backup.recipients[1]": "age1def"}},
    "webhook.certificate": {
        "made": {},
        "cert-manager": {
            "webhook.certificate.certManager.enabled": True,
            "webhook.certificate.certManager.issuer.name": "internal",
        },
        "own": {"webhook.certificate.secretName": "own"},
    },
    "metrics": {
        "token": {},
        "public": {"settings.OSMO_METRICS_PUBLIC": "true", "metrics.serviceMonitor.tokenSecret.name": ""},
    },
}
SWITCHES_ALONE = [name for name in SWITCHES if name != "webhook.certificate.certManager.enabled"]
CHOICES: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(SWITCHES_ALONE, (True, False)), **{name: list(found) for name, found in SETTINGS.items()},
}  # fmt: skip
Combination = Mapping[str, Any]


def values_of(combination: Combination) -> dict[str, Any]:
    """The values of a combination, with what its switches need where they are on."""
    values: dict[str, Any] = {}
    for name, choice in combination.items():
        if name in SWITCHES:
            values |= {name: choice, **(SWITCHES[name] if choice else {})}
    for name, choice in combination.items():
        if name in SETTINGS:
            values |= SETTINGS[name][choice]
    return values


def covering(strength: int) -> Iterator[Combination]:
    """Combinations of all choices that contain each combination of the choices of each `strength` names.

    Greedy: each of them is the best of some that begin with a missing combination and are completed at random, with a
    fixed seed.
    """
    draw = random.Random(1)
    missing: dict[frozenset[tuple[str, Any]], None] = {
        frozenset(zip(names, choices, strict=True)): None
        for names in itertools.combinations(CHOICES, strength)
        for choices in itertools.product(*(CHOICES[name] for name in names))
    }
    while missing:
        begin = dict(next(iter(missing)))
        found = [{name: begin.get(name, draw.choice(choices)) for name, choices in CHOICES.items()} for _ in range(30)]
        parts = [{frozenset(part) for part in itertools.combinations(each.items(), strength)} for each in found]
        best = max(range(len(found)), key=lambda number: sum(part in missing for part in parts[number]))
        for part in parts[best]:
            missing.pop(part, None)
        yield found[best]


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    """The objects with every switch on."""
    return render(EVERYTHING)


@pytest.fixture(scope="module")
def cluster(kube_server: KubeServer) -> Iterator[Cluster]:
    """An API server that knows every kind of the chart, and the namespaces of its objects."""
    chart.define_kinds(kube_server)
    with closing(kube_server.connect()) as connection:
        for name in (NAMESPACE, "work"):
            connection.apply(
                chart.NAMESPACE_KIND,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                field_manager="tests",
            )
        yield connection


def apply_new(cluster: Cluster, objects: list[dict[str, Any]], applied: set[str]) -> None:
    """Apply the objects that were not applied before. The generated certificate differs each time."""
    for each in objects:
        text = json.dumps({**each, "data": None}, sort_keys=True)
        if text not in applied:
            applied.add(text)
            chart.apply_objects(cluster, [each])


def check_objects(values: Values, objects: list[dict[str, Any]]) -> None:
    """What must be there follows from the values alone."""
    kinds = {each["kind"] for each in objects}
    components = set(pod_templates(objects))
    expected = {"web", "worker", "beat"}
    expected |= {name for name in ("webhook", "clusters", "migrate", "follow", "backup") if values[f"{name}.enabled"]}
    managed = bool(values.get("webhook.certificate.certManager.enabled"))
    if values["webhook.enabled"] and not managed and "webhook.certificate.secretName" not in values:
        expected.add("certificate")
    assert components == expected
    assert ("ClusterRole" in kinds) is values["rbac.create"]
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert ("osmo-osmo-admin-certificate" in accounts) is ("certificate" in components)
    assert bool(accounts - {"osmo-osmo-admin-certificate"}) is values["serviceAccount.create"]
    assert ("Ingress" in kinds) is values["ingress.enabled"]
    assert ("PodDisruptionBudget" in kinds) is values["podDisruptionBudget.enabled"]
    assert ("NetworkPolicy" in kinds) is values["networkPolicy.enabled"]
    assert ("ServiceMonitor" in kinds) is values["metrics.serviceMonitor.enabled"]
    assert ("PodMonitor" in kinds) is values["metrics.serviceMonitor.enabled"]
    assert ("PrometheusRule" in kinds) is values["metrics.prometheusRule.enabled"]
    assert ("ConfigMap" in kinds) is values["metrics.dashboards.enabled"]
    assert ("HorizontalPodAutoscaler" in kinds) is values["web.autoscaling.enabled"]
    assert ("Certificate" in kinds) is (values["webhook.enabled"] and managed)
    assert "Secret" not in kinds
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))
    for component, pod in pod_templates(objects).items():
        check_pod(component, pod["spec"])


def check_pod(component: str, spec: dict[str, Any]) -> None:
    """The rights of a pod, and that no variable is given twice, which an API server refuses in a later change only."""
    assert spec["securityContext"]["runAsNonRoot"] is True, component
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True, component
    assert context["allowPrivilegeEscalation"] is False, component
    assert context["capabilities"] == {"drop": ["ALL"]}, component
    names = [each["name"] for each in container.get("env", [])]
    assert len(names) == len(set(names)), component
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in spec["volumes"]}, component


@pytest.mark.k8s
def test_each_pair_of_values_is_taken_by_an_api_server(cluster: Cluster) -> None:
    applied: set[str] = set()
    for combination in covering(2):
        values = values_of(combination)
        objects = render(values)
        check_objects(values, objects)
        apply_new(cluster, objects, applied)
    assert len(applied) > 100, "the combinations differ"


@pytest.mark.nightly
@pytest.mark.k8s
@pytest.mark.timeout(3600)
def test_each_three_values_are_taken_by_an_api_server(cluster: Cluster) -> None:
    applied: set[str] = set()
    for combination in covering(3):
        values = values_of(combination)
        objects = render(values)
        check_objects(values, objects)
        apply_new(cluster, objects, applied)


@pytest.mark.nightly
@pytest.mark.k8s
def test_every_combination_of_switches_is_taken_by_an_api_server(cluster: Cluster) -> None:
    """All 65,536 of them: a template renders the same wherever the switches that it reads are the same, so each
    template is rendered with each combination of its own switches."""
    switches = {source: chart.find_read(source, SWITCHES) for source in chart.list_templates()}
    seen: dict[tuple[str, tuple[bool, ...]], str] = {}
    applied: set[str] = set()
    for combination in merge_combinations(switches.values()):
        values = values_of(combination)
        by_template = chart.render_by_template(values)
        objects = [each for found in by_template.values() for each in found]
        check_objects(values, objects)
        apply_new(cluster, objects, applied)
        for source, own in switches.items():
            text = json.dumps([{**each, "data": None} for each in by_template.get(source, [])])
            same = seen.setdefault((source, tuple(combination[name] for name in own)), text)
            assert text == same, f"{source} reads more switches than {own}"
    assert len(seen) == sum(2 ** len(own) for own in switches.values())


def merge_combinations(groups: Iterable[Sequence[str]]) -> list[dict[str, bool]]:
    """Few combinations of all switches that contain each combination of each of these groups."""
    rows: list[dict[str, bool]] = []
    for group in sorted(groups, key=len, reverse=True):
        for setting in itertools.product((True, False), repeat=len(group)):
            wanted = dict(zip(group, setting, strict=True))
            fits = (row for row in rows if all(row.get(name, on) is on for name, on in wanted.items()))
            # The emptiest row: rows that are full already are of no use to other groups.
            row = min(fits, key=len, default=None)
            if row is None:
                rows.append(row := {})
            row |= wanted
    return [{name: row.get(name, bool(number % 2)) for name in SWITCHES} for number, row in enumerate(rows)]


@pytest.mark.k8s
@pytest.mark.parametrize(
    ("kind", "name", "path", "value"),
    [
        ("Deployment", "osmo-osmo-admin-web", ("spec", "stratgy"), {"type": "Recreate"}),
        ("PodDisruptionBudget", "osmo-osmo-admin-web", ("spec", "selector"), "web"),
        ("Service", "osmo-osmo-admin", ("spec", "selectors"), {}),
    ],
)
def test_the_api_server_refuses_what_a_cluster_would_refuse(
    everything: list[dict[str, Any]], cluster: Cluster, kind: str, name: str, path: tuple[str, str], value: Any
) -> None:
    broken = json.loads(json.dumps(named(everything, kind, name)))
    broken[path[0]][path[1]] = value
    with pytest.raises(errors.ClusterError):
        chart.apply_objects(cluster, [broken])


def test_the_chart_passes_the_strict_linter() -> None:
    given = ",".join(f"{name}={value}" for name, value in chart.REQUIRED.items())
    done = chart.run_helm("lint", "--strict", str(CHART), "--set", given)
    assert done.returncode == 0, done.stdout


def test_chart_and_package_have_one_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == osmo_admin.__version__


def test_each_pod_has_no_right_that_it_does_not_need(everything: list[dict[str, Any]]) -> None:
    found = pod_templates(everything)
    assert set(found) == COMPONENTS
    for component, pod in found.items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, component
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, component
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, component
            assert context["allowPrivilegeEscalation"] is False, component
            assert context["capabilities"] == {"drop": ["ALL"]}, component
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, component
            assert "memory" in container["resources"]["limits"], component
        calls_clusters = component in ("worker", "clusters")
        assert spec["automountServiceAccountToken"] is calls_clusters, component
        assert not any("hostPath" in volume for volume in spec["volumes"]), component


def test_secrets_come_by_reference_and_each_to_its_readers() -> None:
    found = pod_templates(render({**EVERYTHING, "secrets.setup": "osmo-setup"}))
    for component, pod in found.items():
        (container,) = pod["spec"]["containers"]
        environment = {each["name"]: each for each in container["env"]}
        for name in ("OSMO_SECRET_KEY", "DATABASE_URL", "REDIS_URL"):
            assert environment[name]["valueFrom"]["secretKeyRef"]["name"] == "osmo-runtime"
            assert "value" not in environment[name]
        is_setup = component == "migrate"
        assert ("OSMO_OWNER_DATABASE_URL" in environment) is is_setup, component
        assert ("OSMO_ADMIN_PASSWORD" in environment) is is_setup, component


def test_sign_on_is_read_by_the_processes_as_the_values_say(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = render(SIGN_ON)
    apply_new(cluster, objects, set())
    found = pod_templates(objects)
    assert found.keys() >= {"web", "worker", "beat", "clusters", "migrate"}
    for component, pod in found.items():
        (container,) = pod["spec"]["containers"]
        entries = {each["name"]: each for each in container["env"]}
        secret = entries["OSMO_SSO_CORP_CLIENT_SECRET"]
        assert secret["valueFrom"] == {"secretKeyRef": {"name": "osmo-sign-on", "key": "corp"}}, component
        assert "value" not in secret
        variables = {name: each["value"] for name, each in entries.items() if "value" in each}
        for name, value in {**variables, "OSMO_SSO_CORP_CLIENT_SECRET": "hush"}.items():
            if "SSO" in name:
                monkeypatch.setenv(name, value)
        corp, other = read_providers(Env(), Env().list("OSMO_SSO"))
        assert (corp.name, corp.title, corp.issuer) == ("corp", "Corp", "https://id.example/realms/corp")
        assert (corp.client_id, corp.client_secret, corp.scopes) == ("osmo", "hush", ("openid", "email"))
        assert corp.roles_by_group == {
            "gpu-admins": frozenset({"osmo-admin", "osmo-viewer"}), "team-a": frozenset({"osmo-team-a-user"})
        }  # fmt: skip
        assert corp.allowed_groups == {"gpu-admins", "team-a"}
        assert (corp.sync, corp.groups_are_roles, corp.session_seconds) == ("import", True, 28800)
        assert (other.name, other.client_id, other.client_secret, other.sync) == ("other", "public", "", "ignore")
        assert variables["OSMO_PASSWORD_LOGIN"] == "admins"
        assert (variables["OSMO_SSO_CHECK_INTERVAL"], variables["OSMO_SSO_GRACE"]) == ("60", "600")
    reach = named(objects, "NetworkPolicy", "osmo-osmo-admin-sign-on")["spec"]
    assert reach["podSelector"]["matchExpressions"][0]["values"] == ["web", "worker"]
    assert reach["egress"] == [{"ports": [{"port": 8443, "protocol": "TCP"}]}]


def test_a_directory_is_read_by_the_processes_as_the_values_say(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = render(DIRECTORIES)
    for component, pod in pod_templates(objects).items():
        (container,) = pod["spec"]["containers"]
        entries = {each["name"]: each for each in container["env"]}
        password, authority = entries["OSMO_LDAP_CORP_BIND_PASSWORD"], entries["OSMO_LDAP_CORP_CA"]
        assert password["valueFrom"] == {"secretKeyRef": {"name": "osmo-sign-on", "key": "ldap"}}, component
        assert authority["valueFrom"] == {"configMapKeyRef": {"name": "osmo-ldap", "key": "ca.pem"}}, component
        assert "OSMO_SSO" not in entries
        variables = {name: each["value"] for name, each in entries.items() if "value" in each and "LDAP" in name}
        for name, value in {**variables, "OSMO_LDAP_CORP_BIND_PASSWORD": "hush", "OSMO_LDAP_CORP_CA": "pem"}.items():
            monkeypatch.setenv(name, value)
        (corp,) = read_directories(Env(), Env().list("OSMO_LDAP"))
        assert corp.urls == ("ldaps://a.example", "ldap://b.example:3389") and corp.is_encrypted
        assert (corp.bind_dn, corp.bind_password, corp.ca_text) == ("cn=osmo", "hush", "pem")
        assert (corp.user_base, corp.group_base, corp.id_attribute) == ("ou=people", "ou=groups", "nsUniqueId")
        assert (corp.login_attributes, corp.group_filter) == (("uid", "mail"), "(memberUid={username})")
        assert (corp.roles_by_group, corp.sync) == ({"team-a": frozenset({"osmo-team-a-user"})}, "import")
        assert entries["OSMO_PASSWORD_LOGIN"]["value"] == "admins"
    reach = named(objects, "NetworkPolicy", "osmo-osmo-admin-sign-on")["spec"]
    assert reach["egress"] == [{"ports": [{"port": 636, "protocol": "TCP"}]}]


def test_without_a_provider_nothing_of_sign_on_is_set(everything: list[dict[str, Any]]) -> None:
    for pod in pod_templates(everything).values():
        assert not [
            each["name"]
            for each in pod["spec"]["containers"][0]["env"]
            if "SSO" in each["name"] or "LDAP" in each["name"]
        ]
    assert "osmo-osmo-admin-sign-on" not in {each["metadata"]["name"] for each in everything}


def test_traces_go_to_the_collector_of_the_values(everything: list[dict[str, Any]]) -> None:
    objects = render({"tracing.url": "https://otel.example/v1/traces", "tracing.share": 0.25, "tracing.ports[0]": 8444})
    for component, pod in pod_templates(objects).items():
        entries = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert entries["OSMO_TRACES_URL"] == "https://otel.example/v1/traces", component
        assert entries["OSMO_TRACES_SHARE"] == "0.25", component
    ports = [each["port"] for each in named(objects, "NetworkPolicy", "osmo-osmo-admin")["spec"]["egress"][0]["ports"]]
    assert 8444 in ports
    without = named(everything, "NetworkPolicy", "osmo-osmo-admin")["spec"]["egress"][0]["ports"]
    assert 4318 not in [each["port"] for each in without]
    for pod in pod_templates(everything).values():
        assert not [each["name"] for each in pod["spec"]["containers"][0]["env"] if "TRACES" in each["name"]]


def test_there_is_exactly_one_beat_also_during_an_upgrade(everything: list[dict[str, Any]]) -> None:
    spec = named(everything, "Deployment", "osmo-osmo-admin-beat")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    refused = template({"beat.replicas": 2})
    assert refused.returncode != 0
    assert "'/beat': additional properties 'replicas' not allowed" in refused.stderr


def test_each_command_is_one_of_ours(everything: list[dict[str, Any]]) -> None:
    for component, pod in pod_templates(everything).items():
        arguments = pod["spec"]["containers"][0]["args"]
        assert CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0, component
        if component in ("follow", "backup"):
            assert arguments[0] == component
        else:
            assert arguments[:2] == ["serve", "prepare" if component == "migrate" else component]


def test_one_process_follows_a_mounted_file_and_sees_its_changes(everything: list[dict[str, Any]]) -> None:
    spec = named(everything, "Deployment", "osmo-osmo-admin-follow")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["follow", "--config_file", "/etc/osmo/configuration/config.yaml"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "configuration"]
    assert mount == {"name": "configuration", "mountPath": "/etc/osmo/configuration", "readOnly": True}, "no subPath"
    assert {"name": "configuration", "configMap": {"name": "osmo-config"}} in pod["volumes"]


def test_each_scheduled_backup_goes_into_a_folder_of_its_own(tmp_path: Path) -> None:
    job = named(
        render({"backup.enabled": True, "backup.claimName": "backups", "backup.recipients": "{age1abc,age1def}"}),
        "CronJob",
        "osmo-osmo-admin-backup",
    )["spec"]
    assert (job["concurrencyPolicy"], job["timeZone"]) == ("Forbid", "Etc/UTC")
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    assert {"name": "backup", "persistentVolumeClaim": {"claimName": "backups"}} in pod["volumes"]
    (container,) = pod["containers"]
    program = tmp_path / "osmo-admin"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [*container["command"], *container["args"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    command, folder, *options = done.stdout.splitlines()
    assert command == "backup"
    assert re.fullmatch(r"/backup/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ", folder)
    assert options == ["--recipient=age1abc", "--recipient=age1def"]


def test_the_preparation_runs_before_the_processes_of_a_release(everything: list[dict[str, Any]]) -> None:
    hook = named(everything, "Job", "osmo-osmo-admin-migrate")["metadata"]["annotations"]
    assert hook["helm.sh/hook"] == "pre-install,pre-upgrade"
    plain = [each for each in render({"migrate.hook": False}) if each["kind"] == "Job"]
    assert [(each["metadata"]["name"], "annotations" in each["metadata"]) for each in plain] == [
        ("osmo-osmo-admin-migrate-1", False)
    ]


def test_the_rights_in_a_cluster_are_those_of_the_code(everything: list[dict[str, Any]]) -> None:
    ours = {each["kind"]: each["rules"] for each in rbac_manifests("work") if "rules" in each}
    assert {each["kind"]: each["rules"] for each in everything if "rules" in each} == ours
    two = {"rbac.create": True, "rbac.workNamespace": "work", "rbac.backends[0]": "a", "rbac.backends[1]": "b-2"}
    both = {each["kind"]: each["rules"] for each in rbac_manifests("work", backends=["a", "b-2"]) if "rules" in each}
    assert {each["kind"]: each["rules"] for each in render(two) if "rules" in each} == both
    role = next(each for each in everything if each["kind"] == "Role")
    assert role["metadata"]["namespace"] == "work"
    for binding in (each for each in everything if each["kind"].endswith("RoleBinding")):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "osmo-osmo-admin", "namespace": NAMESPACE}]


def test_only_the_processes_with_a_port_are_reached(everything: list[dict[str, Any]]) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in everything if each["kind"] == "NetworkPolicy"}
    everyone = policies["osmo-osmo-admin"]
    assert everyone["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in everyone, "nothing reaches a pod unless another policy lets it"
    open_to = {
        policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for name, policy in policies.items()
        if "ingress" in policy and name != "osmo-osmo-admin-metrics"
    }
    assert open_to == {"web", "webhook"}
    for name in ("osmo-osmo-admin-clusters", "osmo-osmo-admin-metrics"):
        assert policies[name]["podSelector"]["matchExpressions"][0]["values"] == ["worker", "clusters"]
    assert policies["osmo-osmo-admin-metrics"]["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]


def test_the_webhook_server_shows_the_certificate_that_the_clusters_trust(everything: list[dict[str, Any]]) -> None:
    found = pod_templates(everything)
    mounts = {
        component: {mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        for component, pod in found.items()
    }
    folder = "/var/lib/osmo-admin/webhook"
    assert {component for component, paths in mounts.items() if folder in paths} == {"webhook", "clusters"}
    environment = {each["name"]: each.get("value") for each in found["clusters"]["spec"]["containers"][0]["env"]}
    assert environment[process_commands.WEBHOOK_AUTHORITY] == f"{folder}/ca.crt"
    hosts = {each["name"]: each.get("value") for each in found["webhook"]["spec"]["containers"][0]["env"]}
    certificate = named(everything, "Certificate", "osmo-osmo-admin-webhook")["spec"]
    assert certificate["dnsNames"][0] in hosts["OSMO_ALLOWED_HOSTS"].split(",")
    assert certificate["secretName"] == "osmo-osmo-admin-webhook"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"publicUrl": "http://osmo.example"}, 'publicUrl is "http://osmo.example". Set the address for users'),
        ({"secrets.runtime": ""}, "secrets.runtime is empty. Create a Secret with OSMO_SECRET_KEY"),
        ({"follow.enabled": True}, "follow.enabled needs follow.configMapName"),
        ({"backup.enabled": True}, "backup.enabled needs backup.claimName"),
        ({"rbac.create": True}, "rbac.create needs rbac.workNamespace"),
        ({"settings.OSMO_SECRET_KEY": "x"}, "settings.OSMO_SECRET_KEY is not allowed: it is a secret."),
        ({"settings.OSMO_MAIL_URL": "mailto://x"}, "Put it into the Secret that secrets.runtime names"),
        ({"settings.OSMO_SLACK_TOKEN": "xoxb-1"}, "settings.OSMO_SLACK_TOKEN is not allowed: it is a secret."),
        ({"settings.OSMO_ADMIN_PASSWORD": "x"}, "Put it into the Secret that secrets.setup names"),
        (
            {"tracing.url": "http://otel.example", "settings.OSMO_TRACES_SHARE": "1.0"},
            "settings.OSMO_TRACES_SHARE is not allowed together with tracing.url",
        ),
        ({"settings.OSMO_MAX_TASK": "many"}, "'/settings': additional properties 'OSMO_MAX_TASK' not allowed"),
        ({"settings.OSMO_MAX_TASKS": 30}, "'/settings/OSMO_MAX_TASKS': got number, want boolean or string"),
        ({"settings.OSMO_DEBUG": "true"}, "settings.OSMO_DEBUG is not allowed: the chart sets this variable itself"),
        (
            {"webhook.certificate.secretName": "mine", "webhook.certificate.certManager.enabled": True},
            "Choose one: a Secret that exists, or one that cert-manager makes.",
        ),
        ({"webhook.certificate.certManager.enabled": True}, "Name the Issuer or ClusterIssuer"),
        ({"metrics.serviceMonitor.enabled": True}, "metrics.serviceMonitor needs tokenSecret.name"),
        (
            {"settings.OSMO_SSO_CORP_CLIENT_SECRET": "x"},
            "it is a secret. Put it into a Secret, and name it with signOn",
        ),
        ({**SIGN_ON, "settings.OSMO_SSO": "corp"}, "settings.OSMO_SSO is not allowed together with signOn.providers"),
        ({"signOn.passwordLogin": "admins"}, "signOn.directories are empty: nobody else could log in."),
        (
            {"settings.OSMO_LDAP_CORP_BIND_PASSWORD": "x"},
            "it is a secret. Put it into a Secret, and name it with signOn.directories",
        ),
        (
            {**DIRECTORIES, "settings.OSMO_LDAP": "corp"},
            "settings.OSMO_LDAP is not allowed together with signOn.directories",
        ),
        (
            {
                **DIRECTORIES,
                f"{PROVIDER}.issuer": "https://id.example",
                f"{PROVIDER}.clientId": "osmo",
                f"{PROVIDER}.sync": "ignore",
            },
            "signOn.directories.corp has the name of a provider.",
        ),
        (
            {f"{DIRECTORY}.urls[0]": "ldaps://a", f"{DIRECTORY}.userBase": "ou=people"},
            "has the sync force and no roles",
        ),
        (
            {f"{DIRECTORY}.urls[0]": "ldaps://a", f"{DIRECTORY}.userBase": "ou=people", f"{DIRECTORY}.sync": "import"},
            "signOn.directories.corp.groupBase is empty",
        ),
        ({**DIRECTORIES, f"{DIRECTORY}.urls[0]": "https://a"}, "'https://a' does not match pattern"),
        (
            {f"{PROVIDER}.issuer": "https://id.example", f"{PROVIDER}.clientId": "osmo"},
            "signOn.providers.corp has the sync force and no roles: each sign-on would take all roles away.",
        ),
        ({f"{PROVIDER}.clientId": "osmo", f"{PROVIDER}.sync": "ignore"}, "missing property 'issuer'"),
        ({**SIGN_ON, f"{PROVIDER}.issuer": "http://id.example"}, "'http://id.example' does not match pattern"),
        ({"signOn.providers.My-Corp.clientId": "osmo"}, "additional properties 'My-Corp' not allowed"),
        ({"web.replicas": 0}, "'/web/replicas': minimum: got 0, want 1"),
        ({"web.autoscaling.enabled": True, "web.autoscaling.maxReplicas": 1}, "maxReplicas is below minReplicas"),
        ({"settings.OSMO_METRICS_PORT": "x"}, "settings.OSMO_METRICS_PORT is not allowed"),
        ({"affinity.nodeAfinity.x": "1"}, "invalid propertyName 'nodeAfinity'"),
        ({"topologySpreadConstraints[0].maxSkew": 1}, "missing properties 'topologyKey', 'whenUnsatisfiable'"),
        ({"web.replicaCount": 2}, "'/web': additional properties 'replicaCount' not allowed"),
        ({"image.digest": "latest"}, "'/image/digest': 'latest' does not match pattern"),
        ({"settings.NOT_OURS": "1"}, "'/settings': additional properties 'NOT_OURS' not allowed"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_sentence(values: dict[str, Any], says: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert says in done.stderr


def test_each_value_has_its_line_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def check(found: dict[str, Any], allowed: dict[str, Any], at: str) -> None:
        for name, value in found.items():
            assert name in allowed["properties"], f"{at}{name}"
            if isinstance(value, dict) and "properties" in allowed["properties"][name]:
                check(value, allowed["properties"][name], f"{at}{name}.")
        assert allowed["additionalProperties"] is False, at
        missing = allowed["properties"].keys() - found.keys() - {"global", "requests", "limits"}
        assert not missing, f"{at} has no default for {missing}"

    check(values, schema, "")


def test_pods_of_one_process_are_spread_and_values_replace_how() -> None:
    for component, pod in pod_templates(render({"webhook.enabled": True})).items():
        found = pod["spec"].get("topologySpreadConstraints")
        if component in {"beat", "migrate", "certificate"}:
            assert found is None
            continue
        (constraint,) = found
        assert constraint["topologyKey"] == "kubernetes.io/hostname"
        assert constraint["whenUnsatisfiable"] == "ScheduleAnyway", "a cluster of one node runs both pods"
        assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == component
    place = "topologySpreadConstraints[0]"
    values = {
        f"{place}.maxSkew": 2,
        f"{place}.topologyKey": "topology.kubernetes.io/zone",
        f"{place}.whenUnsatisfiable": "DoNotSchedule",
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight": 1,
    }
    for component, pod in pod_templates(render(values)).items():
        assert "podAntiAffinity" in pod["spec"]["affinity"], component
    (constraint,) = pod_templates(render(values))["web"]["spec"]["topologySpreadConstraints"]
    assert (constraint["maxSkew"], constraint["topologyKey"]) == (2, "topology.kubernetes.io/zone")
    assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "web"


def test_the_autoscaler_decides_the_number_of_web_pods() -> None:
    assert named(render({}), "Deployment", "osmo-osmo-admin-web")["spec"]["replicas"] == 2
    found = render({"web.autoscaling.enabled": True, "web.autoscaling.maxReplicas": 9})
    assert "replicas" not in named(found, "Deployment", "osmo-osmo-admin-web")["spec"], "each would undo the other's"
    scaler = named(found, "HorizontalPodAutoscaler", "osmo-osmo-admin-web")["spec"]
    assert scaler["scaleTargetRef"]["name"] == "osmo-osmo-admin-web"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 9)


def test_rules_and_dashboards_are_those_of_the_files() -> None:
    labels = {"metrics.prometheusRule.labels.release": "kps", "metrics.dashboards.annotations.folder": "GPUs"}
    found = render({"metrics.prometheusRule.enabled": True, "metrics.dashboards.enabled": True, **labels})
    rule = named(found, "PrometheusRule", "osmo-osmo-admin")
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "kps"
    maps = [each for each in found if each["kind"] == "ConfigMap"]
    boards = {name: json.loads(text) for each in maps for name, text in each["data"].items()}
    folder = ROOT / "deploy" / "grafana"
    assert boards == {f"osmo-admin-{path.name}": json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert all(each["metadata"]["labels"]["grafana_dashboard"] == "1" for each in maps)
    assert all(each["metadata"]["annotations"] == {"folder": "GPUs"} for each in maps)


def test_every_process_with_counters_is_scraped(everything: list[dict[str, Any]]) -> None:
    monitor = named(everything, "PodMonitor", "osmo-osmo-admin")["spec"]
    (expression,) = monitor["selector"]["matchExpressions"]
    assert monitor["podMetricsEndpoints"][0]["port"] == "metrics"
    found = pod_templates(everything)
    for component in expression["values"]:
        (container,) = found[component]["spec"]["containers"]
        (port,) = container["ports"]
        environment = {each["name"]: each.get("value") for each in container["env"]}
        assert (port["name"], str(port["containerPort"])) == ("metrics", environment[process_commands.METRICS_PORT])
    others = found.keys() - set(expression["values"])
    assert not [name for name in others if "OSMO_METRICS_PORT" in json.dumps(found[name])]


def test_a_process_that_hangs_is_started_again(everything: list[dict[str, Any]]) -> None:
    found = pod_templates(everything)
    for component in ("worker", "beat", "clusters"):
        (container,) = found[component]["spec"]["containers"]
        for probe in ("startupProbe", "livenessProbe"):
            assert container[probe]["exec"]["command"] == ["osmo-admin", "probe", component]
            assert container[probe]["timeoutSeconds"] >= 10, "a start of the interpreter takes a second"
    (web,) = found["web"]["spec"]["containers"]
    assert web["livenessProbe"]["httpGet"]["path"] == "/health", "a database that is away restarts nothing"
    ready = web["readinessProbe"]
    assert ready["httpGet"]["path"] == "/ready?only=database"
    assert ready["failureThreshold"] * ready["periodSeconds"] >= 30, "one lost answer takes no pod away"


def test_the_image_is_the_one_of_the_container_file() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    (pod,) = {json.dumps(pod["spec"]["securityContext"]) for pod in pod_templates(render({})).values()}
    assert f"USER {json.loads(pod)['runAsUser']}" in text
    assert Path(CHART, "templates", "NOTES.txt").exists()


def test_the_page_about_installing_shows_values_and_commands_that_are_taken(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    values, *_ = re.findall(r"```yaml\n(image:.*?)```", page, re.DOTALL)
    (tmp_path / "my-values.yaml").write_text(values)
    done = chart.run_helm(
        "template", "osmo", str(CHART), "--namespace", NAMESPACE, "-f", str(tmp_path / "my-values.yaml")
    )
    assert done.returncode == 0, done.stderr
    names = {each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout) if each}
    commands = [line.strip() for line in re.sub(r"\\\n\s+", "", page).splitlines() if line.startswith("    ")]
    for command in commands:
        words = shlex.split(command, comments=True)
        targets = [word.partition("/")[2] for word in words if word.startswith(("deployment/", "job/"))]
        assert set(targets) <= names, command
        if words[:1] == ["osmo"]:
            assert CliRunner().invoke(client, [*_until_option(words[1:]), "--help"]).exit_code == 0, command
        inside = words[words.index("osmo-admin") + 1 :] if "osmo-admin" in words[1:] else []
        if inside and "--" in words:
            assert CliRunner().invoke(app, [*_until_option(inside), "--help"]).exit_code == 0, command
    assert sum(command.startswith("osmo ") for command in commands) >= 5


def _until_option(words: list[str]) -> list[str]:
    return list(itertools.takewhile(lambda word: not word.startswith("-"), words))
