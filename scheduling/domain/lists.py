"""The queries of the lists of work: filters and pages."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pools.domain.lists import NamedPools
from pools.domain.questions import FILTER_TEXTS, ORDER, Page, any_of, page_limit, parameter
from pools.domain.structured_input.declared_values import BOOLEAN, TEXT, TEXTS, TIME, choice, whole_number
from pools.domain.values.query_values import MAX_INTEGER
from scheduling.domain.label_selectors import selector_pattern
from scheduling.domain.observed.differences import DifferenceKind
from scheduling.domain.priorities import Priority
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.domain.statuses import TaskStatus, WorkflowStatus


def parse_label_selector(text: str) -> tuple[str, str] | None:
    """`KEY=SELECTOR` as the key and the regular expression of the whole value."""
    key, equals, selector = text.partition("=")
    pattern = selector_pattern(selector)
    return (key, pattern) if key and equals and pattern is not None else None


_SELECTORS = dataclasses.replace(
    FILTER_TEXTS,
    parse=parse_label_selector,
    rule="KEY=SELECTOR, where a selector is a value, with * for anything and (A|B) for alternatives",
)


@dataclass(frozen=True, slots=True)
class WorkQuery(Page):
    """The query of workflows and of tasks alike; without a condition on users, the caller's own."""

    order: bool = parameter(ORDER, "By submit time; DESC if not given.", default=True, option="")
    users: list[str] = parameter(
        TEXTS, "Only work of these users; without it your own.", option="--user", short="-u", metavar="USER..."
    )
    all_users: bool = parameter(BOOLEAN, "The work of all users, as far as you may see it.", default=False, short="-a")
    pools: list[str] = parameter(TEXTS, "Only work on these pools.", option="--pool", short="-p", metavar="POOL...")
    all_pools: bool = parameter(BOOLEAN, "Work on every pool; the default without `pools`.", default=False, option="")
    priority: list[Priority] = parameter(
        any_of(Priority), "Only work of these priorities: HIGH, NORMAL or LOW.", label="Priority", metavar="PRIORITY..."
    )


@dataclass(frozen=True, slots=True)
class WorkflowQuery(WorkQuery):
    """The query of the list of workflows."""

    statuses: list[WorkflowStatus] = parameter(
        any_of(WorkflowStatus),
        "Only workflows with these statuses, as RUNNING or PENDING.",
        option="--status",
        short="-s",
        metavar="STATUS...",
    )
    name: str = parameter(TEXT, "Only ids that contain this text.", label="Name", hint="part of a name", short="-n")
    tags: list[str] = parameter(TEXTS, "Only workflows with all of these tags.", metavar="TAG...")
    label: list[tuple[str, str]] = parameter(
        _SELECTORS, "Only with this label: `*` is anything, `(A|B)` are alternatives.", metavar="KEY=VALUE..."
    )
    no_label: list[str] = parameter(FILTER_TEXTS, "Only workflows without this label.", metavar="KEY...")
    app: str = parameter(TEXT, "Only work of this app, as UUID or UUID:VERSION.", option="")
    submitted_after: datetime | None = parameter(TIME, "From this time on.", label="Submitted from")
    submitted_before: datetime | None = parameter(TIME, "Before this time.", label="Submitted until")
    details: bool = parameter(
        BOOLEAN,
        "With the GPUs of each workflow, and the reason and start of work that waits.",
        default=False,
        option="",
    )
    total: bool = parameter(
        BOOLEAN, "With the number of all workflows that match, as `total`.", default=False, option=""
    )


@dataclass(frozen=True, slots=True)
class TaskQuery(WorkQuery):
    """The query of the list of tasks."""

    statuses: list[TaskStatus] = parameter(
        any_of(TaskStatus), "Only tasks with these statuses.", option="--status", short="-s", metavar="STATUS..."
    )
    nodes: list[str] = parameter(TEXTS, "Only tasks on these nodes.", option="--node", short="-n", metavar="NODE...")
    workflow_id: str = parameter(TEXT, "Only tasks of workflows whose id contains this.", short="-w")
    started_after: datetime | None = parameter(TIME, "From this time on.")
    started_before: datetime | None = parameter(TIME, "Before this time.")
    summary: bool = parameter(
        BOOLEAN, "The sums of their requests, by user, pool and priority.", default=False, short="-S"
    )
    aggregate_by_workflow: bool = parameter(BOOLEAN, "The sums by workflow, too.", default=False, short="-W")


@dataclass(frozen=True, slots=True)
class PendingQueueQuery(Page):
    """The query of the waiting gangs."""

    limit: int = page_limit(100)
    pool: list[str] = parameter(
        FILTER_TEXTS,
        "Only on this pool with its subpools, or on this subpool.",
        default=(),
        short="-p",
        metavar="POOL...",
    )
    user: list[str] = parameter(FILTER_TEXTS, "Only work of this user.", default=(), short="-u", metavar="USER...")
    workflow: list[str] = parameter(FILTER_TEXTS, "Only the groups of this workflow.", default=(), option="")


class UsageKey(StrEnum):
    """What a row of the record is about."""

    POOL = "pool"
    SUBPOOL = "subpool"
    COHORT = "cohort"
    USER = "user"
    PRIORITY = "priority"
    BACKEND = "backend"
    FLAVOR = "flavor"
    WORKFLOW = "workflow"


NO_KEY = {UsageKey.FLAVOR: "one of several"}
"""What a row without a key is about, where it is not nothing: work that waits for one of several flavors."""


class Bucket(StrEnum):
    """The length of time of a row, in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


USUAL_BUCKET = Bucket.MONTH
"""Of the client and of agents: by days, 30 days are too many rows for a table. Programs get days from the API."""


@dataclass(frozen=True, slots=True)
class UsageQuery(Page):
    """The query of the record of use."""

    limit: int = page_limit(1000)
    since: datetime | None = parameter(TIME, "From this time on; 30 days ago if it is not given.")
    until: datetime | None = parameter(TIME, "Up to this time; now if it is not given.")
    by: UsageKey = parameter(choice(list(UsageKey)), "What a row is about; by default pool.", default=UsageKey.POOL)
    bucket: Bucket = parameter(
        choice(list(Bucket)), "The length of time of a row, in UTC; over the API by default day.", default=Bucket.DAY
    )
    pool: list[str] = parameter(
        FILTER_TEXTS, "Only this pool with its subpools, or this subpool.", default=(), short="-p", metavar="POOL..."
    )
    user: list[str] = parameter(FILTER_TEXTS, "Only work of this user.", default=(), short="-u", metavar="USER...")
    format: str = parameter(choice(["json", "csv"]), "JSON, or a CSV file of all rows.", default="json", option="")


@dataclass(frozen=True, slots=True)
class ResourceQuery(NamedPools):
    """The nodes of the query."""

    platforms: list[str] = parameter(
        TEXTS, "Only these platforms.", default=(), option="--platform", metavar="PLATFORM..."
    )


@dataclass(frozen=True, slots=True)
class LineQuery:
    """The lines of a log of the query."""

    task_name: str = parameter(TEXT, "Only of this task.", default="", option="--task", short="-t")
    retry_id: int | None = parameter(
        whole_number(0, MAX_INTEGER), "Only of this attempt of the task; the latest if not given.", short="-r"
    )
    last_n_lines: int = parameter(
        whole_number(0, MAX_INTEGER),
        "Only the last lines, this many; all if not given.",
        default=MAX_INTEGER,
        short="-n",
    )


@dataclass(frozen=True, slots=True)
class DifferenceQuery(Page):
    """The query of the decisions of another scheduler that ours would not have made."""

    limit: int = page_limit(100)
    kind: list[DifferenceKind] = parameter(any_of(DifferenceKind), "Only these differences.", label="Difference")
    pool: str = parameter(TEXT, "Only work of this pool or subpool.", default="", label="Pool or subpool", short="-p")
    workflow: str = parameter(TEXT, "Only this workflow.", default="", label="Workflow")
    since: datetime | None = parameter(TIME, "From this time on.", label="From")
    until: datetime | None = parameter(TIME, "Before this time.", label="Until")


@dataclass(frozen=True, slots=True)
class NodeQuery(Page):
    """The nodes of the query."""

    name: str = parameter(TEXT, "Only nodes whose names contain this text.", default="")
    free: int = parameter(whole_number(0, MAX_INTEGER), "Only nodes with at least this many free GPUs.", default=0)


class OutcomeKind(StrEnum):
    """What was said before: a certain latest start of waiting work, or the effect that a preview showed."""

    START = "start"
    PREVIEW = "preview"


@dataclass(frozen=True, slots=True)
class OutcomeQuery(Page):
    """The query of what was said about the future, and what came of it."""

    outcome: PromiseOutcome | None = parameter(
        choice(list(PromiseOutcome)), "Only what was kept, broken or withdrawn, or is still open."
    )
    kind: OutcomeKind | None = parameter(choice(list(OutcomeKind)), "Only latest starts, or only previews.")
    backend: str = parameter(TEXT, "Only on this cluster.", short="-b", metavar="CLUSTER")
