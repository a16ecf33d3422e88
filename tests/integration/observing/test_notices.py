"""Notices about observed work: to the person whom its label names, else to the admins of its pool."""

from __future__ import annotations

import pytest

from pools.domain.changes.backends import PutBackend
from pools.models import InboxNotice
from pools.selectors.inbox import inbox_of
from scheduling.models import ObservedWork
from tests.integration.observing.test_seen_work import Lab
from tests.support import world
from tests.support.notices import plan_notices


@pytest.fixture
def lab(ledger: None) -> Lab:
    found = Lab()
    world.make_pool("team", 8, on=found.backend)
    world.apply_change(PutBackend(name="lab", body={"owner_label": "firm.example/user"}))
    for name, role in (("ann", "osmo-team-user"), ("bob", "osmo-team-user"), ("lead", "osmo-team-admin")):
        world.make_user(name, role)
    found.look()
    plan_notices()
    return found


def add_gang(lab: Lab, owner: str) -> None:
    labels = {"firm.example/user": owner} if owner else {}
    lab.firm.add_pod_group("train", namespace="science", queue="team", pods=0, minMember=1)
    lab.firm.add_pod("train-0", namespace="science", node="n1", labels=labels, annotations={"pod-group-name": "train"})
    lab.look()


def told(name: str) -> list[tuple[str, str]]:
    """Kind and text of the news of a person."""
    plan_notices()
    actor = world.User.objects.get(username=name).as_actor()
    return [(row.kind, row.text) for row in inbox_of(actor).order_by("id")]


def test_the_owner_hears_of_a_preemption(lab: Lab) -> None:
    add_gang(lab, "ann")
    lab.firm.preempt("train-0", namespace="science", message="for prod")
    lab.look()
    ((kind, text),) = told("ann")
    assert kind == "preempted"
    assert text.startswith("train-1 was preempted: ") and text.endswith("The owner of this work is ann.")
    assert told("bob") == []
    assert InboxNotice.objects.get().page.startswith("/workflows/train-1")


def test_the_owner_hears_of_a_loss(lab: Lab) -> None:
    add_gang(lab, "ann")
    lab.firm.set_phase("train-0", "Failed", namespace="science")
    lab.look()
    ((kind, text),) = told("ann")
    assert (kind, text.startswith("train-1 ended: FAILED")) == ("workflow_ended", True)


@pytest.mark.parametrize("owner", ["", "nobody-here"])
def test_without_a_known_owner_the_admins_of_the_pool_hear_of_it(lab: Lab, owner: str) -> None:
    add_gang(lab, owner)
    lab.firm.preempt("train-0", namespace="science", message="for prod")
    lab.look()
    assert [kind for kind, _ in told("lead")] == ["preempted"]
    assert (told("ann"), told("bob")) == ([], [])


def test_the_owner_may_come_with_the_first_pod(lab: Lab) -> None:
    """Kueue's Workload has no label, and waits without pods."""
    lab.firm.add_pod_group("train", namespace="science", queue="team", pods=1)
    lab.look()
    assert ObservedWork.objects.get().owner == ""
    lab.firm.add_pod(
        "train-1", namespace="science", labels={"firm.example/user": "ann"}, annotations={"pod-group-name": "train"}
    )
    lab.look()
    assert ObservedWork.objects.get().owner == "ann"
