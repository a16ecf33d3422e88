"""The queues of a cluster follow the ledger: on the fake cluster, and the same on a real API server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import DeletePool, PutPool, RenamePool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.models import Backend, KubernetesSettings, Pool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.kube.connection.resource_kinds import PRIORITY_CLASS, QUEUE, TOPOLOGY
from scheduling.models import QueueDrift
from scheduling.services.kubernetes.syncing.queue_sync import (
    backends_due_for_sync,
    is_cluster_behind,
    needs_no_sync,
    sync_backend_queues,
)
from scheduling.services.kubernetes.syncing.sync_comparison import preview_sync
from tests.integration.kube.conftest import SyncHarness
from tests.support import world
from tests.support.kube_server import with_a_real_one


def pool(
    lab: SyncHarness, name: str = "team", guarantee: int = 100, maximum: int = -1, weight: int = 1, **more: Any
) -> None:
    gpu = {"guarantee": guarantee, "maximum": maximum, "weight": weight}
    world.apply_change(PutPool(name=name, body={"backend": lab.backend.name, "resources": {"gpu": gpu}} | more))


def subpools(**quotas: int) -> None:
    for name, quota in quotas.items():
        world.make_subpool("team", name, quota)


def settings(lab: SyncHarness, **change: Any) -> None:
    world.apply_change(PutBackend(name=lab.backend.name, body=change))


@with_a_real_one("kube_namespace")
def test_the_first_sync_makes_the_whole_tree(lab: SyncHarness) -> None:
    pool(lab, maximum=120, weight=2)
    subpools(a=30)
    outcome = lab.sync()
    assert (outcome.synced, outcome.reason) == ("True", "InStep")
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 70, "team--a": 30}
    container, leaf = lab.get("team"), lab.get("team---shared")
    assert container["spec"] == {
        "displayName": lab.name("team"),
        "parentQueue": lab.root,
        "priority": 100,
        "resources": {
            "gpu": {"quota": 100, "limit": 120, "overQuotaWeight": 2},
            "cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
            "memory": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
        },
    }
    assert (leaf["spec"]["parentQueue"], leaf["spec"]["displayName"]) == (lab.name("team"), lab.name("team--_shared"))
    assert leaf["metadata"]["labels"]["osmo.pool"] == "team"
    assert not is_cluster_behind(lab.backend.pk)
    assert lab.row.objects_observed == 4, "with those that it made"


@with_a_real_one("kube_namespace")
def test_queues_of_a_pool_with_flavors_have_the_sums(lab: SyncHarness) -> None:
    settings(lab, flavors=[{"name": name, "node_labels": {"gpu.product": name}} for name in ("h100", "a100")])
    quotas = {"h100": {"guarantee": 8}, "a100": {"guarantee": 16}}
    body = {"backend": lab.backend.name, "resources": {"flavors": quotas}}
    world.apply_change(PutPool(name="team", body=body))
    world.apply_change(CreateSubpool(parent="team", subpool_name="a", quotas={"h100": 4, "a100": 6}))
    lab.sync()
    assert lab.queues() == {"": -1, "team": 24, "team---shared": 14, "team--a": 10}


def test_with_nothing_to_do_it_only_lists(lab: SyncHarness) -> None:
    pool(lab)
    subpools(a=30)
    lab.sync()
    again = lab.sync()
    assert {(verb, kind) for verb, kind, _ in lab.cluster.calls if verb != "list"} == {("get", "Lease")}
    assert len(lab.cluster.calls) == 5, "the Lease, queues, priority classes, podgroups, topologies"
    assert (again.written, again.remaining, again.reason) == ((), (), "InStep")
    assert lab.row.objects_observed == 4
    pool(lab, weight=5)
    lab.sync()
    assert lab.cluster.writes == [f"apply {lab.name('team')}"], "one change is one write"
    assert lab.get("team")["spec"]["resources"]["gpu"]["overQuotaWeight"] == 5


def test_quota_moves_by_shrinking_first(lab: SyncHarness) -> None:
    pool(lab)
    lab.sync()
    subpools(a=30)
    lab.sync()
    assert lab.cluster.writes == [f"apply {lab.name('team---shared')}", f"apply {lab.name('team--a')}"]
    world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=10))
    lab.sync()
    assert lab.cluster.writes == [f"apply {lab.name('team--a')}", f"apply {lab.name('team---shared')}"]
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 90, "team--a": 10}
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    lab.sync()
    assert lab.cluster.writes == [f"delete {lab.name('team--a')}", f"apply {lab.name('team---shared')}"]
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 100}
    subpools(a=5)
    lab.sync()
    assert lab.queues()["team--a"] == 5, "and comes back"


def test_a_draining_subpool_keeps_its_queue_until_it_is_archived(lab: SyncHarness) -> None:
    pool(lab)
    subpools(a=30)
    work = world.submit_workflow(world.make_user("ann", "osmo-team-user"), "team--a", 12)
    lab.sync()
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    lab.sync()
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 88, "team--a": 12}
    assert not needs_no_sync(lab.backend.pk), "each end of its work may free quota"
    world.apply_change(CancelWorkflow(name=work.name))
    lab.sync()
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 100}
    assert needs_no_sync(lab.backend.pk)


@with_a_real_one("kube_namespace")
def test_a_deleted_or_renamed_pool_removes_its_queues(lab: SyncHarness) -> None:
    pool(lab)
    pool(lab, "other", 50)
    subpools(a=30)
    lab.sync()
    world.apply_change(DeletePool(name="other"))
    lab.sync()
    assert lab.cluster.writes == [f"delete {lab.name('other---shared')}", f"delete {lab.name('other')}"]
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    world.apply_change(RenamePool(name="team", new_name="crew"))
    lab.sync()
    assert lab.queues() == {"": -1, "crew": 100, "crew---shared": 100}


def test_cohorts_are_levels(lab: SyncHarness) -> None:
    world.apply_change(PutCohort(name="org", body={}))
    quota = {"flavor": "default", "resource": "gpu", "nominal": 4, "borrowing_limit": 6}
    world.apply_change(PutCohort(name="lab", body={"parent": "org", "quotas": [quota], "weight": 3}))
    pool(lab, guarantee=10, cohort="lab")
    pool(lab, "other", 20, cohort="org")
    lab.sync()
    cohort = f"osmo-cohort-{lab.ns}"
    found = {item["metadata"]["name"]: item["spec"] for item in lab.cluster.cluster.list(QUEUE).items}
    parents = {name: found[name].get("parentQueue") for name in found if lab.ns in name and "shared" not in name}
    assert parents == {
        lab.root: None,
        f"{cohort}-org": lab.root,
        f"{cohort}-lab": f"{cohort}-org",
        lab.name("team"): f"{cohort}-lab",
        lab.name("other"): f"{cohort}-org",
    }
    gpu = {name: found[name]["resources"]["gpu"] for name in parents}
    assert gpu[f"{cohort}-lab"] == {"quota": 14, "limit": 20, "overQuotaWeight": 3}
    assert gpu[f"{cohort}-org"] == {"quota": 34, "limit": 34, "overQuotaWeight": 1}
    assert gpu[lab.name("team")] == {"quota": 10, "limit": 20, "overQuotaWeight": 1}
    pool(lab, guarantee=10, cohort="org")
    lab.sync()
    assert lab.cluster.writes[:2] == [f"apply {lab.name('team')}", f"delete {cohort}-lab"]
    assert lab.get("team")["spec"]["parentQueue"] == f"{cohort}-org"


def test_a_shard_is_named_on_every_queue_and_unnamed_again(lab: SyncHarness) -> None:
    pool(lab)
    lab.sync()
    settings(lab, node_pool="gpu")
    assert is_cluster_behind(lab.backend.pk)
    lab.sync()
    assert len(lab.cluster.writes) == 3
    found = lab.cluster.cluster.list(QUEUE, labels=f"kai.scheduler/node-pool=gpu,osmo.namespace={lab.ns}").items
    assert len(found) == 3
    settings(lab, node_pool="")
    lab.sync()
    assert "kai.scheduler/node-pool" not in lab.get("team")["metadata"]["labels"]
    assert not QueueDrift.objects.exists(), "all of that was our own doing"


def test_topologies_follow_the_pools_keys(lab: SyncHarness) -> None:
    keys = [{"key": "zone", "label": "example.com/zone"}, {"key": "rack", "label": "example.com/rack"}]
    pool(lab, topology_keys=keys)
    lab.sync()
    name = lab.name("team-topology")
    made = lab.cluster.cluster.get(TOPOLOGY, name)
    assert made["spec"]["levels"] == [{"nodeLabel": "example.com/zone"}, {"nodeLabel": "example.com/rack"}]
    assert made["metadata"]["labels"]["osmo.pool"] == "team"
    lab.sync()
    assert lab.cluster.writes == []
    pool(lab, topology_keys=keys[1:])
    lab.sync()
    assert lab.cluster.writes == [f"delete {name}", f"apply {name}"]
    assert lab.cluster.cluster.get(TOPOLOGY, name)["spec"]["levels"] == [{"nodeLabel": "example.com/rack"}]
    pool(lab, topology_keys=[])
    lab.sync()
    assert lab.cluster.writes == [f"delete {name}"]


def test_pools_of_other_backends_have_no_queues_here(lab: SyncHarness) -> None:
    world.apply_change(PutBackend(name="sim", body={"namespace": "sim"}))
    world.apply_change(PutPool(name="far", body={"backend": "sim"}))
    pool(lab)
    lab.sync()
    assert set(lab.queues()) == {"", "team", "team---shared"}
    values = {
        name: lab.cluster.cluster.get(PRIORITY_CLASS, f"osmo-{name}")["value"] for name in ("high", "normal", "low")
    }
    assert values == {"high": 125, "normal": 100, "low": 50}


def test_a_deleted_queue_is_created_again(lab: SyncHarness) -> None:
    pool(lab)
    lab.sync()
    for short in ("team", "team---shared"):
        lab.cluster.cluster.delete(QUEUE, lab.name(short))
    lab.sync()
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 100}


def test_a_priority_class_of_another_value_stays_and_is_reported(fake_lab: SyncHarness) -> None:
    fake_lab.cluster.cluster.create(PRIORITY_CLASS, {"metadata": {"name": "osmo-low"}, "value": 7}, field_manager="kim")
    outcome = fake_lab.sync()
    assert outcome.synced == "True"
    assert outcome.untouched == ("osmo-low: this PriorityClass has the value 7 instead of 50, which cannot be changed",)
    assert fake_lab.row.untouched[0]["name"] == "osmo-low"


# --- drift ------------------------------------------------------------------------------------------------------------


@with_a_real_one("kube_namespace")
def test_foreign_changes_are_reverted_and_recorded(lab: SyncHarness) -> None:
    pool(lab)
    lab.sync()
    lab.edit("team", {"spec": {"resources": {"gpu": {"quota": 7}}, "priority": 1}})
    lab.edit("team---shared", {"metadata": {"labels": {"kai.scheduler/node-pool": "elsewhere"}}}, owner="lee")
    outcome = lab.sync()
    assert sorted(outcome.drift) == [
        f"kim changed {lab.name('team')} spec.priority: 1 instead of 100",
        f"kim changed {lab.name('team')} spec.resources.gpu.quota: 7 instead of 100",
        f"lee changed {lab.name('team---shared')} metadata.labels.kai.scheduler/node-pool: elsewhere instead of None",
    ]
    assert lab.get("team")["spec"]["resources"]["gpu"]["quota"] == 100
    assert "kai.scheduler/node-pool" not in lab.get("team---shared")["metadata"]["labels"]
    rows = QueueDrift.objects.order_by("field")
    assert [(row.field, row.theirs, row.ours, row.author, row.reapplied_at is not None) for row in rows] == [
        ("metadata.labels.kai.scheduler/node-pool", "elsewhere", None, "lee", True),
        ("spec.priority", 1, 100, "kim", True),
        ("spec.resources.gpu.quota", 7, 100, "kim", True),
    ]
    lab.sync()
    assert lab.cluster.writes == []


@with_a_real_one("kube_namespace")
def test_foreign_additions_remain(lab: SyncHarness) -> None:
    pool(lab)
    lab.sync()
    lab.edit("team", {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    lab.edit("team", {"spec": {"preemptMinRuntime": "5m"}})
    lab.sync()
    assert lab.cluster.writes == []
    pool(lab, weight=3)
    lab.sync()
    found = lab.get("team")
    assert found["metadata"]["labels"]["team"] == "x"
    assert found["metadata"]["annotations"] == {"note": "y"}
    assert found["spec"]["preemptMinRuntime"] == "5m"


def test_a_sync_that_reports_shows_drift_and_applies_on_demand(lab: SyncHarness) -> None:
    pool(lab)
    pool(lab, "other", 50)
    lab.sync()
    settings(lab, sync_mode="report")
    lab.edit("team", {"spec": {"priority": 1}})
    lab.edit("other", {"spec": {"priority": 2}})
    lab.cluster.clear_calls()
    outcome = sync_backend_queues(lab.backend.pk)
    assert lab.cluster.writes == []
    assert (outcome.synced, outcome.reason, len(outcome.remaining)) == ("False", "WritesDue", 2)
    assert QueueDrift.objects.filter(reapplied_at=None).count() == 2
    lab.sync(only_objects=[lab.name("team")])
    assert lab.cluster.writes == [f"apply {lab.name('team')}"]
    assert list(QueueDrift.objects.filter(reapplied_at=None).values_list("queue", flat=True)) == [lab.name("other")]
    lab.edit("other", {"spec": {"priority": 100}})
    sync_backend_queues(lab.backend.pk)
    assert not QueueDrift.objects.filter(reapplied_at=None).exists(), "a manual correction counts, too"


def test_drift_follows_later_changes_and_is_deleted_in_the_end(fake_lab: SyncHarness) -> None:
    lab = fake_lab
    pool(lab)
    lab.sync()
    settings(lab, sync_mode="report")
    lab.edit("team", {"spec": {"priority": 1}})
    sync_backend_queues(lab.backend.pk)
    lab.edit("team", {"spec": {"priority": 2}}, owner="lee")
    sync_backend_queues(lab.backend.pk)
    row = QueueDrift.objects.get()
    assert (row.theirs, row.author) == (2, "lee")
    lab.sync()
    QueueDrift.objects.update(reapplied_at=timezone.now() - timedelta(days=31))
    lab.sync()
    assert not QueueDrift.objects.exists()


# --- what is not ours -------------------------------------------------------------------------------------------------


def _foreign(lab: SyncHarness, name: str, parent: str | None = None, **labels: str) -> None:
    spec: dict[str, Any] = {"resources": {"gpu": {"quota": 3, "limit": -1, "overQuotaWeight": 1}}}
    if parent:
        spec["parentQueue"] = parent
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    lab.cluster.cluster.create(QUEUE, body, field_manager="kim")


def test_queues_of_others_are_never_touched(lab: SyncHarness) -> None:
    _foreign(lab, f"{lab.ns}-theirs")
    _foreign(lab, lab.name("gone"), lab.root, **{"osmo.namespace": lab.ns})
    before = lab.cluster.cluster.get(QUEUE, lab.name("gone"))
    pool(lab)
    outcome = lab.sync()
    assert outcome.synced == "True"
    assert lab.cluster.cluster.get(QUEUE, lab.name("gone")) == before
    assert outcome.untouched == (
        f"{lab.name('gone')}: a queue of others below our {lab.root}; its quota is in none of our sums",
    )


def test_an_unlabelled_queue_of_our_name_is_adopted(lab: SyncHarness) -> None:
    _foreign(lab, lab.name("team"), lab.root, **{"osmo.namespace": lab.ns})
    pool(lab)
    outcome = lab.sync()
    assert outcome.synced == "True"
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 100}
    assert not QueueDrift.objects.exists()


def test_a_queue_of_our_name_with_a_foreign_label_is_in_the_way(lab: SyncHarness) -> None:
    _foreign(lab, lab.name("team"), lab.root, **{"osmo.namespace": lab.ns, "osmo.house": "h2"})
    pool(lab)
    pool(lab, "other", 5)
    outcome = lab.sync()
    assert (outcome.synced, outcome.reason) == ("False", "InTheWay")
    assert "another installation" in outcome.message
    assert lab.queues() == {"": -1, "team": 3, "other": 5, "other---shared": 5}, "other queues are synced"
    assert lab.sync(take_over=True).synced == "True"
    assert lab.queues() == {"": -1, "team": 100, "team---shared": 100, "other": 5, "other---shared": 5}


def test_a_queue_with_a_foreign_child_stays(lab: SyncHarness) -> None:
    pool(lab)
    subpools(a=30)
    lab.sync()
    _foreign(lab, f"{lab.ns}-guest", lab.name("team--a"))
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    outcome = lab.sync()
    assert lab.get("team--a")
    assert [line for line in outcome.untouched if line.startswith(lab.name("team--a"))]


# --- before a run, and during it --------------------------------------------------------------------------------------


def test_a_preview_shows_the_writes_and_writes_nothing(lab: SyncHarness) -> None:
    pool(lab)
    lab.sync()
    subpools(a=30)
    lab.cluster.clear_calls()
    shown = preview_sync(Backend.objects.get(name="lab"))
    assert shown.remaining == (
        f"update {lab.name('team---shared')}: spec.resources.gpu.quota: 100 → 70",
        f"create {lab.name('team--a')}: 30 GPUs below {lab.name('team')}",
    )
    assert lab.cluster.writes == []
    assert lab.sync().written == shown.remaining


def test_a_sync_that_is_off_writes_nothing(fake_lab: SyncHarness) -> None:
    settings(fake_lab, sync_mode="off")
    pool(fake_lab)
    assert sync_backend_queues(fake_lab.backend.pk).reason == "Off"
    assert fake_lab.cluster.calls == []
    assert backends_due_for_sync() == []
    assert needs_no_sync(fake_lab.backend.pk)
    assert fake_lab.sync().synced == "True", "a manual sync is possible"


def test_which_backends_are_due(fake_lab: SyncHarness) -> None:
    assert backends_due_for_sync() == [fake_lab.backend.pk]
    fake_lab.sync()
    assert backends_due_for_sync() == [fake_lab.backend.pk], "every periodic run checks for drift"
    Backend.objects.filter(pk=fake_lab.backend.pk).update(kind="kubernetes")
    KubernetesSettings.objects.all().delete()
    assert backends_due_for_sync() == []


def test_the_effect_of_a_notification(fake_lab: SyncHarness) -> None:
    assert not needs_no_sync(fake_lab.backend.pk)
    fake_lab.sync()
    assert needs_no_sync(fake_lab.backend.pk)
    pool(fake_lab)
    assert not needs_no_sync(fake_lab.backend.pk)
    assert needs_no_sync(world.make_backend().pk)


def test_the_applied_generation_is_the_one_that_was_read(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run applies a change that comes while a run writes."""
    pool(fake_lab)
    raced = []

    def once(verb: str, *_: Any) -> None:
        if verb == "apply" and not raced:
            raced.append(True)
            pool(fake_lab, "late", 5)

    fake_lab.cluster.before_call = once
    fake_lab.sync()
    assert is_cluster_behind(fake_lab.backend.pk)
    assert "late" not in fake_lab.queues()
    fake_lab.sync()
    assert not is_cluster_behind(fake_lab.backend.pk)
    assert "late" in fake_lab.queues()
    assert Pool.objects.filter(name="late").exists()
