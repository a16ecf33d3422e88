"""What people call the columns of the audit trail, and their values in words: the labels of the declared fields, and of
the columns that no form has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pools.domain.configuration.backend_config import CHOICE_WORDS
from pools.domain.configuration.cohort_config import COHORT_FIELDS, QUOTA_FIELDS
from pools.domain.configuration.pool_fields import POOL_FIELDS
from pools.domain.gpu_quota.spec import AMOUNT_WORDS, SPEC_FIELDS
from pools.domain.numbers import QUOTA, gpu_quota_labels
from pools.domain.quota.stored_quotas import FLAVOR_LIMITS
from pools.domain.structured_input.config_fields import ConfigField
from pools.domain.values.amounts import GPU
from pools.domain.values.byte_sizes import exact_size_text
from pools.domain.values.durations import minute_text

DRAIN_DEADLINE: Final = "drain_by"
"""The column of the time by which the work of a draining subpool should have ended."""
_COMMON: Final = {
    "name": "Name", "description": "Description", "version": "Version", "created_at": "Created",
    "updated_at": "Changed", "is_active": "May sign in", "backend": "Cluster", "parent": "Parent",
}  # fmt: skip


def _spec_labels() -> Iterator[tuple[str, str]]:
    for each in SPEC_FIELDS:
        for resource, word in AMOUNT_WORDS.items():
            key = f"spec.{each.key}.{resource}" if "{}" in each.label else f"spec.{each.key}"
            yield key, each.label.format(word)


_LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    "pool": {
        **{each.column: each.label for each in POOL_FIELDS},
        "subpool_name": "Name in the pool", "subpool_state": "State", "last_quota": f"{QUOTA.label} in GPUs",
        "quota_until": "Until", "quota_after": "Quota afterwards",
        "flavors_after": "Quotas by flavor afterwards", DRAIN_DEADLINE: "Deadline of the drain",
        "archived": "Archived", "parent": "Pool", "config": "Configuration",
    },
    "cohort": {
        **{each.column: each.label for each in (*COHORT_FIELDS, *QUOTA_FIELDS)},
        "explicit": "Configured", "inactive_since": "Without work since",
    },
    "backend": {
        "desired_offline": "Offline", "kind": "Type", "auto_end": "Work ends automatically", "flavors": "Flavors",
        "namespace": "Namespace of queue names", "reserve_after": "Start reservations after", "ageing": "Ageing",
        "victims": "Preempted first", "degraded": "With too few GPUs", "offline": "Offline now",
        "offline_requested": "Taken offline", "mode": "Mode", "sync_mode": "Mode of the queues", "access": "Access",
        "kubeconfig_file": "Kubeconfig file", "credential_mark": "Mark of the kubeconfig", "context": "Context",
        "server": "Address", "scheduler_name": "Scheduler", "node_pool_key": "Label of the shard",
        "node_pool": "Shard", "queue_pools": "Pools of queues", "owner_label": "Label of the owner",
    },
    "node": {
        "flavor": "Flavor", "labels": "Labels", "gpus": "GPUs", "cpu": "CPUs", "memory_bytes": "Memory",
        "storage_bytes": "Storage", "gpu_pods_only": "Only for pods with GPUs", "platform": "Platform",
        "physical_gpus": "Physical GPUs", "advertised_gpus": "GPUs that it advertises", "taint": "Taint",
    },
    "approval": {
        "above": "Limit", "needs": "Changes that need it", "service": "Change", "arguments": "Values",
        "expected_version": "Version that was seen", "arguments_format": "Format of the values", "subject": "Object",
        "pool": "Pool", "requested_by": "By", "requested_at": "Requested", "expires_at": "Expires", "state": "State",
        "decided_by": "Decided by", "decided_at": "Decided", "decision_note": "Reason of the decision",
    },
    "config": {
        "subpool_drain_interval_minutes": "Minutes between checks for drained subpools",
        "max_retry_per_task": "Retries of a task, at most",
    },
    "user": {
        "username": "Name", "email": "Mail address", "date_joined": "Created", "created_by": "Created by",
        "default_pool": "Default pool", "email_notification": "Notices by mail",
        "slack_notification": "Notices by Slack", "password_login_at": "Last login by password", "role": "Role",
        "assigned_by": "Assigned by", "assigned_at": "Since", "provider": "Provider", "issuer": "Issuer",
        "subject": "Name at the provider", "groups": "Groups at the provider", "linked_at": "Linked",
        "signed_on_at": "Last sign-on",
    },
    "token": {"owner": "User", "roles": "Roles", "expires_at": "Expires"},
    "owner": {
        "kind": "Kind", "source": "Owner", "path": "File", "commit": "Commit", "subpools": "Subpools", "since": "Since",
    },
    "gpu_allocation": {
        "namespace": "Namespace", "workload": "Workload", "request_tflops": "TFLOPS requested per GPU",
        "request_vram": "Memory requested per GPU", "limit_tflops": "Limit of TFLOPS per GPU",
        "limit_vram": "Limit of memory per GPU", "count": "GPUs", "state": "State", "source": "Source",
        "holder": "Counted for", "expires_at": "Expires", "released_at": "Released", "reason": "Reason",
    },
    "notice_target": {
        "channel": "Channel", "shown_address": "Address", "kinds": "Kinds of notices", "pools": "Pools",
        "quiet_hours": "Quiet hours", "is_enabled": "Send notices", "is_profile": "Set by the own settings",
        "off_reason": "Why it is off",
    },
    "notice": {
        "message_id": "Number of the message", "entry": "Entry of the audit log", "kind": "Kind", "subject": "About",
        "title": "Notice", "status": "Status", "attempts": "Attempts", "attempted_at": "Last attempt",
        "ended_at": "Ended", "error": "Error",
    },
    "condition": {"kind": "Kind", "subject": "About", "message": "Message", "since": "Since"},
    "workflow": {
        "uuid": "UUID", "spec_name": "Name in the file", "pool": "Pool", "priority": "Priority", "status": "Status",
        "failure_message": "Message", "submit_time": "Submitted", "start_time": "Started", "end_time": "Ended",
        "exec_timeout": "Execution timeout", "queue_timeout": "Queue timeout",
        "simulated_runtime": "Simulated run time",
        "labels": "Labels", "env_vars": "Environment variables", "tags": "Tags", "spec": "File",
        "template_spec": "File with its template", "warnings": "Warnings", "cancelled_by": "Cancelled by",
        "app_uuid": "App", "app_version": "Version of the app",
    },
    "preemption": {
        "time": "Time", "action": "Rule", "workflow_id": "Workflow", "tasks": "Tasks", "nodes": "Nodes",
        "gpus": "GPUs", "message_without_beneficiary": "Message",
    },
    "webhook": {
        "mode": "Mode", "identity": "Our user name in the cluster", "accounts": "Other allowed accounts",
        "strict_minimums": "Strict minimums", "mark_generation": "Rotations of the mark",
        "previous_mark_until": "Mark before the last rotation is believed until", "url": "Address",
        "service": "Service", "service_port": "Port of the Service", "authorities": "Trusted certificates",
        "fails_closed": "Requests are refused while we do not answer", "namespace_selector": "Namespaces",
        "removed_at": "Removed", "repair": "What was put back", "repairs": "Times it was put back",
        "repaired_at": "Put back",
    },
    "config_file": {
        "source": "Owner", "path": "File", "digest": "Checksum", "faults": "Faults", "message": "Message",
    },
    "suspicion": {"failures": "Workflows that failed there", "since": "Since", "cleared_at": "Ended"},
    "gpu_quota": {
        "namespace": "Namespace", "alerting": "In alert", "alert_since": "In alert since", "alerts": "Alerts so far",
        "faults": "Faults", "source": "Set by", "conditions": "Conditions", "spec": "GPU quota", **dict(_spec_labels()),
    },
}  # fmt: skip
_FIELDS: Final[Mapping[str, Mapping[str, ConfigField]]] = {
    "pool": {each.column: each for each in POOL_FIELDS},
    "cohort": {each.column: each for each in (*COHORT_FIELDS, *QUOTA_FIELDS)},
}
_FLAVORS: Final = frozenset({"flavors", "flavors_after"})
_TIMES: Final = frozenset({
    "quota_until", DRAIN_DEADLINE, "inactive_since", "alert_since", "since", "date_joined", "submit_time", "start_time",
    "end_time", "time", "previous_mark_until",
})  # fmt: skip
NUMBERS_OF_ROWS: Final = frozenset({
    "id", "parent_id", "backend_id", "cohort_id", "pool_id", "user_id", "owner_id", "group_id", "identity_id",
    "node_id", "root_pool_id", "submitted_by_id", "target_id", "pool_id_then",
    "is_staff", "is_superuser", "first_name", "last_name", "epoch", "session_id",
})  # fmt: skip
"""Numbers of rows of the database, and columns that nothing here reads: they tell people nothing, and the names stand
beside them."""


def _flavor_text(row: Any) -> str:
    """A flavor of a backend with its labels, or one of a pool or subpool with its numbers."""
    if not isinstance(row, Mapping):
        return str(row)
    labels = ", ".join(f"{key}={value}" for key, value in (row.get("node_labels") or {}).items())
    limits = ", ".join(f"{key.replace('_', ' ')} {row[key]}" for key in FLAVOR_LIMITS if key in row)
    more = labels or limits
    name = f"{row.get('quota')} {row.get('flavor')}" if "flavor" in row else str(row.get("name"))
    return f"{name} ({more})" if more else name


def known_label(kind: str, key: str) -> str:
    """The declared label of a column of this kind; empty where it has none."""
    return _LABELS.get(kind, {}).get(key) or _COMMON.get(key, "")


def column_label(kind: str, path: str) -> str:
    """What people call a value of an object of this kind; dots lead to a value inside a column."""
    kind, path = _declared(kind, path)
    for key in (path, path.rpartition(".")[2]):
        if found := known_label(kind, key):
            inside = path.removesuffix(key).rstrip(".").rpartition(".")[2]
            return f"{found.removesuffix(' in GPUs')} of {inside}" if inside not in {"", GPU} else found
    head, _, rest = path.partition(".")
    if rest and (found := known_label(kind, head)):
        return f"{found}: {rest.replace('_', ' ')}"
    return path.replace("_", " ")


def _declared(kind: str, path: str) -> tuple[str, str]:
    """Where the value of a column inside another is declared: the values of a change that waits are a pool's."""
    if kind == "approval" and path.startswith("arguments."):
        return "pool", path.removeprefix("arguments.")
    return kind, path.removeprefix("config.") if kind == "pool" else path


def column_text(kind: str, path: str, value: Any) -> Any:
    """A value in words where its field says them: no limit, yes, a size, a time to the minute; others stay."""
    kind, path = _declared(kind, path)
    key = path.rpartition(".")[2]
    if kind == "backend" and isinstance(value, str) and key in CHOICE_WORDS:
        return CHOICE_WORDS[key].get(value, value)
    if (kind, key) == ("approval", "service") and isinstance(value, str):
        return value.replace("_", " ")
    field = _FIELDS.get(kind, {}).get(key)
    if field is not None and field.empty_value is not None and value == field.empty_value:
        return field.empty
    if key in _FLAVORS and isinstance(value, list):
        return ", ".join(map(_flavor_text, value)) or "none"
    if (kind, key) == ("gpu_quota", "alerting") and value is not None:
        return ", ".join(gpu_quota_labels(value)) or "nothing"
    if (key in _TIMES or key.endswith("_at")) and isinstance(value, str):
        return _time_text(value)
    if key.endswith("_bytes") and isinstance(value, int):
        return exact_size_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


def _time_text(value: str) -> str:
    try:
        return minute_text(datetime.fromisoformat(value))
    except ValueError:  # another kind of text under such a key
        return value
