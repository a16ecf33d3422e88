"""Shapes and filters of the calls about work, as the OpenAPI file shows them."""

from __future__ import annotations

from pools.api.schema import ANYTHING, BOOLEAN, LIMIT, OBJECT, OFFSET, TEXT, TIME, WHOLE, Query, array, fields, nullable
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus, WorkflowStatus

NUMBER = {"type": "number"}
PRIORITY = {"type": "string", "enum": [str(each) for each in Priority]}
WORKFLOW_STATUS = {"type": "string", "enum": [str(each) for each in WorkflowStatus]}
TASK_STATUS = {"type": "string", "enum": [str(each) for each in TaskStatus]}
_TEXT_OR_NULL, _TIME_OR_NULL = nullable(TEXT), nullable(TIME)

SUBMITTED = fields(
    {
        "name": TEXT,
        "overview": _TEXT_OR_NULL,
        "logs": _TEXT_OR_NULL,
        "spec": _TEXT_OR_NULL,
        "dashboard_url": _TEXT_OR_NULL,
        "warnings": array(TEXT),
        "queue": TEXT,
        "k8s_queue": TEXT,
        "workflow_uuid": _TEXT_OR_NULL,
        "status": nullable(TEXT),
        "pool": TEXT,
    },
    more=True,
)
_FILE = {
    "file": {**TEXT, "description": "The workflow file, YAML."},
    "set_variables": array(TEXT),
    "set_string_variables": array(TEXT),
    "uploaded_templated_spec": nullable(TEXT),
}
FILE = fields(_FILE, required=[])
ONE_OF_MANY = fields(
    {
        **_FILE,
        "priority": PRIORITY,
        "label": array(TEXT),
        "env_vars": array(TEXT),
        "app_uuid": TEXT,
        "app_version": TEXT,
    },
    required=["file"],
)
MANY_FILES = fields(
    {
        "workflows": {**array(ONE_OF_MANY), "minItems": 1, "maxItems": 500},
        "description": ANYTHING,
        "tags": ANYTHING,
    },
    required=["workflows"],
)
_TIMES = {
    "submit_time": TIME,
    "start_time": _TIME_OR_NULL,
    "end_time": _TIME_OR_NULL,
    "queued_time": NUMBER,
    "duration": nullable(NUMBER),
}
_ENTRY = fields(
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
    more=True,
)
_TASK = fields({"name": TEXT, "retry_id": WHOLE, "status": TASK_STATUS, "start_time": _TIME_OR_NULL}, more=True)
_COUNTED = {"threshold": WHOLE, "count": WHOLE, "size": WHOLE, "satisfied": BOOLEAN}
AMOUNT = nullable({"anyOf": [NUMBER, TEXT]})
REASON = fields(
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
STANDING = {
    "position": WHOLE,
    "position_in_queue": WHOLE,
    "ahead": WHOLE,
    "reason": REASON,
    "unblock": array(TEXT),
}
_SUB_GROUP = fields({"name": TEXT, "parent": nullable(TEXT), **_COUNTED, "optional": BOOLEAN})
_GROUP = fields(
    {
        "name": TEXT,
        "status": TASK_STATUS,
        "queue": TEXT,
        "k8s_queue": TEXT,
        "gang": nullable(fields({**_COUNTED, "sub_groups": array(_SUB_GROUP)})),
        "waiting": nullable(fields(STANDING)),
        "tasks": array(_TASK),
    },
    more=True,
)
WORKFLOWS = fields({"workflows": array(_ENTRY), "more_entries": BOOLEAN})
WORKFLOW = fields(
    {
        "name": TEXT,
        "uuid": TEXT,
        "submitted_by": TEXT,
        **_TIMES,
        "status": WORKFLOW_STATUS,
        "overview": TEXT,
        "groups": array(_GROUP),
        "pool": TEXT,
        "backend": TEXT,
        "priority": PRIORITY,
        "labels": OBJECT,
        "queue": TEXT,
        "k8s_queue": TEXT,
        "reason": nullable(REASON),
    },
    more=True,
)
_TASK_ENTRY = fields(
    {
        "user": TEXT,
        "workflow_id": TEXT,
        "task_name": TEXT,
        "status": TASK_STATUS,
        "pool": TEXT,
        "storage": NUMBER,
        "cpu": NUMBER,
        "memory": NUMBER,
        "gpu": WHOLE,
        "priority": PRIORITY,
    },
    more=True,
)
TASKS = fields({"tasks": array(_TASK_ENTRY), "summaries": array(OBJECT)}, required=[])
END = fields(
    {
        "status": {"type": "string", "enum": ["COMPLETED", "FAILED"]},
        "group": nullable(TEXT),
        "description": TEXT,
        "tags": ANYTHING,
    },
    required=["status"],
)
NOTES = fields({"description": ANYTHING, "tags": ANYTHING}, required=[])
SETTLED = fields({"steps": array(OBJECT), "settled": BOOLEAN})

SUBMIT_DRY_RUN = Query("dry_run", BOOLEAN, "Check the file and answer it rendered; submit nothing.")
VALIDATION_ONLY = Query("validation_only", BOOLEAN, "Check the file and say so in words; submit nothing.")
SUBMIT = (
    Query("priority", PRIORITY, "NORMAL if nobody says, a PodGroup either. LOW may go over quota and be preempted."),
    SUBMIT_DRY_RUN,
    VALIDATION_ONLY,
    Query("workflow_id", TEXT, "Submit the file of this workflow again; then there is no body."),
    Query("env_vars", TEXT, "KEY=VALUE for every task.", many=True),
    Query("label", TEXT, "KEY=VALUE; wins over the file's.", many=True),
    Query("app_uuid", TEXT, "The app this work belongs to."),
    Query("app_version", TEXT, "Its version."),
)
ORDER = Query("order", {"type": "string", "enum": ["ASC", "DESC"]}, "By submit time; DESC if not given.")
COMMON_FILTERS = (
    LIMIT,
    OFFSET,
    ORDER,
    Query("users", TEXT, "Only work of these users; without it one's own.", many=True),
    Query("all_users", BOOLEAN, "Everybody's work that one may see."),
    Query("pools", TEXT, "Only work on these pools.", many=True),
    Query("all_pools", BOOLEAN, "Work on every pool; so it is anyway without `pools`."),
    Query("priority", PRIORITY, "Only work of these priorities.", many=True),
)
WORKFLOW_FILTERS = (
    *COMMON_FILTERS,
    Query("statuses", WORKFLOW_STATUS, "Only workflows that stand so.", many=True),
    Query("name", TEXT, "Only ids that contain this."),
    Query("tags", TEXT, "Only workflows with all of these tags.", many=True),
    Query("label", TEXT, "KEY=SELECTOR: a value, `*` for anything, `(A|B)` for alternatives.", many=True),
    Query("no_label", TEXT, "Only workflows without this label.", many=True),
    Query("app", TEXT, "Only work of this app, as UUID or UUID:VERSION."),
    Query("submitted_after", TEXT, "From this time on, UTC."),
    Query("submitted_before", TEXT, "Before this time, UTC."),
)
TASK_FILTERS = (
    *COMMON_FILTERS,
    Query("statuses", TASK_STATUS, "Only tasks that stand so.", many=True),
    Query("nodes", TEXT, "Only tasks on these nodes.", many=True),
    Query("workflow_id", TEXT, "Only tasks of workflows whose id contains this."),
    Query("started_after", TEXT, "From this time on, UTC."),
    Query("started_before", TEXT, "Before this time, UTC."),
    Query("summary", BOOLEAN, "What they ask for together, by user, pool and priority."),
    Query("aggregate_by_workflow", BOOLEAN, "The same by workflow, too."),
)
LINES = (
    Query("task_name", TEXT, "Only of this task."),
    Query("retry_id", {"type": "integer", "minimum": 0}, "Only of this try of that task; the latest if not given."),
    Query("last_n_lines", {"type": "integer", "minimum": 0}, "Only so many lines, the last ones."),
)
