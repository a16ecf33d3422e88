"""The revert of a change from its audit entry: the preview of the opposite change, with its input filled in.

Nothing is restored behind the rules: the preview, the refusals and the confirmation are those of any other change. Only
the columns that the entry changed are set back; later changes of other columns stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from django.urls import reverse
from django.utils.http import urlencode

from pools.admin.configuration.backends import simulated_form_values
from pools.admin.configuration.cluster_forms import cluster_form_values
from pools.admin.configuration.cohort_changes import cohort_form_values
from pools.admin.configuration.pool_changes import pool_form_values
from pools.admin.configuration.subpools import flavor_values
from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.backend_config import POLICY_DEFAULTS
from pools.domain.configuration.cluster_config import queue_pools_text
from pools.domain.configuration.flavors import flavors_of, flavors_text
from pools.domain.configuration.pool_fields import FIELDS_OF_FORM
from pools.domain.gpu_quota.spec import parse_gpu_quota_spec
from pools.domain.names import SEPARATOR, split_name
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.models import AuditEntry, Backend, Cohort, GpuQuota, Pool, User
from pools.selectors.gpu_usage import spec_form_values

Columns = Mapping[str, Any]
Typed = tuple[str, list[str], dict[str, Any]]
"""The name of a page, the arguments of its address, and the input."""

_POOL_FIELDS: Final[Mapping[str, str]] = {
    each.column: name for name, each in FIELDS_OF_FORM.items() if each.is_column or name == "cohort"
}
"""The columns of a pool that its form edits, each with the field of the form."""
_BACKEND_FIELDS: Final[Mapping[str, str]] = {
    "namespace": "namespace",
    "description": "about",
    "offline": "offline",
    "auto_end": "auto_end",
    **{key: key for key in (*POLICY_DEFAULTS, "flavors")},
}
_CLUSTER_FIELDS: Final[Mapping[str, str]] = {
    "namespace": "namespace",
    "description": "about",
    "offline_requested": "offline",
    "degraded": "degraded",
    "flavors": "flavors",
    **{
        column: column
        for column in (
            "access", "kubeconfig_file", "context", "scheduler_name", "node_pool_key", "node_pool", "sync_mode",
            "mode", "queue_pools", "owner_label",
        )
    },
}  # fmt: skip
"""The columns of both rows of a Kubernetes cluster that its form edits. Its credential is a secret, which no entry has;
`offline` without a request is the state of the cluster, and `server` follows from the credential and its context."""
_SETTINGS_FIELDS: Final[Mapping[str, str]] = {
    "subpool_drain_interval_minutes": "minutes",
    "max_retry_per_task": "retries",
}
_COHORT_COLUMNS: Final = frozenset({"parent", "quotas", "weight"})
_FOLLOWING_COLUMNS: Final = frozenset({"cohort_id", "parent_id", "offline_requested"})
"""Columns that follow from others."""


def revert_address(actor: Actor, entry: AuditEntry) -> str:
    """The page that undoes this entry, with its input; empty where no single change does, or where `actor` may not make
    it."""
    kind, _, name = entry.object.partition("/")
    find = _REVERTS.get(entry.action)
    if find is None or not _may_revert(actor, kind, name):
        return ""
    typed = find(entry, name)
    if typed is None:
        return ""
    page, arguments, fields = typed
    words = fields | {"description": f"Revert of audit entry {entry.pk}"}
    return f"{reverse(f'admin:{page}', args=arguments)}?{urlencode(words, doseq=True)}"


def _may_revert(actor: Actor, kind: str, name: str) -> bool:
    if kind != "pool":
        return is_allowed(actor, Permission.PLATFORM_WRITE)
    root, subpool = split_name(name)
    return is_allowed(actor, Permission.POOL_PARTITION if subpool else Permission.POOL_CONFIGURE, root)


def _changed(entry: AuditEntry) -> set[str]:
    before, after = entry.before or {}, entry.after or {}
    return {key for key in before | after if before.get(key) != after.get(key)} - _FOLLOWING_COLUMNS


def _pool_revert(entry: AuditEntry, name: str) -> Typed | None:
    root = Pool.objects.roots().select_related("cohort").filter(name=name).first()
    changed = _changed(entry)
    if root is None or not changed <= _POOL_FIELDS.keys():
        return None
    return (
        "pools_pool_configure_preview",
        [name],
        _sent(_set_back(pool_form_values(root), entry, changed, _POOL_FIELDS)),
    )


def _resize_revert(entry: AuditEntry, name: str) -> Typed | None:
    if not _changed(entry) & {"last_quota", "flavors"}:
        return None
    return "pools_subpool_resize_preview", name.split(SEPARATOR), _old_quota(entry)


def _old_quota(entry: AuditEntry) -> dict[str, Any]:
    before = entry.before or {}
    quotas = gpus_by_flavor(before.get("flavors") or [])
    return {"quota": before["last_quota"], **flavor_values(list(quotas), quotas)}


def _subpool_creation_revert(entry: AuditEntry, name: str) -> Typed | None:
    return "pools_subpool_delete_preview", name.split(SEPARATOR), {}


def _subpool_deletion_revert(entry: AuditEntry, name: str) -> Typed | None:
    return "pools_subpool_recreate_preview", name.split(SEPARATOR), _old_quota(entry)


def _find_explicit(name: str) -> Cohort | None:
    return Cohort.objects.select_related("parent").filter(name=name, explicit=True).first()


def _cohort_creation_revert(entry: AuditEntry, name: str) -> Typed | None:
    return None if _find_explicit(name) is None else ("pools_cohort_delete_preview", [name], {})


def _cohort_deletion_revert(entry: AuditEntry, name: str) -> Typed | None:
    if _find_explicit(name) is not None:
        return None
    values = cohort_form_values(_cohort_of(entry.before or {}))
    return "pools_cohort_create_preview", [], {"name": name, **_sent(values)}


def _cohort_revert(entry: AuditEntry, name: str) -> Typed | None:
    before, row, changed = entry.before or {}, _find_explicit(name), _changed(entry)
    if row is None or not changed <= _COHORT_COLUMNS:
        return None
    present = {"parent": row.parent and row.parent.name, "quotas": row.quotas, "weight": row.weight}
    old = {column: before.get(column) for column in changed}
    return "pools_cohort_configure_preview", [name], _sent(cohort_form_values(_cohort_of({**present, **old})))


def _cohort_of(columns: Columns) -> Cohort:
    """A cohort with these columns, which is not stored."""
    parent = Cohort(name=columns["parent"]) if columns.get("parent") else None
    return Cohort(parent=parent, quotas=columns["quotas"], weight=Decimal(str(columns["weight"])))


def _backend_revert(entry: AuditEntry, name: str) -> Typed | None:
    row = Backend.objects.select_related("kubernetes").filter(name=name).first()
    if row is None:
        return None
    if row.kind == Backend.Kind.KUBERNETES:
        return _cluster_revert(entry, row)
    changed = _changed(entry)
    if not changed <= _BACKEND_FIELDS.keys():
        return None
    values = _set_back(simulated_form_values(row), entry, changed, _BACKEND_FIELDS)
    del values["nodes"]  # without them the nodes stay as they are
    return "pools_backend_configure_preview", [name], _sent(values)


def _cluster_revert(entry: AuditEntry, row: Backend) -> Typed | None:
    settings = getattr(row, "kubernetes", None)
    before, after = entry.before or {}, entry.after or {}
    changed = {key for key in before | after if before.get(key) != after.get(key)} - {"offline", "server"}
    if settings is None or not changed or not changed <= _CLUSTER_FIELDS.keys():
        return None
    values = _set_back(cluster_form_values(row, settings), entry, changed, _CLUSTER_FIELDS)
    return "pools_backend_configure_preview", [row.name], _sent(values)


def _has_gpu_quota(namespace: str) -> bool:
    return GpuQuota.objects.filter(namespace=namespace, source="api").exists()


def _gpu_quota_creation_revert(entry: AuditEntry, namespace: str) -> Typed | None:
    return ("pools_gpuquota_delete_preview", [namespace], {}) if _has_gpu_quota(namespace) else None


def _gpu_quota_revert(entry: AuditEntry, namespace: str) -> Typed | None:
    if "spec" not in _changed(entry) or not _has_gpu_quota(namespace):
        return None
    return "pools_gpuquota_configure_preview", [namespace], _old_spec(entry)


def _gpu_quota_deletion_revert(entry: AuditEntry, namespace: str) -> Typed | None:
    if _has_gpu_quota(namespace):
        return None
    return "pools_gpuquota_create_preview", [], {"namespace": namespace, **_old_spec(entry)}


def _old_spec(entry: AuditEntry) -> dict[str, Any]:
    values = spec_form_values(parse_gpu_quota_spec((entry.before or {})["spec"])[0])
    return {field: "" if value is None else value for field, value in values.items()}


def _role_revert(entry: AuditEntry, username: str) -> Typed | None:
    user = User.objects.filter(username=username).first()
    if user is None:
        return None
    is_grant = entry.action == AuditAction.ROLE_GRANTED
    role = str(((entry.after if is_grant else entry.before) or {})["role"])
    roles = set(user.as_actor().roles)
    if (role in roles) != is_grant:
        return None
    return "pools_user_roles_preview", [username], {"roles": sorted(roles - {role} if is_grant else roles | {role})}


def _settings_revert(entry: AuditEntry, name: str) -> Typed | None:
    changed = _changed(entry)
    if not changed or not changed <= _SETTINGS_FIELDS.keys():
        return None
    return "scheduling_workflowconfig_preview", [], _set_back({}, entry, changed, _SETTINGS_FIELDS)


_REVERTS: Final[Mapping[str, Callable[[AuditEntry, str], Typed | None]]] = {
    AuditAction.POOL_UPDATED: _pool_revert,
    AuditAction.SUBPOOL_CREATED: _subpool_creation_revert,
    AuditAction.SUBPOOL_UPDATED: _resize_revert,
    AuditAction.SUBPOOL_DELETING: _subpool_deletion_revert,
    AuditAction.SUBPOOL_ARCHIVED: _subpool_deletion_revert,
    AuditAction.SUBPOOL_REACTIVATED: _subpool_creation_revert,
    AuditAction.COHORT_CREATED: _cohort_creation_revert,
    AuditAction.COHORT_UPDATED: _cohort_revert,
    AuditAction.COHORT_MOVED: _cohort_revert,
    AuditAction.COHORT_DELETED: _cohort_deletion_revert,
    AuditAction.BACKEND_UPDATED: _backend_revert,
    AuditAction.GPU_QUOTA_CREATED: _gpu_quota_creation_revert,
    AuditAction.GPU_QUOTA_UPDATED: _gpu_quota_revert,
    AuditAction.GPU_QUOTA_DELETED: _gpu_quota_deletion_revert,
    AuditAction.ROLE_GRANTED: _role_revert,
    AuditAction.ROLE_REVOKED: _role_revert,
    AuditAction.WORKFLOW_CONFIG_UPDATED: _settings_revert,
}
"""The actions that one change undoes."""


def _set_back(values: Columns, entry: AuditEntry, columns: set[str], fields: Mapping[str, str]) -> dict[str, Any]:
    """The values of a form, with what these columns had before the entry; an unset number is an empty text."""
    before = entry.before or {}
    old = {fields[column]: "" if (value := before.get(column)) is None else value for column in columns}
    if "flavors" in columns:
        old["flavors"] = flavors_text(flavors_of(before.get("flavors") or ()))
    if "queue_pools" in columns:
        old["queue_pools"] = queue_pools_text(before.get("queue_pools") or {})
    return {**values, **old}


def _sent(values: Columns) -> dict[str, Any]:
    """The values as a browser sends them: a checked box as `on`, an unchecked one and an unset number not at all."""
    return {
        field: "on" if value is True else value
        for field, value in values.items()
        if value is not None and value is not False
    }
