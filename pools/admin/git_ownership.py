"""Change pages of objects that Git owns: they say so, instead of a form that could only be refused."""

from __future__ import annotations

from pools.domain.changes.command import ChangeCommand
from pools.services.changes.ownership import find_owner


def owned_reason(change: type[ChangeCommand], name: str) -> str:
    """The reason why this change of an object cannot be made here; empty for an object of the admins. One query."""
    kind, subpools = change.owned_kind, change.is_of_subpools
    owner = find_owner(kind, name) if kind else None
    if kind is None or owner is None or (subpools and not owner.subpools):
        return ""
    what, them = (f"The subpools of pool {name} are", "them") if subpools else (f"{kind.capitalize()} {name} is", "it")
    return f"{what} owned by Git ({owner}), so this page cannot change {them}. Change {them} in that file."
