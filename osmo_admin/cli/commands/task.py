"""`osmo task`: tasks of all workflows, and their resources."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.command_decorator import command_group
from osmo_admin.cli.lists import list_command, query_of_work
from osmo_admin.cli.options import (
    OrderOption,
    SortOrder,
)
from osmo_admin.cli.output import print_answer
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import AnswerPart, build_table
from osmo_admin.cli.times import format_local_time
from scheduling.domain.lists import TaskQuery

app = command_group("Tasks of workflows.")
ACTIVE_STATUSES = ["PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"]
AMOUNT_COLUMNS = {"Storage [Gi]": "storage", "CPU [#]": "cpu", "Memory [Gi]": "memory", "GPU [#]": "gpu"}


@list_command(app, "list", TaskQuery, usual={"statuses": ACTIVE_STATUSES}, watches=True)
def list_(
    session: ClientSession,
    query: dict[str, Any],
    *,
    order: OrderOption = SortOrder.ASC,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Include the resources of each task.")] = False,
) -> None:
    """List tasks, by default your own active tasks."""
    answer = session.http().get(
        "api/task", {"all_users": False} | query_of_work(query) | {"order": order.value.upper()}
    )
    by_workflow = "aggregate_by_workflow" in query
    if by_workflow or "summary" in query:
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
