"""Words of the record of use: the six states of a GPU-second, and the causes of waiting."""

from __future__ import annotations

from enum import StrEnum

from scheduling.domain.dispatch_admission import QUEUE_CLOSED
from scheduling.domain.engine.explain import ReasonCode


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


_OFFLINE_CODES = {
    "backend_offline",
    "cluster_fault",
    QUEUE_CLOSED,
    ReasonCode.NO_SUCH_QUEUE,
    ReasonCode.QUEUE_HAS_CHILDREN,
}
_ROOM_CODES = {
    ReasonCode.NO_ROOM,
    ReasonCode.FRAGMENTED,
    ReasonCode.NEVER_FITS,
    "waiting_for_cluster",
    "not_scheduled",
}
_ORDER_CODES = {ReasonCode.NEXT_PASS, ReasonCode.NOT_READY, ReasonCode.ELSEWHERE, "preemption_delay", "not_placed_yet"}
_QUOTA_CODES = {ReasonCode.OVER_QUOTA, ReasonCode.OVER_LIMIT}


def wait_cause(code: str, *, node: str | None, own_queue: str) -> WaitCause:
    """The cause of a reason with this code; `node` is the node of the tree that blocks, `own_queue` the queue of the
    gang's leaf. Every code that is not about room, order or the backend is about a limit."""
    if code in _OFFLINE_CODES:
        return WaitCause.OFFLINE
    if code in _ROOM_CODES:
        return WaitCause.ROOM
    if code in _ORDER_CODES:
        return WaitCause.ORDER
    if code in _QUOTA_CODES and node in {None, own_queue}:
        return WaitCause.OWN_QUOTA
    return WaitCause.LIMIT
