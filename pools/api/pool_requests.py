"""What requests about top-level pools have in common: their body, their effect, and whose address it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, boolean, etag, only, unwrapped
from pools.api.views import View
from pools.domain import names
from pools.domain.errors import BadInput, Violation
from pools.domain.pool_config import editable
from pools.domain.roles import Action, Actor
from pools.models import Pool
from pools.permissions import require
from pools.representations.pool import pool_body, settings_of
from pools.selectors.pool_balance import tree_body
from pools.services.cohort_effects import effect_with_debts
from pools.services.pool_writing import PoolResult

WRAPPERS = ("configs", "configs_dict")


class Change(NamedTuple):
    """A configuration write: the keys, and why."""

    body: dict[str, Any]
    description: str
    tags: list[str] | None


def configuration(request: Request) -> Change:
    """The configuration inside `configs` or `configs_dict` with description and tags beside it; or plain, where
    `description` is the pool's own."""
    body = body_object(request)
    if any(wrapper in body for wrapper in WRAPPERS):
        return Change(*unwrapped(request, wrapper=WRAPPERS))
    tags = body.pop("tags", None)
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise BadInput.of([Violation("tags", "bad_value", "tags must be a list of texts.")])
    return Change(body, "", tags)


def remarks(request: Request, *known: str) -> Change:
    """The body of a write that takes these keys beside description and tags."""
    change = Change(*unwrapped(request))
    only(change.body, *known)
    return change


def new_name(change: Change) -> str:
    """`new_name` of a rename."""
    name = change.body.get("new_name")
    if not isinstance(name, str) or not name:
        raise BadInput.of(
            [Violation("new_name", "missing" if name is None else "bad_value", "new_name must be a text.")]
        )
    return name


def top_level(actor: Actor, name: str) -> None:
    """Refuse the canonical name of a slice at an address that writes top-level pools: slices have their own."""
    parent, subpool = names.split(name)
    if subpool is None:
        return
    require(actor, Action.POOL_READ, name)
    address = f"/api/configs/pool/{parent}/subpool/{subpool}"
    sentence = (
        f"{name} is a subpool. Create it with POST /api/configs/pool/{parent}/subpool, change its quota with PATCH "
        f"{address}, delete it with DELETE {address}; all else is its parent's."
    )
    raise BadInput(sentence, [Violation("name", "subpool_endpoint", sentence)])


def answered(view: View, name: str, deed: Callable[[], PoolResult], *, becomes: str | None = None) -> Response:
    """Do it and show the pool, or with `dry_run` show what it would do."""
    if boolean(view.request, "dry_run"):
        return Response(effect_on_pool(name, deed, actor=view.actor, becomes=becomes))
    result = deed()
    body = pool_body(result.row, warnings=result.warnings) | {"reactivated": result.reactivated}
    return Response(body, headers=etag(result.row.version))


def effect_on_pool(
    name: str, deed: Callable[[], object], *, actor: Actor, becomes: str | None = None
) -> dict[str, Any]:
    """What a change would do to a pool: its tree before and after, each with its configuration, and the debts in its
    cohorts."""
    return effect_with_debts(deed, read=lambda: picture(name), read_after=lambda: picture(becomes or name), actor=actor)


def picture(name: str) -> dict[str, Any] | None:
    """A pool as dry runs show it, None if there is none."""
    root = Pool.objects.roots().select_related("backend", "cohort").filter(name=name).first()
    if root is None:
        return None
    return tree_body(root) | {"archived": root.archived, "configs": editable(settings_of(root))}
