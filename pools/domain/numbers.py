"""The numbers that people read: their names, meanings and units, for pages, the client, CSV files and
docs/numbers.md.

Each table has the numbers of one kind of answer, by their keys there. `available` is a key of two answers with two
meanings: quota that is not in use (a pool), and what is available to a node (the quota tree).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

GPUS = "GPUs"
GPU_HOURS = "GPU-hours"


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """A number as people read it. `meaning` is one sentence or two; `unit` is empty for a count of other things."""

    label: str
    meaning: str
    unit: str = GPUS

    @property
    def term(self) -> str:
        """Its name in templates and in docs/glossary.md: a priority keeps its capital letters."""
        return " ".join(word if word.isupper() else word.lower() for word in self.label.split())

    @property
    def heading(self) -> str:
        """Its label, with the unit where a cell does not say it: GPU-hours are plain numbers."""
        return f"{self.label} ({GPU_HOURS})" if self.unit == GPU_HOURS else self.label


QUOTA = NamedNumber(
    "Quota",
    "GPUs that HIGH and NORMAL work may hold, and that no other work can withhold. LOW work may use them while idle."
    " The quota of a pool or cohort has all quotas below it.",
)
CAN_START_NOW = NamedNumber(
    "Can start now",
    "GPUs that new HIGH and NORMAL work may start at this moment without taking them from other work: at most the"
    " guaranteed free GPUs, and at most what LOW work may start. Work also needs room on nodes.",
)
LOW_CAN_START_NOW = NamedNumber(
    "LOW can start now",
    "GPUs that quotas and limits let new LOW work start at this moment, borrowing included: 0 where a subpool drains,"
    " or a pool is in maintenance or offline. Work also needs room on nodes.",
)
TOTAL_IN_USE = NamedNumber(
    "Total in use", "GPUs of all running work: HIGH, NORMAL and LOW. A pool or cohort has all work below it."
)
BORROWING_LIMIT = NamedNumber("Borrowing limit", "The most GPUs that a node may use beyond its effective quota.")
LENDING_LIMIT = NamedNumber("Lending limit", "The most GPUs of a node that others may use.")
WEIGHT = NamedNumber("Weight", "The share of unused GPUs that a pool receives, relative to other pools.", "")

POOL_NUMBERS: Mapping[str, NamedNumber] = {
    "quota": QUOTA,
    "used": NamedNumber("Guaranteed in use", "GPUs of running HIGH and NORMAL work."),
    "available": NamedNumber(
        "Guaranteed free",
        "Quota minus the GPUs guaranteed in use. Below zero, work has to end before new work starts.",
    ),
    "can_start_now": CAN_START_NOW,
    "low_can_start_now": LOW_CAN_START_NOW,
    "total_usage": TOTAL_IN_USE,
    "live_workflows": NamedNumber("Active workflows", "Workflows that are running or pending.", ""),
    "maximum": NamedNumber("Maximum", "The most GPUs that a pool may hold, LOW work included."),
    "weight": WEIGHT,
}
"""Of a pool, its remainder or a subpool."""

TREE_NUMBERS: Mapping[str, NamedNumber] = {
    "quota": QUOTA,
    "total_usage": TOTAL_IN_USE,
    "can_start_now": CAN_START_NOW,
    "low_can_start_now": LOW_CAN_START_NOW,
    "nominal": NamedNumber(
        "Nominal quota", "The quota that a node of the tree has itself, on top of the quotas below it."
    ),
    "subtree_quota": NamedNumber("Effective quota", "Nominal quota plus the quota that the children may lend."),
    "usage": NamedNumber(
        "Counted use",
        "The part of the total in use that counts against the effective quota: without the use of quota below that may"
        " not be lent.",
    ),
    "t": NamedNumber("Balance", "Effective quota minus counted use. A negative balance is the borrowed amount."),
    "available": NamedNumber(
        "Available to the node",
        "Effective quota that is not used, and what the limits let the node borrow. Quota that may not be lent counts"
        " at its own node only.",
    ),
    "potential_available": NamedNumber(
        "Potential capacity", "The most that could ever run here if everything else were idle."
    ),
    "borrowed": NamedNumber("Borrowed", "Counted use beyond the effective quota."),
    "lent": NamedNumber("Lent out", "The amount that others borrow from this node."),
    "lendable": NamedNumber("Lending capacity", "The amount that the node could still lend."),
    "borrowing_limit": BORROWING_LIMIT,
    "lending_limit": LENDING_LIMIT,
    "debt": NamedNumber("Over limit", "The amount in use beyond the limits. It shrinks as work ends."),
    "pending": NamedNumber("Pending", "GPUs of work that waits to start on this node or below."),
    "weighted_share": NamedNumber(
        "Fair-share usage",
        "The borrowed amount relative to what the parent could lend and to the weight, in thousandths. The smaller"
        " number comes first.",
        "‰",
    ),
}
"""Of a node of the quota tree, for one resource."""

USAGE_NUMBERS: Mapping[str, NamedNumber] = {
    "quota_gpu_s": NamedNumber("Quota", "Quota over the time.", GPU_HOURS),
    "used_gpu_s": NamedNumber("Used", "Guaranteed use, LOW work inside the quota, and use over quota.", GPU_HOURS),
    "guaranteed_gpu_s": NamedNumber("Guaranteed", "Use of HIGH and NORMAL work inside the quota.", GPU_HOURS),
    "low_inside_gpu_s": NamedNumber(
        "LOW inside the quota", "LOW work on the part of the quota that HIGH and NORMAL work leaves free.", GPU_HOURS
    ),
    "over_quota_gpu_s": NamedNumber(
        "Over quota", "LOW work above the quota, and work above a quota that was lowered later.", GPU_HOURS
    ),
    "idle_quota_gpu_s": NamedNumber("Idle quota", "Quota that nobody uses.", GPU_HOURS),
    "lent_gpu_s": NamedNumber("Lent out", "Unused quota that others use over their quotas.", GPU_HOURS),
    "borrowed_gpu_s": NamedNumber("Borrowed", "Use over quota of what others lent.", GPU_HOURS),
    "waiting_gpu_s": NamedNumber("Waiting", "GPUs that work waited for, times the length of the wait.", GPU_HOURS),
    "wait_p50_s": NamedNumber("Median wait", "Half of the waits that ended with a start were shorter.", "s"),
    "workflows": NamedNumber("Workflows", "Workflows that started for the first time.", ""),
    "preemptions": NamedNumber("Preemptions", "Gangs that lost their GPUs to other work.", ""),
    "lost_gpu_s": NamedNumber(
        "Lost",
        "Work since the last checkpoint, else since the start, of attempts that something else ended.",
        GPU_HOURS,
    ),
}
"""Of a row of the record of use."""

GPU_QUOTA_NUMBERS: Mapping[str, NamedNumber] = {
    "requests.tflops": NamedNumber("TFLOPS requested", "TFLOPS that the workers of a namespace request.", "TFLOPS"),
    "requests.vram": NamedNumber("Memory requested", "GPU memory that the workers of a namespace request.", "bytes"),
    "limits.tflops": NamedNumber("TFLOPS limit", "TFLOPS that the workers of a namespace may use.", "TFLOPS"),
    "limits.vram": NamedNumber("Memory limit", "GPU memory that the workers of a namespace may use.", "bytes"),
    "workers": NamedNumber("Workers", "Pods or tasks that count in the quota.", ""),
}
"""Of the GPU quota of a namespace."""


def gpu_quota_labels(keys: Iterable[str]) -> list[str]:
    """What people read for these numbers of a GPU quota; a key that is unknown as it is."""
    return [GPU_QUOTA_NUMBERS[key].label if key in GPU_QUOTA_NUMBERS else key for key in keys]


REPLAY_NUMBERS: Mapping[str, NamedNumber] = {
    "jobs": NamedNumber("Workloads", "Workflows, or jobs of a trace, that were submitted in the time.", ""),
    "never": NamedNumber("Never started", "Workloads that could not start even on the empty cluster.", ""),
    "starts": NamedNumber("Starts", "Times that work started; work that lost its GPUs starts again.", ""),
    "reclaims": NamedNumber("Reclaims", "Times that work lost its GPUs to the quota of others.", ""),
    "preemptions": NamedNumber("Preemptions", "Times that work lost its GPUs to other work, reclaims apart.", ""),
    "wait_mean_s": NamedNumber("Mean wait", "From the submission to the first start, on average.", "s"),
    "wait_p50_s": NamedNumber("Median wait", "Half of the waits were shorter.", "s"),
    "wait_p90_s": NamedNumber("Wait of 90 %", "Nine of ten waits were shorter.", "s"),
    "wait_p99_s": NamedNumber("Wait of 99 %", "99 of a hundred waits were shorter.", "s"),
    "slowdown_p50": NamedNumber(
        "Median slowdown", "From the submission to the end, divided by the run time (of at least 10 s).", ""
    ),
    "quota_gpu_h": NamedNumber("Quota", "Quota over the time.", GPU_HOURS),
    "used_gpu_h": NamedNumber("Used", "GPUs that work held.", GPU_HOURS),
    "lost_gpu_h": NamedNumber("Lost to preemption", "The part of the use that preemption threw away.", GPU_HOURS),
    "lent_gpu_h": NamedNumber("Lent out", "Unused quota that others used over their quotas.", GPU_HOURS),
    "borrowed_gpu_h": NamedNumber("Borrowed", "Use over quota of what others lent.", GPU_HOURS),
    "idle_quota_gpu_h": NamedNumber("Idle quota", "Quota that nobody used.", GPU_HOURS),
    "waiting_gpu_h": NamedNumber("Waiting", "GPUs that work waited for, times the length of the wait.", GPU_HOURS),
}
"""Of the cluster or of a team in a replay."""

NUMBERS: Mapping[str, NamedNumber] = {each.term: each for each in (*POOL_NUMBERS.values(), *TREE_NUMBERS.values())}
"""The numbers of today, by their terms."""
