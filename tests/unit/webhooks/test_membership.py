"""The access to our queues: a table of cases, each with the field that decides it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.domain.cluster.queue_access import (
    Caller,
    QueueAccessPolicy,
    WorkloadKind,
    access_violations,
    is_managed_queue,
    joined_pod_groups,
)

GANG = "0b9c7a52-9d3c-4a6e-8f61-2f6f0f1b1c11"
OURS = "osmo-pool-ns-team--a"
US, RUNNER = "system:serviceaccount:osmo:osmo-admin", "system:serviceaccount:team:runner"
GUARDED = QueueAccessPolicy("ns", frozenset({US, "let-in"}), {GANG: OURS}, "https://osmo.example")
MALLORY = Caller("mallory", frozenset({"system:authenticated"}))


def pod(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": labels}, "spec": {}}


def queued(queue: str) -> dict[str, Any]:
    return pod(**{"kai.scheduler/queue": queue})


def joining(gang: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "annotations": {"pod-group-name": gang}}}


def group(queue: str) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "spec": {"queue": queue, "minMember": 1}}


@pytest.mark.parametrize(
    ("queue", "ours"),
    [
        (OURS, True),
        ("osmo-pool-ns-team---shared", True),
        ("osmo-pool-ns-team", True),
        ("osmo-default-ns", True),
        ("osmo-pool-other-team--a", False),
        ("osmo-default-ns2", False),
        ("default-queue", False),
        ("", False),
    ],
)
def test_which_queues_are_ours(queue: str, ours: bool) -> None:
    assert is_managed_queue(queue, "ns") is ours


@pytest.mark.parametrize(
    ("kind", "now", "path"),
    [
        pytest.param(WorkloadKind.POD, queued(OURS), "metadata.labels[kai.scheduler/queue]", id="a pod's queue label"),
        pytest.param(
            WorkloadKind.POD, pod(**{"runai/queue": OURS}), "metadata.labels[runai/queue]", id="the older label"
        ),
        pytest.param(
            WorkloadKind.POD, joining(GANG), "metadata.annotations[pod-group-name]", id="a pod joins a gang of ours"
        ),
        pytest.param(WorkloadKind.POD_GROUP, group(OURS), "spec.queue", id="a PodGroup's queue"),
        pytest.param(WorkloadKind.POD_GROUP, group("osmo-default-ns"), "spec.queue", id="the root of our queues"),
        pytest.param(
            WorkloadKind.POD_GROUP,
            group("mine") | queued(OURS),
            "metadata.labels[kai.scheduler/queue]",
            id="its label",
        ),
    ],
)
def test_an_account_not_allowed_is_refused(kind: WorkloadKind, now: dict[str, Any], path: str) -> None:
    (found,) = access_violations(kind, now, None, MALLORY, GUARDED)
    assert (found.path, found.code) == (path, "foreign_work")
    assert "mallory" in found.message


def test_the_message_says_how_to_submit() -> None:
    (found,) = access_violations(WorkloadKind.POD, queued("osmo-pool-ns-team---shared"), None, MALLORY, GUARDED)
    assert "https://osmo.example: osmo workflow submit FILE --pool team." in found.message
    (found,) = access_violations(WorkloadKind.POD, queued(OURS), None, MALLORY, GUARDED)
    assert "osmo workflow submit FILE --pool team--a." in found.message


@pytest.mark.parametrize(
    ("kind", "now"),
    [
        (WorkloadKind.POD, queued("default-queue")),
        (WorkloadKind.POD, joining("somebody-elses")),
        (WorkloadKind.POD, {"metadata": {"name": "p", "labels": None}}),
        (WorkloadKind.POD, {}),
        (WorkloadKind.POD, {"metadata": [], "spec": 7}),
        (WorkloadKind.POD, {"metadata": {"labels": {"kai.scheduler/queue": 5}}}),
        (WorkloadKind.POD_GROUP, group("mine")),
        (WorkloadKind.POD_GROUP, {"metadata": {}, "spec": None}),
        (WorkloadKind.POD_GROUP, {"spec": {"queue": ["osmo-pool-ns-x"]}}),
        (WorkloadKind.POD_GROUP, joining(GANG) | {"spec": {"queue": "mine"}}),
    ],
)
def test_work_in_other_queues_is_allowed(kind: WorkloadKind, now: dict[str, Any]) -> None:
    assert access_violations(kind, now, None, MALLORY, GUARDED) == []


@pytest.mark.parametrize("caller", [Caller(US), Caller("anybody", frozenset({"let-in"}))])
def test_our_and_allowed_accounts_are_admitted(caller: Caller) -> None:
    assert access_violations(WorkloadKind.POD, queued(OURS), None, caller, GUARDED) == []
    assert access_violations(WorkloadKind.POD_GROUP, group(OURS), None, caller, GUARDED) == []


def test_only_listed_accounts_are_admitted() -> None:
    assert access_violations(WorkloadKind.POD, queued(OURS), None, Caller(RUNNER), GUARDED)


def test_a_change_that_names_no_new_queue_is_allowed() -> None:
    before = queued(OURS)
    after = pod(**{"kai.scheduler/queue": OURS, "seen": "yes"})
    assert access_violations(WorkloadKind.POD, after, before, MALLORY, GUARDED) == []
    assert access_violations(WorkloadKind.POD_GROUP, group(OURS), group(OURS), MALLORY, GUARDED) == []


def test_moving_from_one_queue_of_ours_to_another_is_a_claim() -> None:
    assert access_violations(WorkloadKind.POD_GROUP, group("osmo-pool-ns-team--b"), group(OURS), MALLORY, GUARDED)
    assert access_violations(WorkloadKind.POD, queued(OURS), queued("default-queue"), MALLORY, GUARDED)


def test_leaving_a_queue_is_allowed() -> None:
    assert access_violations(WorkloadKind.POD, queued("default-queue"), queued(OURS), MALLORY, GUARDED) == []


def test_every_claim_of_an_object_is_named() -> None:
    both = pod(**{"kai.scheduler/queue": OURS, "runai/queue": "osmo-default-ns"})
    both["metadata"]["annotations"] = {"pod-group-name": GANG}
    assert [found.path for found in access_violations(WorkloadKind.POD, both, None, MALLORY, GUARDED)] == [
        "metadata.labels[kai.scheduler/queue]",
        "metadata.labels[runai/queue]",
        "metadata.annotations[pod-group-name]",
    ]


def test_the_gang_that_a_pod_names() -> None:
    assert joined_pod_groups(joining(GANG)) == (GANG,)
    assert joined_pod_groups(pod()) == ()
