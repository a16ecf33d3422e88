"""The verdict on the dispatch of a gang and its messages, with numbers alone."""

from __future__ import annotations

import pytest

from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree, Shortfall
from pools.domain.values.amounts import GPU, UNLIMITED, Amount
from scheduling.domain.judgement.admission import Gate, StartRefusal
from scheduling.domain.judgement.dispatch_admission import (
    BY_PLATFORM,
    dispatch_verdict,
    explain_dispatch_wait,
    idle_unlent_gpus,
    needs_dispatch_admission,
)
from scheduling.domain.judgement.plan_units import Gates
from scheduling.domain.judgement.tree_gates import TreeGates
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode

LEAF = 1
CYCLIC_TREE = QuotaTree(
    [
        QuotaNode("cohort/org", "cohort/ring"),
        QuotaNode("cohort/ring", "cohort/org"),
        QuotaNode("pool/guest", "cohort/org", {GPU: NodeQuota(8)}),
    ]
)
TWO_ARE_LENT = (
    "It asks for 4 GPUs; everything under org lends 2 GPUs, and 5 more are idle but not lent by their owners "
    "(lending limits)."
)


def tree(*, lend: Amount = UNLIMITED, borrow: Amount = UNLIMITED, used: int = 0, lender: int = 0) -> QuotaTree:
    """Pool `guest` without quota and pool `owner` of 8 GPUs, below `org`."""
    return QuotaTree(
        [
            QuotaNode("cohort/org"),
            QuotaNode("pool/guest", "cohort/org", {GPU: NodeQuota(0, borrow)}),
            QuotaNode("pool/owner", "cohort/org", {GPU: NodeQuota(8, lending_limit=lend)}),
        ],
        {"pool/guest": {GPU: used}, "pool/owner": {GPU: lender}},
    )


def verdict(
    of: QuotaTree, gpus: int, *, quota: int = 0, priority: Priority = Priority.LOW, maximum: Amount = UNLIMITED
) -> StartRefusal | Shortfall | None:
    gates = Gates(
        {LEAF: {"default": (Gate("guest--_shared", quota, 0, UNLIMITED, 0), Gate("guest", quota, 0, maximum, 0))}}
    )
    return dispatch_verdict(gates, TreeGates(of, {LEAF: "pool/guest"}), LEAF, priority, gpus)


@pytest.mark.parametrize(
    ("of", "backends", "keeps"),
    [
        (tree(), 1, False),
        (tree(borrow=2), 1, False),  # a queue's limit says that
        (tree(lend=8), 1, False),  # as much as there is
        (tree(lend=7), 1, True),
        (tree(), 2, True),
        (CYCLIC_TREE, 1, True),
    ],
)
def test_only_rules_that_queues_cannot_express_hold_a_gang(of: QuotaTree, backends: int, keeps: bool) -> None:
    assert needs_dispatch_admission(of, backends) is keeps


def test_a_gang_is_dispatched_up_to_the_lent_quota() -> None:
    assert verdict(tree(lend=3), 3) is None
    assert verdict(tree(lend=3), 4) is not None
    assert verdict(tree(lend=3, used=3), 1) is not None
    assert verdict(tree(lend=3, lender=7), 2) is not None


def test_work_inside_its_own_quota_passes_although_others_borrowed_it() -> None:
    assert verdict(tree(lend=0), 5, quota=5) is None
    assert verdict(tree(lend=0), 6, quota=5) is not None
    assert verdict(tree(lend=0), 500, quota=UNLIMITED) is None


def test_firm_work_never_borrows() -> None:
    assert verdict(tree(), 1, priority=Priority.HIGH) == StartRefusal(ReasonCode.OVER_QUOTA, "guest--_shared", 0, 1, 0)


def test_on_a_cycle_only_gangs_without_gpus_are_dispatched() -> None:
    assert verdict(CYCLIC_TREE, 1, quota=8) is not None
    assert verdict(CYCLIC_TREE, 0, quota=8) is None


@pytest.mark.parametrize(
    ("of", "more", "code", "sentence"),
    [
        (
            tree(lend=3, used=1),
            {},
            "not_lent",
            TWO_ARE_LENT,
        ),
        (tree(lend=7, lender=8), {}, "nothing_to_borrow", "It asks for 4 GPUs; everything under org leaves 0 GPUs."),
        (
            tree(lend=7, borrow=1),
            {},
            "over_borrowing_limit",
            "It asks for 4 GPUs; the borrowing limit of guest leaves 1 GPU.",
        ),
        (tree(), {"maximum": 3}, "over_limit", "It asks for 4 GPUs; the limit of guest (3) leaves 3."),
        (
            tree(),
            {"priority": Priority.NORMAL},
            "over_quota",
            "It asks for 4 GPUs; the quota of guest--_shared (0) leaves 0.",
        ),
    ],
)
def test_each_verdict_in_words(of: QuotaTree, more: dict[str, object], code: str, sentence: str) -> None:
    found = verdict(of, 4, **more)  # type: ignore[arg-type]
    assert found is not None
    said = explain_dispatch_wait(found, idle_unlent_gpus(of, "pool/guest")).as_json()
    assert said["code"] == code
    assert said["message"] == f"{sentence} It is dispatched when enough GPUs are free."
    assert BY_PLATFORM == "house", "clients read this value"
    assert said.get("idle") == {"not_lent": 5}.get(code), "the remedy says whether that is enough"
    assert (said["by"], said["requested"], said["missing"]) == (BY_PLATFORM, 4, 4 - said["free"])


def test_parts_of_shared_gpus_are_said_as_parts() -> None:
    found = StartRefusal(ReasonCode.OVER_QUOTA, "guest", 3, 4, 1)
    of_t4, of_h100 = (explain_dispatch_wait(found, 0, flavor, {"t4"}).message for flavor in ("t4", "h100"))
    assert of_t4.startswith("It asks for 4 t4 parts of GPUs;")
    assert of_t4.endswith("when enough parts of GPUs are free.")
    assert of_h100.startswith("It asks for 4 h100 GPUs;")
    assert of_h100.endswith("when enough GPUs are free.")
