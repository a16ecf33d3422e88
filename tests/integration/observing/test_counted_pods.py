"""Each GPU that a pod of an observed cluster holds counts once: in a pool, or as use of others on its node."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.pools import PatchPool
from pools.models import Backend, Node, Reservation
from scheduling.kube.connection import resource_kinds
from scheduling.models import ClusterState, Decision, Task
from scheduling.services.verify import verify
from tests.integration.observing.test_seen_work import Lab
from tests.support import world
from tests.support.observed_cluster import FIRM, observer_of


@pytest.fixture
def lab(db: None) -> Lab:
    world.make_user("root", "osmo-admin")
    return Lab()


def give_flavors(lab: Lab, pool: str, **quotas: int) -> None:
    """The flavors of the cluster by the label `gpu`, and a quota of each for a pool."""
    named = [{"name": each, "node_labels": {"gpu": each}} for each in quotas]
    Backend.objects.filter(pk=lab.backend.pk).update(flavors=named)
    flavors = {flavor: {"guarantee": gpus} for flavor, gpus in quotas.items()}
    world.apply_change(PatchPool(name=pool, patch={"resources": {"flavors": flavors}}))


def label(lab: Lab, node: str, flavor: str) -> None:
    body: dict[str, Any] = {"metadata": {"labels": {"gpu": flavor}}}
    lab.cluster.merge(resource_kinds.NODE, node, body, field_manager=FIRM)


def unread(lab: Lab) -> list[tuple[str, str, str]]:
    rows = ClusterState.objects.get(backend=lab.backend).unread
    return [(each["kind"], each["name"], each["problem"]) for each in rows]


def test_a_start_in_a_flavor_was_not_our_choice(lab: Lab) -> None:
    """We have sent nothing, so nothing is said about the flavors that come before."""
    world.make_pool("team", 8, on=lab.backend)
    give_flavors(lab, "team", h100=4, a100=4)
    label(lab, "n1", "h100")
    label(lab, "n2", "a100")
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.look()
    lab.firm.start("train-0", "n2", namespace="science")
    lab.look()
    (start,) = Decision.objects.filter(action="start")
    assert "a100" in start.message
    assert "h100" not in start.message
    assert Task.objects.get().flavor == "a100"


def test_the_flavor_comes_with_the_node(lab: Lab) -> None:
    """At the first look no node is known, and a pod may be seen before the node that was just added."""
    world.make_pool("science", 8, on=lab.backend)
    give_flavors(lab, "science", h100=4, a100=4)
    label(lab, "n1", "h100")
    lab.firm.add_pod("first", namespace="science", gpus=2, node="n1")
    lab.look()
    assert Task.objects.get().flavor == "h100"
    lab.firm.add_pod("second", namespace="science", gpus=3, node="n3")
    lab.look()
    assert Task.objects.get(name="second").flavor == ""
    lab.firm.add_node("n3", gpus=4)
    label(lab, "n3", "a100")
    lab.look()
    assert Task.objects.get(name="second").flavor == "a100"
    lab.look()
    assert {name: Task.objects.get(name=name).flavor for name in ("first", "second")} == {
        "first": "h100",
        "second": "a100",
    }
    assert verify() == []


def test_the_flavor_comes_after_a_restart(lab: Lab) -> None:
    world.make_pool("science", 8, on=lab.backend)
    give_flavors(lab, "science", h100=4, a100=4)
    lab.firm.add_pod("first", namespace="science", gpus=2, node="n3")
    lab.look()
    lab.firm.add_node("n3", gpus=4)
    label(lab, "n3", "a100")
    lab.observer = observer_of(lab.backend, lab.seen)
    lab.look()
    assert Task.objects.get().flavor == "a100"
    assert verify() == []


def test_a_request_beyond_every_machine_stops_nothing(lab: Lab) -> None:
    world.make_pool("science", 8, on=lab.backend)
    lab.firm.add_pod("huge", namespace="science", gpus=10**12, node="n1")
    lab.firm.add_pod("job", namespace="science", gpus=3, node="n2")
    lab.look()
    assert lab.states() == {"job": ("RUNNING", 3)}
    assert unread(lab) == [("pod", "huge", "its pod huge asks for more than 10000 GPUs")]
    assert lab.other_gpus()["n2"] == 0
    assert lab.other_gpus()["n1"] > 4, "nothing is free there"
    page = world.sign_in("root").get("/clusters/lab").content.decode()
    assert "Objects that cannot count" in page
    assert "more than 10000 GPUs" in page
    lab.firm.delete("huge", namespace="science")
    lab.look()
    assert (unread(lab), lab.other_gpus()) == ([], {"n1": 0, "n2": 0})


def test_a_node_beyond_every_machine_leaves_the_others(lab: Lab) -> None:
    lab.firm.add_node("n3", gpus=10**12)
    lab.look()
    lab.firm.add_node("n4", gpus=2)
    lab.look()
    nodes = Node.objects.filter(backend=lab.backend)
    assert set(nodes.values_list("name", flat=True)) == {"n1", "n2", "n4"}


def test_work_that_becomes_unreadable_keeps_its_record(lab: Lab) -> None:
    world.make_pool("team", 8, on=lab.backend)
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.firm.start("train-0", "n1", namespace="science")
    lab.look()
    lab.cluster.merge(
        resource_kinds.POD_GROUP, "train", {"spec": {"minMember": None}}, field_manager=FIRM, namespace="science"
    )
    broken: dict[str, Any] = {"spec": {"containers": "none"}}
    lab.cluster.merge(resource_kinds.POD, "train-0", broken, field_manager=FIRM, namespace="science")
    lab.look()
    assert lab.states() == {"train": ("RUNNING", 1)}
    assert [(kind, name) for kind, name, _ in unread(lab)] == [("podgroup", "train")]
    assert lab.other_gpus() == {"n1": 0, "n2": 0}


def test_a_pod_that_was_preempted_holds_its_gpus_until_it_is_gone(lab: Lab) -> None:
    world.make_pool("team", 8, on=lab.backend)
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.firm.start("train-0", "n1", namespace="science")
    lab.look()
    lab.firm.preempt("train-0", namespace="science")
    lab.look()
    assert (lab.states(), lab.other_gpus()) == ({"train": ("PENDING", 0)}, {"n1": 1, "n2": 0})
    lab.firm.delete("train-0", namespace="science")
    lab.look()
    assert lab.other_gpus() == {"n1": 0, "n2": 0}


def test_work_that_leaves_its_pool_is_use_of_others_at_once(lab: Lab) -> None:
    world.make_pool("team", 8, on=lab.backend)
    world.make_pool("next", 8, on=lab.backend)
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.firm.start("train-0", "n1", namespace="science")
    lab.look()
    for queue, others in (("nobody", 1), ("next", 1)):
        lab.cluster.merge(
            resource_kinds.POD_GROUP, "train", {"spec": {"queue": queue}}, field_manager=FIRM, namespace="science"
        )
        lab.look()
        assert lab.other_gpus() == {"n1": 0 if queue == "next" else others, "n2": 0}
    assert lab.states() == {"train": ("RUNNING", 1)}


def test_use_of_others_is_written_at_each_look(lab: Lab) -> None:
    """Not only when devices are listed, which is once a minute."""
    lab.look()
    lab.observer._intervals = type(lab.observer._intervals)(recount=3600)
    lab.observer._due["recount"] = float("inf")
    lab.firm.add_pod("job", namespace="vision", gpus=2, node="n1")
    lab.observer._informers.relist()
    lab.observer.observe()
    assert lab.other_gpus() == {"n1": 2, "n2": 0}
    assert not Reservation.objects.exists()
