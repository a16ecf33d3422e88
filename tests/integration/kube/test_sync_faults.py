"""Faults of a sync, when its cluster, its credential, its worker or its lease fails. After each fault: converged,
nothing written twice, no foreign object touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.db.models.functions import Now
from django.utils import timezone

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Backend
from scheduling.kube.connection import errors
from scheduling.kube.connection.client import Timeouts
from scheduling.kube.connection.port import ResourceKind
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.kube.queues import queue_writes
from scheduling.models import QueueSync
from scheduling.services.kubernetes import connections, leases
from scheduling.services.kubernetes.leases import AlreadyClaimed, LeaseLost, hold_lease
from scheduling.services.kubernetes.syncing import queue_sync
from scheduling.services.kubernetes.syncing.queue_sync import (
    backends_due_for_sync,
    sync_backend_queues,
    sync_while_requested,
)
from scheduling.services.kubernetes.syncing.sync_comparison import preview_sync
from scheduling.services.kubernetes.syncing.sync_outcome import SyncOutcome
from tests.integration.kube.conftest import SyncHarness
from tests.support.foreign_objects import ForeignObjects
from tests.support.kube_proxy import FaultyProxy, status_body
from tests.support.kube_server import (
    PINNED,
    WRITES,
    KubeServer,
    RecordingCluster,
    create_namespace,
    wait_for,
    with_a_real_one,
)
from tests.support.races import Rendezvous
from tests.support.threads import run_concurrently
from tests.support.world import apply_change, make_subpool


@pytest.fixture(autouse=True)
def foreign_objects_untouched(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test of this file touches foreign objects."""
    labs = [name for name in ("lab", "fake_lab") if name in request.fixturenames]
    lab: SyncHarness | None = request.getfixturevalue(labs[0]) if labs else None
    if "real" in request.fixturenames:
        lab = request.getfixturevalue("real")[0]
    others = None if lab is None else ForeignObjects(lab.cluster.cluster, lab.ns)
    yield
    if others is not None:
        others.assert_untouched()


def pool(name: str, guarantee: int = 10, backend: str = "lab") -> None:
    body = {"backend": backend, "resources": {"gpu": {"guarantee": guarantee}}}
    apply_change(PutPool(name=name, body=body))


def fail_calls(
    lab: SyncHarness, error: errors.ClusterError, *, at: Callable[[str, ResourceKind, str], bool], times: int = 10**6
) -> None:
    """Matching calls of the cluster fail with this error."""
    left = [times]

    def before(verb: str, kind: ResourceKind, name: str) -> None:
        if left[0] and at(verb, kind, name):
            left[0] -= 1
            raise error

    lab.cluster.before_call = before


def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that the API server asks for are only recorded."""
    pauses: list[float] = []

    class RecordingBackoff:
        def __init__(self, **_: Any) -> None:
            pass

        def next_pause(self, at_least: float | None = None) -> float:
            pauses.append(at_least or 0.0)
            return 0.0

    monkeypatch.setattr(queue_writes, "Backoff", RecordingBackoff)
    return pauses


def remove_faults(lab: SyncHarness) -> None:
    lab.cluster.before_call = lambda *_: None


# --- each fault and its condition -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.Unreachable("no connection"), "Unreachable"),
        (errors.KindMissing("not served", status=404), "KindMissing"),
        (errors.TooManyRequests("slow down", status=429, retry_after=40), "TooManyRequests"),
        (errors.BadCredentials("no kubeconfig"), "BadCredentials"),
    ],
)
def test_a_cluster_that_cannot_be_listed_gets_no_calls_for_a_while(
    fake_lab: SyncHarness, error: errors.ClusterError, reason: str
) -> None:
    lab = fake_lab
    pool("team")
    fail_calls(lab, error, at=lambda verb, kind, name: verb == "list")
    outcome = lab.sync()
    assert (outcome.synced, outcome.reason) == ("False", reason)
    assert error.message in outcome.message
    row = lab.row
    assert (row.failures, row.applied_generation, row.succeeded_at) == (1, -1, None)
    assert row.retry_at is not None
    assert row.retry_at > row.attempted_at + timedelta(seconds=error.retry_after or 0.5)
    QueueSync.objects.update(retry_at=timezone.now() + timedelta(minutes=5))
    lab.cluster.clear_calls()
    assert backends_due_for_sync() == []
    assert sync_backend_queues(lab.backend.pk).reason == reason, "a run during the pause does nothing"
    assert lab.cluster.calls == []
    remove_faults(lab)
    QueueSync.objects.update(retry_at=timezone.now() - timedelta(seconds=1))
    assert backends_due_for_sync() == [lab.backend.pk]
    assert sync_backend_queues(lab.backend.pk).synced == "True"
    assert (lab.row.failures, lab.row.retry_at) == (0, None)


def test_pauses_grow_up_to_five_minutes(fake_lab: SyncHarness) -> None:
    fail_calls(fake_lab, errors.Unreachable("gone"), at=lambda *_: True)
    since = set()
    for attempt in range(12):
        fake_lab.sync()
        row = fake_lab.row
        since.add(row.since)
        assert row.retry_at is not None
        assert row.attempted_at is not None
        assert row.retry_at - row.attempted_at >= timedelta(seconds=min(300, 2**attempt))
        assert row.retry_at - timezone.now() <= timedelta(minutes=5)
    (first,) = since
    remove_faults(fake_lab)
    fake_lab.sync()
    assert fake_lab.row.since > first, "it moves with the reason"


def test_a_refused_object_delays_only_its_own_tree(fake_lab: SyncHarness) -> None:
    lab = fake_lab
    for name in ("bad", "good"):
        pool(name)
    lab.sync()
    make_subpool("bad", "a", 4)
    make_subpool("good", "a", 4)
    fail_calls(lab, errors.InvalidObject("refused by a webhook"), at=lambda verb, _, name: "bad---shared" in name)
    outcome = lab.sync()
    assert (outcome.synced, outcome.reason) == ("False", "Invalid")
    assert "refused by a webhook" in outcome.message
    assert lab.queues() == {
        "": -1,
        "bad": 10,
        "bad---shared": 10,  # could not shrink, so the new subpool was not created: the quotas would add up to 14 of 10
        "good": 10,
        "good---shared": 6,
        "good--a": 4,
    }
    remove_faults(lab)
    assert lab.sync().synced == "True"
    assert lab.queues()["bad--a"] == 4


def test_a_run_stops_after_repeated_failures(fake_lab: SyncHarness) -> None:
    lab = fake_lab
    for number in range(10):
        pool(f"p{number}")
    fail_calls(lab, errors.ServerError("failed calling webhook"), at=lambda verb, *_: verb == "apply")
    outcome = lab.sync()
    assert len([call for call in lab.cluster.calls if call[0] == "apply"]) == 0
    assert len(outcome.remaining) == 1 + 20 + 3
    assert "writes are left" in outcome.message


def test_the_api_server_asks_for_pauses_and_gets_them(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = no_pauses(monkeypatch)
    pool("team")
    busy = errors.TooManyRequests("slow down", status=429, retry_after=2)
    fail_calls(fake_lab, busy, at=lambda verb, *_: verb == "apply", times=3)
    assert fake_lab.sync().synced == "True"
    assert len(slept) == 3
    assert min(slept) >= 2
    assert fake_lab.queues() == {"": -1, "team": 10, "team---shared": 10}


def test_a_long_pause_ends_the_run(fake_lab: SyncHarness) -> None:
    pool("team")
    fail_calls(fake_lab, errors.TooManyRequests("slow down", retry_after=120), at=lambda verb, *_: verb == "apply")
    assert fake_lab.sync().reason == "TooManyRequests"
    row = fake_lab.row
    assert row.retry_at is not None
    assert row.attempted_at is not None
    assert row.retry_at - row.attempted_at > timedelta(seconds=119)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_killed_at_any_write_the_next_run_does_the_rest_and_no_more(fake_lab: SyncHarness, number: int) -> None:
    """The death of a worker, as an exception that is not caught."""
    lab = fake_lab
    pool("team", 100)
    make_subpool("team", "a", 30)
    lab.sync()
    make_subpool("team", "b", 20)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=10))
    pool("other", 5)
    whole = len(preview_sync(Backend.objects.get(name="lab")).remaining)
    assert whole == 4
    made = [0]

    def dies(verb: str, *_: Any) -> None:
        if verb == "apply":
            if made[0] == number:
                raise KeyboardInterrupt
            made[0] += 1

    lab.cluster.before_call = dies
    lab.cluster.clear_calls()
    with pytest.raises(KeyboardInterrupt):
        sync_backend_queues(lab.backend.pk)
    first = list(lab.cluster.writes)
    remove_faults(lab)
    QueueSync.objects.update(lease_holder=None, lease_expires_at=None)
    assert lab.sync().synced == "True"
    assert len(first) + len(lab.cluster.writes) == whole
    assert lab.queues() == {
        "": -1, "team": 100, "team---shared": 70, "team--a": 10, "team--b": 20, "other": 5, "other---shared": 5,
    }  # fmt: skip


# --- the lease --------------------------------------------------------------------------------------------------------


def test_a_lease_belongs_to_one_worker_until_it_ends(fake_lab: SyncHarness) -> None:
    backend = fake_lab.backend.pk
    QueueSync.objects.get_or_create(pk=backend)
    with hold_lease(backend) as mine:
        with pytest.raises(AlreadyClaimed):
            sync_backend_queues(backend, manual=True)
        sync_while_requested(backend)  # another worker holds the lease, so nothing happens
        assert fake_lab.cluster.calls == []
        mine.renew()
    assert fake_lab.sync().synced == "True"
    row = fake_lab.row
    assert (row.lease_holder, row.lease_expires_at) == (None, None)
    leases.Lease(backend).claim()  # of a worker that dies
    with pytest.raises(AlreadyClaimed):
        sync_backend_queues(backend, manual=True)
    QueueSync.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    assert fake_lab.sync().synced == "True"


def test_a_worker_that_was_too_slow_stops_before_its_next_write(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = fake_lab
    pool("team")
    monkeypatch.setattr(leases, "SYNC_TIMING", replace(leases.SYNC_TIMING, renew_after=0.0))
    others = leases.Lease(lab.backend.pk)

    def overtaken(verb: str, kind: ResourceKind, name: str) -> None:
        if verb == "apply" and name == lab.root:
            QueueSync.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
            others.claim()

    lab.cluster.before_call = overtaken
    with pytest.raises(LeaseLost):
        lab.sync()
    assert [write for write in lab.cluster.writes if "osmo-pool" in write] == []
    assert lab.row.lease_holder is not None, "the other worker's lease stays"


def test_a_run_without_a_valid_lease_leaves_the_rest_to_the_next(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database did not answer for so long that the lease may have ended."""
    pool("team")
    timing = leases.SYNC_TIMING
    monkeypatch.setattr(leases, "SYNC_TIMING", replace(timing, safe_for=-1.0))
    outcome = fake_lab.sync()
    assert (outcome.synced, outcome.reason) == ("False", "Interrupted")
    assert len(outcome.remaining) == 3 + 3
    assert fake_lab.row.retry_at is None
    monkeypatch.setattr(leases, "SYNC_TIMING", timing)
    assert fake_lab.sync().synced == "True"


@pytest.mark.race
@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_without_the_lease_write_twice(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race, shown with the lease off."""
    pool("team")
    monkeypatch.setattr(leases.Lease, "claim", lambda self: None)
    monkeypatch.setattr(leases.Lease, "renew", lambda self: None)
    monkeypatch.setattr(leases.Lease, "may_write", lambda self: True)
    Rendezvous(2).after_call(monkeypatch, queue_sync, "compare_with_ledger")
    fake_lab.cluster.clear_calls()
    outcome = run_concurrently([lambda: sync_backend_queues(fake_lab.backend.pk, manual=True) for _ in range(2)])
    assert not [each for each in outcome if isinstance(each, Exception)], outcome
    assert len(fake_lab.cluster.writes) == 2 * 6


@with_a_real_one("kube_namespace")
@pytest.mark.race
@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_write_once(lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    pool("team")
    Rendezvous(2).after_call(monkeypatch, queue_sync, "compare_with_ledger")
    lab.cluster.clear_calls()
    outcome = run_concurrently([lambda: sync_backend_queues(lab.backend.pk, manual=True) for _ in range(2)])
    busy = [each for each in outcome if isinstance(each, AlreadyClaimed)]
    done = [each for each in outcome if isinstance(each, SyncOutcome)]
    assert len(done) + len(busy) == 2
    assert {each.synced for each in done} == {"True"}
    writes = [write for write in lab.cluster.writes if "osmo-pool" in write or lab.root in write]
    assert sorted(writes) == sorted(f"apply {name}" for name in (lab.root, lab.name("team"), lab.name("team---shared")))


def test_a_dead_cluster_delays_no_other(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each backend has its own lease, condition and pause."""
    content = {**yaml.safe_load(KUBECONFIG), "clusters": [{"name": "c", "cluster": {"server": "https://other"}}]}
    body = {"type": "kubernetes", "namespace": "t1", "kubeconfig": yaml.safe_dump(content)}
    dead = apply_change(PutBackend(name="dead", body=body)).row
    alive = fake_lab.cluster

    def connect(backend: Backend) -> RecordingCluster:
        if backend.pk == dead.pk:
            raise errors.Unreachable("no route")
        return alive

    monkeypatch.setattr(connections, "connect", connect)
    assert sync_backend_queues(dead.pk).reason == "Unreachable"
    assert sync_backend_queues(fake_lab.backend.pk).synced == "True"
    assert backends_due_for_sync() == [fake_lab.backend.pk]


KUBECONFIG = yaml.safe_dump(
    {
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
)


# --- a real API server with faults ------------------------------------------------------------------------------------


@pytest.fixture
def real(kube_server: KubeServer, ledger: None) -> Iterator[tuple[SyncHarness, FaultyProxy]]:
    """A backend reached by its own kubeconfig, through a proxy that may answer badly."""
    proxy = FaultyProxy(kube_server.address, kube_server.certificate)
    direct = kube_server.connect()
    namespace = create_namespace(direct)
    content = kube_server.kubeconfig_body()
    content["clusters"][0]["cluster"] = {"server": proxy.address}
    body = {"type": "kubernetes", "namespace": namespace, "kubeconfig": yaml.safe_dump(content)}
    backend = apply_change(PutBackend(name="lab", body=body)).row
    yield SyncHarness(backend, RecordingCluster(direct), namespace), proxy
    proxy.close()
    direct.close()


def _writes(proxy: FaultyProxy, ns: str) -> list[tuple[str, str]]:
    return [(method, path.split("?")[0]) for method, path in proxy.requests if method != "GET" and ns in path]


@pytest.mark.k8s
def test_429_500_409_and_a_broken_line_in_one_sync(
    real: tuple[SyncHarness, FaultyProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, proxy = real
    no_pauses(monkeypatch)
    for name in ("a", "b", "c"):
        pool(name)
    proxy.add_rule(
        lab.root, status=429, body=status_body(429, "TooManyRequests"), headers={"Retry-After": "1"}, times=2
    )
    proxy.add_rule(f"{lab.name('a---shared')}?", status=409, body=status_body(409, "Conflict"))
    proxy.add_rule(f"{lab.name('b---shared')}?", status=500, body=status_body(500, "InternalError"))
    outcome = lab.sync()
    assert (outcome.synced, lab.row.failures) == ("False", 1)
    assert lab.queues() == {"": -1, "a": 10, "b": 10, "c": 10, "c---shared": 10}
    assert lab.sync().synced == "True"
    assert lab.queues() == {"": -1, **{f"{name}{end}": 10 for name in "abc" for end in ("", "---shared")}}
    proxy.requests.clear()
    assert lab.sync().synced == "True"
    assert _writes(proxy, lab.ns) == []


@pytest.mark.k8s
def test_a_write_whose_answer_is_lost_is_not_done_twice(real: tuple[SyncHarness, FaultyProxy]) -> None:
    """The API server has applied the write; the connection broke before its answer."""
    lab, proxy = real
    pool("team")
    container = lab.name("team")

    def answered_by_nobody(request: tuple[str, str]) -> bool:
        if request[0] != "PATCH" or f"/{container}?" not in request[1]:
            return False
        body = {"metadata": {"name": container, "labels": {"osmo.namespace": lab.ns}}, "spec": {}}
        lab.cluster.cluster.apply(QUEUE, body, field_manager="osmo-admin", force=True)
        return True

    proxy.add_rule(answered_by_nobody, drop=True)
    assert lab.sync().reason == "Unreachable"
    assert lab.sync().synced == "True"
    assert lab.queues() == {"": -1, "team": 10, "team---shared": 10}


@pytest.mark.k8s
def test_slow_answers_end_the_run_and_nothing_else(
    real: tuple[SyncHarness, FaultyProxy], kube_server: KubeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, proxy = real
    pool("team")
    patient = kube_server.connect(address=proxy.address)
    short = kube_server.connect(limits=Timeouts(connect=30, call=0.5), address=proxy.address)

    class ImpatientWriter:
        def __getattr__(self, verb: str) -> Any:
            return getattr(short if verb in WRITES else patient, verb)

    monkeypatch.setattr(connections, "connect", lambda _: ImpatientWriter())
    proxy.add_rule("/queues/", delay=300, times=None)
    outcome = lab.sync()
    assert outcome.reason == "Unreachable"
    assert len(_writes(proxy, lab.ns)) == 1, "after one call that was not answered no other is made"
    proxy.clear_rules()
    monkeypatch.undo()
    assert lab.sync().synced == "True"


@pytest.mark.k8s
@pytest.mark.parametrize(
    ("user", "reason"), [("nobody", "Forbidden"), ("viewer", "Forbidden"), ("expired", "Unauthorized")]
)
def test_a_credential_without_rights(kube_server: KubeServer, ledger: None, user: str, reason: str) -> None:
    cluster = kube_server.connect()
    namespace = create_namespace(cluster)
    content = kube_server.kubeconfig_body("nobody" if user == "expired" else user)
    if user == "expired":
        content["users"][0]["user"]["token"] = "was-good-once"
    body = {"type": "kubernetes", "namespace": namespace, "kubeconfig": yaml.safe_dump(content)}
    backend = apply_change(PutBackend(name="lab", body=body)).row
    outcome = sync_backend_queues(backend.pk)
    assert outcome.reason == reason
    assert "was-good-once" not in outcome.message
    apply_change(PutBackend(name="lab", body={"kubeconfig": yaml.safe_dump(kube_server.kubeconfig_body())}))
    assert sync_backend_queues(backend.pk, manual=True).synced == "True", "a new credential is used at once"
    cluster.close()


@pytest.mark.k8s
@pytest.mark.fault
def test_no_kai_then_kai_then_killed_in_the_middle_and_back(own_kube_server: KubeServer, ledger: None) -> None:
    server = own_kube_server
    body = {"type": "kubernetes", "namespace": "osmo", "kubeconfig": yaml.safe_dump(server.kubeconfig_body())}
    backend = apply_change(PutBackend(name="lab", body=body)).row
    for number in range(4):
        pool(f"p{number}")
    outcome = sync_backend_queues(backend.pk)
    assert outcome.reason == "KindMissing"
    assert "install KAI" in outcome.message

    server.install(*PINNED)
    with closing(server.connect()) as before:
        others = ForeignObjects(before, "default")
    real = connections.connect(backend)
    heard = RecordingCluster(real)

    def kills(verb: str, kind: ResourceKind, name: str) -> None:
        if verb == "apply" and len(heard.writes) == 6:
            server.kill()

    heard.before_call = kills
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "connect", lambda _: heard)
        outcome = sync_backend_queues(backend.pk, manual=True)
    assert outcome.reason == "Unreachable"
    assert sync_backend_queues(backend.pk, manual=True).reason == "Unreachable", "still dead"

    server.restart()
    assert wait_for(lambda: sync_backend_queues(backend.pk, manual=True).synced == "True")
    admin = server.connect()
    others.cluster = admin
    others.assert_untouched()
    found = admin.list(QUEUE, labels="osmo.namespace=osmo").items
    assert len(found) == 1 + 2 * 4
    assert {item["metadata"]["generation"] for item in found} == {1}, "nothing was written twice"
    again = RecordingCluster(admin)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "connect", lambda _: again)
        sync_backend_queues(backend.pk, manual=True)
    assert again.writes == []
    admin.close()
