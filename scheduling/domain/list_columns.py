"""The columns of the lists of work, clusters and replays (:mod:`pools.domain.columns`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pools.domain.columns import Column, list_columns, number_column
from pools.domain.list_columns import FLAVOR_COLUMN
from pools.domain.numbers import GPU_HOURS, REPLAY_NUMBERS, TREE_NUMBERS
from scheduling.domain.start_words import start_about

_STARTS = Column(
    "starts_about", None, lambda row: start_about(row.start_times, datetime.now(UTC)),
    meaning="As exact as the forecast is sure; a dash where nobody can say",
)  # fmt: skip
_GPUS = Column("gpus", "GPUs", is_right=True)

WORKFLOW_COLUMNS = list_columns(
    Column("workflow", None, lambda row: row.workflow.name, "name", "name", cell="name", published="Workflow ID"),
    Column("status", None, lambda row: row.workflow.status, "status", "status"),
    Column(
        "reason", None, lambda row: row.waiting.reason.short if row.waiting else "",
        meaning="The first thing that keeps it from starting",
    ),
    Column("message", "", lambda row: row.waiting.reason.message if row.waiting else ""),
    Column("gpus", "GPUs", lambda row: row.gpus, None, "gpus", is_right=True),
    Column("pool", None, lambda row: row.workflow.pool.name, "pool__name", "pool"),
    Column("priority", None, lambda row: row.workflow.priority, "priority", "priority", is_extra=True),
    Column(
        "user", "Submitted by", lambda row: row.workflow.submitted_by.username, "submitted_by__username", "user",
        is_extra=True, published="User",
    ),
    Column(
        "submitted", None, lambda row: row.workflow.submit_time, "submit_time", "submitted",
        is_extra=True, cell="submit_time", is_time=True, published="Submit Time",
    ),
    Column("started", "", lambda row: row.workflow.start_time),
    Column(
        "observed", "Observed in", lambda row: row.observed.backend if row.observed else "",
        meaning="The cluster whose own scheduler runs it",
    ),
    Column("ended", None, lambda row: row.workflow.end_time, "end_time", "ended", is_extra=True),
    Column(
        "waited_seconds", "First wait", lambda row: round(row.waited_seconds), None, "waited", is_right=True,
        is_extra=True, meaning="Until its first start; its page also sums later waits",
    ),
    Column(
        "run_seconds", "Since start", lambda row: None if row.run_seconds is None else round(row.run_seconds), None,
        "ran", is_right=True, is_extra=True, meaning="From its first start to its end or now; later waits count",
    ),
    replace(_STARTS, value=lambda row: start_about(row.waiting.start_times, datetime.now(UTC)) if row.waiting else ""),
    "how_long",
    Column("tasks_here", is_right=True),
    Column("gpus_here", "GPUs here", is_right=True),
    Column("labels", is_extra=True),
    "note",
)  # fmt: skip
"""A row of the file and of the page is a :class:`scheduling.selectors.work.workflow_rows.WorkflowRow`."""

TASK_COLUMNS = list_columns(
    "user",
    Column("workflow", cell="workflow_id", published="Workflow ID"),
    "group",
    Column("task", cell="task_name"),
    Column(
        "retry", meaning="0 is the first attempt; the same number as in the client and the API", is_right=True,
        cell="retry_id",
    ),
    "status", "pool", "priority", "node",
    _GPUS,
    Column("started", cell="start_time", is_time=True, published="Start Time"),
    "ended",
    Column("exit_code", is_right=True),
    "message",
    Column("storage", "Storage [Gi]"),
    Column("cpu", "CPU [#]"),
    Column("memory", "Memory [Gi]"),
    Column("gpu", "GPU [#]"),
)  # fmt: skip

DIFFERENCE_COLUMNS = list_columns(
    Column("time", value=lambda row: row.time, is_time=True),
    Column("cluster", value=lambda row: row.backend.name, cell="backend"),
    Column("difference", value=lambda row: row.kind, cell="kind"),
    Column("pool", value=lambda row: row.pool.name),
    Column("workflow", value=lambda row: row.workflow.name),
    Column("gpus", "GPUs", value=lambda row: row.gpus, is_right=True),
    Column("rule", value=lambda row: row.rule, meaning="The code of the reason for which ours lets it wait"),
    Column("message", "What ours would have done", value=lambda row: row.message),
)
"""Of the decisions of another scheduler that ours would not have made."""

EVENT_COLUMNS = list_columns(Column("time", is_time=True), "task", "event")
"""Of the events of a workflow."""

RECEIPT_COLUMNS = list_columns(
    Column("time", is_time=True),
    "workflow", "group", "rule",
    _GPUS,
    Column("lost", meaning="GPU-hours since its last checkpoint, or since its start", is_right=True),
    "message",
)  # fmt: skip
"""Of the receipts of a workflow, and of work whose place it took."""

POOL_LOSS_COLUMNS = list_columns(
    "pool", "rule",
    Column("taker", "Taken by", cell="taker"),
    Column("attempts", is_right=True),
    Column("lost", "Lost [GPU-hours]", is_right=True),
)  # fmt: skip
"""Of what pools lost, by cause and by the pool that took it."""

OUTCOME_COLUMNS = list_columns(
    Column("said_at", "When", lambda row: row.made_at, cell="made_at", is_time=True),
    Column("kind", "", lambda row: row.kind.value),
    Column("about", None, lambda row: row.subject, meaning="The work that waited, or the change", cell="subject"),
    Column("cluster", None, lambda row: row.backend, is_extra=True, cell="backend"),
    Column("said", None, lambda row: row.said, is_sentence=True),
    Column("outcome", None, lambda row: row.outcome.value),
    Column("came", "What came", lambda row: row.found, cell="found", is_sentence=True),
    Column("ended", "", lambda row: row.ended_at, cell="ended_at", is_time=True),
)  # fmt: skip
"""Of what was said about the future; a row is a :class:`scheduling.selectors.status.outcomes.SaidBefore`."""

GANG_COLUMNS = list_columns(
    Column("sub_group", "SubGroup"),
    Column("required", is_right=True),
    Column("running", "Running or done", is_right=True),
    Column("optional", meaning="Members beyond the minimum, running or possible", is_right=True),
    "state",
)
"""Of the tree of a gang."""

PENDING_COLUMNS = list_columns(
    Column("backend", "Cluster", lambda row: row.backend, meaning="The cluster, if several have work that waits"),
    Column(
        "position", None, lambda row: row.position_in_queue, meaning="Its place in the queue of its pool or subpool",
        is_right=True, cell="position_in_queue",
    ),
    Column(
        "cluster_order", "", lambda row: row.position, meaning="Its place among all work that waits on the cluster",
        is_right=True, cell="position",
    ),
    Column("workflow", "Work", lambda row: row.workflow, published="Workflow ID"),
    Column("group", None, lambda row: row.group),
    Column("user", "Submitted by", lambda row: row.user, published="User"),
    Column("pool", None, lambda row: row.pool),
    Column("priority", None, lambda row: row.priority),
    Column("gpus", "GPUs", lambda row: row.gpus, meaning="GPUs that it starts with", is_right=True),
    Column(
        "missing", None, lambda row: row.reason.missing, meaning="GPUs that are missing for its start", is_right=True,
        cell=lambda row: row["reason"]["missing"],
    ),
    Column("submitted", "", lambda row: row.submit_time, cell="submit_time", is_time=True),
    Column(
        "waits_seconds", "Waits", lambda row: round((datetime.now(UTC) - row.waits_since).total_seconds()),
        meaning="The time since its submission, or since it was preempted", is_right=True,
    ),
    _STARTS,
    Column("half_start_by", "", lambda row: row.start and row.start.p50),
    Column("nine_of_ten_start_by", "", lambda row: row.start and row.start.p90),
    Column(
        "reason", None, lambda row: row.reason.short, meaning="The first thing that keeps it from starting",
        cell=lambda row: row["reason"].get("short") or row["reason"]["message"],
    ),
    Column("reason_code", "", lambda row: row.reason.code),
    Column("message", "", lambda row: row.reason.message),
)  # fmt: skip
"""Of the gangs that wait: a row of the file and of the page is a
:class:`scheduling.selectors.queue.visible_queue.WaitingGang`."""

QUEUE_COLUMNS = list_columns(
    "queue",
    Column("bar", "GPUs"),
    *(number_column(TREE_NUMBERS[key]) for key in ("quota", "total_usage", "borrowed", "lent", "pending")),
)

WAITING_COLUMNS = list_columns("pool", Column("gangs", is_right=True), _GPUS, "waits")
"""Of the pools with waiting work."""

WAY_COLUMNS = list_columns(
    Column("way", "The same work", cell="text"),
    "pool", "priority",
    Column("gpus", "GPUs to start", is_right=True),
    replace(_STARTS, value=None),
)  # fmt: skip
"""Of the ways to submit some work, with the forecasts of their starts."""

RESULT_COLUMNS = list_columns("workflow", "result", "details")
"""Of an action on several workflows."""

HIT_COLUMNS = list_columns("name", "kind")
"""Of what a search found."""

STEP_COLUMNS = list_columns("pass", "action", "workload", "tasks", "for", Column("reason", cell="message"))
"""Of the steps of a scheduling cycle."""

SYNC_COLUMNS = list_columns(
    "cluster", "state", "cause_and_next_step",
    Column("queues", is_right=True),
    Column("differing_fields", meaning="Fields that another client changed and that differ now", is_right=True),
    "last_check",
)  # fmt: skip

DRIFT_COLUMNS = list_columns("queue", "field", "found", "desired", "editor", "detected", "resolved")

WEBHOOK_COLUMNS = list_columns(
    "cluster", "mode", "our_user_name", Column("callers", is_right=True), Column("bypass_attempts", is_right=True)
)

BYPASS_COLUMNS = list_columns(
    "caller", "object", Column("attempts", is_right=True), Column("refused", is_right=True), "last", "reason"
)

JOB_COLUMNS = list_columns(
    Column("name", value=lambda row: row.name),
    Column("state", value=lambda row: row.state),
    Column("what_it_does", value=lambda row: row.purpose, cell="purpose", is_extra=True),
    Column("interval_seconds", "Interval", lambda row: row.interval_seconds, is_right=True, is_extra=True,
           published="Interval [s]"),
    Column("last_run", value=lambda row: row.last_run, is_time=True),
    Column("runs", value=lambda row: row.runs, is_right=True, is_extra=True),
    Column("failures", None, lambda row: row.failures, meaning="Runs that ended with an error", is_right=True),
    Column("last_failure", None, lambda row: row.last_failure, is_time=True),
    Column("error", None, lambda row: row.error, meaning="The kind of the last error"),
)  # fmt: skip
"""Of the background jobs of the installation."""

IMPORTED_COLUMNS = list_columns("object", "change", Column("place", "From"), "values")
"""Of the objects that an import creates and changes."""

REPORT_COLUMNS = list_columns(Column("part", "Part of the files"), Column("outcome", "What became of it"))
"""Of the lines of an import's report."""

REPLAY_COLUMNS = list_columns(
    "requested", "cluster", Column("since", "From"), Column("until", "To"), "changes", "status"
)

TEAM_COLUMNS = list_columns(
    "team",
    *(Column(key, each.heading, meaning=each.meaning, is_right=True) for key, each in REPLAY_NUMBERS.items()),
    Column("idle", GPU_HOURS, is_right=True),
)
"""Of the teams of a replay; `idle` is of those that did not use their quota."""

PERSON_COLUMNS = list_columns(
    "user",
    Column("team", cell="queue"),
    number_column(REPLAY_NUMBERS["jobs"]),
    Column("wait", "Waiting, in sum", is_right=True),
    Column("preemptions", "Reclaims and preemptions", is_right=True),
)
"""Of the people whose work a replay with other quotas changes."""

CHANGE_COLUMNS = list_columns(
    "change", "of", Column("was", "From", is_right=True), Column("would", "To", is_right=True), "preview"
)
"""Of the changes of a proposal."""

RIVAL_COLUMNS = list_columns(
    "division",
    TEAM_COLUMNS["waiting_gpu_h"],
    TEAM_COLUMNS["lost_gpu_h"],
    "cost",
    Column("later", "HIGH/NORMAL jobs later"),
    Column("delays", "Delays HIGH or NORMAL work"),
    "never_again", "quotas",
)  # fmt: skip
"""Of the divisions of a quota that are compared with a proposal."""

NODE_LOSS_COLUMNS = list_columns(
    Column("node", value=lambda row: row[0], cell=lambda row: row["nodes"][0]),
    Column("alike", "More alike", lambda row: len(row[1].nodes) - 1,
           meaning="Other nodes whose loss would do the same", is_right=True,
           cell=lambda row: len(row["nodes"]) - 1),
    Column("gpus", "GPUs", lambda row: row[1].gpus, is_right=True),
    Column("missing", "Quota missing", lambda row: row[1].missing,
           meaning="GPUs of quotas that the cluster could not give any more", is_right=True),
    Column("workflows", None, lambda row: row[1].workflows, meaning="Workflows that lose GPUs at once", is_right=True),
    Column("lost_gpus", "GPUs lost", lambda row: row[1].lost, meaning="GPUs that they lose, also on other nodes",
           is_right=True),
    Column("guaranteed_gpus", "HIGH and NORMAL", lambda row: row[1].guaranteed,
           meaning="GPUs lost by HIGH and NORMAL work", is_right=True),
    Column("ended", "Do not restart", lambda row: row[1].ended,
           meaning="Workflows that end for good: their exit actions do not restart them", is_right=True),
    Column("again", "Start again", lambda row: row[1].outcome and row[1].outcome.again,
           meaning="Workflows that start again on other nodes at once", is_right=True,
           cell=lambda row: row["outcome"] and row["outcome"]["again"]),
    Column("waiting", "Wait again", lambda row: row[1].outcome and row[1].outcome.waiting, is_right=True,
           cell=lambda row: row["outcome"] and row["outcome"]["waiting"]),
    Column("displaced", None, lambda row: row[1].outcome and row[1].outcome.displaced,
           meaning="Workflows elsewhere that would run without the loss", is_right=True,
           cell=lambda row: row["outcome"] and row["outcome"]["displaced"]),
)  # fmt: skip
"""Of the loss of each single node. A row of the file is a node with the
:class:`scheduling.selectors.what_if.single_losses.SingleLoss` of it and those that are alike."""

LOST_WORK_COLUMNS = list_columns("workflow", "queue", Column("gpus", "GPUs", is_right=True), "effect")
"""Of the work that the loss of one node concerns."""


def _shared_text(shared: Mapping[str, int | None] | None) -> str:
    """The GPUs of a node that shares them, and those that it advertises."""
    if shared is None:
        return ""
    physical = "?" if shared["physical"] is None else shared["physical"]
    return f"{physical} as {shared['advertised']}"


NODE_NOTE_COLUMNS = list_columns(
    Column("node", cell="name"),
    "platform",
    FLAVOR_COLUMN,
    _GPUS,
    Column("used", is_right=True),
    Column("free", is_right=True),
    Column("shared", cell=lambda row: _shared_text(row.get("shared"))),
    Column("suspect_since", cell="suspect_since", is_time=True),
    Column("notes", cell=lambda row: "; ".join(row["notes"])),
)
"""Of the nodes of a cluster with what is to be said about them."""
