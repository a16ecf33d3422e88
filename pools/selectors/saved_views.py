"""The saved views of a person."""

from __future__ import annotations

from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor
from pools.domain.people.saved_views import FilteredList
from pools.models import SavedView


def list_views(actor: Actor, page: FilteredList | None = None) -> list[SavedView]:
    """The actor's views by list and name, of one list or of all; one query."""
    rows = SavedView.objects.filter(owner_id=actor.user_id or 0)
    return list(rows.filter(page=page) if page else rows)


def get_view(actor: Actor, page: FilteredList, name: str) -> SavedView:
    """One view of the actor. Raises NotFound."""
    view = SavedView.objects.filter(owner_id=actor.user_id or 0, page=page, name=name).first()
    if view is None:
        raise no_such_view(page, name)
    return view


def no_such_view(page: str, name: str) -> NotFound:
    """The actor has no view of this name."""
    return NotFound(f"You have no saved view {name} of the list {page}.")
