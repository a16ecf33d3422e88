"""`osmo workflow queue`: pending workflows with their position, the reason, and ways to unblock them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from osmo_admin.cli.base.completion import complete_workflows
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, OutputFormat
from osmo_admin.cli.base.tables import (
    AnswerText,
    Facts,
    duration_cell,
    format_cell,
    list_table,
    local_time,
    with_more_entries,
)
from osmo_admin.cli.lists import list_command
from osmo_admin.cli.text.start_text import start_cell, start_facts
from pools.domain.columns import pick
from scheduling.domain.list_columns import PENDING_COLUMNS
from scheduling.domain.lists import PendingQueueQuery

LISTED = "position workflow group user pool priority gpus missing waits_seconds starts_about reason"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    list_command(app, "queue", PendingQueueQuery, usual={"limit": 20}, watches=True)(queue)


def queue(
    session: ClientSession,
    query: dict[str, Any],
    *,
    workflow: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKFLOW]",
            help="Workflow ID: show all details of this workflow.",
            autocompletion=complete_workflows,
        ),
    ] = None,
) -> None:
    """List pending workflows in the order of the queue, with the reason; with an ID, show one workflow in full.

    Position is the place in the queue of the pool or subpool. It counts all pending work, including work that you may
    not see. Starts about is as exact as the forecast is sure.

    Example: osmo workflow queue --pool vision
    """
    answer = session.http().get("api/queue", query | {"workflow": workflow})
    if workflow is not None and not answer["entries"]:
        # A workflow that is not pending and one that does not exist get different messages.
        status = session.http().get(url_path("api", "workflow", workflow))["status"]
        print_answer(
            session, answer, lambda: f"Workflow {format_cell(workflow)} is not pending; it is {format_cell(status)}."
        )
        return
    as_table = workflow is None or session.output is OutputFormat.CSV
    print_answer(session, answer, lambda: _queue_table(answer) if as_table else _entries_text(answer))


def _queue_table(answer: dict[str, Any]) -> AnswerText:
    entries = answer["entries"]
    has_backends = len({entry.get("backend") for entry in entries}) > 1
    columns = pick(PENDING_COLUMNS, f"backend {LISTED}" if has_backends else LISTED)
    rows = [_queue_row(entry) for entry in entries]
    return with_more_entries(list_table(columns, rows, nothing="No workflow is pending."), answer)


def _queue_row(entry: dict[str, Any]) -> dict[str, Any]:
    since = datetime.fromisoformat(entry.get("waits_since") or entry["submit_time"]).replace(tzinfo=UTC)
    waits = (datetime.now(UTC) - since).total_seconds()
    return {
        **entry,
        "waits_seconds": duration_cell(waits),
        "starts_about": start_cell(entry.get("start"), entry.get("reservation")),
    }


def _entries_text(answer: dict[str, Any]) -> AnswerText:
    return [_entry_facts(entry) for entry in answer["entries"]]


def _entry_facts(entry: dict[str, Any]) -> Facts:
    reason = entry["reason"]
    return Facts(
        [
            ("Workflow ID", entry["workflow"]),
            ("Group", entry["group"]),
            ("User", entry.get("user")),
            ("Backend", entry.get("backend")),
            ("Pool", entry["pool"]),
            ("Queue", entry["queue"]),
            ("Priority", entry["priority"]),
            ("Submit Time", local_time(entry["submit_time"])),
            ("Requested", entry["gpus"] if "flavor" in reason else _gpu_count(entry["gpus"])),
            ("Position", f"{entry['position_in_queue']} in {entry['pool']}"),
            ("Before It", f"{entry['ahead']} on the whole cluster"),
            ("Reason", f"{reason['message']} ({reason['code']})"),
            *_shortfall_facts(reason),
            *_reservation_facts(entry.get("reservation")),
            *start_facts(entry.get("start"), entry.get("reservation")),
            *(("Would Unblock", message) for message in entry["unblock"]),
            *_unblock_facts(entry),
        ]
    )


def _unblock_facts(entry: dict[str, Any]) -> list[tuple[str, Any]]:
    """Whether several lines are needed together."""
    if len(entry["unblock"]) < 2:
        return []
    return [("Needed", "all of these together" if entry.get("unblock_needs_all", True) else "one of these")]


def _reservation_facts(reserved: dict[str, Any] | None) -> list[tuple[str, Any]]:
    return [] if reserved is None else [("Reservation", reserved["message"])]


def _shortfall_facts(reason: dict[str, Any]) -> list[tuple[str, Any]]:
    """The limit with its free and missing amounts; empty if the reason is not an amount."""
    if reason.get("missing") is None:
        return []
    limit = (reason.get("limit") or "").replace("_", " ")
    return [
        ("Limited By", limit if reason.get("limit") == "nodes" else f"{limit} of {reason['queue']}"),
        ("Free", _gpu_count(reason["free"], reason.get("flavor"))),
        ("Missing", _gpu_count(reason["missing"], reason.get("flavor"))),
    ]


def _gpu_count(amount: Any, flavor: str | None = None) -> str:
    """GPUs, or parts of them, of a flavor with its name alone."""
    return f"{amount} {flavor}" if flavor else f"{amount} GPU" if amount == 1 else f"{amount} GPUs"
