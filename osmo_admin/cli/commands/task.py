"""`osmo task`: tasks of all workflows, and what they hold."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.client_errors import ClientError
from osmo_admin.cli.options import (
    AllUsersOption,
    LimitOption,
    OffsetOption,
    Order,
    OrderOption,
    PoolsFilter,
    PriorityFilter,
    UsersFilter,
)
from osmo_admin.cli.output import emit
from osmo_admin.cli.session import Session
from osmo_admin.cli.tables import table
from osmo_admin.cli.times import asked, shown
from osmo_admin.cli.verb import group, verb

app = group("Tasks of workflows.")
AT_WORK = ("PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING")
AMOUNTS = {"Storage [Gi]": "storage", "CPU [#]": "cpu", "Memory [Gi]": "memory", "GPU [#]": "gpu"}


@verb(app, "list")
def list_(
    session: Session,
    *,
    statuses: Annotated[
        list[str] | None,
        typer.Option(
            "--status", "-s", metavar="STATUS...", help=f"Only these statuses; {', '.join(AT_WORK)} if not given."
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow-id", "-w", help="Only of workflows whose ID contains this.")
    ] = None,
    users: UsersFilter = None,
    all_users: AllUsersOption = False,
    pools: PoolsFilter = None,
    nodes: Annotated[
        list[str] | None, typer.Option("--node", "-n", metavar="NODE...", help="Only on these nodes.")
    ] = None,
    priorities: PriorityFilter = None,
    started_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this time on: a date, a time, or 12h, 7d ago.")
    ] = None,
    started_before: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")] = None,
    limit: LimitOption = 20,
    offset: OffsetOption = 0,
    order: OrderOption = Order.ASC,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With what each task holds.")] = False,
    summary: Annotated[bool, typer.Option("--summary", "-S", help="Sums by user, pool and priority.")] = False,
    by_workflow: Annotated[bool, typer.Option("--aggregate-by-workflow", "-W", help="Sums by workflow.")] = False,
) -> None:
    """List tasks, yours and those at work unless you say otherwise."""
    if users and all_users:
        raise ClientError("Give either --user or --all-users.")
    query = {
        "limit": limit,
        "offset": offset,
        "order": order.value.upper(),
        "users": users,
        "all_users": all_users,
        "statuses": [status.upper() for status in statuses or AT_WORK],
        "workflow_id": workflow,
        "pools": pools,
        "all_pools": None if pools else True,
        "nodes": nodes,
        "priority": [priority.value for priority in priorities or []],
        "started_after": asked(started_after) if started_after else None,
        "started_before": asked(started_before) if started_before else None,
        "summary": summary or None,
        "aggregate_by_workflow": by_workflow or None,
    }
    answer = session.http().get("api/task", query)
    if summary or by_workflow:
        emit(session, answer, lambda: _sums(answer["summaries"], by_workflow=by_workflow))
    else:
        emit(session, answer, lambda: _tasks(answer["tasks"], verbose=verbose))


def _tasks(entries: list[dict[str, Any]], *, verbose: bool) -> str:
    if not entries:
        return "There are no tasks to view."
    columns = {
        "User": "user",
        "Workflow ID": "workflow_id",
        "Task": "task_name",
        "Status": "status",
        "Pool": "pool",
        "Priority": "priority",
        "Node": "node",
    }
    amounts = AMOUNTS if verbose else {}
    rows = [
        [
            *(entry.get(key) for key in columns.values()),
            shown(entry.get("start_time")),
            *(entry.get(key) for key in amounts.values()),
        ]
        for entry in entries
    ]
    total = [""] * (len(columns) + 1) + [_sum(entries, key) for key in amounts.values()] if verbose else None
    return table((*columns, "Start Time", *amounts), rows, total=total)


def _sums(entries: list[dict[str, Any]], *, by_workflow: bool) -> str:
    if not entries:
        return "There is nothing to sum up."
    workflow = {"Workflow ID": "workflow_id"} if by_workflow else {}
    columns = {"User": "user", **workflow, "Pool": "pool", "Priority": "priority", **AMOUNTS}
    rows = [[entry.get(key) for key in columns.values()] for entry in entries]
    total = [""] * (len(columns) - len(AMOUNTS)) + [_sum(entries, key) for key in AMOUNTS.values()]
    return table(tuple(columns), rows, total=total)


def _sum(entries: list[dict[str, Any]], key: str) -> Any:
    return sum(entry.get(key) or 0 for entry in entries)
