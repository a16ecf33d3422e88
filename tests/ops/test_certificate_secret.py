"""The certificate of the chart's webhook server: made once by a job, into a Secret, and no value of a template."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.cli.server_commands.certificate_secret import keep_certificate_secret
from osmo_admin.ops.files.certificates import ServerCertificate, read_certificate
from osmo_admin.ops.programs.errors import OperationError
from scheduling.kube.connection import errors, resource_kinds
from tests.support.chart import CHART, NAMESPACE, named, pod_templates, render, template
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import KubeNamespace

HOST = f"osmo-osmo-admin-webhook.{NAMESPACE}.svc"
NAME = "osmo-osmo-admin-webhook-certificate"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(namespaces=["osmo"])


def stored(cluster: Any, namespace: str = "osmo") -> dict[str, bytes]:
    data = cluster.get(resource_kinds.SECRET, "hooks", namespace=namespace)["data"]
    return {name: base64.b64decode(text) for name, text in data.items()}


def written(files: dict[str, bytes], folder: Path) -> ServerCertificate:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    found = read_certificate(folder)
    assert found is not None
    return found


def test_it_is_made_once_for_ten_years(cluster: FakeCluster, tmp_path: Path) -> None:
    assert keep_certificate_secret(cluster, "osmo", "hooks", [HOST])
    first = stored(cluster)
    assert set(first) == {"ca.crt", "tls.crt", "tls.key"}, "the key of the authority is kept nowhere"
    certificate = written(first, tmp_path / "first")
    assert certificate.hosts == {HOST}
    assert certificate.days_left() > 3600
    secret = cluster.get(resource_kinds.SECRET, "hooks", namespace="osmo")
    assert secret["type"] == "kubernetes.io/tls"
    assert not keep_certificate_secret(cluster, "osmo", "hooks", [HOST]), "the second time nothing changes"
    assert stored(cluster) == first


@pytest.mark.k8s
def test_on_an_api_server(kube: KubeNamespace) -> None:
    assert keep_certificate_secret(kube.cluster, kube.namespace, "hooks", [HOST])
    first = stored(kube.cluster, kube.namespace)
    assert not keep_certificate_secret(kube.cluster, kube.namespace, "hooks", [HOST])
    assert keep_certificate_secret(kube.cluster, kube.namespace, "hooks", ["other.svc"])
    assert stored(kube.cluster, kube.namespace) != first


@pytest.mark.parametrize("case", ["other host", "near its end", "no authority", "rubbish"])
def test_one_that_does_not_serve_is_replaced(cluster: FakeCluster, tmp_path: Path, case: str) -> None:
    keep_certificate_secret(cluster, "osmo", "hooks", ["old.svc" if case == "other host" else HOST])
    first = stored(cluster)
    now = datetime.now(UTC)
    if case == "near its end":
        now = now + timedelta(days=3650 - 20)
    elif case != "other host":
        data = {"ca.crt": None} if case == "no authority" else {"tls.crt": base64.b64encode(b"x").decode()}
        cluster.merge(resource_kinds.SECRET, "hooks", {"data": data}, field_manager="somebody", namespace="osmo")
    assert keep_certificate_secret(cluster, "osmo", "hooks", [HOST], now=now)
    second = stored(cluster)
    assert second["tls.crt"] != first["tls.crt"]
    assert HOST in written(second, tmp_path / "second").hosts


def test_the_first_of_two_jobs_wins(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_certificate_secret(cluster, "osmo", "hooks", [HOST])
    first = stored(cluster)
    real, answers = cluster.get, [errors.ObjectNotFound("none")]

    def get(*arguments: Any, **options: Any) -> Any:
        if answers:
            raise answers.pop()
        return real(*arguments, **options)

    monkeypatch.setattr(cluster, "get", get)
    assert not keep_certificate_secret(cluster, "osmo", "hooks", [HOST])
    assert stored(cluster) == first


def test_a_cluster_that_refuses_is_one_sentence(cluster: FakeCluster) -> None:
    with pytest.raises(OperationError, match="Secret hooks in namespace missing"):
        keep_certificate_secret(cluster, "missing", "hooks", [HOST])


@pytest.mark.parametrize("place", ["hooks", "a/b/c", "/hooks", "osmo/", "osmo/HOOKS"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    done = CliRunner().invoke(app, ["webhook", "certificate", place, "--host", HOST])
    assert done.exit_code != 0
    assert "NAMESPACE/NAME" in done.output


def test_outside_of_a_cluster_the_command_says_so() -> None:
    done = CliRunner().invoke(app, ["webhook", "certificate", "osmo/hooks", "--host", HOST])
    assert done.exit_code == 1
    assert "inside the cluster" in done.output


@pytest.mark.helm
class TestChart:
    """What helm renders."""

    def test_two_renders_are_equal(self) -> None:
        values = {"webhook.enabled": True, "clusters.enabled": True, "networkPolicy.enabled": True}
        assert template(values).stdout == template(values).stdout

    def test_no_template_makes_a_random_value_or_asks_a_cluster(self) -> None:
        found = {
            path.name: words
            for path in (CHART / "templates").iterdir()
            if (
                words := re.findall(
                    r"\b(?:gen[A-Z]\w+|rand\w+|uuidv4|shuffle|lookup|now|htpasswd|bcrypt)\b", _code(path)
                )
            )
        }
        assert found == {}

    @pytest.mark.parametrize("is_hook", [True, False])
    def test_a_job_makes_it_before_the_processes_start(self, is_hook: bool) -> None:
        found = render({"webhook.enabled": True, "migrate.hook": is_hook})
        assert not [each for each in found if each["kind"] == "Secret"]
        jobs = [each for each in found if each["kind"] == "Job" and "certificate" in each["metadata"]["name"]]
        (job,) = jobs
        pod = job["spec"]["template"]["spec"]
        arguments = pod["containers"][0]["args"]
        assert arguments == ["webhook", "certificate", f"{NAMESPACE}/{NAME}", "--host", HOST]
        mine = [each for each in found if "certificate" in each["metadata"]["name"]]
        assert {each["kind"] for each in mine} == {"Job", "ServiceAccount", "Role", "RoleBinding"}
        hooks = [each["metadata"].get("annotations", {}).get("helm.sh/hook") for each in mine]
        assert set(hooks) == ({"pre-install,pre-upgrade"} if is_hook else {None})
        (role,) = [each for each in mine if each["kind"] == "Role"]
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME], "verbs": ["get", "patch"]},
        ]
        for component in ("webhook", "clusters"):
            volumes = {each["name"]: each for each in pod_templates(found)[component]["spec"]["volumes"]}
            assert volumes["certificate"]["secret"]["secretName"] == NAME

    @pytest.mark.parametrize(
        "values",
        [
            {"webhook.certificate.secretName": "mine"},
            {"webhook.certificate.certManager.enabled": True, "webhook.certificate.certManager.issuer.name": "ca"},
            {"webhook.enabled": False},
        ],
    )
    def test_without_need_there_is_no_job(self, values: dict[str, Any]) -> None:
        found = render({"webhook.enabled": True, **values})
        assert not [each for each in found if each["metadata"]["name"].endswith("-certificate")]

    def test_the_job_reaches_the_api_server_through_the_network_policy(self) -> None:
        found = render({"webhook.enabled": True, "networkPolicy.enabled": True, "networkPolicy.clusterPorts[0]": 6443})
        policy = named(found, "NetworkPolicy", "osmo-osmo-admin-clusters")["spec"]
        (expression,) = policy["podSelector"]["matchExpressions"]
        assert expression["values"] == ["worker", "clusters", "certificate"]


def _code(path: Path) -> str:
    """The actions of a template, without comments."""
    text = re.sub(r"\{\{-? ?/\*.*?\*/ ?-?\}\}", "", path.read_text(), flags=re.DOTALL)
    return " ".join(re.findall(r"\{\{.*?\}\}", text, re.DOTALL))
