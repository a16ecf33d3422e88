"""An object that cannot be read concerns itself alone."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.domain.observed.kueue_work import trim_workload
from scheduling.domain.observed.readable import MAX_GPUS, trimmed_or_marked
from scheduling.domain.observed.seen_work import read_work, trim_observed_pod
from tests.unit.observed.test_kueue_work import QUEUES, workload
from tests.unit.observed.test_seen_work import NOW, pod

GOOD = pod("good")
GROUP = {"metadata": {"name": "pg", "namespace": "ns", "uid": "g"}, "spec": {"queue": "team", "minMember": 1}}
MEMBER = {"metadata": {"annotations": {"pod-group-name": "pg"}}}


@pytest.mark.parametrize(
    ("found", "unread"),
    [
        ({"pods": [GOOD, pod("bad") | {"spec": "text"}]}, ("pod", "bad")),
        ({"pods": [GOOD, pod("bad", spec={"containers": [{"resources": ["x"]}]})]}, ("pod", "bad")),
        ({"pods": [GOOD], "groups": [GROUP | {"spec": ["queue"]}]}, ("podgroup", "pg")),
        ({"pods": [GOOD, pod("bad", **MEMBER) | {"status": "text"}], "groups": [GROUP]}, ("podgroup", "pg")),
        ({"pods": [GOOD], "workloads": [workload() | {"spec": "text"}]}, ("workload", "job-x")),
        ({"pods": [GOOD], "workloads": [workload() | {"spec": {"podSets": [7]}}]}, ("workload", "job-x")),
        ({"pods": [GOOD], "workloads": [workload() | {"status": {"conditions": [7]}}]}, ("workload", "job-x")),
        ({"pods": [GOOD], "queues": [QUEUES[0] | {"spec": "text"}]}, ("localqueue", "lq")),
    ],
)
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_malformed_object_is_named_and_the_others_go_on(
    found: dict[str, list[Any]], unread: tuple[str, str], is_trimmed: bool
) -> None:
    pods, workloads = found["pods"], found.get("workloads", [])
    if is_trimmed:
        pods = [trimmed_or_marked(trim_observed_pod)(each) for each in pods]
        workloads = [trimmed_or_marked(trim_workload)(each) for each in workloads]
    seen = read_work(pods, found.get("groups", []), workloads, found.get("queues", []), now=NOW)
    assert "good" in [work.name for work in seen.works]
    assert [(each.kind, each.name, each.is_malformed) for each in seen.unread] == [(*unread, True)]
    assert "form that is not known" in seen.unread[0].problem


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ({"nvidia.com/gpu": "1T"}, f"its pod big asks for more than {MAX_GPUS} GPUs"),
        ({"nvidia.com/gpu": str(MAX_GPUS)}, ""),
        ({"nvidia.com/gpu": "1", "cpu": "1e12"}, "its pod big asks for more than 1000000 cores"),
        ({"nvidia.com/gpu": "1", "memory": "4E"}, f"its pod big asks for more than {2**60} bytes of memory"),
        (
            {"nvidia.com/gpu": "1", "ephemeral-storage": "1e99"},
            f"its pod big asks for more than {2**60} bytes of storage",
        ),
    ],
)
def test_a_request_beyond_every_machine_is_named(resources: dict[str, str], problem: str) -> None:
    big = pod("big", gpus=0, resources={"limits": resources})
    seen = read_work([big, GOOD], (), now=NOW)
    assert "good" in [work.name for work in seen.works]
    assert [each.problem for each in seen.unread] == ([problem] if problem else [])


def test_the_sum_of_a_gang_has_a_bound() -> None:
    big = workload(count=2000)
    big["spec"]["podSets"] = [
        {"name": str(number), "count": 2000, "template": {"spec": {"containers": []}}} for number in range(2)
    ]
    assert not read_work([], (), [big], QUEUES, now=NOW).unread


def test_work_of_the_future_was_made_now() -> None:
    (work,) = read_work([pod("a", metadata={"creationTimestamp": "2999-01-01T00:00:00Z"})], (), now=NOW).works
    assert work.created == NOW
