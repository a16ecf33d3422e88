"""Readiness, next pods and the order of giving up, with the two examples of docs/elastic-gangs.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.errors import BadInput
from scheduling.domain.gang import GangTree, Growth, SubGroup
from scheduling.domain.judgement.podgroup_plan import plan_pod_group
from scheduling.domain.judgement.podgroup_rules import validate_pod_group
from tests.unit.podgroup.test_validate import REPLICAS, TRAINING, leaf, manifest

INFERENCE = manifest(*REPLICAS, minSubGroup=3)
TRAINING_JOB = manifest(*TRAINING, minSubGroup=2)


def pods(group, *states):
    return [{"name": f"{group}-p{i}", "sub_group": group, "state": state} for i, state in enumerate(states)]


def replica(number, state, count=8):
    return pods(f"prefill-{number}", *[state] * count)


def group_of(answer, name):
    return next(group for group in answer["sub_groups"] if group["name"] == name)


def test_training_job_has_ten_non_preemptible_pods():
    assert plan_pod_group({"podgroup": TRAINING_JOB})["non_preemptible_pods"] == 10


def test_a_new_inference_service_requests_three_of_four_replicas():
    answer = plan_pod_group({"podgroup": INFERENCE, "pods": [p for i in range(4) for p in replica(i, "Pending")]})
    assert (answer["ready"], answer["satisfied"], answer["threshold"], answer["count"]) == (True, False, 3, 0)
    assert [group["required"] for group in answer["sub_groups"]] == [True, True, True, False]
    assert answer["next"] == [p["name"] for i in range(3) for p in replica(i, "Pending")]
    assert answer["give_up_order"] == []
    assert answer["non_preemptible_pods"] == 24


def test_a_replica_with_too_few_pods_is_skipped():
    body = [*replica(0, "Pending", 6), *[p for i in (1, 2, 3) for p in replica(i, "Pending")]]
    answer = plan_pod_group({"podgroup": INFERENCE, "pods": body})
    assert answer["ready"]
    assert answer["next"] == [p["name"] for i in (1, 2, 3) for p in replica(i, "Pending")]
    assert [(g["name"], g["required"]) for g in answer["sub_groups"]] == [
        ("prefill-0", False), ("prefill-1", True), ("prefill-2", True), ("prefill-3", True),
    ]  # fmt: skip


def test_two_running_replicas_need_one_more_not_both():
    body = [*replica(0, "Running"), *replica(1, "Bound"), *replica(2, "Pending"), *replica(3, "Pending")]
    answer = plan_pod_group({"podgroup": INFERENCE, "pods": body})
    assert [group["name"] for group in answer["sub_groups"]] == ["prefill-2", "prefill-3", "prefill-0", "prefill-1"]
    assert answer["next"] == [p["name"] for p in replica(2, "Pending")]


def test_a_sentence_that_many_pods_have_is_said_once():
    body = [{"name": f"p{i}", "state": "Sleeping", "gpus": -1} for i in range(9)]
    with pytest.raises(BadInput) as refusal:
        plan_pod_group({"podgroup": manifest(minMember=3), "pods": body})
    assert len(refusal.value.details) == 18
    assert refusal.value.message.count("A pod's state is one of") == 1
    assert refusal.value.common == ""


def test_a_pod_group_of_other_software_is_refused_by_plan_and_validation():
    foreign = {**manifest(minMember=3), "apiVersion": "scheduling.volcano.sh/v1beta1"}
    with pytest.raises(BadInput, match=r"scheduling\.run\.ai"):
        plan_pod_group({"podgroup": foreign})
    assert [each.path for each in validate_pod_group(foreign)] == ["apiVersion"]
    assert not validate_pod_group({**foreign, "apiVersion": "scheduling.run.ai/v2alpha2"})


PLAIN = manifest(minMember=3)


def plain(*states):
    return plan_pod_group({"podgroup": PLAIN, "pods": [{"name": f"p{i}", "state": s} for i, s in enumerate(states)]})


@pytest.mark.parametrize(
    ("states", "count", "stale"),
    [
        (("Succeeded", "Running", "Running"), 3, False),
        (("Succeeded", "Succeeded", "Bound"), 3, False),
        (("Succeeded", "Succeeded", "Succeeded"), 3, False),
        (("Succeeded", "Running"), 2, False),  # the scheduler evicts no gang of which a pod has completed
        (("Failed", "Running", "Running"), 2, True),
        (("Unknown", "Running", "Running"), 2, True),
        (("Terminating", "Running", "Running"), 2, True),
        (("Releasing", "Running", "Running"), 2, True),
        (("Pending", "Running", "Running"), 2, True),
        (("Failed", "Failed", "Failed"), 0, False),
    ],
)
def test_completed_pods_count_and_other_ends_do_not(states, count, stale):
    answer = plain(*states)
    assert (answer["count"], answer["satisfied"], answer["stale"]) == (count, count == 3, stale)
    running = [f"p{i}" for i, state in enumerate(states) if state in {"Bound", "Running"}]
    assert answer["to_evict"] == (running if stale else [])
    given_up = sorted(name for step in answer["give_up_order"] for name in step)
    assert given_up == running, "what has ended cannot be given up"


def test_a_completed_pod_lets_another_be_spared():
    assert plain("Succeeded", "Running", "Running", "Running")["give_up_order"] == [["p3"], ["p2", "p1"]]
    assert plain("Succeeded", "Running", "Pending")["next"] == ["p2"]
    assert plain("Failed", "Running", "Pending")["next"] == [], "two are too few"


def test_completed_pods_need_no_room():
    body = {"podgroup": PLAIN, "room": {"n1": 2}}
    states = ("Succeeded", "Pending", "Pending")
    body["pods"] = [{"name": f"p{i}", "state": state, "gpus": 1} for i, state in enumerate(states)]
    assert sorted(plan_pod_group(body)["next"]) == ["p1", "p2"]


def test_a_completed_replica_is_one_of_those_that_are_needed():
    body = [*replica(0, "Succeeded"), *replica(1, "Running"), *replica(2, "Running"), *replica(3, "Failed")]
    answer = plan_pod_group({"podgroup": INFERENCE, "pods": body})
    assert (answer["count"], answer["satisfied"], answer["stale"]) == (3, True, False)
    assert group_of(answer, "prefill-0")["satisfied"]
    assert not group_of(answer, "prefill-3")["satisfied"]
    assert answer["give_up_order"] == [[p["name"] for i in (2, 1) for p in reversed(replica(i, "Running"))]]


def test_the_optional_replica_comes_whole_and_is_given_up_whole():
    body = [p for i in range(3) for p in replica(i, "Running")] + replica(3, "Pending")
    assert plan_pod_group({"podgroup": INFERENCE, "pods": body})["next"] == [p["name"] for p in replica(3, "Pending")]
    body = [p for i in range(4) for p in replica(i, "Running")]
    steps = plan_pod_group({"podgroup": INFERENCE, "pods": body})["give_up_order"]
    assert [len(step) for step in steps] == [8, 24]
    assert steps[0] == [f"prefill-3-p{i}" for i in range(7, -1, -1)]
    assert steps[1][0] == "prefill-2-p7"
    assert steps[1][-1] == "prefill-0-p0"


def test_surplus_pods_go_first_from_the_fullest_leaf():
    body = [*pods("a", *["Running"] * 3), *pods("b", *["Running"] * 6)]
    answer = plan_pod_group({"podgroup": manifest(leaf("a", 2), leaf("b", 4)), "pods": body})
    assert answer["satisfied"]
    assert answer["give_up_order"] == [
        ["b-p5"],
        ["a-p2"],
        ["b-p4"],
        ["b-p3", "b-p2", "b-p1", "b-p0", "a-p1", "a-p0"],
    ]


def test_a_gang_below_its_minimum_goes_all_at_once_and_an_unsatisfied_option_before_a_whole_one():
    below = plan_pod_group({"podgroup": TRAINING_JOB, "pods": pods("decode-workers", "Running", "Running")})
    assert below["give_up_order"] == [["decode-workers-p1", "decode-workers-p0"]]
    body = [p for i in range(3) for p in replica(i, "Running")] + replica(3, "Running", 2)
    steps = plan_pod_group({"podgroup": INFERENCE, "pods": body})["give_up_order"]
    assert steps[0] == ["prefill-3-p1", "prefill-3-p0"]


@pytest.mark.parametrize(
    ("states", "ready", "satisfied", "following"),
    [
        ("Pending Pending Pending", True, False, 2),
        ("Pending Gated", False, False, 0),
        ("Running Pending", True, False, 1),
        ("Running Running Pending Pending", True, True, 1),
        ("Releasing Succeeded Failed Running", True, True, 0),
        ("Running Bound", True, True, 0),
    ],
)
def test_a_plain_gang_of_two(states, ready, satisfied, following):
    listed = [{"name": f"p{i}", "state": state} for i, state in enumerate(states.split())]
    answer = plan_pod_group({"podgroup": manifest(minMember=2), "pods": listed})
    assert (answer["ready"], answer["satisfied"], len(answer["next"])) == (ready, satisfied, following)
    assert [group["name"] for group in answer["sub_groups"]] == ["default"]


def test_elastic_pods_come_one_by_one_least_filled_first():
    body = [*pods("a", *["Running"] * 3, "Pending"), *pods("b", *["Running"] * 4, "Pending")]
    answer = plan_pod_group({"podgroup": manifest(leaf("a", 2), leaf("b", 4)), "pods": body})
    assert answer["next"] == ["b-p4"]


def test_other_violations_are_only_listed_and_a_minimum_of_zero_requires_nothing():
    answer = plan_pod_group({"podgroup": manifest(leaf("a", 0)), "pods": pods("a", "Pending")})
    assert [v["code"] for v in answer["violations"]] == ["min_member_not_positive"]
    assert answer["satisfied"]
    assert answer["next"] == ["a-p0"]
    never = plan_pod_group({"podgroup": manifest(leaf("a", 1), minSubGroup=2), "pods": pods("a", "Pending")})
    assert (never["ready"], never["next"]) == (False, [])


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"podgroup": manifest(leaf("a"), leaf("a"))}, "spec.subGroups[1].name", "duplicate_name"),
        ({"podgroup": manifest(), "pods": [{"name": "p", "sub_group": "no"}]}, "pods[0].sub_group", "unknown_name"),
        ({"podgroup": TRAINING_JOB, "pods": pods("decode", "Pending")}, "pods[0].sub_group", "unknown_name"),
        ({"podgroup": manifest(), "pods": [{"name": "p", "state": "Lost"}]}, "pods[0].state", "bad_value"),
        ({"podgroup": manifest(), "pods": [{"name": "p"}, {"name": "p"}]}, "pods[1].name", "duplicate_name"),
        ({"podgroup": manifest(), "pods": [{"name": "p", "group": "a"}]}, "pods[0].group", "unknown_key"),
        ({"podgroup": manifest(), "pods": 3}, "pods", "bad_value"),
        ({"podgroup": manifest(), "pod": []}, "pod", "unknown_key"),
        ([], "", "bad_value"),
    ],
)
def test_an_unreadable_body_is_refused(body, path, code):
    with pytest.raises(BadInput) as refused:
        plan_pod_group(body)
    assert [(v.path, v.code) for v in refused.value.details] == [(path, code)]


@st.composite
def gangs(draw):
    size = draw(st.integers(1, 7))
    groups = [
        SubGroup(
            f"g{i}",
            draw(st.sampled_from([None, *(f"g{j}" for j in range(i))])),
            draw(st.integers(0, 3)),
            draw(st.none() | st.integers(0, 3)),
        )
        for i in range(size)
    ]
    tree = GangTree(None, draw(st.none() | st.integers(0, 3)), groups)
    counted = st.integers(0, 4)
    active = [draw(counted) if tree.is_leaf(x) else 0 for x in range(size + 1)]
    waiting = [draw(counted) if tree.is_leaf(x) else 0 for x in range(size + 1)]
    return tree, active, waiting


@given(gangs(), st.sets(st.integers(0, 8)))
def test_growth_reaches_the_minimum_or_places_nothing(drawn, blocked):
    tree, active, waiting = drawn
    placed = []

    def place(x, count):
        if x in blocked and count:
            return False
        placed.append((x, count))
        return True

    def undo(mark):
        del placed[mark:]

    growth = Growth(tree, active, waiting, place, mark=lambda: len(placed), undo=undo)
    started = growth.attempt()
    after, left = list(active), list(waiting)
    for x, count in placed:
        after[x] += count
        left[x] -= count
    assert min(left) >= 0
    if started:
        assert tree.is_satisfied(after)
    else:
        assert placed == []
        assert blocked or growth.is_satisfied or not growth.is_possible


@given(gangs())
def test_giving_up_keeps_the_gang_whole_until_its_last_step(drawn):
    tree, active, _waiting = drawn
    whole = tree.is_satisfied(active)
    while step := tree.give_up_step(active):
        for x, count in step:
            active[x] -= count
            assert active[x] >= 0
        if whole and any(active):
            assert tree.is_satisfied(active)
    assert not any(active)


def sized(items, gpus):
    return [pod | {"gpus": gpus} for pod in items]


def test_room_decides_which_optional_replica_is_next():
    running = sized([pod for i in range(3) for pod in replica(i, "Running")], 1)
    waiting = sized(replica(3, "Pending"), 1)
    body = {"podgroup": INFERENCE, "pods": [*running, *waiting]}
    whole = [pod["name"] for pod in waiting]
    assert plan_pod_group(body)["next"] == whole
    assert plan_pod_group(body | {"room": {"n1": 4, "n2": 4}})["next"] == whole
    assert plan_pod_group(body | {"room": {"n1": 4, "n2": 3}})["next"] == []


def test_a_replica_without_room_is_passed_over_for_a_smaller_one():
    big, small = sized(replica(0, "Pending", 8), 2), sized(replica(1, "Pending", 8), 1)
    body = {"podgroup": manifest(*REPLICAS, minSubGroup=1), "pods": [*big, *small]}
    assert plan_pod_group(body)["next"] == [pod["name"] for pod in big]
    assert plan_pod_group(body | {"room": {"n1": 8}})["next"] == [pod["name"] for pod in small]
    assert plan_pod_group(body | {"room": {}})["next"] == []


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"room": []}, "room"),
        ({"room": {"n1": -1}}, "room.n1"),
        ({"room": {"n1": True}}, "room.n1"),
        ({"room": {"n1": 10**30}}, "room.n1"),
        ({"room": {1: 1}}, "room"),
        ({"room": {f"n{i}": 1 for i in range(10_001)}}, "room"),
        ({"pods": [{"name": "a", "sub_group": "prefill-0", "gpus": 0.5}]}, "pods[0].gpus"),
    ],
)
def test_faults_of_the_room_are_named(more, path):
    with pytest.raises(BadInput) as refusal:
        plan_pod_group({"podgroup": INFERENCE} | more)
    assert [fault.path for fault in refusal.value.details] == [path]
