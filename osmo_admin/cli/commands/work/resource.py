"""`osmo resource`: the nodes behind the pools."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_nodes
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerPart, Facts, Shown, first_of, format_cell, list_table, plain_number
from osmo_admin.cli.lists import list_command
from pools.domain.columns import pick, with_flavor
from pools.domain.list_columns import MACHINE_COLUMNS
from scheduling.domain.lists import ResourceQuery

app = command_group("Nodes and their free resources.")
GIB = 2**30
RESOURCES = ("gpu", "cpu", "memory", "storage")


@list_command(app, "list", ResourceQuery, watches=True)
def list_(
    session: ClientSession,
    query: dict[str, Any],
    *,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Nodes of all pools; the default without --pool.")
    ] = False,
) -> None:
    """List nodes with their used and allocatable resources.

    Example: osmo resource list --pool vision
    """
    query["all_pools"] = everything or "pools" not in query
    answer = session.http().get("api/resources", query)
    print_answer(session, answer, lambda: _nodes_table(answer["resources"]))


def _nodes_table(nodes: list[dict[str, Any]]) -> AnswerPart:
    rows = []
    for node in nodes:
        exposed = node["exposed_fields"]
        used = {key: _used_cell(node, key) for key in RESOURCES}
        name = exposed.get("node", node.get("hostname"))
        rows.append(
            {
                "node": name,
                "pool": first_of(exposed.get("pool/platform") or []),
                "type": node.get("resource_type"),
                **({"flavor": node["flavor"]} if "flavor" in node else {}),
                **used,
            }
        )
    columns = with_flavor(pick(MACHINE_COLUMNS, "node pool flavor type gpu cpu memory storage"), rows)
    return list_table(columns, rows, nothing="There are no available resources.")


def _used_cell(node: dict[str, Any], key: str) -> Shown:
    """`3/8` for people, two numbers in a file; memory and storage in Gi."""
    both = tuple((node.get(fields) or {}).get(key) for fields in ("usage_fields", "allocatable_fields"))
    in_gi = key in {"memory", "storage"}
    return Shown("/".join(map(format_cell, both)), tuple(plain_number(each, GIB if in_gi else 1) for each in both))


def _field_text(node: dict[str, Any], fields: str, key: str) -> str:
    return format_cell((node.get(fields) or {}).get(key))


@client_command(app, "info")
def info(
    session: ClientSession,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.", autocompletion=complete_nodes)],
) -> None:
    """Show one node.

    Example: osmo resource info dgx-07
    """
    answer = session.http().get(url_path("api", "resources", node))
    if not answer["resources"]:
        raise ClientError(
            "There is no node of this name that you may see. See the names: osmo resource list.", status=404
        )
    print_answer(session, answer, lambda: _node_text(answer["resources"][0]))


def _node_text(node: dict[str, Any]) -> Facts:
    lines = [
        ("Node", node["exposed_fields"].get("node", node.get("hostname"))),
        ("Backend", node.get("backend")),
        ("Type", node.get("resource_type")),
        *([("Flavor", node["flavor"])] if "flavor" in node else []),
        ("Pools", first_of(node["exposed_fields"].get("pool/platform") or [])),
        ("Conditions", node.get("conditions")),
        ("Taints", [format_cell(taint) for taint in node.get("taints") or []]),
        ("Notes", "; ".join(node.get("notes") or [])),
    ]
    lines += [
        (
            MACHINE_COLUMNS[key].heading,
            f"{_field_text(node, 'usage_fields', key)} used of {_field_text(node, 'allocatable_fields', key)}",
        )
        for key in RESOURCES
    ]
    return Facts(lines)
