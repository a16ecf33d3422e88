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
from osmo_admin.cli.tables import AnswerPart, list_table
from osmo_admin.cli.times import format_local_time
from pools.domain.columns import Column
from scheduling.domain.lists import TaskQuery

app = command_group("Tasks of workflows.")
ACTIVE_STATUSES = ["PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"]
COLUMNS: dict[str, Any] = {
    "User": "user",
    "Workflow ID": "workflow_id",
    "Task": "task_name",
    "Status": "status",
    "Pool": "pool",
    "Priority": "priority",
    "Node": "node",
    "Start Time": lambda row: format_local_time(row.get("start_time")),
}
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
    return _with_sums(COLUMNS | (AMOUNT_COLUMNS if verbose else {}), entries)


def _sums_table(entries: list[dict[str, Any]], *, by_workflow: bool) -> AnswerPart:
    if not entries:
        return "There are no tasks to sum up."
    workflow = {"Workflow ID": "workflow_id"} if by_workflow else {}
    return _with_sums({"User": "user", **workflow, "Pool": "pool", "Priority": "priority", **AMOUNT_COLUMNS}, entries)


def _with_sums(columns: dict[str, Any], entries: list[dict[str, Any]]) -> AnswerPart:
    sums = [
        sum(entry.get(key) or 0 for entry in entries) if heading in AMOUNT_COLUMNS else ""
        for heading, key in columns.items()
    ]
    declared = [Column(heading, heading, cell=cell) for heading, cell in columns.items()]
    return list_table(declared, entries, total=sums if AMOUNT_COLUMNS.keys() <= columns.keys() else None)
