"""`osmo workflow`: list, show and cancel workflows, end simulated ones. `workflow_submit` has the submission."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_workflows
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.options import (
    OrderOption,
    SortOrder,
    WorkflowArgument,
)
from osmo_admin.cli.base.output import confirm, print_answer, print_error
from osmo_admin.cli.base.session import ClientSession, OutputFormat
from osmo_admin.cli.base.tables import (
    AnswerText,
    Facts,
    Table,
    duration_cell,
    format_cell,
    list_table,
    local_time,
    printable_text,
    with_more_entries,
)
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.commands.work import workflow_compare, workflow_queue, workflow_receipt, workflow_submit
from osmo_admin.cli.commands.work.workflow_receipt import lost_text
from osmo_admin.cli.commands.work.workflow_submit import ENDED_PREFIXES
from osmo_admin.cli.lists import list_command, query_of_work
from osmo_admin.cli.text.effect_text import show_effect
from osmo_admin.cli.text.gang_table import gang_table
from osmo_admin.cli.text.start_text import start_cell, start_facts
from pools.domain.columns import pick
from pools.domain.structured_input.declared_values import fields_of
from scheduling.domain.changes.workflows import CancelWorkflow, EndStatus, EndWorkflow
from scheduling.domain.list_columns import EVENT_COLUMNS, TASK_COLUMNS, WORKFLOW_COLUMNS
from scheduling.domain.lists import LineQuery, WorkflowQuery

app = command_group("Submit and follow workflows.")
workflow_submit.add_to(app)
workflow_queue.add_to(app)
workflow_compare.add_to(app)
workflow_receipt.add_to(app)
ALL_LINES = {"last_n_lines": None}
NO_OWN_WORK = "There are no workflows to view: you have none here. Those of everybody: osmo workflow list --all-users."
EVENT_LINE = re.compile(r"(?P<time>\S+ \S+) \[(?P<task>[^]]*)\] ?(?P<event>.*)")
_CANCEL = fields_of(CancelWorkflow)


@list_command(app, "list", WorkflowQuery, watches=True)
def list_(
    session: ClientSession,
    query: dict[str, Any],
    *,
    order: OrderOption = SortOrder.ASC,
    as_json: Annotated[bool, typer.Option("--json", help="Short for -o json.")] = False,
) -> None:
    """List workflows, by default your own, the newest at the bottom.

    Example: osmo workflow list --all-users --status RUNNING --submitted-after 12h
    """
    if as_json:
        session.output = OutputFormat.JSON
    newest = {"order": "DESC", "details": True}  # reversed for reading
    answer = session.http().get("api/workflow", query_of_work(query) | newest)
    is_of_all = bool(query.keys() & {"all_users", "users"})
    print_answer(session, answer, lambda: _workflows_table(answer, order, is_of_all=is_of_all))


def _workflows_table(answer: dict[str, Any], order: SortOrder, *, is_of_all: bool) -> AnswerText:
    entries = answer["workflows"]
    ordered = list(reversed(entries) if order is SortOrder.ASC else entries)
    rows = [
        {
            **entry,
            "observed": (entry.get("observed") or {}).get("backend"),
            "waited_seconds": duration_cell(entry.get("queued_time")),
            "starts_about": start_cell(entry.get("start"), entry.get("reservation")),
            "run_seconds": duration_cell(entry.get("duration")),
        }
        for entry in ordered
    ]
    starts = "starts_about" if any(row["starts_about"] for row in rows) else ""
    observed = "observed" if any(entry.get("observed") for entry in entries) else ""
    keys = f"workflow user pool priority status submitted waited_seconds {starts} run_seconds {observed} labels"
    nothing = "There are no workflows to view." if is_of_all else NO_OWN_WORK
    return with_more_entries(list_table(pick(WORKFLOW_COLUMNS, keys), rows, nothing=nothing), answer)


@client_command(app, "query", watches=True)
def query(
    session: ClientSession,
    *,
    workflow: WorkflowArgument,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Include earlier attempts of the tasks.")] = False,
) -> None:
    """Show one workflow with its groups and tasks.

    Example: osmo workflow query train-12 --watch
    """
    answer = session.http().get(url_path("api", "workflow", workflow), {"verbose": verbose})
    session.has_ended = str(answer["status"]).startswith(ENDED_PREFIXES)
    print_answer(session, answer, lambda: _workflow_text(answer))


def _workflow_text(answer: dict[str, Any]) -> AnswerText:
    head = Facts(
        [
            ("Workflow ID", answer["name"]),
            ("Status", answer["status"]),
            ("User", answer["submitted_by"]),
            ("Pool", answer.get("pool")),
            ("Priority", answer.get("priority")),
            ("Submit Time", local_time(answer["submit_time"])),
            ("Start Time", local_time(answer.get("start_time"))),
            ("End Time", local_time(answer.get("end_time"))),
            ("Cancelled By", answer.get("cancelled_by")),
            *_observed_facts(answer),
            *_preemption_facts(answer),
            *_waiting_facts(answer),
            *_past_wait_facts(answer),
            ("Labels", answer.get("labels")),
            ("Overview", answer["overview"]),
        ]
    )
    columns = pick(TASK_COLUMNS, "group task retry status node started exit_code message")
    tasks = [_task_row(group, task) for group in answer["groups"] for task in group["tasks"]]
    return [head, *map(gang_table, answer["groups"]), list_table(columns, tasks)]


def _task_row(group: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    message = task.get("failure_message") or group.get("failure_message")
    return {
        **task, "group": group.get("name"), "task_name": task["name"], "node": task.get("node_name"), "message": message
    }  # fmt: skip


def _observed_facts(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    """The object behind work that another scheduler runs."""
    if not (seen := answer.get("observed")):
        return []
    return [("Observed", f"{seen['kind']} {seen['namespace']}/{seen['name']} of cluster {seen['backend']}")]


def _preemption_facts(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    """Who preempted it last, and what it preempted."""
    lost = answer.get("preemptions") or []
    facts: list[tuple[str, Any]] = []
    for each in lost[:1]:
        facts.append(("Preempted", f"{format_cell(local_time(each['time']))} {each['message']}"))
        if "lost_gpu_s" in each:  # not of an older server
            facts.append(("Lost", f"{lost_text(each)}; osmo workflow receipt {answer['name']} says why"))
    if taken := answer.get("preempted"):
        names = dict.fromkeys(f"{each['workflow']} ({each['user']})" for each in taken)
        facts.append(("It Preempted", ", ".join(names)))
    return facts


def _past_wait_facts(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    """How long its groups waited for GPUs until they started, and for what, the longest cause first."""
    found = []
    for group in answer["groups"]:
        parts = [part for wait in group.get("waits") or [] if wait["until"] for part in wait["parts"]]
        sums = Counter[str]()
        for part in parts:
            sums[part["title"]] += part["seconds"]
        if sums:
            causes = ", ".join(f"{title} {duration_cell(seconds).text}" for title, seconds in sums.most_common())
            name = f"{group['name']} " if len(answer["groups"]) > 1 else ""
            total = duration_cell(sums.total()).text
            found.append(("Waited", f"{name}{total}: {causes}" if sums.total() >= 1 else f"{name}{total}"))
    return found


def _waiting_facts(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    """Why the first waiting group waits, and what would start it; empty for a workflow that does not wait."""
    waiting = [group["waiting"] for group in answer["groups"] if group.get("waiting")]
    if not waiting:
        return []
    first = min(waiting, key=lambda entry: entry["position"])
    facts = [("Reason", first["reason"]["message"]), *start_facts(first.get("start"), first.get("reservation"))]
    return facts + [("Would Unblock", message) for message in first.get("unblock") or []]


@list_command(app, "logs", LineQuery, usual=ALL_LINES, short_t=False)
def logs(
    session: ClientSession,
    query: dict[str, Any],
    *,
    workflow: WorkflowArgument,
    error: Annotated[bool, typer.Option("--error", help="Only tasks that failed, with their reasons.")] = False,
) -> None:
    """Print the logs of a workflow, or of one of its tasks.

    Example: osmo workflow logs train-12 --last-n-lines 50
    """
    _print_text_of(session, workflow, "error_logs" if error else "logs", query)


@list_command(app, "events", LineQuery, usual=ALL_LINES, short_t=False)
def events(session: ClientSession, query: dict[str, Any], *, workflow: WorkflowArgument) -> None:
    """Print the events of a workflow, oldest first.

    Example: osmo workflow events train-12
    """
    if session.output is OutputFormat.CSV:
        text = session.http().get_text(url_path("api", "workflow", workflow, "events"), query)
        print_answer(session, None, lambda: _events_table(text))
    else:
        _print_text_of(session, workflow, "events", query)


def _events_table(text: str) -> Table:
    """`2026-11-27 18:55:32 [main] waits for 8 GPUs`, one line for each event, in UTC."""
    found = (EVENT_LINE.fullmatch(line) for line in text.splitlines())
    rows = (each.groupdict() for each in found if each)
    return list_table(EVENT_COLUMNS.values(), rows, nothing="There are no events.")


def _print_text_of(session: ClientSession, workflow: str, kind: str, query: dict[str, Any]) -> None:
    """Print a plain text of the server while it arrives; as one value for programs."""
    address = url_path("api", "workflow", workflow, kind)
    if session.is_machine_readable:
        print_answer(session, {kind: session.http().get_text(address, query)}, str)
        return
    for piece in session.http().stream_text(address, query):
        typer.echo(printable_text(piece), nl=False)


@client_command(app, "cancel", writes=True, confirms=True)
def cancel(
    session: ClientSession,
    *,
    workflows: Annotated[
        list[str],
        typer.Argument(metavar="WORKFLOW...", help="Workflow IDs or UUIDs.", autocompletion=complete_workflows),
    ],
    force: Annotated[bool, typer.Option("--force", "-f", help=_CANCEL["force"].sentence)] = False,
    message: Annotated[str | None, typer.Option("--message", "-m", help=_CANCEL["message"].sentence)] = None,
) -> None:
    """Cancel workflows. After a failure the others are still cancelled; the exit code is that of the first failure.

    Example: osmo workflow cancel train-12 --message "wrong data"
    """
    confirm(session, f"Cancel {', '.join(workflows)}?")
    http = session.http()
    parameters = {"force": force, "message": message} | session.dry_run_query
    failures: list[ClientError] = []
    for workflow in workflows:
        try:
            answer = http.send_change("POST", url_path("api", "workflow", workflow, "cancel"), query=parameters)
        except ClientError as error:
            failures.append(error)
            session.add_hint(error)
            print_error(error, session.output)
            continue
        if session.dry_run:
            show_effect(session, answer)
        else:
            print_answer(session, answer, lambda name=answer["name"]: f"Workflow {name} is cancelled.")  # type: ignore[misc]
    if failures:
        raise typer.Exit(failures[0].exit_code)


@client_command(app, "spec")
def spec(
    session: ClientSession,
    *,
    workflow: WorkflowArgument,
    template: Annotated[bool, typer.Option("--template", help="The file before rendering.")] = False,
) -> None:
    """Print the file of a workflow.

    Example: osmo workflow spec train-12 > train.yaml
    """
    text = session.http().get_text(url_path("api", "workflow", workflow, "spec"), {"use_template": template})
    if session.is_machine_readable:
        print_answer(session, {"spec": text}, str)
    else:
        typer.echo(text, nl=not text.endswith("\n"))  # a file, not a message: without colours and replacements


@change_command(app, "end", EndWorkflow, confirms=True, usual={"status": EndStatus.COMPLETED})
def end(session: ClientSession, change: TypedChange) -> None:
    """End running tasks of a simulated workflow; tasks that depend on them continue.

    Example: osmo workflow end train-12 --status COMPLETED
    """
    confirm(session, f"End {change['name']} as {change['status']}?")
    answer = change.send("POST", url_path("api", "workflow", change["name"], "end"))
    change.show(answer, _ended_text)


def _ended_text(answer: dict[str, Any]) -> str:
    return f"Workflow {format_cell(answer['name'])} is {answer['status']}."
