"""The revert of a change from its audit entry: the preview of the opposite change, with its input filled in.

Nothing is restored behind the rules: the preview, the refusals and the confirmation are those of any other change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.urls import reverse
from django.utils.http import urlencode

from pools.domain.names import split_name
from pools.domain.roles import Actor, Permission, is_allowed
from pools.models import AuditEntry

_POOL_FIELDS: Final[Mapping[str, str]] = {
    "guarantee": "guarantee",
    "maximum": "maximum",
    "weight": "weight",
    "cohort": "cohort",
    "borrowing_limit": "borrowing_limit",
    "lending_limit": "lending_limit",
    "description": "about",
    "enable_maintenance": "maintenance",
}
"""The columns of a pool that its form edits, each with the field of the form."""
_FOLLOWING_COLUMNS: Final = frozenset({"cohort_id"})


def revert_address(actor: Actor, entry: AuditEntry) -> str:
    """The preview that undoes this entry; empty where no single change does, or where `actor` may not make it."""
    kind, _, name = entry.object.partition("/")
    if kind != "pool":
        return ""
    root, subpool = split_name(name)
    typed = _typed_revert(entry, subpool)
    needed = Permission.POOL_PARTITION if subpool else Permission.POOL_CONFIGURE
    if typed is None or not is_allowed(actor, needed, root):
        return ""
    view, arguments, fields = typed[0], [root, subpool] if subpool else [root], typed[1]
    reason = {"description": f"Revert of audit entry {entry.pk}"}
    return f"{reverse(f'admin:{view}_preview', args=arguments)}?{urlencode(fields | reason)}"


def _typed_revert(entry: AuditEntry, subpool: str | None) -> tuple[str, dict[str, Any]] | None:
    """The change (the name of its page) and its input."""
    before, after = entry.before or {}, entry.after or {}
    changed = {key for key in before | after if before.get(key) != after.get(key)} - _FOLLOWING_COLUMNS
    if subpool is None:
        is_plain = entry.action == "pool.updated" and changed <= _POOL_FIELDS.keys()
        return ("pools_pool_configure", _pool_input(before)) if is_plain else None
    if entry.action == "subpool.updated" and "last_quota" in changed:
        return "pools_subpool_resize", {"quota": before["last_quota"]}
    if entry.action in {"subpool.created", "subpool.reactivated"}:
        return "pools_subpool_delete", {}
    if entry.action in {"subpool.deleting", "subpool.archived"}:
        return "pools_subpool_recreate", {"quota": before["last_quota"]}
    return None


def _pool_input(row: Mapping[str, Any]) -> dict[str, Any]:
    """The form's input for this image of a pool; an unset number is left out, and an unchecked box too."""
    values = {field: row.get(column) for column, field in _POOL_FIELDS.items()}
    return {
        field: "on" if value is True else value
        for field, value in values.items()
        if value is not None and value is not False
    }
