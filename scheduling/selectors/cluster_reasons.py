"""The reason why a gang of a cluster waits, in the form of the queue (`Group.waiting_reason`).

There the cluster decides, so its reason is shown. If the reason of our engine has the same code, the engine's remedies
are added. A gang that dispatch admission has not admitted yet has the reason of dispatch admission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pools.domain import amounts
from pools.domain.names import SHARED_QUEUE
from scheduling.domain.cluster.unschedulable import NOT_SCHEDULED
from scheduling.domain.dispatch_admission import BY_PLATFORM, NOT_LENT, QUEUE_CLOSED
from scheduling.domain.engine.explain import Reason, ReasonCode
from scheduling.domain.engine.remedies import Remedy
from scheduling.selectors.cluster_gangs import EndingPod

_LIMIT_OF = {ReasonCode.OVER_QUOTA: "quota", ReasonCode.OVER_LIMIT: "limit"}
_REMEDIES = {
    ReasonCode.OVER_QUOTA: "Work on this queue ends, its quota grows, or the workflow is submitted with priority LOW",
    ReasonCode.OVER_LIMIT: "Work on this queue ends, or its limit grows",
    ReasonCode.NO_SUCH_QUEUE: "The queues of the cluster are synced",
    ReasonCode.NO_ROOM: "The cluster has free capacity for it",
    "preemption_delay": "It has waited long enough to preempt other work",
    NOT_SCHEDULED: "The cluster's scheduler places it",
    "cluster_fault": "The cluster accepts work again",
}

WAITS_FOR_CLUSTER = "waiting_for_cluster"
"""The code for a gang that no quota blocks: the cluster, not our engine, starts it."""
_NEEDS_ROOM = {WAITS_FOR_CLUSTER, ReasonCode.NO_ROOM, NOT_SCHEDULED}
_MAX_NAMED_PODS = 3

_ADMISSION_REMEDIES = {
    ReasonCode.OVER_QUOTA: _REMEDIES[ReasonCode.OVER_QUOTA],
    ReasonCode.OVER_LIMIT: _REMEDIES[ReasonCode.OVER_LIMIT],
    ReasonCode.NOTHING_TO_BORROW: "Work that borrows in this tree of cohorts ends, or a quota in it grows",
    ReasonCode.OVER_BORROWING_LIMIT: "This node returns borrowed quota, or its borrowing limit grows",
    ReasonCode.CYCLE: "Give one node of the cycle another parent",
    NOT_LENT: "Work that borrows in this tree of cohorts ends, or owners raise their lending limits",
}
_LENDS_TOO_LITTLE = "Work that borrows in this tree of cohorts ends; higher lending limits alone give too little"


def reason_from_cluster(waiting_reason: Mapping[str, Any] | None, engine_reason: Reason) -> Reason:
    """The reason to show: that of the cluster if there is one, else that of the engine."""
    if not waiting_reason:
        return engine_reason
    code = str(waiting_reason["code"])
    if waiting_reason.get("by") == BY_PLATFORM:
        return _admission_reason(code, waiting_reason, engine_reason)
    numbers = _gpu_numbers(waiting_reason, _LIMIT_OF.get(code))
    remedy = Remedy(_REMEDIES.get(code, _REMEDIES[NOT_SCHEDULED]))
    return replace(
        engine_reason,
        code=code,
        message=str(waiting_reason["message"]),
        queue=_logical_queue_name(waiting_reason["queue"]) if waiting_reason.get("queue") else engine_reason.queue,
        limit=_LIMIT_OF.get(code),
        requested=numbers[0],
        free=numbers[1],
        missing=numbers[2],
        remedies=engine_reason.remedies if engine_reason.code == code and engine_reason.remedies else (remedy,),
    )


def with_ending_pods(reason: Reason, pods: Sequence[EndingPod]) -> Reason:
    """The reason of a gang for which the cluster has no room, with the pods of ended tasks that still hold GPUs."""
    if not pods or reason.code not in _NEEDS_ROOM:
        return reason
    named = [f"pod {pod.name} on {pod.node} ({_gpus_text(pod.gpus)})" for pod in pods[:_MAX_NAMED_PODS]]
    more = f" and {len(pods) - _MAX_NAMED_PODS} more" if len(pods) > _MAX_NAMED_PODS else ""
    message = f"{reason.message} Pods whose tasks have ended still hold GPUs there: {', '.join(named)}{more}."
    remedies = tuple(Remedy(f"The pod {pod.name} is gone from node {pod.node}") for pod in pods[:_MAX_NAMED_PODS])
    return replace(reason, message=message, remedies=remedies, needs_all_remedies=False)


def _gpus_text(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _admission_reason(code: str, reported: Mapping[str, Any], ours: Reason) -> Reason:
    """The reason of dispatch admission for a gang that it has not admitted."""
    if code in {ReasonCode.HELD_BACK, QUEUE_CLOSED}:
        first = tuple(map(str, reported.get("gangs", ())))
        text = "The gang that comes first starts, or is cancelled"
        if len(first) > 1:
            text = f"The gangs that come first, all {len(first)} of them, start or are cancelled"
        remedy = Remedy(text, first)
        if code == QUEUE_CLOSED:
            remedy = Remedy("The queue sync of the cluster has a queue of ours for it")
        return replace(
            ours, code=code, message=str(reported["message"]), queue=str(reported["queue"]),
            limit=reported["limit"], requested=None, free=None, missing=None, remedies=(remedy,),
            needs_all_remedies=False,
        )  # fmt: skip
    text = _ADMISSION_REMEDIES[code]
    idle = reported.get("idle")
    if idle is not None and not isinstance(idle, str) and idle < reported["missing"]:  # a text: unlimited
        text = _LENDS_TOO_LITTLE
    return replace(
        ours,
        code=code,
        message=str(reported["message"]),
        queue=str(reported["queue"]),
        limit=str(reported["limit"]),
        requested={amounts.GPU: reported["requested"]},
        free={amounts.GPU: reported["free"]},
        missing={amounts.GPU: reported["missing"]},
        remedies=ours.remedies if ours.code == code and ours.remedies else (Remedy(text),),
    )


def _gpu_numbers(reported: Mapping[str, Any], limit: str | None) -> tuple[Mapping[str, Any] | None, ...]:
    """Requested, free and missing GPUs of the blocking number, as far as the cluster reports them."""
    requested, most, used = reported.get("requested"), reported.get(limit or ""), reported.get("used")
    if requested is None:
        return None, None, None
    if most is None or most < 0 or used is None:
        return {amounts.GPU: requested}, None, None
    free = max(0, most - used)
    return {amounts.GPU: requested}, {amounts.GPU: free}, {amounts.GPU: max(0, requested - free)}


def _logical_queue_name(queue: str) -> str:
    """The logical name (D2) of a Kubernetes queue: its shared leaf ends with `--_shared` here, with
    `---shared` there."""
    end = f"--{SHARED_QUEUE.replace('_', '-')}"
    return f"{queue.removesuffix(end)}--{SHARED_QUEUE}" if queue.endswith(end) else queue
