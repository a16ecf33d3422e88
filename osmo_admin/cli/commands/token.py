"""`osmo token`: the user's own access tokens or, for administrators, those of other users."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_tokens
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.options import UserOption
from osmo_admin.cli.base.output import confirm, print_answer
from osmo_admin.cli.base.session import ClientSession, print_warning
from osmo_admin.cli.base.tables import AnswerText, Facts, Shown, list_table
from osmo_admin.cli.changes import TypedChange, change_command
from pools.domain.changes.tokens import CreateToken, DeleteToken
from pools.domain.columns import pick
from pools.domain.list_columns import ROLE_COLUMNS, TOKEN_COLUMNS

app = command_group("Access tokens.")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", autocompletion=complete_tokens)]


NEVER = Shown("never", None)
OWNER = {"owner": UserOption}


def _token_url(user: str | None, *rest: str) -> str:
    owner = ("api", "auth", "user", user) if user else ("api", "auth")
    return url_path(*owner, "access_token", *rest)


@change_command(app, "set", CreateToken, options=OWNER)
def set_(session: ClientSession, change: TypedChange) -> None:
    """Create an access token. It is shown only once.

    Example: osmo token set laptop --expires-at 2026-12-31
    """
    answer = change.send("POST", _token_url(change["owner"], change["name"]))
    if not (session.dry_run or session.is_machine_readable):
        print_warning("Note: save the token in a secure place, it will not be shown again.")
    change.show(answer, "Access token: {}".format)


@client_command(app, "list")
def list_(session: ClientSession, user: UserOption = None) -> None:
    """List access tokens (never their secret).

    Example: osmo token list
    """
    answer = session.http().get(_token_url(user))
    columns = pick(TOKEN_COLUMNS, "name user description expires last_used roles")

    def table() -> AnswerText:
        rows = [row if row.get("last_used_at") else row | {"last_used_at": NEVER} for row in answer]
        return list_table(columns, rows, nothing="No tokens found.")

    print_answer(session, answer, table)


@change_command(app, "delete", DeleteToken, confirms=True, options=OWNER)
def delete(session: ClientSession, change: TypedChange) -> None:
    """Delete an access token. Programs that use it lose access at once.

    Example: osmo token delete laptop
    """
    name = change["name"]
    confirm(session, f"Delete access token {name}?")
    change.show(change.send("DELETE", _token_url(change["owner"], name)), lambda _: f"Access token {name} deleted.")


@client_command(app, "roles")
def roles(session: ClientSession, name: NameArgument, user: UserOption = None) -> None:
    """Show the roles of a token.

    Example: osmo token roles laptop
    """
    answer = session.http().get(_token_url(user, name, "roles"))
    print_answer(
        session,
        answer,
        lambda: roles_text(answer, [("Token", answer.get("token_name")), ("User", answer.get("user_name"))]),
    )


def roles_text(answer: dict[str, Any], head: list[tuple[str, Any]]) -> AnswerText:
    """Facts, and below them the roles with the user who assigned each."""
    assigned = answer.get("roles") or []
    facts = Facts([*head, *([] if assigned else [("Roles", None)])])
    if not assigned:
        return facts
    return [facts, list_table(ROLE_COLUMNS.values(), assigned)]
