"""Changes of an account as a whole by an osmo-admin: all its roles in one step, and disabling or enabling it."""

from __future__ import annotations

from pools.database.transactions import change
from pools.domain.changes.users import GrantRole, RevokeRole, SetActive, SetRoles
from pools.domain.errors import BadInput, NotFound
from pools.domain.people.roles import Actor
from pools.locking import lock_user
from pools.models import User
from pools.permissions import require_platform
from pools.services.changes.seen_state import require_as_seen
from pools.services.people.users import grant_role, require_another_admin, revoke_role, role_violations


def set_roles(command: SetRoles, *, actor: Actor, description: str = "") -> None:
    """Give a user exactly these roles, all or none. Raises BadInput with every role that does not exist, and Stale."""
    require_platform(actor)
    username, roles = command.username, set(command.roles)
    with change(actor=actor, description=description):
        held = _lock_account(username).as_actor().roles
        require_as_seen()
        if unknown := role_violations(command.roles, held=held):
            raise BadInput.of(unknown)
        for role in sorted(roles - held):
            grant_role(GrantRole(username=username, role_name=role), actor=actor, description=description)
        for role in sorted(held - roles):
            revoke_role(RevokeRole(username=username, role_name=role), actor=actor, description=description)


def set_active(command: SetActive, *, actor: Actor, description: str = "") -> None:
    """Disable an account, or enable it. A disabled account keeps its roles, tokens and history, but its user cannot log
    in. Raises Conflict for the last account with the role osmo-admin."""
    require_platform(actor)
    if command.username == actor.username:
        raise BadInput("You cannot close your own account; ask another osmo-admin.")
    with change(actor=actor, description=description):
        user = _lock_account(command.username)
        if not command.active:
            require_another_admin(user)
        user.is_active = command.active
        user.save(update_fields=["is_active"])


def _lock_account(username: str) -> User:
    """Lock and return the account, so that the changes of two admins happen one after the other."""
    user = lock_user(username)
    if user is None or user.is_removed:
        raise NotFound(f"User {username} does not exist.")
    return user
