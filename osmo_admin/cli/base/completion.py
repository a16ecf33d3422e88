"""Names for the completion of the shell, fetched with a short timeout: without an answer there are no suggestions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.session import ClientSession

MOST_WORKFLOWS = 100
MOST_USERS = 100
TIMEOUT_SECONDS = 1.0  # a person has pressed Tab and is waiting


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
    return _complete(
        ctx, incomplete, "api/resources", lambda answer: [each["hostname"] for each in answer["resources"]]
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
