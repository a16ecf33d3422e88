"""`osmo pool`: visible pools, their quota and use."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_pools
from osmo_admin.cli.base.options import PoolListMode
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerPart, AnswerText, Facts, Table, build_table, headings
from osmo_admin.cli.commands import subpool
from osmo_admin.cli.lists import list_command
from osmo_admin.cli.text.pool_table import pool_table
from pools.domain.list_columns import FLAVOR_COLUMN
from pools.domain.lists import PoolListQuery
from pools.domain.numbers import POOL_NUMBERS, QUOTA, TOTAL_IN_USE, TREE_NUMBERS, WEIGHT
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.values.amounts import DEFAULT_FLAVOR

app = command_group("Pools, their subpools, quota and use.")
app.add_typer(subpool.app, name="subpool")


@list_command(app, "list", PoolListQuery, watches=True)
def list_(
    session: ClientSession,
    query: dict[str, Any],
    *,
    mode: Annotated[
        PoolListMode | None,
        typer.Option(
            "--mode", "-m", case_sensitive=False, help="Add columns with the used or free GPUs of the nodes, and sums."
        ),
    ] = None,
    quota: Annotated[bool, typer.Option("--quota/--no-quota", help="Show quota and use, or only descriptions.")] = True,
) -> None:
    """List pools with their subpools below them.

    GPU Quota is guaranteed to HIGH and NORMAL work, Used is the guaranteed quota in use, Available is guaranteed free;
    a negative number has to drain. The row of a pool with subpools shows the pool remainder (shared), and in brackets
    the quota of the whole pool. In a file the numbers are those of the whole pool, and those of the remainder end in
    `_own`.

    Example: osmo pool list --pool vision --mode free
    """
    pools = query.get("pools")
    session.require_known_names = lambda: None  # OSMO's list names them in its own sentence
    query |= {"all_pools": False, "with_subpools": True} if pools else {"all_pools": True}
    if not quota:
        answer = session.http().get("api/pool", query)
        print_answer(session, answer, lambda: _names_table(answer, pools))
        return
    answer = session.http().get("api/pool_quota", query)
    print_answer(
        session,
        answer,
        lambda: pool_table(answer, mode=mode, archived="include_archived" in query, nothing=_no_pools_message(pools)),
    )


def _names_table(answer: dict[str, Any], pools: list[str] | None) -> Table:
    rows = ((row["name"], row.get("status"), row.get("description")) for row in answer["pools"].values())
    return build_table(("Pool", "Status", "Description"), rows, nothing=_no_pools_message(pools))


def _no_pools_message(pools: list[str] | None) -> str:
    return f"Pools {', '.join(pools)} not found" if pools else "No pools available"


@client_command(app, "show", watches=True)
def show(
    session: ClientSession,
    *,
    name: Annotated[str, typer.Argument(metavar="POOL", help="Pool or subpool.", autocompletion=complete_pools)],
) -> None:
    """Show one pool or subpool: quota, use, priorities, limits, platforms.

    Example: osmo pool show vision
    """
    answer = session.http().get("api/pool_quota", {"pools": [name], "all_pools": False})
    rows = [row for node_set in answer["node_sets"] for row in node_set["pools"]]
    if not rows:
        raise ClientError("There is no pool of this name that you may see. See the names: osmo pool list.", status=404)
    print_answer(session, answer, lambda: _pool_text(session, rows[0]))


def _pool_text(session: ClientSession, row: dict[str, Any]) -> AnswerText:
    usage, gpu = row.get("resource_usage") or {}, (row.get("resources") or {}).get("gpu") or {}
    is_divided = not row.get("parent_pool") and "(Total:" in str(row.get("gpu_quota"))
    subpools = subpool.read_subpools(session, row["name"]) if is_divided else None
    may_have_flavors = gpu.get("maximum") == -1 and (subpools is None or "flavors" in subpools["shared"])
    flavors = _flavors(session, row) if may_have_flavors else []
    maximum = "of each flavor, below" if flavors else "unlimited" if gpu.get("maximum") == -1 else gpu.get("maximum")
    whole = {} if subpools is None else subpool.whole_pool(subpools)
    lines = [
        ("Pool", row["name"]),
        ("Description", row.get("description")),
        ("Status", row.get("status")),
        ("Parent", row.get("parent_pool")),
        ("Subpool state", row.get("subpool_state")),
        ("Backend", row.get("backend")),
        (QUOTA.label, whole.get("quota", row.get("gpu_quota", usage.get("quota_limit")))),
        (POOL_NUMBERS["used"].label, whole.get("used", row.get("used", usage.get("quota_used")))),
        (POOL_NUMBERS["available"].label, whole.get("available", row.get("available", usage.get("quota_free")))),
        (TOTAL_IN_USE.label, whole.get("total_usage", usage.get("total_usage"))),
        (
            f"Nodes' {'size' if flavors else 'GPUs'}, free",
            f"{usage.get('total_capacity', '-')}, {usage.get('total_free', '-')}",
        ),
        (POOL_NUMBERS["maximum"].label, maximum),
        (WEIGHT.label, gpu.get("weight")),
        ("Platforms", sorted(row.get("platforms") or {})),
    ]
    parts: list[AnswerPart] = [Facts(lines)]
    if flavors:
        parts.append(_flavor_table(flavors))
    if subpools is not None:
        parts.append(subpool.subpools_table(subpools))
    return parts if len(parts) > 1 else parts[0]


def _flavors(session: ClientSession, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of the pool in each GPU flavor that it has; none without flavors. Its limits are those of flavors, so
    a pool with a maximum of its own has none."""
    nodes = session.http().get("api/quota_tree", {"root": row.get("parent_pool") or row["name"]})["nodes"]
    own = next((each["quotas"] for each in nodes if each["name"] == row["name"] and each["kind"] != "cohort"), ())
    return [each for each in own if each["resource"] == "gpu" and each["flavor"] != DEFAULT_FLAVOR]


def _flavor_table(flavors: list[dict[str, Any]]) -> Table:
    numbers = ("quota", "total_usage", "can_start_now", "low_can_start_now", "pending", *LIMIT_KEYS)
    header = (*headings([FLAVOR_COLUMN]), *(TREE_NUMBERS[key].label for key in numbers))
    return build_table(header, [[each["flavor"], *(each[key] for key in numbers)] for each in flavors])
