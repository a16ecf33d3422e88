"""Requests about top-level pools: their bodies, and the check of their address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from pools.api.request_parsing import Unwrapped, body_object, unwrap_body
from pools.domain import names
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.people.roles import Actor, Permission
from pools.permissions import require_permission

WRAPPERS = ("configs", "configs_dict")


def read_configuration(request: Request, faults: list[Violation]) -> Unwrapped:
    """The configuration inside `configs` or `configs_dict`, with description and tags; or plain, where
    `description` is the pool's own."""
    body = body_object(request)
    if any(wrapper in body for wrapper in WRAPPERS):
        return unwrap_body(request, faults, wrappers=WRAPPERS)
    tags = body.pop("tags", None)
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        faults.append(Violation("tags", Fault.BAD_VALUE, "tags must be a list of texts."))
    return body, "", tags


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
    raise BadInput(message, [Violation("name", Fault.SUBPOOL_ENDPOINT, message)])
