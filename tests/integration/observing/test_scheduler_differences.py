"""Each decision of another scheduler that our engine would not have made is a row."""

from __future__ import annotations

import pytest
from django.db import DatabaseError

from scheduling.domain.observed.differences import MAX_KEPT
from scheduling.models import SchedulerDifference
from scheduling.services.kubernetes.observing import difference_watch
from tests.integration.observing.test_seen_work import Lab
from tests.support import world

KEPT = {"preemptibility": "non-preemptible"}


@pytest.fixture
def lab(db: None) -> Lab:
    found = Lab()
    world.make_pool("team", 2, on=found.backend)
    world.make_pool("rest", 6, on=found.backend)
    found.look()  # decisions before the first look are not known
    return found


def differences() -> list[tuple[str, str, str]]:
    rows = SchedulerDifference.objects.order_by("id").select_related("workflow")
    return [(row.kind, row.workflow.name, row.rule) for row in rows]


def test_a_preemption_that_ours_would_not_make(lab: Lab) -> None:
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.firm.start("train-0", "n1", namespace="science")
    lab.look()
    assert lab.states() == {"train": ("RUNNING", 1)}
    assert differences() == [], "ours makes this start too"
    lab.firm.preempt("train-0", namespace="science")
    lab.look()
    assert differences() == [("preempted", "train-1", "")]
    assert SchedulerDifference.objects.get().message == "It lost 1 GPU. Ours would have preempted nobody."


def test_a_start_over_the_quota(lab: Lab) -> None:
    """The firm's scheduler has no such quota. Only readers of the platform see it: a sentence may name the work of
    another pool."""
    for pod in lab.firm.add_pod_group("big", namespace="science", queue="team", pods=3, **KEPT):
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    lab.look()
    assert differences() == [("started", "big-1", "never_fits")]
    row = SchedulerDifference.objects.get()
    assert (row.gpus, row.pool.name) == (3, "team")
    assert "It started with 3 GPUs. Ours would have kept it waiting: It asks for 3 GPUs" in row.message
    lab.look()
    assert len(differences()) == 1, "it is told once"

    world.make_user("ann", "osmo-team-user")
    world.make_user("vera", "osmo-viewer")
    address = "/api/backend/lab/differences"
    refused = world.call_as("ann")("GET", address)
    assert refused.status == 403
    assert "big-1" not in str(refused.body)
    (shown,) = world.call_as("vera")("GET", address).body["differences"]
    assert (shown["backend"], shown["kind"], shown["workflow"], shown["rule"]) == (
        "lab", "started", "big-1", "never_fits",
    )  # fmt: skip
    none = world.call_as("vera")("GET", address, query={"kind": "preempted"})
    assert none.body["differences"] == []
    page = world.sign_in("vera").get("/clusters/lab/differences").content.decode()
    assert "big-1" in page
    assert "Ours would have kept it waiting" in page
    lines = world.sign_in("vera").get("/clusters/lab/differences?format=csv").content.decode().splitlines()
    assert len(lines) == 2
    assert lines[1].split(",")[1:5] == ["lab", "started", "team", "big-1"]
    assert world.sign_in("ann").get("/clusters/lab/differences").status_code == 403


def test_work_that_ours_would_have_started(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference_watch, "PATIENCE_SECONDS", 0.0)
    lab.firm.add_pod_group("train", namespace="science", queue="team")
    lab.look()
    lab.look()
    lab.look()
    assert differences() == [("left_waiting", "train-1", "")]
    lab.firm.start("train-0", "n1", namespace="science")
    lab.look()
    assert len(differences()) == 1


def test_a_second_observer_does_not_judge_what_it_has_not_seen(lab: Lab) -> None:
    """A process that was killed does not know the decisions that were made while it was away."""
    from tests.support.observed_cluster import observer_of

    for pod in lab.firm.add_pod_group("big", namespace="science", queue="team", pods=3, **KEPT):
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    lab.observer = observer_of(lab.backend, lab.seen)
    lab.look()
    assert differences() == []


def test_the_newest_differences_are_kept(lab: Lab) -> None:
    """A scheduler that differs all the time fills no disk."""
    for pod in lab.firm.add_pod_group("big", namespace="science", queue="team", pods=3, **KEPT):
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    lab.look()
    row = SchedulerDifference.objects.get()
    about = {"time": row.time, "kind": row.kind, "backend": row.backend, "pool": row.pool, "workflow": row.workflow}
    rows = [SchedulerDifference(**about, gpus=1, message=str(number)) for number in range(MAX_KEPT)]
    SchedulerDifference.objects.bulk_create(rows)
    oldest = SchedulerDifference.objects.order_by("id")
    assert oldest.count() == MAX_KEPT + 1
    for pod in lab.firm.add_pod_group("more", namespace="science", queue="team", pods=3, **KEPT):
        lab.firm.start(pod["metadata"]["name"], "n2", namespace="science")
    lab.look()
    assert oldest.count() == MAX_KEPT
    assert oldest.last() is not None
    assert SchedulerDifference.objects.filter(workflow__name="more-1").count() == 1
    with pytest.raises(DatabaseError, match="Differences are history"):
        SchedulerDifference.objects.filter(pk=oldest.values("pk")[:1]).delete()
