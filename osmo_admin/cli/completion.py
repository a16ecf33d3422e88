"""Names for the completion of the shell, fetched with a short timeout: without an answer there are no suggestions."""

from __future__ import annotations

import os

import typer

from osmo_admin.cli.client_errors import ClientError
from osmo_admin.cli.session import ClientSession

TIMEOUT_SECONDS = 1.0  # a person has pressed Tab and is waiting


def complete_pools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Pools and subpools that begin with the typed text."""
    return [row["name"] for row in _fetch_pools(ctx) if row["name"].startswith(incomplete)]


def complete_parent_pools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Pools, without subpools, that begin with the typed text."""
    return [
        row["name"] for row in _fetch_pools(ctx) if not row.get("parent_pool") and row["name"].startswith(incomplete)
    ]


def _fetch_pools(ctx: typer.Context) -> list[dict[str, str]]:
    options = ctx.find_root().params
    session = ClientSession(
        url=options.get("url") or os.environ.get("OSMO_URL"),
        token=options.get("token") or os.environ.get("OSMO_TOKEN"),
        username=options.get("username") or os.environ.get("OSMO_USERNAME"),
        timeout=TIMEOUT_SECONDS,
        retries=0,
    )
    try:
        answer = session.http().get("api/pool", {"all_pools": True})
        rows = answer["pools"].values()
        return sorted((row for row in rows if isinstance(row["name"], str)), key=lambda row: row["name"])
    except (ClientError, KeyError, TypeError, AttributeError):
        return []
