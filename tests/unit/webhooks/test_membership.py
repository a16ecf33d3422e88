"""Who may use a queue of ours: a table of cases, each with the claim that decides it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.domain.cluster.membership import Caller, Guarded, Kind, is_ours, joined_gangs, violations

GANG = "0b9c7a52-9d3c-4a6e-8f61-2f6f0f1b1c11"
OURS = "osmo-pool-ns-team--a"
US, RUNNER = "system:serviceaccount:osmo:osmo-admin", "system:serviceaccount:team:runner"
GUARDED = Guarded("ns", frozenset({US, "let-in"}), {GANG: OURS}, "https://osmo.example")
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
    assert is_ours(queue, "ns") is ours


@pytest.mark.parametrize(
    ("kind", "now", "path"),
    [
        pytest.param(Kind.POD, queued(OURS), "metadata.labels[kai.scheduler/queue]", id="a pod's queue label"),
        pytest.param(Kind.POD, pod(**{"runai/queue": OURS}), "metadata.labels[runai/queue]", id="the older label"),
        pytest.param(Kind.POD, joining(GANG), "metadata.annotations[pod-group-name]", id="a pod joins a gang of ours"),
        pytest.param(Kind.POD_GROUP, group(OURS), "spec.queue", id="a PodGroup's queue"),
        pytest.param(Kind.POD_GROUP, group("osmo-default-ns"), "spec.queue", id="the root of our queues"),
        pytest.param(
            Kind.POD_GROUP,
            group("mine") | queued(OURS),
            "metadata.labels[kai.scheduler/queue]",
            id="its label",
        ),
    ],
)
def test_a_stranger_may_not(kind: Kind, now: dict[str, Any], path: str) -> None:
    (found,) = violations(kind, now, None, MALLORY, GUARDED)
    assert (found.path, found.code) == (path, "foreign_work")
    assert "mallory" in found.message


def test_the_sentence_says_how_to_submit() -> None:
    (found,) = violations(Kind.POD, queued("osmo-pool-ns-team---shared"), None, MALLORY, GUARDED)
    assert "https://osmo.example: osmo workflow submit FILE --pool team." in found.message
    (found,) = violations(Kind.POD, queued(OURS), None, MALLORY, GUARDED)
    assert "osmo workflow submit FILE --pool team--a." in found.message


@pytest.mark.parametrize(
    ("kind", "now"),
    [
        (Kind.POD, queued("default-queue")),
        (Kind.POD, joining("somebody-elses")),
        (Kind.POD, {"metadata": {"name": "p", "labels": None}}),
        (Kind.POD, {}),
        (Kind.POD, {"metadata": [], "spec": 7}),
        (Kind.POD, {"metadata": {"labels": {"kai.scheduler/queue": 5}}}),
        (Kind.POD_GROUP, group("mine")),
        (Kind.POD_GROUP, {"metadata": {}, "spec": None}),
        (Kind.POD_GROUP, {"spec": {"queue": ["osmo-pool-ns-x"]}}),
        (Kind.POD_GROUP, joining(GANG) | {"spec": {"queue": "mine"}}),
    ],
)
def test_work_elsewhere_is_nobodys_business(kind: Kind, now: dict[str, Any]) -> None:
    assert violations(kind, now, None, MALLORY, GUARDED) == []


@pytest.mark.parametrize("caller", [Caller(US), Caller("anybody", frozenset({"let-in"}))])
def test_we_and_those_let_in_may(caller: Caller) -> None:
    assert violations(Kind.POD, queued(OURS), None, caller, GUARDED) == []
    assert violations(Kind.POD_GROUP, group(OURS), None, caller, GUARDED) == []


def test_an_account_not_on_the_list_is_a_stranger() -> None:
    assert violations(Kind.POD, queued(OURS), None, Caller(RUNNER), GUARDED)


def test_a_change_that_claims_nothing_new_is_let_through() -> None:
    before = queued(OURS)
    after = pod(**{"kai.scheduler/queue": OURS, "seen": "yes"})
    assert violations(Kind.POD, after, before, MALLORY, GUARDED) == []
    assert violations(Kind.POD_GROUP, group(OURS), group(OURS), MALLORY, GUARDED) == []


def test_moving_from_one_queue_of_ours_to_another_is_a_claim() -> None:
    assert violations(Kind.POD_GROUP, group("osmo-pool-ns-team--b"), group(OURS), MALLORY, GUARDED)
    assert violations(Kind.POD, queued(OURS), queued("default-queue"), MALLORY, GUARDED)


def test_leaving_a_queue_is_allowed() -> None:
    assert violations(Kind.POD, queued("default-queue"), queued(OURS), MALLORY, GUARDED) == []


def test_every_claim_of_an_object_is_named() -> None:
    both = pod(**{"kai.scheduler/queue": OURS, "runai/queue": "osmo-default-ns"})
    both["metadata"]["annotations"] = {"pod-group-name": GANG}
    assert [found.path for found in violations(Kind.POD, both, None, MALLORY, GUARDED)] == [
        "metadata.labels[kai.scheduler/queue]",
        "metadata.labels[runai/queue]",
        "metadata.annotations[pod-group-name]",
    ]


def test_the_gang_that_a_pod_names() -> None:
    assert joined_gangs(joining(GANG)) == (GANG,)
    assert joined_gangs(pod()) == ()
