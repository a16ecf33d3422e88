"""Requests about top-level pools: their bodies, their effects, and the check of their address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import body_object, etag_header, query_boolean, reject_unknown_keys, unwrap_body
from pools.api.views import View
from pools.domain import names
from pools.domain.errors import BadInput, Violation
from pools.domain.roles import Actor, Permission
from pools.permissions import require_permission
from pools.representations.pool import pool_body
from pools.services.cohort_effects import effect_on_pool
from pools.services.pool_configuration import PoolResult

WRAPPERS = ("configs", "configs_dict")


class ConfigurationChange(NamedTuple):
    """A configuration write: the keys, the reason and the tags."""

    body: dict[str, Any]
    description: str
    tags: list[str] | None


def read_configuration(request: Request) -> ConfigurationChange:
    """The configuration inside `configs` or `configs_dict` with description and tags beside it; or plain, where
    `description` is the pool's own."""
    body = body_object(request)
    if any(wrapper in body for wrapper in WRAPPERS):
        return ConfigurationChange(*unwrap_body(request, wrappers=WRAPPERS))
    tags = body.pop("tags", None)
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise BadInput.of([Violation("tags", "bad_value", "tags must be a list of texts.")])
    return ConfigurationChange(body, "", tags)


def read_change(request: Request, *known: str) -> ConfigurationChange:
    """The body of a write that takes these keys beside description and tags."""
    change = ConfigurationChange(*unwrap_body(request))
    reject_unknown_keys(change.body, *known)
    return change


def read_new_name(change: ConfigurationChange) -> str:
    """The key `new_name` of a rename."""
    name = change.body.get("new_name")
    if not isinstance(name, str) or not name:
        raise BadInput.of(
            [Violation("new_name", "missing" if name is None else "bad_value", "new_name must be a text.")]
        )
    return name


def require_top_level_name(actor: Actor, address: Mapping[str, Any]) -> None:
    """Refuse the canonical name of a subpool at an address that writes top-level pools."""
    name: str = address["name"]
    parent, subpool = names.split_name(name)
    if subpool is None:
        return
    require_permission(actor, Permission.POOL_READ, name)
    path = f"/api/configs/pool/{parent}/subpool/{subpool}"
    message = (
        f"{name} is a subpool. Create it with POST /api/configs/pool/{parent}/subpool, change its quota with PATCH "
        f"{path}, delete it with DELETE {path}; all other settings belong to its parent."
    )
    raise BadInput(message, [Violation("name", "subpool_endpoint", message)])


def apply_or_preview(
    view: View, name: str, operation: Callable[[], PoolResult], *, renamed_to: str | None = None
) -> Response:
    """Run the operation and show the pool, or with `dry_run` show the effect."""
    if query_boolean(view.request, "dry_run"):
        return Response(effect_on_pool(name, operation, actor=view.actor, renamed_to=renamed_to))
    result = operation()
    body = pool_body(result.row, warnings=result.warnings) | {"reactivated": result.reactivated}
    return Response(body, headers=etag_header(result.row.version))
