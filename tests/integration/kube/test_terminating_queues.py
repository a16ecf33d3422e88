"""A queue whose deletion was requested and that a finalizer holds: it counts as long as it stands."""

from __future__ import annotations

from pools.domain.changes.subpools import DeleteSubpool
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.services.kubernetes.syncing.queue_sync import backends_due_for_sync
from tests.integration.kube.conftest import SyncHarness
from tests.support import world
from tests.support.kube_server import with_a_real_one

HOLD = {"metadata": {"finalizers": ["example.org/hold"]}}
RELEASE = {"metadata": {"finalizers": None}}


def make_pool(lab: SyncHarness, quota: int = 18, **subpools: int) -> None:
    world.make_pool("team", quota, on=lab.backend, **subpools)


def archive(lab: SyncHarness) -> None:
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))


def leaves_sum(lab: SyncHarness) -> float:
    return sum(quota for name, quota in lab.queues().items() if "--" in name)


@with_a_real_one("kube_namespace")
def test_a_queue_that_is_not_wanted_counts_until_it_is_gone(lab: SyncHarness) -> None:
    """Its quota is not given to the shared leaf before, and the condition says what it waits for."""
    make_pool(lab, a=8)
    assert lab.sync().synced == "True"
    lab.edit("team--a", HOLD)
    archive(lab)
    for _ in range(2):
        outcome = lab.sync()
        assert (outcome.synced, outcome.reason) == ("False", "Terminating")
        assert f"{lab.name('team--a')} is being deleted" in outcome.message
        assert "example.org/hold" in outcome.message
        assert leaves_sum(lab) == 18
        assert lab.queues()["team---shared"] == 10
    assert lab.cluster.writes == [], "it is deleted once"
    assert backends_due_for_sync() == [lab.backend.pk], "the next regular run looks again"
    lab.edit("team--a", RELEASE)
    assert lab.sync().synced == "True"
    assert lab.queues() == {"": -1, "team": 18, "team---shared": 18}


def test_a_wanted_queue_that_is_about_to_vanish_is_not_in_step(lab: SyncHarness) -> None:
    """It is made again once it is gone; other queues go on."""
    make_pool(lab, a=8)
    assert lab.sync().synced == "True"
    lab.edit("team--a", HOLD)
    lab.cluster.cluster.delete(QUEUE, lab.name("team--a"))
    before = lab.get("team--a")["metadata"]["uid"]
    outcome = lab.sync()
    assert (outcome.synced, outcome.reason) == ("False", "Terminating")
    assert outcome.remaining == (f"wait for the deletion of {lab.name('team--a')}",)
    lab.edit("team--a", RELEASE)
    assert lab.sync().synced == "True"
    assert lab.get("team--a")["metadata"]["uid"] != before
    assert lab.queues() == {"": -1, "team": 18, "team---shared": 10, "team--a": 8}


def test_many_such_queues_do_not_hold_up_other_pools(lab: SyncHarness) -> None:
    make_pool(lab, 18, a=1, b=1, c=1, d=1)
    world.make_pool("other", 5, on=lab.backend)
    assert lab.sync().synced == "True"
    for short in "abcd":
        lab.edit(f"team--{short}", HOLD)
        lab.cluster.cluster.delete(QUEUE, lab.name(f"team--{short}"))
    lab.edit("other---shared", {"spec": {"priority": 7}})
    assert lab.sync().reason == "Terminating"
    assert lab.get("other---shared")["spec"]["priority"] != 7
    for short in "abcd":
        lab.edit(f"team--{short}", RELEASE)
    assert lab.sync().synced == "True"
