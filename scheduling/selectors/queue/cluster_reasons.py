"""The reason why a gang of a cluster waits, in the form of the queue (`Group.waiting_reason`).

There the cluster decides, so its reason is shown. If the reason of our engine has the same code, the engine's remedies
are added. A gang that dispatch admission has not admitted yet has the reason of dispatch admission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pools.domain.names import SHARED_QUEUE
from pools.domain.values import amounts
from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.engine.reasons.remedies import Remedy
from scheduling.domain.judgement.dispatch_admission import BY_PLATFORM
from scheduling.domain.reason_codes import LIMIT_OF, ReasonCode, find_code
from scheduling.selectors.queue.cluster_gangs import EndingPod

_NEEDS_ROOM = {ReasonCode.WAITING_FOR_CLUSTER, ReasonCode.NO_ROOM, ReasonCode.NOT_SCHEDULED}
_MAX_NAMED_PODS = 3
_LENDS_TOO_LITTLE = "Work that borrows in this tree of cohorts ends; higher lending limits alone give too little"


def reason_from_cluster(waiting_reason: Mapping[str, Any] | None, engine_reason: Reason) -> Reason:
    """The reason to show: that of the cluster if there is one, else that of the engine."""
    if not waiting_reason:
        return engine_reason
    code = find_code(waiting_reason["code"])
    if waiting_reason.get("by") == BY_PLATFORM:
        return _admission_reason(code, waiting_reason, engine_reason)
    numbers = _gpu_numbers(waiting_reason, LIMIT_OF.get(code))
    remedy = Remedy(code.remedy)
    return replace(
        engine_reason,
        code=code,
        message=str(waiting_reason["message"]),
        queue=_logical_queue_name(waiting_reason["queue"]) if waiting_reason.get("queue") else engine_reason.queue,
        limit=LIMIT_OF.get(code),
        requested=numbers[0],
        free=numbers[1],
        missing=numbers[2],
        remedies=engine_reason.remedies if engine_reason.code == code and engine_reason.remedies else (remedy,),
    )


def with_sent_flavor(reason: Reason, flavor: str, passed: Sequence[tuple[str, str]]) -> Reason:
    """The reason of a gang that was sent to nodes of one GPU flavor, with that, and why it did not get those that come
    before it."""
    if not flavor:
        return reason
    before = "".join(f"; {name} comes before, but {why}" for name, why in passed)
    return replace(reason, message=f"{reason.message} It was sent to nodes of {flavor}{before}.")


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


def _admission_reason(code: ReasonCode, reported: Mapping[str, Any], ours: Reason) -> Reason:
    """The reason of dispatch admission for a gang that it has not admitted."""
    if code in {ReasonCode.HELD_BACK, ReasonCode.QUEUE_CLOSED}:
        first = tuple(map(str, reported.get("gangs", ())))
        text = "The gang that comes first starts, or is cancelled"
        if len(first) > 1:
            text = f"The gangs that come first, all {len(first)} of them, start or are cancelled"
        remedy = Remedy(text, first)
        if code is ReasonCode.QUEUE_CLOSED:
            remedy = Remedy(code.remedy)
        return replace(
            ours, code=code, message=str(reported["message"]), queue=str(reported["queue"]),
            limit=reported["limit"], requested=None, free=None, missing=None, remedies=(remedy,),
            needs_all_remedies=False,
        )  # fmt: skip
    text, key = code.remedy, amounts.gpu_key(reported.get("flavor", amounts.DEFAULT_FLAVOR))
    idle = reported.get("idle")
    if idle is not None and not isinstance(idle, str) and idle < reported["missing"]:  # a text: unlimited
        text = _LENDS_TOO_LITTLE
    return replace(
        ours,
        code=code,
        message=str(reported["message"]),
        queue=str(reported["queue"]),
        limit=str(reported["limit"]),
        requested={key: reported["requested"]},
        free={key: reported["free"]},
        missing={key: reported["missing"]},
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
    """The logical name (design, D2) of a Kubernetes queue: its shared leaf ends with `--_shared` here, with
    `---shared` there."""
    end = f"--{SHARED_QUEUE.replace('_', '-')}"
    return f"{queue.removesuffix(end)}--{SHARED_QUEUE}" if queue.endswith(end) else queue
