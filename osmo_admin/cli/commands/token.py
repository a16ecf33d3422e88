"""`osmo token`: access tokens, one's own or, for administrators, another user's."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.effect import show_effect
from osmo_admin.cli.http import path
from osmo_admin.cli.options import UserOption
from osmo_admin.cli.output import confirm, emit
from osmo_admin.cli.session import Session, warn
from osmo_admin.cli.tables import facts, table
from osmo_admin.cli.verb import group, verb

app = group("Access tokens.")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]


def _address(user: str | None, *rest: str) -> str:
    owner = ("api", "auth", "user", user) if user else ("api", "auth")
    return path(*owner, "access_token", *rest)


@verb(app, "set", writes=True)
def set_(
    session: Session,
    *,
    name: NameArgument,
    expires_at: Annotated[
        str | None,
        typer.Option("--expires-at", "-e", metavar="YYYY-MM-DD", help="The day it ends (UTC); 31 days if not given."),
    ] = None,
    description: Annotated[str | None, typer.Option("--description", "-d", help="What it is for.")] = None,
    user: UserOption = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--roles", "-r", metavar="ROLE...", help="Only these of your roles; all if not given."),
    ] = None,
) -> None:
    """Create an access token. It is shown this once."""
    query = {"expires_at": expires_at, "description": description, "roles": roles} | session.dry_query
    answer = session.http().change("POST", _address(user, name), query=query)
    if session.dry_run:
        show_effect(session, answer)
        return
    if not session.for_programs:
        warn("Note: save the token in a secure place, it will not be shown again.")
    emit(session, answer, lambda: f"Access token: {answer}")


@verb(app, "list")
def list_(session: Session, user: UserOption = None) -> None:
    """List access tokens (never their secret)."""
    answer = session.http().get(_address(user))
    emit(session, answer, lambda: _tokens(answer))


def _tokens(entries: list[dict[str, Any]]) -> str:
    if not entries:
        return "No tokens found."
    rows = (
        [
            entry.get("token_name"),
            entry.get("user_name"),
            entry.get("description"),
            entry.get("expires_at"),
            entry.get("roles"),
        ]
        for entry in entries
    )
    return table(("Name", "User", "Description", "Expires At (UTC)", "Roles"), rows)


@verb(app, "delete", writes=True, asks=True)
def delete(session: Session, name: NameArgument, user: UserOption = None) -> None:
    """Delete an access token; whoever uses it is out at once."""
    confirm(session, f"Delete access token {name}?")
    answer = session.http().change("DELETE", _address(user, name), query=session.dry_query)
    if session.dry_run:
        show_effect(session, answer)
    else:
        emit(session, answer, lambda: f"Access token {name} deleted.")


@verb(app, "roles")
def roles(session: Session, name: NameArgument, user: UserOption = None) -> None:
    """Show what a token may do."""
    answer = session.http().get(_address(user, name, "roles"))
    emit(
        session,
        answer,
        lambda: role_text(answer, [("Token", answer.get("token_name")), ("User", answer.get("user_name"))]),
    )


def role_text(answer: dict[str, Any], head: list[tuple[str, Any]]) -> str:
    """Facts, and below them the roles with who gave them."""
    given = answer.get("roles") or []
    text = facts([*head, *([] if given else [("Roles", None)])])
    if not given:
        return text
    rows = ([role.get("role_name"), role.get("assigned_by"), role.get("assigned_at")] for role in given)
    return f"{text}\n\n{table(('Role', 'Given By', 'Given At (UTC)'), rows)}"
