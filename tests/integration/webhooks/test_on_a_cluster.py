"""A real API server calls the webhooks over TLS: foreign pods and PodGroups in our queues are refused, ours pass."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.ops import process_commands
from osmo_admin.ops.certificates import ServerCertificate, ensure_certificate
from osmo_admin.ops.processes import start_child, stop_children
from pools.domain.errors import Busy, Conflict
from pools.domain.roles import SYSTEM
from pools.models import Backend, GpuAllocation
from pools.services.backends import put_backend
from pools.services.gpu_allocations import release
from pools.services.gpu_quotas import put_gpu_quota
from scheduling.kube import errors, resource_kinds, webhook_configuration
from scheduling.kube.webhook_configuration import WebhookAddress
from scheduling.models import Bypass
from scheduling.services.webhooks.installation import install_webhook, read_webhook_status, remove_webhook
from scheduling.services.webhooks.queue_guard import put_queue_guard
from tests.support.kube_server import KubeNamespace, KubeServer, wait_for
from tests.support.stack import ROOT, Stack, find_free_port

pytestmark = pytest.mark.k8s

US = "system:serviceaccount:osmo:osmo-admin"
Create = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def listener(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ServerCertificate]]:
    """The webhook server of the running installation, over TLS."""
    folder = tmp_path_factory.mktemp("webhook")
    certificate = ensure_certificate(folder / "certificates", ["127.0.0.1"])
    port = find_free_port()
    command = process_commands.webhook_command("127.0.0.1", port, certificate.certificate, certificate.key)
    child = start_child(process_commands.WEBHOOK, command, log=folder / "webhook.log", env=stack.env, cwd=ROOT)
    url = f"https://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(url, certificate), seconds=90, description=f"an answer at {url}: {child.log_tail()}")
        yield url, certificate
    finally:
        stop_children([child], grace=5)


def _answers(url: str, certificate: ServerCertificate) -> bool:
    try:
        return httpx.get(f"{url}/health", verify=_trust(certificate), timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _trust(certificate: ServerCertificate) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.authority)


@pytest.fixture
def guarded_backend(stack: Stack, kube_server: KubeServer, kube: KubeNamespace) -> Iterator[Backend]:
    """A backend of the running installation on the cluster; its webhook is removed at the end."""
    name = stack.unique_name("cluster")
    with stack.orm():
        body = {
            "type": "kubernetes",
            "namespace": kube.namespace,
            "kubeconfig": yaml.safe_dump(kube_server.kubeconfig_body()),
        }
        row = put_backend(actor=SYSTEM, name=name, body=body).row
    yield row
    webhook_configuration.remove_configuration(kube.cluster, name)


@pytest.fixture
def install(
    stack: Stack, guarded_backend: Backend, kube: KubeNamespace, listener: tuple[str, ServerCertificate]
) -> Callable[..., None]:
    """Put the webhook into the cluster and wait until it is in force."""
    url, certificate = listener
    only_here = {"matchLabels": {"kubernetes.io/metadata.name": kube.namespace}}

    def installed(mode: str) -> None:
        with stack.orm():
            address = WebhookAddress(certificate.authority, url=url)
            install_webhook(
                actor=SYSTEM,
                backend=guarded_backend.name,
                address=address,
                mode=mode,
                identity=US,
                namespace_selector=only_here,
            )

    return installed


@pytest.fixture
def create(kube_server: KubeServer, kube: KubeNamespace) -> Iterator[Create]:
    """Create a pod or a PodGroup as another user; returns the API server's answer."""
    content = kube_server.kubeconfig_body()
    token = content["users"][0]["user"]["token"]
    # The test's server has a self-signed certificate; the test is about the trust of the API server, not ours.
    with httpx.Client(base_url=kube_server.address, verify=False, timeout=60) as client:

        def made(
            kind: str, body: dict[str, Any], *, who: str = "mallory", groups: tuple[str, ...] = ("system:masters",)
        ) -> httpx.Response:
            base = "/api/v1" if kind == "pods" else "/apis/scheduling.run.ai/v2alpha2"
            headers = [("Authorization", f"Bearer {token}"), ("Impersonate-User", who)]
            headers += [("Impersonate-Group", group) for group in groups]
            return client.post(f"{base}/namespaces/{kube.namespace}/{kind}", json=body, headers=headers)

        yield made


def pod(name: str, queue: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kai.scheduler/queue": queue}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }


def pod_group(name: str, queue: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": queue, **(spec or {"minMember": 1})},
    }


def wait_until_in_force(create: Create, queue: str) -> None:
    """Wait until the API server uses a new webhook configuration."""

    def refused() -> bool:
        answer = create("pods", pod(f"probe-{time.monotonic_ns()}", queue))
        return answer.status_code == 403

    wait_for(refused, description="the webhook is in force")


def test_foreign_pods_and_pod_groups_are_refused(
    guarded_backend: Backend, install: Callable[..., None], create: Create, kube: KubeNamespace, stack: Stack
) -> None:
    queue = f"osmo-pool-{kube.namespace}-team--a"
    install("enforce")
    wait_until_in_force(create, queue)
    refusal = create("pods", pod("around", queue))
    assert refusal.status_code == 403
    assert "osmo workflow submit FILE --pool team--a" in refusal.json()["message"]
    refusal = create("podgroups", pod_group("around", queue))
    assert refusal.status_code == 403
    refusal = create("podgroups", pod_group("wrong", "elsewhere", minMember=0))
    assert refusal.status_code in {403, 422}, "the schema of the older CRD wants 1 already"
    assert create("pods", pod("elsewhere", "default-queue")).status_code == 201
    assert create("podgroups", pod_group("elsewhere", "default-queue")).status_code == 201
    assert create("pods", pod("ours", queue), who=US).status_code == 201
    assert create("podgroups", pod_group("ours", queue), who=US).status_code == 201
    with stack.orm():
        counted = {row.kind: row.refused for row in Bypass.objects.filter(backend=guarded_backend, code="foreign_work")}
        put_queue_guard(actor=SYSTEM, backend=guarded_backend.name, body={"accounts": ["team:runners"]})
    assert counted["Pod"] >= 2
    assert counted["PodGroup"] == 1
    allowed = create("pods", pod("let-in", queue), who="runner", groups=("team:runners", "system:masters"))
    assert allowed.status_code == 201


def test_all_violations_in_one_answer(
    guarded_backend: Backend, install: Callable[..., None], create: Create, kube: KubeNamespace
) -> None:
    install("enforce")
    wait_until_in_force(create, f"osmo-pool-{kube.namespace}-x")
    groups = [
        {"name": "a", "minMember": 1},
        {"name": "a", "minMember": 1},
        {"name": "b", "parent": "c", "minMember": 1},
    ]
    refusal = create("podgroups", pod_group("wrong", "elsewhere", subGroups=groups))
    assert refusal.status_code == 422
    causes = {cause["field"]: cause["reason"] for cause in refusal.json()["details"]["causes"]}
    assert causes == {"spec.subGroups[1].name": "duplicate_name", "spec.subGroups[2].parent": "unknown_parent"}


def test_audit_lets_pass_and_warns(
    guarded_backend: Backend, install: Callable[..., None], create: Create, kube: KubeNamespace, stack: Stack
) -> None:
    queue = f"osmo-pool-{kube.namespace}-team"
    install("audit")

    def warned() -> str:
        answer = create("pods", pod(f"p-{time.monotonic_ns()}", queue))
        assert answer.status_code == 201
        return answer.headers.get("Warning", "")

    assert "OSMO Admin would refuse this" in wait_for(warned, description="a warning")
    with stack.orm():
        row = Bypass.objects.get(backend=guarded_backend, kind="Pod")
    assert (row.username, row.refused) == ("mallory", 0)


def test_the_scheduler_may_change_what_we_dispatched(
    guarded_backend: Backend, install: Callable[..., None], create: Create, kube: KubeNamespace
) -> None:
    queue = f"osmo-pool-{kube.namespace}-team--a"
    install("enforce")
    wait_until_in_force(create, queue)
    assert create("podgroups", pod_group("ours", queue), who=US).status_code == 201
    # The connection's own user is unknown to the guard here, as the scheduler is.
    kube.cluster.merge(
        resource_kinds.POD_GROUP,
        "ours",
        {"metadata": {"annotations": {"seen": "yes"}}},
        field_manager="kai",
        namespace=kube.namespace,
    )
    with pytest.raises((errors.AccessDenied, errors.InvalidObject)):
        kube.cluster.merge(
            resource_kinds.POD_GROUP,
            "ours",
            {"spec": {"queue": queue + "b"}},
            field_manager="kai",
            namespace=kube.namespace,
        )


def test_the_quota_of_a_namespace_limits_its_workers(
    guarded_backend: Backend, install: Callable[..., None], create: Create, kube: KubeNamespace, stack: Stack
) -> None:
    """Workers are reserved before their creation: with a cap of one, the second worker is refused until the first
    ends."""
    with stack.orm():
        put_gpu_quota(actor=SYSTEM, namespace=kube.namespace, spec={"total": {"maxWorkers": 1}})
    install("enforce")
    wait_until_in_force(create, f"osmo-pool-{kube.namespace}-team")

    def worker(name: str) -> dict[str, Any]:
        labels = {"tensor-fusion.ai/component": "worker"}
        annotations = {"tensor-fusion.ai/tflops-request": "10", "tensor-fusion.ai/gpu-count": "2"}
        return pod(name, "") | {"metadata": {"name": name, "labels": labels, "annotations": annotations}}

    first = create("pods", worker("first"))
    assert first.status_code == 201
    refusal = create("pods", worker("second"))
    assert refusal.status_code == 403
    assert f"quota exceeded in namespace {kube.namespace} for total.max.workers.limit" in refusal.json()["message"]
    with stack.orm():
        row = GpuAllocation.objects.get(namespace=kube.namespace)
        assert (row.name, row.state, row.count) == (first.json()["metadata"]["uid"], "assumed", 2)
        release(actor=SYSTEM, namespace=kube.namespace, name=row.name)
    assert create("pods", worker("third")).status_code == 201


def test_webhook_status(
    guarded_backend: Backend,
    install: Callable[..., None],
    stack: Stack,
    listener: tuple[str, ServerCertificate],
    kube: KubeNamespace,
) -> None:
    _, certificate = listener

    def faults(authority: str) -> tuple[str, ...]:
        with stack.orm():
            return read_webhook_status(SYSTEM, guarded_backend.name, ca_certificate=authority).problems

    assert "no webhook configuration" in faults("")[0]
    install("enforce")
    assert faults(certificate.authority) == ()
    assert "another certificate authority" in faults("other")[0]
    with stack.orm():
        assert remove_webhook(actor=SYSTEM, backend=guarded_backend.name)
        assert not remove_webhook(actor=SYSTEM, backend=guarded_backend.name)


def test_a_cluster_that_does_not_report_our_user_name(
    guarded_backend: Backend, stack: Stack, listener: tuple[str, ServerCertificate]
) -> None:
    url, certificate = listener
    with stack.orm(), pytest.raises(Conflict, match="--identity"):
        install_webhook(
            actor=SYSTEM, backend=guarded_backend.name, address=WebhookAddress(certificate.authority, url=url)
        )


def test_the_commands(
    guarded_backend: Backend, stack: Stack, listener: tuple[str, ServerCertificate], tmp_path: Path, kube: KubeNamespace
) -> None:
    url, _ = listener
    runner = CliRunner()
    with stack.orm():
        at = ["--data-dir", str(tmp_path)]
        wrong = runner.invoke(app, ["webhook", "status", guarded_backend.name, *at], env=stack.env)
        assert wrong.exit_code == 1
        assert "no webhook configuration" in wrong.output
        options = [guarded_backend.name, *at, "--url", url]
        done = runner.invoke(app, ["webhook", "install", *options, "--identity", US], env=stack.env)
        assert done.exit_code == 0, done.output
        assert "mode audit" in done.output
        right = runner.invoke(app, ["webhook", "status", guarded_backend.name, *at], env=stack.env)
        assert right.exit_code == 0, right.output
        printed = runner.invoke(app, ["webhook", "manifest", *options], env=stack.env)
        kinds_printed = [item["kind"] for item in yaml.safe_load_all(printed.output)]
        assert kinds_printed == [
            "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
            "ValidatingWebhookConfiguration",
        ]  # fmt: skip
        gone = runner.invoke(app, ["webhook", "remove", guarded_backend.name, *at], env=stack.env)
        assert "is removed" in gone.output


def test_the_port_for_clusters_serves_nothing_else(listener: tuple[str, ServerCertificate]) -> None:
    url, certificate = listener
    with httpx.Client(base_url=url, verify=_trust(certificate)) as client:
        assert client.get("/api/version").status_code == 404
        assert client.get("/login/").status_code == 404
        assert client.post("/webhooks/pod", content=b"{").status_code == 400


def test_a_cluster_that_does_not_answer(
    guarded_backend: Backend, stack: Stack, listener: tuple[str, ServerCertificate]
) -> None:
    url, certificate = listener
    gone = {"clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{find_free_port()}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}  # fmt: skip
    with stack.orm():
        name = stack.unique_name("away")
        put_backend(
            actor=SYSTEM, name=name, body={"type": "kubernetes", "namespace": name, "kubeconfig": yaml.safe_dump(gone)}
        )
        with pytest.raises(Busy, match=name):
            install_webhook(
                actor=SYSTEM, backend=name, address=WebhookAddress(certificate.authority, url=url), identity=US
            )
