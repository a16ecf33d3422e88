"""The words of this product that pages explain where they use them, in one or two sentences each, and the numbers.

The keys are their terms. docs/numbers.md has all; docs/glossary.md has the words of other schedulers for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pools.domain.numbers import NUMBERS, NamedNumber


class PageWord(NamedTuple):
    """A word as pages write it, and its meaning."""

    label: str
    meaning: str


PAGE_WORDS: Mapping[str, PageWord | NamedNumber] = {
    **NUMBERS,
    "pool": PageWord(
        "Pool",
        "A named share of the GPUs of one cluster. Roles and configuration belong to pools; subpools divide them.",
    ),
    "subpool": PageWord(
        "Subpool", "A part of a pool with a quota of its own. Work is submitted to it as “pool--subpool”."
    ),
    "shared queue": PageWord(
        "Pool remainder (shared)",
        "The quota of a pool that no subpool has. Work that is submitted to the pool itself uses it.",
    ),
    "temporary quota": PageWord(
        "Temporary quota",
        "A raised quota with an end. A background job gives it back then; running work is not stopped.",
    ),
    "over quota": PageWord(
        "Over quota", "LOW work beyond the quota of its subpool. It may be stopped for work within a quota."
    ),
    "drain": PageWord(
        "Draining",
        "A deleted subpool keeps the GPUs that its active work needs until that work ends. No work is stopped; the"
        " freed quota goes back to the pool.",
    ),
    "idle promise": PageWord("Idle quota", "Quota of a pool that nobody uses while work waits on the same cluster."),
    "cohort": PageWord("Cohort", "A group of pools, and of other cohorts, that lend unused quota to one another."),
    "workflow": PageWord("Workflow", "One submission: groups of tasks, which may depend on each other."),
    "gang": PageWord("Gang", "Tasks that start together or not at all. Each group of a workflow is one."),
    "elastic gang": PageWord("Elastic gang", "A gang that runs with a minimum of tasks, and grows when GPUs are free."),
    "attempt": PageWord("Attempt", "One execution of a task. A task that is stopped or fails may get another attempt."),
    "HIGH, NORMAL, LOW": PageWord(
        "HIGH, NORMAL, LOW",
        "Priorities. HIGH and NORMAL work stays within the quota and is never preempted; LOW work may be.",
    ),
    "active": PageWord("Active", "A workflow that runs or is pending."),
    "pending queue": PageWord(
        "Position",
        "The place of a gang in the queue of its pool or subpool. Higher priorities come first, then older work.",
    ),
    "start reservation": PageWord(
        "Reserved",
        "Quota and nodes that are kept for a gang that has waited long, so that later work does not pass it forever.",
    ),
    "backfill": PageWord(
        "Started before it",
        "Later work may use reserved GPUs if it ends before the reserved gang starts, or can be taken back.",
    ),
    "ageing": PageWord("Ageing", "The wait after which NORMAL work comes before HIGH work of its subpool."),
    "reclaim": PageWord(
        "Reclaimed", "GPUs of over-quota work were taken for work of another subpool within its quota."
    ),
    "preempt": PageWord("Preempted", "GPUs of LOW work were taken for work of the same subpool."),
    "consolidate": PageWord(
        "Moved", "Tasks were started again on other nodes, so that a gang fits on the freed nodes."
    ),
    "pass": PageWord("Pass", "One round of the scheduler: start work, move, reclaim, preempt."),
    "backend": PageWord(
        "Cluster (backend)", "The nodes that run the work of pools: a Kubernetes cluster, or a simulated one."
    ),
    "simulated backend": PageWord(
        "Simulated cluster", "Nodes that exist only here, scheduled by OSMO Admin itself. For trials."
    ),
    "observed cluster": PageWord(
        "Observed cluster", "OSMO Admin reads it and never writes to it; its own scheduler decides."
    ),
    "queue sync": PageWord("Queue sync", "OSMO Admin writes the quotas of pools as KAI queues into the cluster."),
    "generation": PageWord(
        "Generation", "A number that grows with each change of quotas: the desired one, and the one that is applied."
    ),
    "drift": PageWord("Drift", "A field of a queue that another client changed in the cluster."),
    "lease": PageWord("Lease", "An object in the cluster by which only one installation works with a namespace."),
    "queue guard": PageWord(
        "Queue guard", "The admission webhooks by which a cluster asks OSMO Admin before it accepts work into a queue."
    ),
    "bypass": PageWord("Bypass", "An attempt to use a queue of a pool without a submission here."),
    "GPU quota": PageWord("GPU quota", "Caps of a namespace in TFLOPS, GPU memory and workers."),
    "worker": PageWord("Worker", "One pod, or one task, that counts in a GPU quota."),
    "assumed, committed": PageWord(
        "Reserved, running", "A reservation counts for 30 minutes at most; a running worker until it is released."
    ),
    "what-if": PageWord("Replay", "The scheduler runs on recorded facts with changed quotas. Nothing real is changed."),
}
