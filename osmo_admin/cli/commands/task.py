"""`osmo task`: tasks of all workflows, and their resources."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.client_errors import ClientError
from osmo_admin.cli.command_decorator import client_command, command_group
from osmo_admin.cli.options import (
    AllUsersOption,
    LimitOption,
    OffsetOption,
    OrderOption,
    PoolsFilter,
    PriorityFilter,
    SortOrder,
    UsersFilter,
)
from osmo_admin.cli.output import print_answer
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import AnswerPart, build_table
from osmo_admin.cli.times import format_local_time, parse_time

app = command_group("Tasks of workflows.")
ACTIVE_STATUSES = ("PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING")
AMOUNT_COLUMNS = {"Storage [Gi]": "storage", "CPU [#]": "cpu", "Memory [Gi]": "memory", "GPU [#]": "gpu"}


@client_command(app, "list", watches=True)
def list_(
    session: ClientSession,
    *,
    statuses: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            "-s",
            metavar="STATUS...",
            help=f"Only these statuses. Default: {', '.join(ACTIVE_STATUSES)}.",
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
        str | None, typer.Option(metavar="TIME", help="From this time on: a date, a time, or 12h, 7d before now.")
    ] = None,
    started_before: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")] = None,
    limit: LimitOption = 20,
    offset: OffsetOption = 0,
    order: OrderOption = SortOrder.ASC,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Include the resources of each task.")] = False,
    summary: Annotated[bool, typer.Option("--summary", "-S", help="Sums by user, pool and priority.")] = False,
    by_workflow: Annotated[bool, typer.Option("--aggregate-by-workflow", "-W", help="Sums by workflow.")] = False,
) -> None:
    """List tasks, by default your own active tasks."""
    if users and all_users:
        raise ClientError("Give either --user or --all-users.")
    query = {
        "limit": limit,
        "offset": offset,
        "order": order.value.upper(),
        "users": users,
        "all_users": all_users,
        "statuses": [status.upper() for status in statuses or ACTIVE_STATUSES],
        "workflow_id": workflow,
        "pools": pools,
        "all_pools": None if pools else True,
        "nodes": nodes,
        "priority": [priority.value for priority in priorities or []],
        "started_after": parse_time(started_after) if started_after else None,
        "started_before": parse_time(started_before) if started_before else None,
        "summary": summary or None,
        "aggregate_by_workflow": by_workflow or None,
    }
    answer = session.http().get("api/task", query)
    if summary or by_workflow:
        print_answer(session, answer, lambda: _sums_table(answer["summaries"], by_workflow=by_workflow))
    else:
        print_answer(session, answer, lambda: _tasks_table(answer["tasks"], verbose=verbose))


def _tasks_table(entries: list[dict[str, Any]], *, verbose: bool) -> AnswerPart:
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
    amounts = AMOUNT_COLUMNS if verbose else {}
    rows = [
        [
            *(entry.get(key) for key in columns.values()),
            format_local_time(entry.get("start_time")),
            *(entry.get(key) for key in amounts.values()),
        ]
        for entry in entries
    ]
    total = [""] * (len(columns) + 1) + [_sum_column(entries, key) for key in amounts.values()] if verbose else None
    return build_table((*columns, "Start Time", *amounts), rows, total=total)


def _sums_table(entries: list[dict[str, Any]], *, by_workflow: bool) -> AnswerPart:
    if not entries:
        return "There are no tasks to sum up."
    workflow = {"Workflow ID": "workflow_id"} if by_workflow else {}
    columns = {"User": "user", **workflow, "Pool": "pool", "Priority": "priority", **AMOUNT_COLUMNS}
    rows = [[entry.get(key) for key in columns.values()] for entry in entries]
    total = [""] * (len(columns) - len(AMOUNT_COLUMNS)) + [_sum_column(entries, key) for key in AMOUNT_COLUMNS.values()]
    return build_table(tuple(columns), rows, total=total)


def _sum_column(entries: list[dict[str, Any]], key: str) -> Any:
    return sum(entry.get(key) or 0 for entry in entries)
