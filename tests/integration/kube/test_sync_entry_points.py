"""API, command and pages of queue sync and connection test: they let a worker run and show its results."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from pools.domain.changes.tokens import CreateToken
from pools.models import Backend, KubernetesSettings, Pool
from scheduling import tasks
from scheduling.kube.connection import errors
from scheduling.kube.connection.resource_kinds import POD_GROUP, QUEUE, TOPOLOGY
from scheduling.kube.connection_checks import ConnectionAnswer
from scheduling.models import ClusterState, QueueSync
from scheduling.services import notifications
from scheduling.services.kubernetes import connection_test, connections
from scheduling.services.kubernetes.connection_test import run_connection_test
from tests.integration.admin.conftest import confirm_change
from tests.integration.kube.conftest import KUBECONFIG, SyncHarness
from tests.support.api_client import ApiClient
from tests.support.fake_cluster import FakeCluster
from tests.support.shapes import assert_has_shape
from tests.support.world import apply_change, call_as, make_subpool, make_user, sign_in

KUBECONFIG_TEXT = "apiVersion: v1\nusers: [{name: u, user: {token: secret-token}}]\n"


def pool(name: str = "team", guarantee: int = 100, **more: Any) -> None:
    apply_change(PutPool(name=name, body={"backend": "lab", "resources": {"gpu": {"guarantee": guarantee}}, **more}))


@pytest.fixture(autouse=True)
def committed(ledger: None) -> None:
    """Notifications are sent at a commit."""


@pytest.fixture
def at_once(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every task of a worker at once."""

    def send(task: str, arguments: list[Any], **_: Any) -> None:
        tasks.__dict__[NAMES[task]](*arguments)

    monkeypatch.setattr(notifications, "_send", send)
    monkeypatch.setattr(notifications, "_enqueue", lambda task, backend_id: send(task, [backend_id]))


NAMES = {
    notifications.RECONCILE_TASK: "reconcile_simulated_backend",
    notifications.FOLLOW_LEDGER_TASK: "follow_ledger",
    notifications.QUEUE_SYNC_TASK: "sync_queues",
    notifications.MANUAL_QUEUE_SYNC_TASK: "sync_queues_manually",
    notifications.CONNECTION_TEST_TASK: "test_connection",
}


@pytest.fixture
def caller(fake_lab: SyncHarness) -> Callable[[str, str], ApiClient]:
    def make(name: str, role: str) -> ApiClient:
        make_user(name, role)
        return call_as(name)

    return make


@pytest.fixture
def admin(at_once: None, caller: Callable[[str, str], ApiClient]) -> ApiClient:
    return caller("root", "osmo-admin")


@pytest.fixture
def browser(at_once: None) -> Client:
    make_user("chief", "osmo-admin")
    return sign_in("chief")


# --- notifications and the periodic task ------------------------------------------------------------------------------


def test_a_change_of_the_ledger_reaches_the_cluster_by_itself(fake_lab: SyncHarness, at_once: None) -> None:
    pool()
    assert fake_lab.queues() == {"": -1, "team": 100, "team---shared": 100}
    fake_lab.cluster.clear_calls()
    tasks.follow_ledger(fake_lab.backend.pk)
    assert fake_lab.cluster.calls == [], "without a change of queues"
    make_subpool("team", "a", 30)
    assert fake_lab.queues()["team--a"] == 30
    assert len(fake_lab.cluster.writes) == 2


def test_the_periodic_task_finds_the_work_of_a_lost_notification(
    fake_lab: SyncHarness, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(notifications, "_enqueue", lambda *_: None)
        pool()
    assert fake_lab.queues() == {}
    tasks.sync_all_queues()
    assert fake_lab.queues() == {"": -1, "team": 100, "team---shared": 100}


# --- API --------------------------------------------------------------------------------------------------------------


def test_the_state_of_the_queues(fake_lab: SyncHarness, admin: ApiClient) -> None:
    path = "/api/backend/lab/sync"
    pool()
    body = admin("GET", path).body
    assert body["in_step"] is True
    assert body["generation_applied"] == body["generation_wanted"] > 0
    assert body["condition"]["status"] == "True"
    assert body["condition"]["reason"] == "InStep"
    assert (body["mode"], body["drift"], body["connection"]) == ("apply", [], None)
    fake_lab.edit("team", {"spec": {"priority": 1}})
    body = admin("POST", path).body
    (drift,) = body["drift"]
    assert (drift["queue"], drift["field"], drift["theirs"], drift["ours"], drift["by"]) == (
        fake_lab.name("team"), "spec.priority", 1, 100, "kim",
    )  # fmt: skip
    assert drift["reapplied_at"] is not None


def test_reapplying_where_the_sync_only_reports(fake_lab: SyncHarness, admin: ApiClient) -> None:
    path = "/api/backend/lab/sync"
    pool()
    apply_change(PutBackend(name="lab", body={"sync_mode": "report"}))
    for short in ("team", "team---shared"):
        fake_lab.edit(short, {"spec": {"priority": 1}})
    assert {each["reapplied_at"] for each in admin("POST", path).body["drift"]} == {None}
    named = admin("POST", path, {"reapply": [fake_lab.name("team")]}).body["drift"]
    assert [each["queue"] for each in named if each["reapplied_at"] is None] == [fake_lab.name("team---shared")]
    everything = admin("POST", path, {"reapply": True}).body["drift"]
    assert [each for each in everything if each["reapplied_at"] is None] == []
    assert admin("POST", path, {"reapply": "x"}).codes == {("reapply", "bad_value")}
    assert admin("POST", path, {"colour": 1}).status == 400


def test_the_rights_to_sync(fake_lab: SyncHarness, admin: ApiClient, caller: Callable[[str, str], ApiClient]) -> None:
    pool()
    viewer, user = caller("vera", "osmo-viewer"), caller("ann", "osmo-team-user")
    assert viewer("GET", "/api/backend/lab/sync").status == 200
    assert user("GET", "/api/backend/lab/sync").status == 403
    for method, path in (("GET", "sync"), ("POST", "sync"), ("POST", "test")):
        assert admin(method, f"/api/backend/nowhere/{path}").status == 404
        assert admin(method, f"/api/backend/simulated/{path}").status == 409
    client = sign_in("vera")
    page = client.get("/clusters/lab/sync")
    assert page.status_code == 200
    assert "Sync now" not in page.content.decode()
    assert client.post("/clusters/lab/sync", {"do": "sync"}).status_code == 403


# --- the connection's test --------------------------------------------------------------------------------------------


def test_a_cluster_that_has_everything(fake_lab: SyncHarness, admin: ApiClient) -> None:
    body = admin("POST", "/api/backend/lab/test").body
    report = body["connection"]
    assert_has_shape(report, ConnectionAnswer)
    assert report["ok"] is True
    assert (
        report["sentence"] == "Connected to Kubernetes v1.36.4: queues and work in namespace t1 can be managed there."
    )
    assert {check["ok"] for check in report["checks"]} == {True}
    assert body["connection_at"] >= body["connection_asked_at"]
    assert fake_lab.queues() == {}, "it leaves nothing behind"


def test_missing_parts_of_a_cluster_are_reported(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for lacks, names, text in (
        (QUEUE, ["queues", "queue writes"], "install KAI"),
        (POD_GROUP, ["PodGroups", "PodGroup writes"], "install KAI"),
        (TOPOLOGY, [], ""),
        (None, ["namespace", "PodGroup writes", "pod writes"], "create it: kubectl create namespace t1."),
    ):
        cluster = FakeCluster(namespaces=["t1" if lacks else "elsewhere"])
        if lacks:
            cluster.uninstall_kinds(lacks)
        monkeypatch.setattr(connections, "connect", lambda _, cluster=cluster: cluster)
        report = run_connection_test(fake_lab.backend.pk)
        assert report is not None
        assert report.is_ok is (not names), lacks
        assert [check.name for check in report.checks if not check.is_ok and check.is_required] == names
        assert text in report.message


def test_a_cluster_whose_first_call_fails(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb, error, text, checks in (
        ("version", errors.Unreachable("No connection in time."), "The cluster does not answer", ["connection"]),
        ("version", errors.Unauthorized("Unauthorized"), "expired or was revoked", ["connection"]),
        ("version", errors.BadCredentials("It cannot be read."), "credential cannot be used", ["connection"]),
        ("get", errors.Unreachable("No answer."), "The cluster does not answer", ["connection", "queues"]),
    ):
        cluster = FakeCluster()

        def fail(*_: Any, error: errors.ClusterError = error, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(cluster, verb, fail)
        monkeypatch.setattr(connections, "connect", lambda _, cluster=cluster: cluster)
        report = run_connection_test(fake_lab.backend.pk)
        assert report is not None
        assert text in report.message
        assert [check.name for check in report.checks] == checks, "a silent cluster gets no further calls"


def test_a_backend_without_a_cluster_and_a_removed_one(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    KubernetesSettings.objects.all().delete()
    report = run_connection_test(fake_lab.backend.pk)
    assert report is not None
    assert "has no access configured" in report.message
    assert run_connection_test(10**9) is None


@pytest.mark.k8s
def test_a_real_cluster_leaves_nothing_behind(kube: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml.safe_dump(KUBECONFIG)
    body = {"type": "kubernetes", "namespace": kube.namespace, "kubeconfig": text}
    backend = apply_change(PutBackend(name="lab", body=body)).row
    monkeypatch.setattr(connections, "connect", lambda _: kube.cluster)
    report = run_connection_test(backend.pk)
    assert report is not None
    assert report.is_ok, report
    assert kube.cluster.list(QUEUE, labels=f"osmo.namespace={kube.namespace}").items == []
    assert kube.cluster.list(POD_GROUP, namespace=kube.namespace).items == []


# --- pages ------------------------------------------------------------------------------------------------------------


def test_connecting_a_cluster_in_the_browser(browser: Client) -> None:
    good = yaml.safe_dump({**KUBECONFIG, "clusters": [{"name": "c", "cluster": {"server": "https://new.example"}}]})
    form = {
        "name": "new",
        "namespace": "osmo",
        "access": "kubeconfig",
        "sync_mode": "apply",
        "kubeconfig": KUBECONFIG_TEXT,
    }
    refused = browser.post("/clusters/-/connect", form | {"step": "preview"}, follow=True)
    assert refused.status_code == 400
    assert "names no current-context" in str(refused.context["form"].errors["kubeconfig"])
    assert "secret-token" not in refused.content.decode(), "the pasted kubeconfig is not shown again"
    assert "was not kept: type it again" in refused.content.decode()
    made = confirm_change(browser, "/clusters/-/connect", **form | {"kubeconfig": good, "node_pool": "gpu"})
    assert made.status_code == 302
    row = KubernetesSettings.objects.get(backend__name="new")
    assert (row.server, row.node_pool) == ("https://new.example", "gpu")
    page = browser.get("/clusters/new").content.decode()
    assert "https://new.example" in page
    edited = browser.get("/clusters/new/configuration")
    assert edited.context["form"]["kubeconfig"].value() is None
    change = form | {"kubeconfig": "", "node_pool": ""}
    assert confirm_change(browser, "/clusters/new/configuration", **change).status_code == 302
    row.refresh_from_db()
    assert row.node_pool == ""
    assert row.sealed_kubeconfig
    again = browser.post("/clusters/-/connect", form | {"kubeconfig": good, "step": "preview"}, follow=True)
    assert "exists already" in str(again.context["form"].errors)


def test_a_kubeconfig_waits_for_the_confirmation_and_no_page_shows_it(browser: Client) -> None:
    server, token = {"server": "https://new.example"}, {"token": "secret-token"}
    people = [{"name": "u", "user": token}]
    good = yaml.safe_dump({**KUBECONFIG, "clusters": [{"name": "c", "cluster": server}], "users": people})
    form = {"namespace": "t1", "access": "kubeconfig", "sync_mode": "off", "kubeconfig": good}
    address = "/clusters/lab/configuration"
    sent = browser.post(address, form | {"step": "preview"})
    assert "secret-token" not in sent.headers["Location"]
    assert len(sent.headers["Location"]) < 300
    page = browser.get(sent.headers["Location"])
    assert "secret-token" not in page.content.decode()
    changes = {each.label: (each.before, each.after) for each in page.context["fields"]}
    assert changes["Address of the cluster"][1] == "https://new.example"
    assert changes["Kubeconfig"][1].startswith("stored, fingerprint ")
    edit = browser.post(address, {**page.context["hidden"], "step": "edit"}, follow=True)
    assert "“Kubeconfig” is a secret and is not shown again" in edit.content.decode()
    assert "secret-token" not in edit.content.decode()
    cache.clear()
    lost = browser.post(address, {**page.context["hidden"], "step": "confirm"})
    assert lost.status_code == 400
    assert "kept for 60 minutes" in lost.content.decode()
    assert KubernetesSettings.objects.get().server != "https://new.example"
    assert confirm_change(browser, address, **form).status_code == 302
    assert KubernetesSettings.objects.get().server == "https://new.example"


def test_the_page_of_a_clusters_queues(browser: Client, fake_lab: SyncHarness) -> None:
    address = "/clusters/lab/sync"
    assert "not checked yet" in browser.get(address).content.decode()
    pool()
    assert "The queues are in sync" in browser.get(address).content.decode()
    apply_change(PutBackend(name="lab", body={"sync_mode": "report"}))
    fake_lab.edit("team", {"spec": {"priority": 77}})
    answer = browser.post(address, {"do": "sync"}, follow=True).content.decode()
    assert "The queues are out of sync" in answer
    assert "77" in answer
    assert "kim" in answer
    assert "Revert" in answer
    browser.post(address, {"do": "reapply", "queue": fake_lab.name("team")})
    assert fake_lab.get("team")["spec"]["priority"] == 100
    fake_lab.edit("team", {"spec": {"priority": 78}})
    browser.post(address, {"do": "reapply"})
    assert fake_lab.get("team")["spec"]["priority"] == 100
    tested = browser.post(address, {"do": "test"}, follow=True).content.decode()
    assert "Connected to Kubernetes v1.36.4" in tested
    listed = browser.get("/clusters/-/sync").content.decode()
    assert "lab" in listed
    assert browser.get("/clusters/simulated/sync").status_code == 409


def test_a_requested_test_that_has_not_run_yet(
    browser: Client, fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_enqueue", lambda *_: None)
    browser.post("/clusters/lab/sync", {"do": "test"})
    assert "A worker tests the connection" in browser.get("/clusters/lab/sync").content.decode()
    assert QueueSync.objects.get(backend=fake_lab.backend).connection_test is None
    assert connection_test.run_connection_test(fake_lab.backend.pk)
    assert "A worker tests" not in browser.get("/clusters/lab/sync").content.decode()
    KubernetesSettings.objects.all().delete()
    assert "not configured" in browser.get("/clusters/lab").content.decode(), "a cluster that has lost its settings"
    change = {"namespace": "t1", "access": "in_cluster", "sync_mode": "off"}
    assert confirm_change(browser, "/clusters/lab/configuration", **change).status_code == 302
    assert KubernetesSettings.objects.get().access == "in_cluster"


# --- the command ------------------------------------------------------------------------------------------------------


def _run(*words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["sync", *words], catch_exceptions=False)
    return ran.exit_code, ran.stdout


def test_osmo_admin_sync_prints_the_plan_and_carries_it_out(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///already-set-up")
    pool()
    code, output = _run("--dry-run")
    assert code == 0
    assert f"  + create {fake_lab.name('team')}: 100 GPUs below {fake_lab.root}" in output
    assert "6 writes would be made." in output
    assert fake_lab.queues() == {}
    code, output = _run()
    assert (code, fake_lab.queues()) == (0, {"": -1, "team": 100, "team---shared": 100})
    assert "3 queues have their desired quotas (generation" in output
    fake_lab.edit("team", {"spec": {"priority": 1}})
    code, output = _run("--dry-run", "--backend", "lab")
    assert f"  ! kim changed {fake_lab.name('team')} spec.priority: 1 instead of 100" in output
    assert "1 write would be made." in output
    _run()
    assert "Nothing to do." in _run("--dry-run")[1]

    def fails(verb: str, *_: Any) -> None:
        raise errors.Unauthorized("Unauthorized")

    fake_lab.cluster.before_call = fails
    for words in ((), ("--dry-run",)):
        code, output = _run(*words)
        assert code == 1
        assert "expired or was revoked" in output


def test_osmo_admin_sync_takes_over_the_queues_of_a_lost_installation(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///already-set-up")
    pool()
    labels = {"osmo.namespace": "t1", "osmo.house": "lost"}
    body = {"metadata": {"name": fake_lab.name("team"), "labels": labels}, "spec": {}}
    fake_lab.cluster.cluster.create(QUEUE, body, field_manager="kim")
    code, output = _run()
    assert code == 1
    assert "left alone" in output
    code, output = _run("--take-over")
    assert (code, fake_lab.queues()) == (0, {"": -1, "team": 100, "team---shared": 100})
    Backend.objects.filter(name="lab").update(kind=Backend.Kind.SIMULATED)
    assert _run() == (0, "There is no Kubernetes backend.\n")


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_a_scraper_sees_which_cluster_is_behind(fake_lab: SyncHarness) -> None:
    from scheduling.selectors.cluster.queue_sync_state import read_sync_metrics

    pool()
    behind = read_sync_metrics()["lab"]
    assert (behind["in_step"], behind["generations_behind"] > 0) == (0, True)
    fake_lab.sync()
    assert read_sync_metrics()["lab"] == {
        "in_step": 1, "generations_behind": 0, "drift_fields": 0, "sync_failures": 0, "sync_paused": 0,
        "held_elsewhere": 0,
        "agent_lease_held": 0, "gpu_controller_lease_held": 0, "seconds_since_heard": math.inf,
    }  # fmt: skip
    later = timezone.now() + timedelta(minutes=1)
    QueueSync.objects.update(retry_at=later)
    ClusterState.objects.update(heartbeat_at=timezone.now(), lease_holder=uuid.uuid4(), lease_expires_at=later)
    now = read_sync_metrics()["lab"]
    assert (now["sync_paused"], now["agent_lease_held"], now["seconds_since_heard"] < 60) == (1, 1, True)
    QueueSync.objects.update(retry_at=None)
    apply_change(PutBackend(name="lab", body={"sync_mode": "report"}))
    fake_lab.edit("team", {"spec": {"priority": 1}})
    tasks.sync_backend_queues(fake_lab.backend.pk)
    assert read_sync_metrics()["lab"]["drift_fields"] == 1
    make_user("prometheus", "osmo-viewer")
    secret = apply_change(CreateToken(owner="prometheus", name="scrape"))[1]
    page = Client().get("/metrics", headers={"Authorization": f"Bearer {secret}"}).content.decode()
    assert 'osmo_cluster_drift_fields{backend="lab"} 1.0' in page
    assert 'osmo_cluster_in_step{backend="lab"} 0.0' in page


def test_a_value_of_the_cluster_is_adopted_through_the_usual_preview(fake_lab: SyncHarness, admin: ApiClient) -> None:
    path, page = "/api/backend/lab/sync", "/clusters/lab/sync"
    pool()
    make_subpool("team", "a", 30)
    admin("POST", path)
    apply_change(PutBackend(name="lab", body={"sync_mode": "report"}))
    fake_lab.edit("team--a", {"spec": {"resources": {"gpu": {"quota": 20}}}})
    fake_lab.edit("team", {"spec": {"resources": {"gpu": {"overQuotaWeight": 5}}}})
    fake_lab.edit("team---shared", {"spec": {"priority": 1}})
    drift = {each["queue"]: each["adopt"] for each in admin("POST", path).body["drift"]}
    assert drift == {
        fake_lab.name("team--a"): {"pool": "team--a", "field": "quota", "value": 20},
        fake_lab.name("team"): {"pool": "team", "field": "weight", "value": 5},
        fake_lab.name("team---shared"): None,
    }
    client = sign_in("root")
    addresses = [row.adopt_address for row in client.get(page).context["drift"]]
    assert sum(not address for address in addresses) == 1
    for address in filter(None, addresses):
        preview = client.get(address)
        done = client.post(preview.context["form_address"], {**preview.context["hidden"], "step": "confirm"})
        assert done.status_code == 302, address
    assert Pool.objects.get(name="team--a").last_quota == 20
    assert (Pool.objects.get(name="team").weight, Pool.objects.get(name="team").guarantee) == (5, 100)
    left = [each for each in admin("POST", path).body["drift"] if each["reapplied_at"] is None]
    assert [each["queue"] for each in left] == [fake_lab.name("team---shared")]


def test_the_preview_of_an_adopted_value_keeps_every_zero(fake_lab: SyncHarness, admin: ApiClient) -> None:
    """A 0 is a number: without it, a pool that borrows nothing would borrow without a limit."""
    path = "/api/backend/lab/sync"
    pool(cohort="org", borrowing_limit=0, lending_limit=0, approval_above=0)
    admin("POST", path)
    apply_change(PutBackend(name="lab", body={"sync_mode": "report"}))
    fake_lab.edit("team", {"spec": {"resources": {"gpu": {"overQuotaWeight": 5}}}})
    admin("POST", path)
    client = sign_in("root")
    (row,) = client.get("/clusters/lab/sync").context["drift"]
    preview = client.get(row.adopt_address)
    done = client.post(preview.context["form_address"], {**preview.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    team = Pool.objects.get(name="team")
    assert (team.weight, team.borrowing_limit, team.lending_limit, team.config["approval_above"]) == (5, 0, 0, 0)
