"""Bodies, answers and filters of the calls about work, for the OpenAPI file."""

from __future__ import annotations

from pools.api.schema import (
    ANY_VALUE,
    BOOLEAN,
    DATETIME,
    INTEGER,
    LIMIT,
    OBJECT,
    OFFSET,
    TEXT,
    QueryParameter,
    array_of,
    nullable,
    object_with,
)
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus, WorkflowStatus

NUMBER = {"type": "number"}
PRIORITY = {"type": "string", "enum": [str(each) for each in Priority]}
WORKFLOW_STATUS = {"type": "string", "enum": [str(each) for each in WorkflowStatus]}
TASK_STATUS = {"type": "string", "enum": [str(each) for each in TaskStatus]}
_TEXT_OR_NULL, _TIME_OR_NULL = nullable(TEXT), nullable(DATETIME)

_START = object_with(
    {
        "p10": _TIME_OR_NULL,
        "p50": _TIME_OR_NULL,
        "p90": _TIME_OR_NULL,
        "samples": INTEGER,
        "made_at": DATETIME,
        "never": nullable(TEXT),
    }
)
_WAY = object_with(
    {
        "code": {"type": "string", "enum": ["as_asked", "pool", "priority", "minimum", "gpus"]},
        "text": TEXT,
        "pool": TEXT,
        "priority": PRIORITY,
        "gpus": INTEGER,
        "starts_now": BOOLEAN,
        "start": nullable(_START),
    }
)

SUBMISSION_FORECAST = {
    "start": {**nullable(_START), "description": "Of a dry run: when the work would start."},
    "ways": {**array_of(_WAY), "description": "Of a dry run with `ways`: other ways in, the earliest start first."},
}
_SUBMISSION = {
    "name": TEXT,
    "overview": _TEXT_OR_NULL,
    "logs": _TEXT_OR_NULL,
    "spec": _TEXT_OR_NULL,
    "dashboard_url": _TEXT_OR_NULL,
    "warnings": array_of(TEXT),
    "queue": TEXT,
    "k8s_queue": TEXT,
    "workflow_uuid": _TEXT_OR_NULL,
    "status": nullable(TEXT),
    "pool": TEXT,
}
SUBMISSION_ANSWER = object_with({**_SUBMISSION, **SUBMISSION_FORECAST}, required=list(_SUBMISSION), additional=True)
_FILE = {
    "file": {**TEXT, "description": "The workflow file, YAML."},
    "set_variables": array_of(TEXT),
    "set_string_variables": array_of(TEXT),
    "uploaded_templated_spec": nullable(TEXT),
}
SUBMISSION_BODY = object_with(_FILE, required=[])
BATCH_ITEM = object_with(
    {
        **_FILE,
        "priority": PRIORITY,
        "label": array_of(TEXT),
        "env_vars": array_of(TEXT),
        "app_uuid": TEXT,
        "app_version": TEXT,
    },
    required=["file"],
)
BATCH_SUBMISSION_BODY = object_with(
    {
        "workflows": {**array_of(BATCH_ITEM), "minItems": 1, "maxItems": 500},
        "description": ANY_VALUE,
        "tags": ANY_VALUE,
    },
    required=["workflows"],
)
_TIMES = {
    "submit_time": DATETIME,
    "start_time": _TIME_OR_NULL,
    "end_time": _TIME_OR_NULL,
    "queued_time": NUMBER,
    "duration": nullable(NUMBER),
}
AMOUNT = nullable({"anyOf": [NUMBER, TEXT]})
REASON = object_with(
    {
        "code": TEXT,
        "message": TEXT,
        "queue": nullable(TEXT),
        "limit": nullable(TEXT),
        "requested": AMOUNT,
        "free": AMOUNT,
        "missing": AMOUNT,
    }
)
_ENTRY = object_with(
    {
        "user": TEXT,
        "name": TEXT,
        "workflow_uuid": TEXT,
        **_TIMES,
        "status": WORKFLOW_STATUS,
        "overview": TEXT,
        "logs": TEXT,
        "pool": TEXT,
        "priority": PRIORITY,
        "labels": OBJECT,
        "queue": TEXT,
        "k8s_queue": TEXT,
    },
    additional=True,
)
_LISTED = {
    **_ENTRY,
    "properties": {**_ENTRY["properties"], "gpus": INTEGER, "reason": nullable(REASON), "start": nullable(_START)},
}
_TASK = object_with(
    {"name": TEXT, "retry_id": INTEGER, "status": TASK_STATUS, "start_time": _TIME_OR_NULL}, additional=True
)
_COUNTED = {"threshold": INTEGER, "count": INTEGER, "size": INTEGER, "satisfied": BOOLEAN}
START_RESERVATION = object_with(
    {
        "since": DATETIME,
        "latest_start": _TIME_OR_NULL,
        "is_certain": BOOLEAN,
        "nodes": nullable({"type": "object", "additionalProperties": INTEGER}),
        "passed_by": INTEGER,
        "message": TEXT,
    }
)
QUEUE_POSITION = {
    "position": INTEGER,
    "position_in_queue": INTEGER,
    "ahead": INTEGER,
    "reason": REASON,
    "unblock": array_of(TEXT),
    "holders": array_of(TEXT),
    "nodes": array_of(TEXT),
    "unblock_needs_all": BOOLEAN,
    "reservation": nullable(START_RESERVATION),
    "start": nullable(_START),
}
_SUB_GROUP = object_with({"name": TEXT, "parent": nullable(TEXT), **_COUNTED, "optional": BOOLEAN})
_GROUP = object_with(
    {
        "name": TEXT,
        "status": TASK_STATUS,
        "queue": TEXT,
        "k8s_queue": TEXT,
        "gang": nullable(object_with({**_COUNTED, "sub_groups": array_of(_SUB_GROUP)})),
        "waiting": nullable(object_with(QUEUE_POSITION)),
        "tasks": array_of(_TASK),
    },
    additional=True,
)
WORKFLOW_LIST_ANSWER = object_with(
    {"workflows": array_of(_LISTED), "more_entries": BOOLEAN, "total": INTEGER},
    required=("workflows", "more_entries"),
)
WORKFLOW_ANSWER = object_with(
    {
        "name": TEXT,
        "uuid": TEXT,
        "submitted_by": TEXT,
        **_TIMES,
        "status": WORKFLOW_STATUS,
        "overview": TEXT,
        "groups": array_of(_GROUP),
        "pool": TEXT,
        "backend": TEXT,
        "priority": PRIORITY,
        "labels": OBJECT,
        "queue": TEXT,
        "k8s_queue": TEXT,
        "reason": nullable(REASON),
    },
    additional=True,
)
_TASK_ENTRY = object_with(
    {
        "user": TEXT,
        "workflow_id": TEXT,
        "task_name": TEXT,
        "status": TASK_STATUS,
        "pool": TEXT,
        "storage": NUMBER,
        "cpu": NUMBER,
        "memory": NUMBER,
        "gpu": INTEGER,
        "priority": PRIORITY,
    },
    additional=True,
)
TASK_LIST_ANSWER = object_with({"tasks": array_of(_TASK_ENTRY), "summaries": array_of(OBJECT)}, required=[])
END_REPORT = object_with(
    {
        "status": {"type": "string", "enum": ["COMPLETED", "FAILED"]},
        "group": nullable(TEXT),
        "description": TEXT,
        "tags": ANY_VALUE,
    },
    required=["status"],
)
NOTES_BODY = object_with({"description": ANY_VALUE, "tags": ANY_VALUE}, required=[])
SCHEDULING_RESULT = object_with({"steps": array_of(OBJECT), "settled": BOOLEAN})

SUBMIT_DRY_RUN = QueryParameter("dry_run", BOOLEAN, "Check the file and answer the rendered file; submit nothing.")
SUBMIT_START = QueryParameter(
    "start",
    BOOLEAN,
    "With dry_run: when the work would start. True: it is computed, in up to seconds on a large cluster. False: "
    "it is not told. Not given: computed on a cluster of at most 64 nodes and 100 live workflows; on a larger one it "
    "is the kept forecast of the last gang before it in its queue, or null.",
)
SUBMIT_WAYS = QueryParameter(
    "ways", BOOLEAN, "With dry_run: also list other ways in with their starts. Takes up to some seconds."
)
VALIDATION_ONLY = QueryParameter("validation_only", BOOLEAN, "Check the file and answer a message; submit nothing.")
SUBMIT_PARAMETERS = (
    QueryParameter(
        "priority",
        PRIORITY,
        "NORMAL if neither the query nor the PodGroup gives one. LOW work may go over quota and be preempted.",
    ),
    SUBMIT_DRY_RUN,
    SUBMIT_START,
    SUBMIT_WAYS,
    VALIDATION_ONLY,
    QueryParameter("workflow_id", TEXT, "Submit the file of this workflow again; then there is no body."),
    QueryParameter("env_vars", TEXT, "KEY=VALUE for every task.", is_list=True),
    QueryParameter("label", TEXT, "KEY=VALUE; overrides the label of the file.", is_list=True),
    QueryParameter("app_uuid", TEXT, "The app that this work belongs to."),
    QueryParameter("app_version", TEXT, "Its version."),
)
ORDER_PARAMETER = QueryParameter(
    "order", {"type": "string", "enum": ["ASC", "DESC"]}, "By submit time; DESC if not given."
)
COMMON_FILTERS = (
    LIMIT,
    OFFSET,
    ORDER_PARAMETER,
    QueryParameter("users", TEXT, "Only work of these users; without it the caller's own.", is_list=True),
    QueryParameter("all_users", BOOLEAN, "The work of all users, as far as the caller may see it."),
    QueryParameter("pools", TEXT, "Only work on these pools.", is_list=True),
    QueryParameter("all_pools", BOOLEAN, "Work on every pool; the default without `pools`."),
    QueryParameter("priority", PRIORITY, "Only work of these priorities.", is_list=True),
)
WORKFLOW_FILTERS = (
    *COMMON_FILTERS,
    QueryParameter("statuses", WORKFLOW_STATUS, "Only workflows with these statuses.", is_list=True),
    QueryParameter("name", TEXT, "Only ids that contain this text."),
    QueryParameter("tags", TEXT, "Only workflows with all of these tags.", is_list=True),
    QueryParameter("label", TEXT, "KEY=SELECTOR: a value, `*` for anything, `(A|B)` for alternatives.", is_list=True),
    QueryParameter("no_label", TEXT, "Only workflows without this label.", is_list=True),
    QueryParameter("app", TEXT, "Only work of this app, as UUID or UUID:VERSION."),
    QueryParameter("submitted_after", TEXT, "From this time on, UTC."),
    QueryParameter("submitted_before", TEXT, "Before this time, UTC."),
)
TASK_FILTERS = (
    *COMMON_FILTERS,
    QueryParameter("statuses", TASK_STATUS, "Only tasks with these statuses.", is_list=True),
    QueryParameter("nodes", TEXT, "Only tasks on these nodes.", is_list=True),
    QueryParameter("workflow_id", TEXT, "Only tasks of workflows whose id contains this."),
    QueryParameter("started_after", TEXT, "From this time on, UTC."),
    QueryParameter("started_before", TEXT, "Before this time, UTC."),
    QueryParameter("summary", BOOLEAN, "The sums of their requests, by user, pool and priority."),
    QueryParameter("aggregate_by_workflow", BOOLEAN, "As `summary`, and also by workflow."),
)
LINE_FILTERS = (
    QueryParameter("task_name", TEXT, "Only of this task."),
    QueryParameter(
        "retry_id", {"type": "integer", "minimum": 0}, "Only of this attempt of the task; the latest if not given."
    ),
    QueryParameter("last_n_lines", {"type": "integer", "minimum": 0}, "Only the last lines, this many."),
)
