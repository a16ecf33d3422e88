"""`osmo workflow queue`: what waits, at which place, why, and what would unblock it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.command_decorator import client_command
from osmo_admin.cli.http import url_path
from osmo_admin.cli.options import LimitOption, OffsetOption, PoolsFilter, UsersFilter
from osmo_admin.cli.output import print_answer
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import format_cell, format_facts, format_table
from osmo_admin.cli.times import format_local_time

COLUMNS = {
    "backend": "Backend",
    "position": "Place",
    "workflow": "Workflow ID",
    "group": "Group",
    "user": "User",
    "pool": "Pool",
    "priority": "Priority",
    "gpus": "GPUs",
    "position_in_queue": "In Queue",
}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    client_command(app, "queue")(queue)


def queue(
    session: ClientSession,
    *,
    workflow: Annotated[
        str | None, typer.Argument(metavar="[WORKFLOW]", help="Workflow ID: tell all about this one.")
    ] = None,
    pools: PoolsFilter = None,
    users: UsersFilter = None,
    limit: LimitOption = 20,
    offset: OffsetOption = 0,
) -> None:
    """List what waits in the order it is served, with the reason; with an ID, all about one workflow.

    Places count everybody's work on a backend, also what you may not see.
    """
    query = {"pool": pools, "user": users, "workflow": workflow, "limit": limit, "offset": offset}
    answer = session.http().get("api/queue", query)
    if workflow is not None and not answer["entries"]:
        # One that is not in line is told from one that is not there.
        status = session.http().get(url_path("api", "workflow", workflow))["status"]
        print_answer(
            session, answer, lambda: f"Workflow {format_cell(workflow)} does not wait; it is {format_cell(status)}."
        )
        return
    print_answer(session, answer, lambda: _queue_table(answer) if workflow is None else _entries_text(answer))


def _queue_table(answer: dict[str, Any]) -> str:
    entries = answer["entries"]
    if not entries:
        return "Nothing waits."
    columns = [key for key in COLUMNS if key != "backend" or len({entry.get(key) for entry in entries}) > 1]
    rows = [[*(entry.get(key) for key in columns), entry["reason"]["message"]] for entry in entries]
    text = format_table([*(COLUMNS[key] for key in columns), "Why It Waits"], rows)
    return f"{text}\n\nThere are more: --offset, --limit." if answer.get("more_entries") else text


def _entries_text(answer: dict[str, Any]) -> str:
    return "\n\n".join(_entry_text(entry) for entry in answer["entries"])


def _entry_text(entry: dict[str, Any]) -> str:
    reason = entry["reason"]
    head = format_facts(
        [
            ("Workflow ID", entry["workflow"]),
            ("Group", entry["group"]),
            ("User", entry.get("user")),
            ("Backend", entry.get("backend")),
            ("Pool", entry["pool"]),
            ("Queue", entry["queue"]),
            ("Priority", entry["priority"]),
            ("Submit Time", format_local_time(entry["submit_time"])),
            ("Asks For", _gpu_count(entry["gpus"])),
            ("Place", f"{entry['position']} ({entry['ahead']} ahead), {entry['position_in_queue']} in its queue"),
            ("Why It Waits", f"{reason['message']} ({reason['code']})"),
            *_shortfall_facts(reason),
        ]
    )
    steps = [f"- {format_cell(sentence)}" for sentence in entry["unblock"]]
    return "\n".join([head, "What would unblock it:", *steps] if steps else [head])


def _shortfall_facts(reason: dict[str, Any]) -> list[tuple[str, Any]]:
    """The amounts in the way, where amounts are the matter."""
    if reason.get("missing") is None:
        return []
    limit = (reason.get("limit") or "").replace("_", " ")
    return [
        ("In The Way", limit if reason.get("limit") == "nodes" else f"{limit} of {reason['queue']}"),
        ("Free", _gpu_count(reason["free"])),
        ("Missing", _gpu_count(reason["missing"])),
    ]


def _gpu_count(amount: Any) -> str:
    return f"{amount} GPU" if amount == 1 else f"{amount} GPUs"
