"""`osmo backend`: the clusters (backends) on which workflows run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_backends
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer, print_list
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import first_of, list_table
from osmo_admin.cli.base.yaml_files import read_map_file
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.lists import list_command
from pools.domain.changes.backends import PutBackend
from pools.domain.columns import pick, with_flavor
from pools.domain.configuration.cluster_config import CLUSTER_MODES
from pools.domain.configuration.flavors import parts_among
from pools.domain.list_columns import BACKEND_COLUMNS, FLAVOR_COLUMN, PROMISE_COLUMNS
from pools.domain.values.counting import counted
from scheduling.domain.changes.nodes import ClearNode, DrainNode, RestoreNode
from scheduling.domain.list_columns import DIFFERENCE_COLUMNS, NODE_LOSS_COLUMNS, NODE_NOTE_COLUMNS, STEP_COLUMNS
from scheduling.domain.lists import DifferenceQuery, NodeQuery

app = command_group("Backends: the clusters on which workflows run.")


_FILE = Annotated[
    str | None, typer.Option("--file", "-f", help="JSON or YAML file with the keys that change, - for standard input.")
]
_MODE: Any = Annotated[
    Literal[*CLUSTER_MODES] | None, typer.Option("--mode", help="manage, or observe: read and never written.")
]


@client_command(app, "list", watches=True)
def list_(session: ClientSession) -> None:
    """List the clusters with their nodes, GPUs and pools.

    Example: osmo backend list
    """
    answer = session.http().get("api/configs/backend")
    rows = [_row(each) for each in answer["backends"]]
    columns = pick(BACKEND_COLUMNS, "cluster state kind namespace nodes gpus pools")
    print_list(session, answer, columns, rows, "There are no clusters that you may see.")


def _row(backend: dict[str, Any]) -> dict[str, Any]:
    nodes = backend.get("nodes") or []
    shared = parts_among(backend.get("flavors") or ())
    parts = sum(node["gpus"] for node in nodes if node.get("flavor") in shared)
    gpus = sum(node["gpus"] for node in nodes) - parts
    return {
        "cluster": backend["name"],
        "state": "OFFLINE" if backend.get("offline") else "ONLINE",
        "kind": backend.get("type"),
        "namespace": backend.get("namespace"),
        "nodes": len(nodes),
        "gpus": f"{gpus} and {counted(parts, 'part')}" if parts else gpus,
        "pools": first_of(backend.get("pools") or []),
    }


@list_command(app, "nodes", NodeQuery, watches=True)
def nodes(
    session: ClientSession,
    query: dict[str, Any],
    backend: Annotated[
        str, typer.Argument(metavar="BACKEND", help="Name of the backend.", autocompletion=complete_backends)
    ],
) -> None:
    """List the nodes of a cluster with what is to be said about them: suspect, drained, smaller than their use.

    Example: osmo backend nodes dgx --free 8
    """
    answer = session.http().get(url_path("api", "backend", backend, "nodes"), query)
    columns = with_flavor(NODE_NOTE_COLUMNS.values(), answer["nodes"])
    print_list(session, answer, columns, answer["nodes"], "There are no nodes that match.")


@client_command(app, "losses")
def losses(
    session: ClientSession,
    name: Annotated[
        str, typer.Argument(metavar="BACKEND", help="Name of the backend.", autocompletion=complete_backends)
    ],
) -> None:
    """Show what the loss of each single node would do, the worst first.

    Nodes that are alike are one row. What starts again where after the loss of one: osmo simulate --live with
    {changes: [{remove_node: NODE}]}.

    Example: osmo backend losses dgx
    """
    answer = session.http().get(url_path("api", "backend", name, "losses"))
    node, *others = NODE_LOSS_COLUMNS.values()
    columns = with_flavor([node, FLAVOR_COLUMN, *others], answer["losses"])
    print_list(session, answer, columns, answer["losses"], "The cluster has no nodes that you may see.")


@client_command(app, "promises", watches=True)
def promises(
    session: ClientSession,
    name: Annotated[
        str, typer.Argument(metavar="BACKEND", help="Name of the backend.", autocompletion=complete_backends)
    ],
) -> None:
    """Show what of the quotas of its pools a cluster can give now.

    Example: osmo backend promises dgx
    """
    answer = session.http().get(url_path("api", "backend", name, "promises"))
    nothing = "No pool that you may see has a quota there, or the cluster has no nodes."
    has_flavors = any(row.get("flavor") for row in answer["pools"])
    columns = [column for key, column in PROMISE_COLUMNS.items() if has_flavors or key != "flavor"]
    print_list(session, answer, columns, answer["pools"], nothing)


@list_command(app, "differences", DifferenceQuery, watches=True)
def differences(
    session: ClientSession,
    query: dict[str, Any],
    name: Annotated[
        str, typer.Argument(metavar="BACKEND", help="Name of the backend.", autocompletion=complete_backends)
    ],
) -> None:
    """List the decisions of an observed cluster's own scheduler that ours would not have made.

    Example: osmo backend differences dgx --kind left_waiting
    """
    answer = session.http().get(url_path("api", "backend", name, "differences"), query)
    nothing = "No difference was seen that matches."
    print_list(session, answer, DIFFERENCE_COLUMNS.values(), answer["differences"], nothing)


@change_command(app, "update", PutBackend, options={"keys": _FILE, "mode": _MODE})
def update(session: ClientSession, change: TypedChange) -> None:
    """Change the configuration of a cluster, or add one. Keys that the file leaves out stay.

    queue_pools, owner_label, flavors and all other keys are in the file, as osmo config show BACKEND NAME prints them.

    Example: osmo backend update prod --mode observe --dry-run
    """
    mode = {"mode": change["mode"]} if change["mode"] else {}
    keys = (read_map_file(change["keys"]) if change["keys"] else {}) | mode
    if not keys:
        raise ClientError("There is nothing to change. Give the keys in a file (-f FILE), or --mode.")
    answer = change.send("PUT", url_path("api", "configs", "backend", change["name"]), keys)
    change.show(answer, lambda answer: f"Cluster {answer['name']} has the new configuration.")


@client_command(app, "settle", writes=True)
def run_cycle(
    session: ClientSession,
    name: Annotated[
        str, typer.Argument(metavar="BACKEND", help="Name of the backend.", autocompletion=complete_backends)
    ],
) -> None:
    """Run one scheduling cycle on a backend now and print its steps.

    Example: osmo backend settle simulated
    """
    if session.dry_run:
        raise ClientError("A scheduling cycle has no dry run. What would start next is in: osmo workflow queue.")
    answer = session.http().send_change("POST", url_path("api", "backend", name, "settle"))
    print_answer(session, answer, lambda: _steps_text(answer))


def _steps_text(answer: dict[str, Any]) -> str:
    end = "Finished." if answer["settled"] else "Not finished: the last pass still changed something."
    if not answer["steps"]:
        return f"Nothing to schedule. {end}"
    return f"{list_table(STEP_COLUMNS.values(), answer['steps'])}\n\n{end}"


@change_command(app, "drain", DrainNode)
def drain(session: ClientSession, change: TypedChange) -> None:
    """Start no new work on a node of a simulated cluster; its work continues until it ends.

    The nodes of another cluster are drained with its own tools: kubectl drain NODE.

    Example: osmo backend drain simulated n7
    """
    _care(change, "drain", "Node {node} is drained: no new work starts there.")


@change_command(app, "restore", RestoreNode)
def restore(session: ClientSession, change: TypedChange) -> None:
    """Let a drained node take work again.

    Example: osmo backend restore simulated n7
    """
    _care(change, "restore", "Node {node} takes work again.")


@change_command(app, "clear", ClearNode)
def clear(session: ClientSession, change: TypedChange) -> None:
    """Say that a suspect node is in order.

    Example: osmo backend clear simulated n7
    """
    _care(change, "clear", "Node {node} is not suspect any more.")


def _care(change: TypedChange, action: str, text: str) -> None:
    address = url_path("api", "backend", change["backend"], "nodes", change["node"], action)
    change.show(change.send("POST", address), lambda answer: text.format(node=answer["node"]))
