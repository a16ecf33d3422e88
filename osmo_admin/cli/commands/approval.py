"""`osmo approval`: changes of quotas that a second person approves."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.command_decorator import client_command, command_group
from osmo_admin.cli.effect_text import print_effect, show_effect
from osmo_admin.cli.http import url_path
from osmo_admin.cli.options import DescriptionOption
from osmo_admin.cli.output import confirm, print_answer
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import AnswerPart, Facts, build_table

app = command_group("Changes of quotas above the limit of a pool, which a second person approves.")
RequestArgument = Annotated[int, typer.Argument(metavar="ID", help="Number of the request, from osmo approval list.")]
UNLIMITED = -1


def _url(*rest: str) -> str:
    return url_path("api", "configs", "approval", *rest)


@client_command(app, "list", watches=True)
def list_(
    session: ClientSession,
    *,
    state: Annotated[
        str | None,
        typer.Option("--state", help="waiting, approved, rejected, withdrawn, expired or superseded. Default: all."),
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", "-p", help="Only requests for this pool.")] = None,
    count: Annotated[int, typer.Option("--count", "-c", min=1, max=1000, help="At most this many.")] = 20,
) -> None:
    """List requests, the newest first: those of pools that you administer, and your own."""
    answer = session.http().get(_url(), query={"state": state, "pool": pool, "limit": count})
    print_answer(session, answer, lambda: _table(answer))


def _table(answer: dict[str, Any]) -> AnswerPart:
    rows = answer.get("approvals") or []
    if not rows:
        return "No requests found."
    cells = (
        [
            row.get("id"),
            row.get("subject"),
            _needs_text(row),
            row.get("requested_by"),
            row.get("expires_at"),
            f"{row.get('state')}{', waits for you' if row.get('may_decide') else ''}",
        ]
        for row in rows
    )
    return build_table(("ID", "Object", "Change", "Requester", "Expires (UTC)", "State"), cells)


def _needs_text(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{need.get('amount')} {_amount(need.get('before'))} → {_amount(need.get('after'))}"
        for need in row.get("needs") or []
    )


def _amount(value: Any) -> str:
    return "none" if value is None else "unlimited" if value == UNLIMITED else str(value)


@client_command(app, "show")
def show(session: ClientSession, request: RequestArgument) -> None:
    """Show one request."""
    answer = session.http().get(_url(str(request)))
    print_answer(session, answer, lambda: _facts(answer))


def _facts(row: dict[str, Any]) -> AnswerPart:
    return Facts(
        [
            ("Object", row.get("subject")),
            ("Change", _needs_text(row)),
            ("Limit", row.get("approval_above")),
            ("Reason", row.get("description")),
            ("Requester", row.get("requested_by")),
            ("State", row.get("state")),
            ("Decided by", row.get("decided_by")),
            ("Reason of the decision", row.get("decision_note")),
            ("Expires (UTC)", row.get("expires_at")),
        ]
    )


@client_command(app, "approve", writes=True, confirms=True)
def approve(session: ClientSession, request: RequestArgument, description: DescriptionOption = None) -> None:
    """Approve the request of another person: the change is made now, in your name."""
    address, body = _url(str(request), "approve"), _body(description)

    def ask_with_effect() -> None:
        effect = session.http().send_change(
            "POST", address, query={"dry_run": True}, body=body, with_idempotency_key=False
        )
        print_effect(effect)

    confirm(session, f"Approve request {request}?", preview=ask_with_effect)
    _decide(session, address, body)


@client_command(app, "reject", writes=True)
def reject(session: ClientSession, request: RequestArgument, description: DescriptionOption = None) -> None:
    """Reject the request of another person."""
    _decide(session, _url(str(request), "reject"), _body(description))


@client_command(app, "withdraw", writes=True)
def withdraw(session: ClientSession, request: RequestArgument, description: DescriptionOption = None) -> None:
    """Take your own request back."""
    _decide(session, _url(str(request), "withdraw"), _body(description))


def _body(description: str | None) -> dict[str, Any]:
    return {"description": description} if description else {}


def _decide(session: ClientSession, address: str, body: dict[str, Any]) -> None:
    answer = session.http().send_change("POST", address, query=session.dry_run_query, body=body)
    if session.dry_run:
        show_effect(session, answer)
    else:
        print_answer(session, answer, lambda: f"Request {answer.get('id')} is {answer.get('state')}.")


def approval_query(session: ClientSession, request_approval: bool) -> dict[str, Any]:
    """The query of a change for which an approval may be requested."""
    return session.dry_run_query | ({"request_approval": True} if request_approval else {})


def without_approval_needs(effect: Any) -> Any:
    """The effect of a change for which an approval is requested: the need of it is no refusal."""
    if not isinstance(effect, dict):
        return effect
    violations = [each for each in effect.get("violations") or [] if each.get("code") != "approval_needed"]
    return effect | {"violations": violations}


def requested_text(answer: Any) -> str | None:
    """The text for a change that was requested instead of made; None for any other answer."""
    if not isinstance(answer, dict) or "requested_by" not in answer:
        return None
    return (
        f"Nothing is changed yet. Request {answer['id']} waits for the approval of a second person until "
        f"{answer.get('expires_at')} UTC: osmo approval show {answer['id']}."
    )
