"""Change pages of objects that Git owns: they say so, instead of a form that could only be refused."""

from __future__ import annotations

from pools.domain.ownership import OwnedKind
from pools.services.ownership import find_owner


def owned_reason(kind: OwnedKind, name: str, *, subpools: bool = False) -> str:
    """The reason why an object cannot be changed here, or with `subpools` why the subpools of a pool cannot; empty for
    an object of the admins. One query."""
    owner = find_owner(kind, name)
    if owner is None or (subpools and not owner.subpools):
        return ""
    what, them = (f"The subpools of pool {name} are", "them") if subpools else (f"{kind.capitalize()} {name} is", "it")
    return f"{what} owned by Git ({owner}), so this page cannot change {them}. Change {them} in that file."
