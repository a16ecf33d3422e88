"""The profile, which clients read before most commands, as SQL written by hand: Django needs more time to write these
statements than PostgreSQL to answer them."""

from __future__ import annotations

from typing import NamedTuple

from pools.database.prepared import read_rows
from pools.domain.people.roles import Actor, Permission

_SUBMITTABLE_SQL = """
    SELECT leaf.name FROM pools_pool leaf LEFT JOIN pools_pool root ON root.id = leaf.parent_id
    WHERE NOT leaf.archived AND (leaf.parent_id IS NULL OR leaf.subpool_state = 'ACTIVE')
        AND (%(mine)s::text[] IS NULL OR COALESCE(root.name, leaf.name) = ANY(%(mine)s::text[]))
    ORDER BY COALESCE(root.name, leaf.name), leaf.parent_id NULLS FIRST, COALESCE(leaf.subpool_name, '')
"""
_SETTINGS_SQL = "SELECT default_pool, email_notification, slack_notification, email FROM pools_user WHERE username = %s"


class ChosenSettings(NamedTuple):
    """What a user has chosen."""

    default_pool: str | None
    email_notification: bool
    slack_notification: bool
    email: str


def read_profile_settings(actor: Actor) -> ChosenSettings:
    """The settings of the actor. One query."""
    return ChosenSettings(*read_rows(_SETTINGS_SQL, [actor.username])[0])


def submittable_pools(actor: Actor) -> list[str]:
    """Names of the pools and ACTIVE subpools to which `actor` may submit, in the order of lists. One query."""
    mine = None if actor.is_admin else sorted(actor.pools_with(Permission.POOL_SUBMIT))
    return [name for (name,) in read_rows(_SUBMITTABLE_SQL, {"mine": mine})]
