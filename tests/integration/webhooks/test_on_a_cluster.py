"""A real API server calls the webhooks over TLS: foreign pods and PodGroups in our queues are refused, ours pass."""

from __future__ import annotations

import base64
import os
import signal
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.utils import timezone
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.ops.files.certificates import ServerCertificate, ensure_certificate
from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import ChildProcess, stop_children
from pools.domain.changes.backends import DeleteBackend, PutBackend
from pools.domain.changes.gpu_allocations import ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.errors import Busy, Conflict
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, GpuAllocation
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.kube import webhook_configuration
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.webhook_configuration import WebhookAddress
from scheduling.models import Bypass, ClusterState, GpuControllerLease, WebhookInstallation
from scheduling.services.webhooks.authorities import AUTHORITY_FILE, split_authorities
from scheduling.services.webhooks.installation import install_webhook, read_webhook_status, remove_webhook
from scheduling.services.webhooks.marks import rotate_mark
from scheduling.services.webhooks.upkeep import keep_webhooks
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import KubeNamespace, KubeServer, wait_for
from tests.support.stack import Stack, find_free_port
from tests.support.world import apply_change

pytestmark = pytest.mark.k8s

US = "system:serviceaccount:osmo:osmo-admin"
SEEN = "osmo-admin/seen"
Create = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def server(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ServerCertificate, ChildProcess]]:
    """The webhook server of the running installation, over TLS."""
    folder = tmp_path_factory.mktemp("webhook")
    certificate = ensure_certificate(folder / "certificates", ["127.0.0.1"])
    port = find_free_port()
    command = process_commands.webhook_command("127.0.0.1", port, certificate.certificate, certificate.key)
    child = stack.launch(process_commands.WEBHOOK, command)
    url = f"https://127.0.0.1:{port}"
    try:
        wait_for(lambda: _answers(url, certificate), seconds=90, description=f"an answer at {url}: {child.log_tail()}")
        yield url, certificate, child
    finally:
        stop_children([child], grace=0)


@pytest.fixture(scope="module")
def listener(server: tuple[str, ServerCertificate, ChildProcess]) -> tuple[str, ServerCertificate]:
    """The address of the webhook server, and its certificate."""
    return server[0], server[1]


def _answers(url: str, certificate: ServerCertificate) -> bool:
    try:
        return httpx.get(f"{url}/health", verify=_trust(certificate), timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _trust(certificate: ServerCertificate) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.authority)


@pytest.fixture
def guarded_backend(stack: Stack, kube_server: KubeServer, kube: KubeNamespace) -> Iterator[Backend]:
    """A backend of the running installation on the cluster; it and its webhook are removed at the end."""
    name = stack.unique_name("cluster")
    with stack.orm():
        body = {
            "type": "kubernetes",
            "namespace": kube.namespace,
            "kubeconfig": yaml.safe_dump(kube_server.kubeconfig_body()),
        }
        row = apply_change(PutBackend(name=name, body=body)).row
        # Only the test repairs: the running installation does not get the lease.
        held_until = timezone.now() + timedelta(hours=1)
        held = {"lease_holder": uuid.uuid4(), "lease_expires_at": held_until}
        GpuControllerLease.objects.create(backend=row, **held)
        ClusterState.objects.create(backend=row, **held)
    yield row
    webhook_configuration.remove_configuration(kube.cluster, name)
    _remove_backend(stack, name)


def _remove_backend(stack: Stack, name: str) -> None:
    """Its loops end; each would take processor time until the end of the session."""
    with stack.orm():
        apply_change(DeleteBackend(name=name))


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
    groups = [
        {"name": "a", "minMember": 1},
        {"name": "a", "minMember": 1},
        {"name": "b", "parent": "c", "minMember": 1},
    ]
    refusal = create("podgroups", pod_group("wrong", "elsewhere", subGroups=groups))
    assert refusal.status_code == 422
    causes = {cause["field"]: cause["reason"] for cause in refusal.json()["details"]["causes"]}
    assert causes == {"spec.subGroups[1].name": "duplicate_name", "spec.subGroups[2].parent": "unknown_parent"}
    assert create("pods", pod("elsewhere", "default-queue")).status_code == 201
    assert create("podgroups", pod_group("elsewhere", "default-queue")).status_code == 201
    assert create("pods", pod("ours", queue), who=US).status_code == 201
    assert create("podgroups", pod_group("ours", queue), who=US).status_code == 201
    with stack.orm():
        counted = {row.kind: row.refused for row in Bypass.objects.filter(backend=guarded_backend, code="foreign_work")}
        apply_change(PutQueueGuard(backend=guarded_backend.name, accounts=["team:runners"]))
    assert counted["Pod"] >= 2
    assert counted["PodGroup"] == 1
    allowed = create("pods", pod("let-in", queue), who="runner", groups=("team:runners", "system:masters"))
    assert allowed.status_code == 201


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


def test_the_quota_of_a_namespace_limits_its_workers(
    guarded_backend: Backend, install: Callable[..., None], create: Create, kube: KubeNamespace, stack: Stack
) -> None:
    """Workers are reserved before their creation: with a cap of one, the second worker is refused until the first
    ends."""
    with stack.orm():
        apply_change(PutGpuQuota(namespace=kube.namespace, spec={"total": {"maxWorkers": 1}}))
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
        apply_change(ReleaseWorker(namespace=kube.namespace, id=row.name))
    assert create("pods", worker("third")).status_code == 201

    held = worker("with-gpus")
    held["metadata"]["annotations"]["tensor-fusion.ai/gpu-ids"] = "a"
    with stack.orm():
        apply_change(ReleaseWorker(namespace=kube.namespace, id=GpuAllocation.objects.get(state="assumed").name))
    assert create("pods", held | {"spec": held["spec"] | {"nodeName": "n1"}}).status_code == 201
    for part, key in (("labels", "component"), ("annotations", "gpu-ids")):
        with pytest.raises(errors.AccessDenied, match=f"tensor-fusion.ai/{key}"):
            kube.cluster.merge(
                resource_kinds.POD,
                "with-gpus",
                {"metadata": {part: {f"tensor-fusion.ai/{key}": None}}},
                field_manager="somebody",
                namespace=kube.namespace,
            )

    labelled = worker("becomes-one")
    labelled["metadata"] = {"name": "becomes-one", "annotations": labelled["metadata"]["annotations"]}
    assert create("pods", labelled).status_code == 201
    with pytest.raises(errors.AccessDenied, match=r"total\.max\.workers"):
        kube.cluster.merge(
            resource_kinds.POD,
            "becomes-one",
            {"metadata": {"labels": {"tensor-fusion.ai/component": "worker"}}},
            field_manager="somebody",
            namespace=kube.namespace,
        )


@contextmanager
def frozen(child: ChildProcess) -> Iterator[None]:
    """All processes of the webhook server are stopped, but hold their connections."""
    os.killpg(child.popen.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(child.popen.pid, signal.SIGCONT)


def test_an_installation_that_is_down_stops_nobody_elses_work(
    guarded_backend: Backend,
    install: Callable[..., None],
    create: Create,
    kube: KubeNamespace,
    server: tuple[str, ServerCertificate, ChildProcess],
) -> None:
    queue = f"osmo-pool-{kube.namespace}-team--a"
    install("enforce")
    wait_until_in_force(create, queue)
    assert create("podgroups", pod_group("theirs", "foreign-a")).status_code == 201
    assert create("podgroups", pod_group("ours", queue), who=US).status_code == 201
    with frozen(server[2]):
        answers = [
            create("pods", pod("theirs", "foreign-a")),
            create("podgroups", pod_group("theirs-too", "foreign-a")),
        ]
        for name in ("theirs", "ours"):
            seen = {"metadata": {"annotations": {"kai.scheduler/last-start": "now"}}}
            kube.cluster.merge(resource_kinds.POD_GROUP, name, seen, field_manager="kai", namespace=kube.namespace)
        worker = {"name": "w", "labels": {"tensor-fusion.ai/component": "worker"}}
        answers.append(create("pods", pod("w", "") | {"metadata": worker}))  # no quota in this namespace
        assert [answer.status_code for answer in answers] == [201, 201, 201]
        waited = max(answer.elapsed for answer in answers)
        assert waited < timedelta(seconds=webhook_configuration.TIMEOUT_SECONDS), "nobody waited for our answer"
        with ThreadPoolExecutor(2) as threads:
            tried = [
                threads.submit(create, "pods", pod("around", queue)),
                threads.submit(create, "podgroups", pod_group("around", queue)),
            ]
            answers = [each.result() for each in tried]
        assert [answer.status_code for answer in answers] == [500, 500]
        assert all("failed calling webhook" in answer.json()["message"] for answer in answers)
    assert create("pods", pod("afterwards", queue)).status_code == 403


def test_a_printed_configuration_is_safe_before_any_server_runs(
    guarded_backend: Backend, create: Create, kube: KubeNamespace, stack: Stack, tmp_path: Path
) -> None:
    queue = f"osmo-pool-{kube.namespace}-team"
    options = ["--url", f"https://127.0.0.1:{find_free_port()}", "--data-dir", str(tmp_path)]
    options += ["--namespaces", f"kubernetes.io/metadata.name={kube.namespace}"]
    with stack.orm():
        printed = CliRunner().invoke(app, ["webhook", "manifest", guarded_backend.name, *options], env=stack.env)
    (body,) = [each for each in yaml.safe_load_all(printed.output) if each["kind"].endswith("WebhookConfiguration")]
    kube.cluster.apply(resource_kinds.VALIDATING_WEBHOOK, body, field_manager="kubectl", force=True)
    assert {hook["failurePolicy"] for hook in body["webhooks"]} == {"Ignore"}
    assert create("pods", pod("in-ours", queue)).status_code == 201
    assert create("podgroups", pod_group("in-ours", queue)).status_code == 201


class TestUpkeep:
    """The running installation puts back what others change in the cluster."""

    @pytest.fixture
    def keep(self, stack: Stack, guarded_backend: Backend, kube: KubeNamespace) -> Callable[[], WebhookInstallation]:
        """One check, as the loop makes it every few seconds."""

        def kept() -> WebhookInstallation:
            with stack.orm():
                keep_webhooks(guarded_backend, kube.cluster)
                return WebhookInstallation.objects.get(backend=guarded_backend)

        return kept

    @pytest.fixture
    def hooks(self, guarded_backend: Backend, kube: KubeNamespace) -> Callable[[], dict[str, Any]]:
        """The installed webhooks by the beginning of their names."""

        def found() -> dict[str, Any]:
            there = webhook_configuration.read_configuration(kube.cluster, guarded_backend.name) or {}
            return {hook["name"].partition(".")[0]: hook for hook in there.get("webhooks", [])}

        return found

    def test_deleted_or_changed_by_hand(
        self,
        guarded_backend: Backend,
        install: Callable[..., None],
        create: Create,
        kube: KubeNamespace,
        keep: Callable[[], WebhookInstallation],
        hooks: Callable[[], dict[str, Any]],
        stack: Stack,
        listener: tuple[str, ServerCertificate],
        tmp_path: Path,
    ) -> None:
        install("enforce")
        as_installed = hooks()
        assert keep().repairs == 0
        name = webhook_configuration.configuration_name(guarded_backend.name)
        pruned = [hook for key, hook in as_installed.items() if not key.startswith("gpu-quota")]
        kube.cluster.merge(resource_kinds.VALIDATING_WEBHOOK, name, {"webhooks": pruned}, field_manager="gitops")
        with stack.orm():
            options = [guarded_backend.name, "--data-dir", str(tmp_path)]
            status = CliRunner().invoke(app, ["webhook", "status", *options], env=stack.env)
        assert status.exit_code == 1
        assert "gpu-quota." in status.output and "gpu-quota-binding." in status.output
        assert "/webhooks/" not in status.output, "the mark is a secret"
        row = keep()
        assert (row.repairs, row.problem) == (1, "")
        assert "is missing" in row.repair
        assert hooks() == as_installed
        assert webhook_configuration.remove_configuration(kube.cluster, guarded_backend.name)
        assert keep().repairs == 2
        assert hooks() == as_installed
        wait_until_in_force(create, f"osmo-pool-{kube.namespace}-team")

    def test_it_follows_mode_mark_and_quotas(
        self,
        guarded_backend: Backend,
        install: Callable[..., None],
        keep: Callable[[], WebhookInstallation],
        hooks: Callable[[], dict[str, Any]],
        kube: KubeNamespace,
        stack: Stack,
    ) -> None:
        install("audit")
        before = hooks()["pod"]["clientConfig"]["url"]
        with stack.orm():
            apply_change(PutQueueGuard(backend=guarded_backend.name, mode="enforce"))
            rotate_mark(actor=SYSTEM, backend=guarded_backend.name)
            apply_change(PutGpuQuota(namespace=kube.namespace, spec={"total": {"maxWorkers": 1}}))
        keep()
        after = hooks()
        assert after["pod"]["failurePolicy"] == "Fail"
        assert after["pod"]["clientConfig"]["url"] != before
        assert kube.namespace in after["gpu-quota"]["matchConditions"][0]["expression"]
        with stack.orm():
            keep_webhooks(guarded_backend, FlakyCluster())
            assert "cannot be checked" in WebhookInstallation.objects.get(backend=guarded_backend).problem
            assert remove_webhook(actor=SYSTEM, backend=guarded_backend.name)
        keep()
        assert hooks() == {}, "a removed configuration stays away"

    def test_a_configuration_of_an_older_version_is_adopted(
        self,
        guarded_backend: Backend,
        create: Create,
        keep: Callable[[], WebhookInstallation],
        hooks: Callable[[], dict[str, Any]],
        kube: KubeNamespace,
        stack: Stack,
        listener: tuple[str, ServerCertificate],
    ) -> None:
        """Addresses without a mark, failing closed, with the conditions of before."""
        url, certificate = listener
        with stack.orm():
            apply_change(PutQueueGuard(backend=guarded_backend.name, mode="enforce", identity=US))
        older = {
            "name": f"pod.{guarded_backend.name}.osmo-admin.local",
            "clientConfig": {
                "url": f"{url}/webhooks/pod/{guarded_backend.name}",
                "caBundle": base64.b64encode(certificate.authority.encode()).decode(),
            },
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
            ],
            "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kube.namespace}},
            "matchConditions": [{"name": "names-a-queue-or-a-gang", "expression": "has(object.metadata.labels)"}],
        }
        name = webhook_configuration.configuration_name(guarded_backend.name)
        body = {"metadata": {"name": name}, "webhooks": [older]}
        kube.cluster.apply(resource_kinds.VALIDATING_WEBHOOK, body, field_manager="older", force=True)
        queue = f"osmo-pool-{kube.namespace}-team"

        def answered() -> bool:
            return create("pods", pod(f"p-{time.monotonic_ns()}", queue)).status_code == 201

        wait_for(answered, description="the old address answers")
        row = keep()
        assert row.url == url
        assert len(hooks()) == 8
        wait_until_in_force(create, queue)
        assert keep().repairs == 1, "once"

    def test_a_new_authority_is_trusted_beside_the_one_that_the_server_shows(
        self,
        guarded_backend: Backend,
        install: Callable[..., None],
        create: Create,
        keep: Callable[[], WebhookInstallation],
        kube: KubeNamespace,
        listener: tuple[str, ServerCertificate],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The folder of the certificates is lost: a new authority is made, while the server still shows the old one."""
        _, certificate = listener
        install("enforce")
        wait_until_in_force(create, f"osmo-pool-{kube.namespace}-team")
        new = ensure_certificate(tmp_path / "new", ["127.0.0.1"])
        monkeypatch.setenv(AUTHORITY_FILE, str(tmp_path / "new" / "ca.crt"))
        assert split_authorities(keep().authorities) == [new.authority, certificate.authority]
        assert len(split_authorities(keep().authorities)) == 2, "the server shows the old one still"
        refusal = create("pods", pod("meanwhile", f"osmo-pool-{kube.namespace}-team"))
        assert refusal.status_code == 403
        shown = tmp_path / "shown.crt"
        shown.write_text(certificate.authority)
        monkeypatch.setenv(AUTHORITY_FILE, str(shown))
        assert keep().authorities == certificate.authority, "now the server shows it"


class FlakyCluster(FakeCluster):
    """A cluster that refuses to show its webhook configurations."""

    def get(self, *_: Any, **__: Any) -> Any:
        raise errors.AccessDenied("not for you", status=403)


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
    assert (
        "another certificate authority" in faults("-----BEGIN CERTIFICATE-----\nother\n-----END CERTIFICATE-----\n")[0]
    )
    with stack.orm():
        assert remove_webhook(actor=SYSTEM, backend=guarded_backend.name)
        assert not remove_webhook(actor=SYSTEM, backend=guarded_backend.name)


def test_a_cluster_that_does_not_answer_or_report_our_user_name(
    guarded_backend: Backend, stack: Stack, listener: tuple[str, ServerCertificate]
) -> None:
    url, certificate = listener
    gone = {"clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{find_free_port()}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}  # fmt: skip
    address = WebhookAddress(certificate.authority, url=url)
    with stack.orm():
        with pytest.raises(Conflict, match="--identity"):
            install_webhook(actor=SYSTEM, backend=guarded_backend.name, address=address)
        name = stack.unique_name("away")
        body = {"type": "kubernetes", "namespace": name, "kubeconfig": yaml.safe_dump(gone)}
        apply_change(PutBackend(name=name, body=body))
        with pytest.raises(Busy, match=name):
            install_webhook(actor=SYSTEM, backend=name, address=address, identity=US)
    _remove_backend(stack, name)


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
        items = list(yaml.safe_load_all(printed.output))
        kinds_printed = [item["kind"] for item in items]
        installed = webhook_configuration.read_configuration(kube.cluster, guarded_backend.name) or {}
        assert [hook["name"] for hook in items[-1]["webhooks"]] == [hook["name"] for hook in installed["webhooks"]]
        for one, other in zip(items[-1]["webhooks"], installed["webhooks"], strict=True):
            assert one == {key: other[key] for key in one}, "both make the same"
        assert kinds_printed == [
            "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
            "ValidatingWebhookConfiguration",
        ]  # fmt: skip
        rotated = runner.invoke(app, ["webhook", "rotate", guarded_backend.name, *at], env=stack.env)
        assert "new mark" in rotated.output
        outdated = runner.invoke(app, ["webhook", "status", guarded_backend.name, *at], env=stack.env)
        assert outdated.exit_code == 1
        assert "differs in clientConfig" in outdated.output
        gone = runner.invoke(app, ["webhook", "remove", guarded_backend.name, *at], env=stack.env)
        assert "is removed" in gone.output


def test_the_port_for_clusters_serves_nothing_else(listener: tuple[str, ServerCertificate]) -> None:
    url, certificate = listener
    with httpx.Client(base_url=url, verify=_trust(certificate)) as client:
        assert client.get("/api/version").status_code == 404
        assert client.get("/login/").status_code == 404
        assert client.post("/webhooks/pod", content=b"{").status_code == 400


class TestOurOwnObjects:
    """What OSMO Admin wrote into its objects is not changed by others, and its own changes wait for nobody."""

    @pytest.fixture
    def installation(self, stack: Stack, guarded_backend: Backend) -> str:
        with stack.orm():
            return str(ClusterState.objects.get(backend=guarded_backend).identity)

    @pytest.fixture
    def patch(self, kube_server: KubeServer, kube: KubeNamespace) -> Iterator[Create]:
        token = kube_server.kubeconfig_body()["users"][0]["user"]["token"]
        with httpx.Client(base_url=kube_server.address, verify=False, timeout=60) as client:

            def patched(place: str, body: dict[str, Any], *, who: str = "mallory") -> httpx.Response:
                base = "/api/v1" if place.startswith("pods") else "/apis/scheduling.run.ai/v2alpha2"
                headers = [("Authorization", f"Bearer {token}"), ("Impersonate-User", who)]
                headers += [("Impersonate-Group", "system:masters"), ("Content-Type", "application/merge-patch+json")]
                return client.patch(f"{base}/namespaces/{kube.namespace}/{place}", json=body, headers=headers)

            yield patched

    @pytest.fixture
    def ours(self, create: Create, kube: KubeNamespace, installation: str) -> Callable[[], None]:
        queue = f"osmo-pool-{kube.namespace}-team--a"

        def made() -> None:
            body = pod("ours", queue)
            body["metadata"] |= {"annotations": {"pod-group-name": str(uuid.uuid4())}, "finalizers": [SEEN]}
            body["metadata"]["labels"] |= {"osmo.house": installation, "osmo.pool": "team", "theirs": "x"}
            assert create("pods", body, who=US).status_code == 201
            group = pod_group("ours", queue, minMember=2, priorityClassName="osmo-low")
            group["metadata"]["labels"] = {"osmo.house": installation, "kai.scheduler/queue": queue}
            assert create("podgroups", group, who=US).status_code == 201

        return made

    CHANGES = (
        ("pods/ours", {"metadata": {"labels": {"kai.scheduler/queue": None}}}),
        ("pods/ours", {"metadata": {"labels": {"kai.scheduler/queue": "foreign"}}}),
        ("pods/ours", {"metadata": {"labels": {"osmo.house": None}}}),
        ("pods/ours", {"metadata": {"labels": {"osmo.pool": "other"}}}),
        ("pods/ours", {"metadata": {"labels": {"kai.scheduler/node-pool": "other"}}}),
        ("pods/ours", {"metadata": {"labels": None}}),
        ("pods/ours", {"metadata": {"annotations": {"pod-group-name": None}}}),
        ("pods/ours", {"metadata": {"annotations": None}}),
        ("pods/ours", {"metadata": {"finalizers": None}}),
        ("podgroups/ours", {"spec": {"queue": "foreign"}}),
        ("podgroups/ours", {"spec": {"queue": None}}),
        ("podgroups/ours", {"spec": {"minMember": 1}}),
        ("podgroups/ours", {"spec": {"priorityClassName": None}}),
        ("podgroups/ours", {"spec": {"preemptibility": "preemptible"}}),
        ("podgroups/ours", {"metadata": {"labels": {"osmo.house": None}}}),
    )
    FREE = (
        ("pods/ours", {"metadata": {"labels": {"theirs": None, "kai.scheduler/gpu-group": "g"}}}),
        ("pods/ours", {"metadata": {"annotations": {"kai.scheduler/received": "x"}}}),
        ("pods/ours", {"metadata": {"finalizers": ["osmo-admin/seen", "example.com/x"]}}),
        ("pods/ours/status", {"status": {"phase": "Running"}}),
        ("podgroups/ours", {"metadata": {"annotations": {"kai.scheduler/last-start": "now"}}}),
        ("podgroups/ours", {"spec": {"markUnschedulable": True, "schedulingBackoff": 1}}),
        ("podgroups/ours/status", {"status": {"phase": "Running"}}),
    )

    def test_a_stranger_is_refused_and_everybody_else_works(
        self,
        guarded_backend: Backend,
        install: Callable[..., None],
        create: Create,
        patch: Create,
        ours: Callable[[], None],
        kube: KubeNamespace,
        server: tuple[str, ServerCertificate, ChildProcess],
    ) -> None:
        queue = f"osmo-pool-{kube.namespace}-team--a"
        install("enforce")
        wait_until_in_force(create, queue)
        ours()
        for place, body in self.CHANGES:
            answer = patch(place, body)
            assert answer.status_code == 403, (place, answer.json()["metadata"].get("labels"))
            assert "belongs to OSMO Admin" in answer.json()["message"]
        # Whether a subresource changes metadata at all depends on the version of the API server.
        for place in ("pods/ours/status", "pods/ours/ephemeralcontainers", "pods/ours/resize", "podgroups/ours/status"):
            answer = patch(place, {"metadata": {"labels": {"kai.scheduler/queue": None}}})
            assert answer.status_code != 200 or answer.json()["metadata"]["labels"]["kai.scheduler/queue"] == queue
        for place, body in self.FREE:
            assert patch(place, body, who="kai").status_code == 200, (place, body)
        with frozen(server[2]):
            started = time.monotonic()
            for place, body in self.FREE:
                again = {"metadata": {"annotations": {"at": str(time.monotonic_ns())}}} | body
                assert patch(place, again, who="kai").status_code == 200
            own = {"metadata": {"finalizers": None, "labels": {"osmo.pool": "again"}}}
            assert patch("pods/ours", own, who=US).status_code == 200
            assert patch("podgroups/ours", {"spec": {"minMember": 1}}, who=US).status_code == 200
            assert time.monotonic() - started < 1, "none of these waits for an answer"
            assert patch("podgroups/ours", {"spec": {"minMember": 2}}).status_code == 200, "after a second, as before"
