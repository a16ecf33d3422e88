"""Saved views: save and delete one's own."""

from __future__ import annotations

from pools.database.transactions import change
from pools.domain.changes.saved_views import DeleteView, SaveView
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.people.roles import Actor
from pools.domain.people.saved_views import MAX_VIEWS, normalize_query, saved_view_violations
from pools.locking import lock_user
from pools.models import SavedView
from pools.permissions import require_own_account
from pools.selectors.saved_views import no_such_view


def save_view(command: SaveView, *, actor: Actor, description: str = "") -> SavedView:
    """Save these filters of a list under a name; a view of this name and list is replaced. Raises BadInput (name,
    filters), Conflict (too many views), Forbidden (a token with fewer roles than its owner)."""
    require_own_account(actor)
    page, name, kept = command.page, command.name.strip(), normalize_query(command.query)
    if found := saved_view_violations(name, kept):
        raise BadInput.of(found)
    with change(actor=actor, description=description):
        owner = lock_user(actor.username)
        if owner is None:
            raise NotFound(f"User {actor.username} does not exist.")
        view = SavedView.objects.filter(owner=owner, page=page, name=name).first()
        if view is None and SavedView.objects.filter(owner=owner).count() >= MAX_VIEWS:
            message = f"You have {MAX_VIEWS} saved views, which is the most. Delete one first."
            raise Conflict(message, [Violation("name", Fault.TOO_MANY, message, numbers=(("limit", MAX_VIEWS),))])
        view = view or SavedView(owner=owner, page=page, name=name)
        view.query = kept
        view.save()
        return view


def delete_view(command: DeleteView, *, actor: Actor, description: str = "") -> None:
    """Delete one of the actor's views. Raises NotFound, Forbidden as :func:`save_view`."""
    require_own_account(actor)
    mine = SavedView.objects.filter(owner__username=actor.username, page=command.page, name=command.name)
    with change(actor=actor, description=description):
        gone, _ = mine.delete()
        if not gone:
            raise no_such_view(command.page, command.name)
