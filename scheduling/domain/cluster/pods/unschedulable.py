"""From KAI's conditions of a PodGroup to the reason that pages and answers show.

KAI writes `UnschedulableOnNodePool` conditions with reasons. Reasons about quotas have `queueDetails`: the queue that
refused (the leaf or a queue above it), the requested amounts and the amounts of the queue. GPUs are counted in devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scheduling.domain.cluster.pods.timestamps import parse_time
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.domain.reason_codes import ReasonCode

_CODES = {
    "NonPreemptibleOverQuota": ReasonCode.OVER_QUOTA,
    "OverLimit": ReasonCode.OVER_LIMIT,
    "QueueDoesNotExist": ReasonCode.NO_SUCH_QUEUE,
    "PodSchedulingErrors": ReasonCode.NO_ROOM,
    "PreemptionDelayNotElapsed": ReasonCode.PREEMPTION_DELAY,
}
_UNSCHEDULABLE = "UnschedulableOnNodePool"
_MAX_MESSAGE_LENGTH = 1000
_GPU_NAMES = ("gpu", "nvidia.com/gpu")


@dataclass(frozen=True, slots=True)
class UnschedulableReason:
    """`code` is ours, `reason` is KAI's. `queue` is the queue that refused; the GPU numbers are the exact ones of its
    details."""

    code: ReasonCode
    message: str
    reason: str = ""
    queue: str = ""
    requested: Fraction | None = None
    quota: Fraction | None = None
    limit: Fraction | None = None
    used: Fraction | None = None

    def as_json(self) -> dict[str, Any]:
        """The reason as JSON; unknown values are left out."""
        found: dict[str, Any] = {"code": self.code, "message": self.message}
        texts = {"reason": self.reason, "queue": self.queue}
        found |= {key: text for key, text in texts.items() if text}
        amounts = {"requested": self.requested, "quota": self.quota, "limit": self.limit, "used": self.used}
        return found | {key: _json_number(amount) for key, amount in amounts.items() if amount is not None}


def read_unschedulable_reason(pod_group: ReadOnlyObject) -> UnschedulableReason | None:
    """The reason why this PodGroup does not start now; None if it has none."""
    conditions = (pod_group.get("status") or {}).get("schedulingConditions") or []
    current = [each for each in conditions if each.get("type") == _UNSCHEDULABLE and each.get("status") == "True"]
    if not current:
        return None
    latest = max(current, key=_transition_key)
    refusals = [_unschedulable_reason(reason) for reason in latest.get("reasons") or []]
    if not refusals:
        return _unschedulable_reason({"reason": latest.get("reason", ""), "message": latest.get("message", "")})
    # An admin can change a quota; "no node fits" often only follows from it.
    return next((each for each in refusals if each.queue), refusals[0])


def read_unplaced_reason(pods: Iterable[ReadOnlyObject]) -> UnschedulableReason | None:
    """What is said of the first of these pods that has no node, by a scheduler or by a gate that others put there; None
    where nothing is said."""
    for pod in pods:
        for condition in (pod.get("status") or {}).get("conditions") or []:
            if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
                return _unschedulable_reason(condition)
    return None


def _transition_key(condition: ReadOnlyObject) -> tuple[float, int]:
    at = parse_time(condition.get("lastTransitionTime"))
    transition = str(condition.get("transitionID", ""))
    return (at.timestamp() if at else 0.0, int(transition) if transition.isascii() and transition.isdigit() else 0)


def _unschedulable_reason(reason: ReadOnlyObject) -> UnschedulableReason:
    word = reason.get("reason", "")
    details = (reason.get("details") or {}).get("queueDetails") or {}
    message = " ".join((reason.get("message") or "").split())[:_MAX_MESSAGE_LENGTH]
    firm = word == "NonPreemptibleOverQuota"
    requested_key = "podGroupRequestedNonPreemptibleResources" if firm else "podGroupRequestedResources"
    used = "queueAllocatedNonPreemptibleResources" if firm else "queueAllocatedResources"
    return UnschedulableReason(
        code=_CODES.get(word, ReasonCode.NOT_SCHEDULED),
        message=message or "The cluster's scheduler has not placed it yet.",
        reason=word,
        queue=details.get("name", ""),
        requested=_gpus(details.get(requested_key) or details.get("podGroupRequestedResources")),
        quota=_gpus(details.get("queueDeservedResources")),
        limit=_gpus(details.get("queueResourceLimits")),
        used=_gpus(details.get(used)),
    )


def _gpus(amounts: ReadOnlyObject | None) -> Fraction | None:
    return next(_find_gpu_amounts(amounts or {}), None)


def _find_gpu_amounts(amounts: ReadOnlyObject) -> Iterator[Fraction]:
    for name in _GPU_NAMES:
        if (amount := read_quantity(amounts.get(name))) is not None:
            yield amount


def _json_number(amount: Fraction) -> int | float:
    return int(amount) if amount.denominator == 1 else float(amount)
