"""`osmo workflow submit`, `validate`, `forecast`, `restart`: the commands that send a workflow to a pool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from osmo_admin.cli import workflow_file
from osmo_admin.cli.base.client_errors import REFUSED_SUBMISSION, SERVER_FAILED, ClientError
from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.http import HttpClient, pause, url_path
from osmo_admin.cli.base.options import PoolOption, WorkflowArgument
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, print_warning
from osmo_admin.cli.base.tables import AnswerText, list_table
from osmo_admin.cli.base.yaml_files import STANDARD_INPUT
from osmo_admin.cli.commands.profile import find_default_pool
from osmo_admin.cli.text.start_text import start_cell, start_sentence
from pools.domain.columns import pick
from pools.domain.structured_input.declared_values import fields_of
from scheduling.domain.changes.submissions import SubmitWorkflow
from scheduling.domain.list_columns import WAY_COLUMNS
from scheduling.domain.priorities import Priority

PREEMPTIBLE_WARNING = "WARNING: workflows with LOW priority can be preempted while they run."
ENDED_PREFIXES = ("COMPLETED", "FAILED")
FIRST_POLL_PAUSE, MAX_POLL_PAUSE = 1.0, 10.0  # seconds between two requests while waiting

_SUBMITTED = fields_of(SubmitWorkflow)
SubmitPriorityOption = Annotated[
    Priority | None, typer.Option("--priority", case_sensitive=False, help=_SUBMITTED["priority"].help)
]
FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Workflow file or PodGroup, - for standard input, or the ID of a workflow to submit again.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE...", help=_SUBMITTED["set_variables"].help),
]
SetStringOption = Annotated[
    list[str] | None, typer.Option("--set-string", metavar="KEY=VALUE...", help=_SUBMITTED["set_string_variables"].help)
]
LabelOption = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE...", help=_SUBMITTED["label"].help)
]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file in the family `workflow`."""
    client_command(app, "submit", writes=True)(submit)
    client_command(app, "validate")(validate)
    client_command(app, "forecast")(forecast)
    client_command(app, "restart", writes=True)(restart)


def submit(
    session: ClientSession,
    *,
    file: FileArgument,
    pool: PoolOption = None,
    priority: SubmitPriorityOption = None,
    set_values: SetOption = None,
    set_strings: SetStringOption = None,
    set_env: Annotated[
        list[str] | None, typer.Option("--set-env", metavar="KEY=VALUE...", help=_SUBMITTED["env_vars"].help)
    ] = None,
    labels: LabelOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit code 1 if it failed.")] = False,
) -> None:
    """Submit a workflow. With --dry-run print the file that the server rendered, and on standard error its start.

    Example: osmo workflow submit train.yaml --pool vision--detect --set epochs=20
    """
    check_pairs({"--set": set_values, "--set-string": set_strings, "--set-env": set_env, "--label": labels})
    again = workflow_file.is_workflow_id(file)
    if again and (session.dry_run or set_values or set_strings):
        raise ClientError("Submitting a workflow again by its ID takes no --dry-run, --set or --set-string.")
    body = None if again else _submission_body(file, set_values, set_strings)
    pool = pool or find_default_pool(session)
    query: dict[str, Any] = {"priority": priority.value if priority else None, "label": labels, "env_vars": set_env}
    if again:
        query["workflow_id"] = file
    http = session.http()
    address = url_path("api", "pool", pool, "workflow")
    if body is not None:
        body = add_local_files(http, address, query, body, file)
    forecast = {"start": True} if session.dry_run else {}
    answer = _post_submission(http, address, query | session.dry_run_query | forecast, body)
    if session.dry_run:
        print_answer(session, answer, lambda: str(answer.get("spec") or "").rstrip("\n"))
        if not session.is_machine_readable and (sentence := start_sentence(answer.get("start"))):
            print_warning(sentence)
        return
    if priority is Priority.LOW and not session.is_machine_readable:
        print_warning(PREEMPTIBLE_WARNING)
    if wait and session.is_machine_readable:
        answer = wait_until_ended(http, answer["name"])  # one document for programs: the workflow after its end
        print_answer(session, answer, str)
    else:
        print_answer(session, answer, lambda: _submitted_text(answer, "Workflow submit successful."))
        if not wait:
            return
        answer = wait_until_ended(http, answer["name"])
        typer.echo(f"Workflow {answer['name']} is {answer['status']}.")
    if answer["status"] != "COMPLETED":
        raise typer.Exit(REFUSED_SUBMISSION)


def validate(
    session: ClientSession,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Workflow file or PodGroup, - for standard input.")],
    pool: PoolOption = None,
    set_values: SetOption = None,
    set_strings: SetStringOption = None,
    labels: LabelOption = None,
) -> None:
    """Check a workflow file as in a submission; every fault is listed with its line.

    Example: osmo workflow validate train.yaml --pool vision--detect
    """
    check_pairs({"--set": set_values, "--set-string": set_strings, "--label": labels})
    body = _submission_body(file, set_values, set_strings)
    pool = pool or find_default_pool(session)
    http = session.http()
    address = url_path("api", "pool", pool, "workflow")
    query: dict[str, Any] = {"label": labels}
    body = add_local_files(http, address, query, body, file)
    answer = _post_submission(http, address, query | {"validation_only": True}, body, title="Workflow {}is not valid:")
    print_answer(session, answer, lambda: str(answer.get("logs") or "").rstrip("\n"))


def forecast(
    session: ClientSession,
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Workflow file or PodGroup, - for standard input.")],
    pool: PoolOption = None,
    priority: SubmitPriorityOption = None,
    set_values: SetOption = None,
    set_strings: SetStringOption = None,
) -> None:
    """Say when a workflow would start, and what would start it earlier. Nothing is submitted.

    Starts about is as exact as the forecast is sure. The other ways are your other pools, priority LOW, a smaller
    minimum, and fewer GPUs.

    Example: osmo workflow forecast train.yaml --pool vision--detect
    """
    check_pairs({"--set": set_values, "--set-string": set_strings})
    body = _submission_body(file, set_values, set_strings)
    pool = pool or find_default_pool(session)
    http = session.http()
    address = url_path("api", "pool", pool, "workflow")
    query: dict[str, Any] = {"priority": priority.value if priority else None}
    body = add_local_files(http, address, query, body, file)
    title = "Workflow {}would be refused:"
    answer = _post_submission(http, address, query | {"dry_run": True, "ways": True}, body, title=title)
    print_answer(session, answer, lambda: _forecast_text(answer))


def _forecast_text(answer: dict[str, Any]) -> AnswerText:
    rows = [{**way, "starts_about": start_cell(way["start"])} for way in answer["ways"]]
    table = list_table(pick(WAY_COLUMNS, "starts_about way pool priority gpus"), rows)
    sentence = start_sentence(answer["start"]) or "There is no forecast for this pool."
    return [sentence, table]


def restart(session: ClientSession, workflow: WorkflowArgument, pool: PoolOption = None) -> None:
    """Submit a failed workflow again as a new one, by default in the same pool.

    Example: osmo workflow restart train-12
    """
    http = session.http()
    if pool is None:
        pool = http.get(url_path("api", "workflow", workflow)).get("pool") or find_default_pool(session)
    address = url_path("api", "pool", pool, "workflow", workflow, "restart")
    answer = _post_submission(http, address, session.dry_run_query, None)
    if session.dry_run:
        print_answer(session, answer, lambda: str(answer.get("spec") or "").rstrip("\n"))
    else:
        print_answer(session, answer, lambda: _submitted_text(answer, f"Workflow {workflow} restarted."))


def check_pairs(options: dict[str, list[str] | None]) -> None:
    """Refuse values that are not KEY=VALUE, all at once, before anything is sent."""
    wrong = [
        f"{option} takes KEY=VALUE."
        for option, values in options.items()
        for value in values or []
        if not value.partition("=")[1] or value.startswith("=")
    ]
    if wrong:
        raise ClientError(" ".join(wrong))


def _submission_body(file: str, set_values: list[str] | None, set_strings: list[str] | None) -> dict[str, Any]:
    return {
        "file": workflow_file.read_workflow_file(file),
        "set_variables": set_values or [],
        "set_string_variables": set_strings or [],
        "uploaded_templated_spec": None,
    }


def add_local_files(
    http: HttpClient, address: str, query: dict[str, Any], body: dict[str, Any], file: str
) -> dict[str, Any]:
    """The body with local files inlined. The server renders a template first, because a path may be templated.

    Without `localpath` in the file the body stays unchanged, so line numbers are those of the user's file.
    """
    if not workflow_file.mentions_local_files(body["file"]):
        return body
    folder = Path() if file == STANDARD_INPUT else Path(file).resolve().parent
    text = body["file"]
    if workflow_file.is_templated(text):
        rendered = _post_submission(http, address, query | {"dry_run": True, "start": False}, body)
        inlined = workflow_file.inline_local_files(str(rendered.get("spec") or ""), folder)
        return body | {"file": inlined, "uploaded_templated_spec": text}
    return body | {"file": workflow_file.inline_local_files(text, folder)}


def _post_submission(
    http: HttpClient,
    address: str,
    query: dict[str, Any],
    body: dict[str, Any] | None,
    *,
    title: str = "Workflow {}submit failed:",
) -> Any:
    """The answer. A refusal gets the title, with the ID of the workflow where the server gave it one."""
    try:
        return http.send_change("POST", address, query=query, body=body, submitting=True)
    except ClientError as error:
        if error.exit_code == REFUSED_SUBMISSION:
            name = f"{error.workflow_id} " if error.workflow_id else ""
            error.title = title.format(name)
        raise


def _submitted_text(answer: dict[str, Any], title: str) -> str:
    lines = [
        title,
        f"Workflow ID        - {answer['name']}",
        f"Workflow Overview  - {answer.get('overview') or '-'}",
    ]
    if answer.get("dashboard_url") not in (None, "", answer.get("overview")):
        lines.append(f"Workflow Dashboard - {answer['dashboard_url']}")
    return "\n".join(lines)


def wait_until_ended(http: HttpClient, workflow: str) -> dict[str, Any]:
    """Wait and return the workflow after its end. Interrupting the wait does not cancel the workflow."""
    wait = FIRST_POLL_PAUSE
    while True:
        answer = http.get(url_path("api", "workflow", workflow))
        if not isinstance(answer, dict) or "status" not in answer:
            raise ClientError(f"The server gave no status of {workflow}.", exit_code=SERVER_FAILED)
        if str(answer["status"]).startswith(ENDED_PREFIXES):
            return answer
        pause(wait)
        wait = min(wait * 1.5, MAX_POLL_PAUSE)
