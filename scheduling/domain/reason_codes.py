"""The codes of the reasons why a gang waits, each with its meaning, and the causes in the record of use."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self


class WaitCause(StrEnum):
    """Why a gang waits: exactly one cause at any time.

    OWN_QUOTA: the quota or limit of its own leaf. LIMIT: a quota or limit above the leaf (pool, cohort, GPU quota of a
    namespace). ROOM: no nodes with enough free GPUs. OFFLINE: its backend accepts no work. ORDER: nothing is missing;
    work before it has its turn, or the scheduler has not judged it yet.
    """

    OWN_QUOTA = "own_quota"
    LIMIT = "limit"
    ROOM = "room"
    OFFLINE = "offline"
    ORDER = "order"


class ReasonCode(StrEnum):
    """The codes of reasons, in the order of the table in docs/error-codes.md.

    `cause` is the cause in the record of use; OWN_QUOTA holds at the own leaf only (:func:`wait_cause`). `meaning` is
    the row of the table. `remedy` is the message of the remedy, without its full stop, where nobody knows numbers or
    names for it; empty where somebody always does.
    """

    cause: WaitCause
    meaning: str
    remedy: str

    def __new__(cls, name: str, cause: WaitCause, meaning: str, remedy: str = "") -> Self:
        code = str.__new__(cls, name)
        code._value_ = name
        code.cause, code.meaning, code.remedy = cause, meaning, remedy
        return code

    OVER_QUOTA = (
        "over_quota",
        WaitCause.OWN_QUOTA,
        "the quota of the queue that `queue` names (HIGH, NORMAL)",
        "Work on this queue ends, its quota grows, or the workflow is submitted with priority LOW",
    )
    OVER_LIMIT = (
        "over_limit",
        WaitCause.OWN_QUOTA,
        "a limit of the queue that `queue` names",
        "Work on this queue ends, or its limit grows",
    )
    NOTHING_TO_BORROW = (
        "nothing_to_borrow",
        WaitCause.LIMIT,
        "the cohort tree has no more quota",
        "Work that borrows in this tree of cohorts ends, or a quota in it grows",
    )
    OVER_BORROWING_LIMIT = (
        "over_borrowing_limit",
        WaitCause.LIMIT,
        "the queue that `queue` names may not borrow more",
        "This node returns borrowed quota, or its borrowing limit grows",
    )
    NOT_LENT = (
        "not_lent",
        WaitCause.LIMIT,
        (
            "the idle quota in the cohort tree is held back by lending limits; `unblock` says which limit must rise by "
            "how much"
        ),
        "Work that borrows in this tree of cohorts ends, or owners raise their lending limits",
    )
    CYCLE = (
        "cycle",
        WaitCause.LIMIT,
        "the parents of a cohort above it form a cycle",
        "Give one node of the cycle another parent",
    )
    GPU_QUOTA = "gpu_quota", WaitCause.LIMIT, "the GPU quota of its namespace"
    NO_ROOM = "no_room", WaitCause.ROOM, "the nodes: too little is free", "The cluster has free capacity for it"
    FRAGMENTED = (
        "fragmented",
        WaitCause.ROOM,
        "the nodes: enough is free in total, in pieces that are too small; the message names the largest",
    )
    NEVER_FITS = (
        "never_fits",
        WaitCause.ROOM,
        (
            "the gang can never start with the current settings. Where the nodes are the reason, the answers of "
            "validation, dry run and submission warn already, by the same rule: the work is accepted, because nodes "
            "may be added. What keeps it from nodes is named"
        ),
    )
    NOT_READY = "not_ready", WaitCause.ORDER, "the gang itself: it has fewer tasks than its minimum"
    ELSEWHERE = (
        "elsewhere",
        WaitCause.ORDER,
        "what-if only: it was preempted on another backend, whose capacity decides when it starts again",
    )
    WAITING_FOR_GROUPS = "waiting_for_groups", WaitCause.ORDER, "groups of the same workflow that come first"
    BACKEND_OFFLINE = "backend_offline", WaitCause.OFFLINE, "the backend"
    CLUSTER_FAULT = (
        "cluster_fault",
        WaitCause.OFFLINE,
        "the cluster does not answer, or refuses the work; the message says what it answered",
        "The cluster accepts work again",
    )
    HELD_BACK = (
        "held_back",
        WaitCause.LIMIT,
        (
            "start reservations of gangs that have waited longer: without them it would start now, in free room or in "
            "the place of other work"
        ),
    )
    NEXT_PASS = "next_pass", WaitCause.ORDER, "nothing: it is about to start"
    WAITING_FOR_CLUSTER = (
        "waiting_for_cluster",
        WaitCause.ROOM,
        (
            "nothing here: the scheduler of the cluster has not placed it. Pods whose tasks have ended and that still "
            "hold GPUs are named"
        ),
        "The cluster has free capacity for it",
    )
    PREEMPTION_DELAY = (
        "preemption_delay",
        WaitCause.ORDER,
        "the scheduler of the cluster lets it preempt other work only after a while",
        "It has waited long enough to preempt other work",
    )
    NOT_SCHEDULED = (
        "not_scheduled",
        WaitCause.ROOM,
        "the scheduler of the cluster gives another reason, which the message repeats",
        "The cluster's scheduler places it",
    )
    QUEUE_CLOSED = (
        "queue_closed",
        WaitCause.OFFLINE,
        "its queue in the cluster belongs to others or does not exist (queue-sync.md)",
        "The queue sync of the cluster has a queue of ours for it",
    )
    NO_SUCH_QUEUE = (
        "no_such_queue",
        WaitCause.OFFLINE,
        "its queue does not exist: in the cluster, or in the file of a scenario",
        "The queues of the cluster are synced",
    )
    QUEUE_HAS_CHILDREN = "queue_has_children", WaitCause.OFFLINE, "its queue has queues below it, so it runs no work"
    NOT_PLACED_YET = (
        "not_placed_yet",
        WaitCause.ORDER,
        "thousands of gangs wait, and the position is not computed yet; ask again in a moment",
        "Ask again in a moment",
    )


_SHORT: Final = {
    ReasonCode.OVER_QUOTA: "too little free quota",
    ReasonCode.OVER_LIMIT: "the limit is reached",
    ReasonCode.NOTHING_TO_BORROW: "nothing left to borrow",
    ReasonCode.OVER_BORROWING_LIMIT: "the borrowing limit is reached",
    ReasonCode.NOT_LENT: "the idle quota is not lent",
    ReasonCode.CYCLE: "its cohorts form a cycle",
    ReasonCode.GPU_QUOTA: "the GPU quota of its namespace is used up",
    ReasonCode.NO_ROOM: "too few free GPUs",
    ReasonCode.FRAGMENTED: "the free GPUs are on too many nodes",
    ReasonCode.NEVER_FITS: "it can never start",
    ReasonCode.NOT_READY: "the gang has too few tasks",
    ReasonCode.ELSEWHERE: "another cluster decides",
    ReasonCode.WAITING_FOR_GROUPS: "earlier groups must end first",
    ReasonCode.BACKEND_OFFLINE: "the cluster is offline",
    ReasonCode.CLUSTER_FAULT: "the cluster does not answer",
    ReasonCode.HELD_BACK: "reserved for older work",
    ReasonCode.NEXT_PASS: "nothing: it starts now",
    ReasonCode.WAITING_FOR_CLUSTER: "the cluster has not placed it yet",
    ReasonCode.PREEMPTION_DELAY: "it may not preempt yet",
    ReasonCode.NOT_SCHEDULED: "the cluster cannot place it",
    ReasonCode.QUEUE_CLOSED: "its queue is closed",
    ReasonCode.NO_SUCH_QUEUE: "its queue does not exist",
    ReasonCode.QUEUE_HAS_CHILDREN: "its queue runs no work itself",
    ReasonCode.NOT_PLACED_YET: "not judged yet",
}
"""The reasons in a few words, for one line of a list."""

_BY_CODE: Final = {str(code): code for code in ReasonCode}
LIMIT_OF: Final = {ReasonCode.OVER_QUOTA: "quota", ReasonCode.OVER_LIMIT: "limit"}
"""The number of a queue that blocks."""


def find_code(code: str) -> ReasonCode:
    """The member of a stored code; NOT_SCHEDULED for one that only another version knows."""
    return _BY_CODE.get(code, ReasonCode.NOT_SCHEDULED)


def short_reason(code: str, above: str = "") -> str:
    """The reason in a few words, for one line of a list. `above`: what blocks if it is not the own queue, such as
    `cohort products`."""
    text = _SHORT[find_code(code)]
    return f"{text[0].upper()}{text[1:]}{f': {above}' if above else ''}"


def wait_cause(code: str, *, node: str | None, own_queue: str) -> WaitCause:
    """The cause of a reason with this code; `node` is the node of the tree that blocks, `own_queue` the queue of the
    gang's leaf."""
    cause = find_code(code).cause
    is_above = cause is WaitCause.OWN_QUOTA and node not in {None, own_queue}
    return WaitCause.LIMIT if is_above else cause
