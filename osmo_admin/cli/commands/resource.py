"""`osmo resource`: the nodes behind the pools."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.client_errors import ClientError
from osmo_admin.cli.http import path
from osmo_admin.cli.options import PoolsFilter
from osmo_admin.cli.output import emit
from osmo_admin.cli.session import Session
from osmo_admin.cli.tables import cell, facts, table
from osmo_admin.cli.verb import group, verb

app = group("Nodes and what is free on them.")
KINDS = {"GPU": "gpu", "CPU": "cpu", "Memory": "memory", "Storage": "storage"}


@verb(app, "list")
def list_(
    session: Session,
    *,
    pools: PoolsFilter = None,
    platforms: Annotated[
        list[str] | None, typer.Option("--platform", metavar="PLATFORM...", help="Only these platforms.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Of all pools; so it is when none is named.")] = False,
) -> None:
    """List nodes: how much is used of how much."""
    query = {"pools": pools, "all_pools": everything or not pools, "platforms": platforms}
    answer = session.http().get("api/resources", query)
    emit(session, answer, lambda: _nodes(answer["resources"]))


def _nodes(nodes: list[dict[str, Any]]) -> str:
    if not nodes:
        return "There are no available resources."
    rows = []
    for node in nodes:
        exposed = node["exposed_fields"]
        used = (
            f"{_field(node, 'usage_fields', key)}/{_field(node, 'allocatable_fields', key)}" for key in KINDS.values()
        )
        rows.append(
            [exposed.get("node", node.get("hostname")), exposed.get("pool/platform"), node.get("resource_type"), *used]
        )
    return table(("Node", "Pool/Platform", "Type", *KINDS), rows)


def _field(node: dict[str, Any], fields: str, key: str) -> str:
    return cell((node.get(fields) or {}).get(key))


@verb(app, "info")
def info(session: Session, node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]) -> None:
    """Show one node."""
    answer = session.http().get(path("api", "resources", node))
    if not answer["resources"]:
        raise ClientError(f"There is no node {node!r} that you can see. osmo resource list shows them.")
    emit(session, answer, lambda: _node(answer["resources"][0]))


def _node(node: dict[str, Any]) -> str:
    lines = [
        ("Node", node["exposed_fields"].get("node", node.get("hostname"))),
        ("Backend", node.get("backend")),
        ("Type", node.get("resource_type")),
        ("Pools", node["exposed_fields"].get("pool/platform")),
        ("Conditions", node.get("conditions")),
        ("Taints", [cell(taint) for taint in node.get("taints") or []]),
    ]
    lines += [
        (name, f"{_field(node, 'usage_fields', key)} used of {_field(node, 'allocatable_fields', key)}")
        for name, key in KINDS.items()
    ]
    return facts(lines)
