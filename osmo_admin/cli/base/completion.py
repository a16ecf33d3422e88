"""Names for the completion of the shell, fetched with a short timeout: without an answer there are no suggestions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import typer

from osmo_admin.cli.base.client_errors import ClientError, meant_text
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.session import ClientSession
from pools.domain.names import SEPARATOR, SHARED_QUEUE
from pools.domain.people.roles import PLATFORM_ROLES, PoolRoleKind, pool_role

Completion = Callable[[typer.Context, str], list[str]]

MOST_WORKFLOWS = 100
MOST_USERS = 100
TIMEOUT_SECONDS = 2.0  # a person has pressed Tab and is waiting


def complete_pools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Pools and subpools that begin with the typed text."""
    return [row["name"] for row in _fetch_pools(ctx) if row["name"].startswith(incomplete)]


def complete_parent_pools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Pools, without subpools, that begin with the typed text."""
    return [
        row["name"] for row in _fetch_pools(ctx) if not row.get("parent_pool") and row["name"].startswith(incomplete)
    ]


def complete_workflows(ctx: typer.Context, incomplete: str) -> list[str]:
    """Workflows, the newest first, whose IDs begin with the typed text."""
    query = {"name": incomplete or None, "all_users": True, "all_pools": True, "limit": MOST_WORKFLOWS, "order": "DESC"}
    try:
        rows = _session(ctx).http().get("api/workflow", query)["workflows"]
        return [row["name"] for row in rows if row["name"].startswith(incomplete)]
    except (ClientError, KeyError, TypeError, AttributeError):
        return []


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Nodes that begin with the typed text."""
    query = {"all_pools": True}
    return _complete(
        ctx, incomplete, "api/resources", lambda answer: [each["hostname"] for each in answer["resources"]], query
    )


def complete_users(ctx: typer.Context, incomplete: str) -> list[str]:
    """Users that begin with the typed text, for those who may list them."""
    query = {"id_prefix": incomplete or None, "count": MOST_USERS}
    return _complete(ctx, incomplete, "api/auth/user", lambda answer: [each["id"] for each in answer["users"]], query)


def complete_cohorts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Cohorts that begin with the typed text."""
    return _complete(ctx, incomplete, "api/configs/cohort", lambda answer: [each["name"] for each in answer["cohorts"]])


def complete_namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Namespaces with a GPU quota that begin with the typed text."""
    return _complete(
        ctx, incomplete, "api/configs/gpu_quota", lambda answer: [each["namespace"] for each in answer["quotas"]]
    )


def complete_backends(ctx: typer.Context, incomplete: str) -> list[str]:
    """Clusters that begin with the typed text."""
    return _complete(
        ctx, incomplete, "api/configs/backend", lambda answer: [each["name"] for each in answer["backends"]]
    )


def complete_tokens(ctx: typer.Context, incomplete: str) -> list[str]:
    """Access tokens, of the user that an option names, else one's own."""
    owner = ctx.params.get("user") or ctx.params.get("owner")
    address = url_path("api", "auth", *(("user", owner) if owner else ()), "access_token")
    return _complete(ctx, incomplete, address, lambda answer: [each["token_name"] for each in answer])


def complete_roles(ctx: typer.Context, incomplete: str) -> list[str]:
    """The roles of the installation and of each pool."""
    pools = [row["name"] for row in _fetch_pools(ctx) if not row.get("parent_pool")]
    names = [*PLATFORM_ROLES, *(pool_role(pool, kind) for pool in pools for kind in PoolRoleKind)]
    return sorted(name for name in names if name.startswith(incomplete))


def complete_subpools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Short names of the subpools of the pool before them that begin with the typed text."""
    parent = f"{ctx.params.get('parent')}--"
    names = [row["name"].removeprefix(parent) for row in _fetch_pools(ctx) if row["name"].startswith(parent)]
    return [name for name in names if name.startswith(incomplete)]


def complete_roots(ctx: typer.Context, incomplete: str) -> list[str]:
    """Cohorts and pools that begin with the typed text."""
    return [*complete_cohorts(ctx, incomplete), *complete_parent_pools(ctx, incomplete)]


def complete_config_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Pools or clusters, whichever the configuration before them is of."""
    kind = str(ctx.params.get("config")).upper()
    complete = {"POOL": complete_parent_pools, "BACKEND": complete_backends}.get(kind)
    return complete(ctx, incomplete) if complete else []


_IN_PART = (complete_workflows, complete_users)
"""Those whose answer has a part of many names: also those that begin as the typed one are asked for."""


_LISTS: Mapping[Completion, str] = {
    complete_backends: "osmo backend list",
    complete_cohorts: "osmo cohort list",
    complete_namespaces: "osmo quota list",
    complete_nodes: "osmo resource list",
    complete_parent_pools: "osmo pool list",
    complete_pools: "osmo pool list",
    complete_roots: "osmo cohort tree",
    complete_subpools: "osmo pool list",
    complete_tokens: "osmo token list",
    complete_users: "osmo user list",
    complete_workflows: "osmo workflow list --all-users",
}
"""The command that lists the names."""


def names_hint(
    ctx: typer.Context, sources: Mapping[str, Completion], given: Mapping[str, Any], *, lists: bool
) -> str | None:
    """What to type in place of a given name that is not among those that the person sees: the nearest, else with
    `lists` the command that lists them. `sources` and `given` are by argument and option."""
    found: dict[str, str] = {}
    commands: list[str] = []
    for key, complete in sources.items():
        typed = given.get(key)
        for name in [typed] if isinstance(typed, str) else typed or ():
            names = complete(ctx, "")
            if complete in _IN_PART and name not in names:
                names = [*names, *complete(ctx, name[:2])]
            if name in names or not names:
                continue
            if near := get_close_matches(name, names, n=1):
                found[name] = near[0]
            elif complete in _LISTS:
                commands.append(_LISTS[complete])
    if found:
        return meant_text(found)
    return f"See the names: {commands[0]}." if lists and commands else None


def require_known_pools(ctx: typer.Context, sources: Mapping[str, Completion], given: Mapping[str, Any]) -> None:
    """Raise :class:`ClientError` for the first given pool that the person does not see: the lists of OSMO's addresses
    leave it out in silence. Nothing is said if the server does not answer."""
    typed: list[str] = []
    for key, complete in sources.items():
        if complete in (complete_pools, complete_parent_pools):
            typed += [given[key]] if isinstance(given[key], str) else given[key] or ()
    typed = [name.removesuffix(f"{SEPARATOR}{SHARED_QUEUE}") for name in typed]
    if not typed:
        return
    try:
        known = _session(ctx).http().get("api/pool", {"pools": typed, "include_archived": True})["pools"]
        unknown = [name for name in typed if name not in known]
    except (ClientError, KeyError, TypeError):
        return
    if unknown:
        raise ClientError(f"Pool {unknown[0]} does not exist, or you have no role on it.", status=404)


def _complete(
    ctx: typer.Context,
    incomplete: str,
    address: str,
    names: Callable[[Any], Iterable[Any]],
    query: Mapping[str, Any] | None = None,
) -> list[str]:
    try:
        found = {str(name) for name in names(_session(ctx).http().get(address, query))}
    except (ClientError, KeyError, TypeError, AttributeError):
        return []
    return sorted(name for name in found if name.startswith(incomplete))


def _fetch_pools(ctx: typer.Context) -> list[dict[str, str]]:
    try:
        answer = _session(ctx).http().get("api/pool", {"all_pools": True})
        rows = answer["pools"].values()
        return sorted((row for row in rows if isinstance(row["name"], str)), key=lambda row: row["name"])
    except (ClientError, KeyError, TypeError, AttributeError):
        return []


def _session(ctx: typer.Context) -> ClientSession:
    options = ctx.find_root().params
    return ClientSession(
        url=options.get("url") or os.environ.get("OSMO_URL"),
        token=options.get("token") or os.environ.get("OSMO_TOKEN"),
        username=options.get("username") or os.environ.get("OSMO_USERNAME"),
        timeout=TIMEOUT_SECONDS,
        retries=0,
    )
