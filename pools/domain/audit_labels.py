"""What people call the columns of the audit trail, and their values in words: the labels of the declared fields, and of
the columns that no form has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

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
        "victims": "Preempted first", "degraded": "With too few GPUs",
    },
    "node": {
        "flavor": "Flavor", "labels": "Labels", "gpus": "GPUs", "cpu": "CPUs", "memory_bytes": "Memory",
        "storage_bytes": "Storage", "gpu_pods_only": "Only for pods with GPUs",
        "physical_gpus": "Physical GPUs", "advertised_gpus": "GPUs that it advertises",
    },
    "approval": {
        "above": "Limit", "needs": "Changes that need it", "service": "Change", "arguments": "Values",
        "expected_version": "Version that was seen",
    },
    "config": {
        "subpool_drain_interval_minutes": "Minutes between checks for drained subpools",
        "max_retry_per_task": "Retries of a task, at most",
    },
    "user": {"username": "Name", "email": "Mail address"},
    "gpu_quota": {
        "namespace": "Namespace", "alerting": "In alert", "alert_since": "In alert since", "alerts": "Alerts so far",
        "faults": "Faults", "source": "Set by", "conditions": "Conditions", **dict(_spec_labels()),
    },
}  # fmt: skip
_FIELDS: Final[Mapping[str, Mapping[str, ConfigField]]] = {
    "pool": {each.column: each for each in POOL_FIELDS},
    "cohort": {each.column: each for each in (*COHORT_FIELDS, *QUOTA_FIELDS)},
}
_FLAVORS: Final = frozenset({"flavors", "flavors_after"})
_TIMES: Final = frozenset({"quota_until", DRAIN_DEADLINE, "inactive_since", "alert_since", "since", "date_joined"})
NUMBERS_OF_ROWS: Final = frozenset({
    "id", "parent_id", "backend_id", "cohort_id", "pool_id", "user_id", "owner_id", "group_id", "identity_id",
    "node_id", "root_pool_id", "submitted_by_id", "target_id",
})  # fmt: skip
"""Numbers of rows of the database: they tell people nothing, and the names stand beside them."""


def _flavor_text(row: Any) -> str:
    """A flavor of a backend with its labels, or one of a pool or subpool with its numbers."""
    if not isinstance(row, Mapping):
        return str(row)
    labels = ", ".join(f"{key}={value}" for key, value in (row.get("node_labels") or {}).items())
    limits = ", ".join(f"{key.replace('_', ' ')} {row[key]}" for key in FLAVOR_LIMITS if key in row)
    more = labels or limits
    name = f"{row.get('quota')} {row.get('flavor')}" if "flavor" in row else str(row.get("name"))
    return f"{name} ({more})" if more else name


def column_label(kind: str, path: str) -> str:
    """What people call a value of an object of this kind; dots lead to a value inside a column."""
    path = path.removeprefix("config.") if kind == "pool" else path
    known = _LABELS.get(kind, {})
    for key in (path, path.rpartition(".")[2]):
        if found := known.get(key) or _COMMON.get(key):
            inside = path.removesuffix(key).rstrip(".").rpartition(".")[2]
            return f"{found.removesuffix(' in GPUs')} of {inside}" if inside not in {"", GPU} else found
    return path.replace("_", " ")


def column_text(kind: str, path: str, value: Any) -> Any:
    """A value in words where its field says them: no limit, yes, a size, a time to the minute; others stay."""
    key = path.rpartition(".")[2]
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
