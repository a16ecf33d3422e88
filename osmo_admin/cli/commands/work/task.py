"""`osmo task`: tasks of all workflows, and their resources."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.command_decorator import command_group
from osmo_admin.cli.base.options import (
    OrderOption,
    SortOrder,
)
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerPart, list_table
from osmo_admin.cli.lists import list_command, query_of_work
from pools.domain.columns import pick
from scheduling.domain.list_columns import TASK_COLUMNS
from scheduling.domain.lists import TaskQuery

app = command_group("Tasks of workflows.")
ACTIVE_STATUSES = ["PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"]
LISTED, AMOUNTS = "user workflow task status pool priority node started", "storage cpu memory gpu"


@list_command(app, "list", TaskQuery, usual={"statuses": ACTIVE_STATUSES}, watches=True)
def list_(
    session: ClientSession,
    query: dict[str, Any],
    *,
    order: OrderOption = SortOrder.ASC,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Include the resources of each task.")] = False,
) -> None:
    """List tasks, by default your own active tasks.

    Example: osmo task list --all-users --node dgx-07
    """
    answer = session.http().get(
        "api/task", {"all_users": False} | query_of_work(query) | {"order": order.value.upper()}
    )
    by_workflow = "aggregate_by_workflow" in query
    if by_workflow or "summary" in query:
        print_answer(session, answer, lambda: _sums_table(answer["summaries"], by_workflow=by_workflow))
    else:
        print_answer(session, answer, lambda: _tasks_table(answer["tasks"], verbose=verbose))


def _tasks_table(entries: list[dict[str, Any]], *, verbose: bool) -> AnswerPart:
    return _with_sums(f"{LISTED} {AMOUNTS}" if verbose else LISTED, entries, "There are no tasks to view.")


def _sums_table(entries: list[dict[str, Any]], *, by_workflow: bool) -> AnswerPart:
    keys = f"user {'workflow' if by_workflow else ''} pool priority {AMOUNTS}"
    return _with_sums(keys, entries, "There are no tasks to sum up.")


def _with_sums(keys: str, entries: list[dict[str, Any]], nothing: str) -> AnswerPart:
    columns, summed = pick(TASK_COLUMNS, keys), AMOUNTS.split()
    sums = [sum(entry.get(each.key) or 0 for entry in entries) if each.key in summed else "" for each in columns]
    return list_table(columns, entries, total=sums if AMOUNTS in keys else None, nothing=nothing)
