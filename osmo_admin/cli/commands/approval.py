"""`osmo approval`: changes of quotas that a second person approves."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer, print_list
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerPart, Facts, local_time
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.lists import list_command
from pools.domain.changes.approvals import Approve, Reject, Withdraw
from pools.domain.columns import pick
from pools.domain.list_columns import APPROVAL_COLUMNS, needs_text
from pools.domain.lists import ApprovalQuery

app = command_group("Changes of quotas above the limit of a pool, which a second person approves.")
RequestArgument = Annotated[int, typer.Argument(metavar="ID", help="Number of the request, from osmo approval list.")]


def _url(*rest: str) -> str:
    return url_path("api", "configs", "approval", *rest)


@list_command(app, "list", ApprovalQuery, watches=True)
def list_(session: ClientSession, query: dict[str, Any]) -> None:
    """List requests, the newest first: those of pools that you administer, and your own.

    Example: osmo approval list --state waiting
    """
    answer = session.http().get(_url(), query=query)
    columns = pick(APPROVAL_COLUMNS, "request object change by expires state")
    print_list(session, answer, columns, answer["approvals"], "No requests found.")


@client_command(app, "show")
def show(session: ClientSession, request: RequestArgument) -> None:
    """Show one request.

    Example: osmo approval show 12
    """
    answer = session.http().get(_url(str(request)))
    print_answer(session, answer, lambda: _facts(answer))


def _facts(row: dict[str, Any]) -> AnswerPart:
    return Facts(
        [
            ("Object", row.get("subject")),
            ("Change", needs_text(row)),
            ("Limit", row.get("approval_above")),
            ("Reason", row.get("description")),
            ("Requester", row.get("requested_by")),
            ("State", row.get("state")),
            ("Decided by", row.get("decided_by")),
            ("Reason of the decision", row.get("decision_note")),
            ("Expires", local_time(row.get("expires_at"))),
        ]
    )


@change_command(app, "approve", Approve, confirms=True)
def approve(_: ClientSession, change: TypedChange) -> None:
    """Approve the request of another person: the change is made now, in your name.

    Example: osmo approval approve 12 --dry-run
    """
    change.confirm(f"Approve request {change['approval']}?", "POST", _url(str(change["approval"]), "approve"))
    _decide(change, "approve")


@change_command(app, "reject", Reject)
def reject(_: ClientSession, change: TypedChange) -> None:
    """Reject the request of another person.

    Example: osmo approval reject 12 --description "use the quota of the project"
    """
    _decide(change, "reject")


@change_command(app, "withdraw", Withdraw)
def withdraw(_: ClientSession, change: TypedChange) -> None:
    """Take your own request back.

    Example: osmo approval withdraw 12
    """
    _decide(change, "withdraw")


def _decide(change: TypedChange, verb: str) -> None:
    answer = change.send("POST", _url(str(change["approval"]), verb))
    change.show(answer, lambda answer: f"Request {answer.get('id')} is {answer.get('state')}.")
