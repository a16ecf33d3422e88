"""The reason of a waiting gang from the scheduling conditions of KAI."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.domain.cluster.pods.unschedulable import read_unplaced_reason, read_unschedulable_reason

OVER_QUOTA = {
    "reason": "NonPreemptibleOverQuota",
    "message": "Non-preemptible workload is over quota",
    "details": {
        "queueDetails": {
            "name": "osmo-pool-ns-team",
            "podGroupRequestedNonPreemptibleResources": {"gpu": "8", "cpu": "0"},
            "podGroupRequestedResources": {"gpu": "9"},
            "queueDeservedResources": {"gpu": "16"},
            "queueAllocatedNonPreemptibleResources": {"gpu": "10500m"},
            "queueAllocatedResources": {"gpu": "14"},
            "queueResourceLimits": {"gpu": "-1"},
        }
    },
}
NO_ROOM = {"reason": "PodSchedulingErrors", "message": "no nodes with enough\n resources were found"}


def pod_group(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "status": {"schedulingConditions": list(conditions)}}


def refused(*reasons: dict[str, Any], turn: str = "1", **fields: Any) -> dict[str, Any]:
    return {
        "type": "UnschedulableOnNodePool",
        "status": "True",
        "transitionID": turn,
        "lastTransitionTime": "2026-11-01T12:00:00Z",
        "reasons": list(reasons),
        **fields,
    }


def reason_of(*conditions: dict[str, Any]) -> dict[str, Any]:
    found = read_unschedulable_reason(pod_group(*conditions))
    assert found is not None
    return found.as_json()


def test_a_quota_names_its_queue_and_its_numbers() -> None:
    assert reason_of(refused(OVER_QUOTA)) == {
        "code": "over_quota",
        "message": "Non-preemptible workload is over quota",
        "reason": "NonPreemptibleOverQuota",
        "queue": "osmo-pool-ns-team",
        "requested": 8,
        "quota": 16,
        "limit": -1,
        "used": 10.5,
    }


def test_a_limit_counts_all_work() -> None:
    found = reason_of(refused(OVER_QUOTA | {"reason": "OverLimit"}))
    assert (found["code"], found["requested"], found["used"]) == ("over_limit", 9, 14)


def test_a_number_that_an_admin_can_change_comes_first() -> None:
    assert reason_of(refused(NO_ROOM, OVER_QUOTA))["code"] == "over_quota"


def test_no_free_capacity() -> None:
    assert reason_of(refused(NO_ROOM)) == {
        "code": "no_room",
        "message": "no nodes with enough resources were found",
        "reason": "PodSchedulingErrors",
    }


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("QueueDoesNotExist", "no_such_queue"),
        ("PreemptionDelayNotElapsed", "preemption_delay"),
        ("SomethingNew", "not_scheduled"),
    ],
)
def test_other_words(word: str, code: str) -> None:
    found = reason_of(refused({"reason": word}))
    assert (found["code"], found["reason"]) == (code, word)
    assert found["message"]


def test_an_older_condition_has_its_reason_on_itself() -> None:
    assert reason_of(refused(reason="QueueDoesNotExist", message="no queue x"))["code"] == "no_such_queue"


def test_the_latest_counts() -> None:
    assert reason_of(refused(NO_ROOM, turn="9"), refused(OVER_QUOTA, turn="10"))["code"] == "over_quota"


@pytest.mark.parametrize(
    "conditions",
    [[], [refused(NO_ROOM) | {"status": "False"}], [refused(NO_ROOM) | {"type": "Scheduled"}]],
)
def test_a_pod_group_without_a_refusal_has_no_reason(conditions: list[dict[str, Any]]) -> None:
    assert read_unschedulable_reason(pod_group(*conditions)) is None
    assert read_unschedulable_reason({"metadata": {"name": "g"}}) is None


def test_what_the_cluster_says_of_a_pod_without_a_node() -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "It has\na gate."}
    found = read_unplaced_reason([{"status": {}}, {"status": {"conditions": [said | {"type": "Ready"}, said]}}])
    assert found is not None
    assert found.as_json() == {"code": "not_scheduled", "message": "It has a gate.", "reason": "SchedulingGated"}
    assert read_unplaced_reason([{}, {"status": {"conditions": [said | {"status": "True"}]}}]) is None
