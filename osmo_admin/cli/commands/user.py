"""`osmo user`: users and their roles, for administrators."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_roles, complete_users
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import confirm, print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import AnswerText, list_table
from osmo_admin.cli.base.times import format_local_time
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.commands.token import roles_text
from osmo_admin.cli.lists import list_command
from osmo_admin.cli.text.effect_text import show_effect
from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole, RevokeRole
from pools.domain.columns import pick
from pools.domain.list_columns import USER_COLUMNS
from pools.domain.lists import UserQuery

app = command_group("Users and their roles.")
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.", autocompletion=complete_users)]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Same as --yes, for the stock client's users.")]


def _user_url(*rest: str) -> str:
    return url_path("api", "auth", "user", *rest)


@list_command(app, "list", UserQuery)
def list_(session: ClientSession, query: dict[str, Any]) -> None:
    """List users.

    Example: osmo user list --id-prefix an
    """
    answer = session.http().get(_user_url(), query | {"details": True})
    print_answer(session, answer, lambda: _users_table(answer))


def _users_table(answer: dict[str, Any]) -> AnswerText:
    users = answer["users"]
    table = list_table(pick(USER_COLUMNS, "name roles created created_by"), users, nothing="No users found.")
    total = answer.get("total_results", len(users))
    return [table, f"{len(users):,} of {total:,} users."] if total != len(users) else table


@client_command(app, "get")
def get(session: ClientSession, user: UserArgument) -> None:
    """Show a user and their roles.

    Example: osmo user get ann
    """
    answer = session.http().get(_user_url(user))
    print_answer(session, answer, lambda: _user_text(answer))


def _user_text(answer: dict[str, Any]) -> AnswerText:
    head = [
        ("User", answer["id"]),
        ("Created At", format_local_time(answer.get("created_at"))),
        ("Created By", answer.get("created_by")),
    ]
    return roles_text(answer, head)


@change_command(app, "create", CreateUser)
def create(_session: ClientSession, change: TypedChange) -> None:
    """Create a user.

    Example: osmo user create ann --roles osmo-pool-vision
    """
    change.show(change.send("POST", _user_url()), lambda answer: f"User {answer['id']} created.")


@client_command(app, "update", writes=True)
def update(
    session: ClientSession,
    *,
    user: UserArgument,
    add: Annotated[
        list[str] | None,
        typer.Option("--add-roles", "-a", metavar="ROLE...", help="Roles to assign.", autocompletion=complete_roles),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove-roles", "-r", metavar="ROLE...", help="Roles to remove.", autocompletion=complete_roles),
    ] = None,
) -> None:
    """Assign roles to a user or remove them.

    Example: osmo user update ann --add-roles osmo-pool-language
    """
    if not add and not remove:
        raise ClientError("Name a change: --add-roles or --remove-roles.")
    grants = [TypedChange(session, GrantRole, {"role_name": role}) for role in add or []]
    effects = [grant.send("POST", _user_url(user, "roles")) for grant in grants]
    effects += [
        TypedChange(session, RevokeRole, {}).send("DELETE", _user_url(user, "roles", role)) for role in remove or []
    ]
    if session.dry_run:
        for effect in effects:
            show_effect(session, effect)
        return
    answer = session.http().get(_user_url(user))
    print_answer(session, answer, lambda: _user_text(answer))


@change_command(app, "delete", DeleteUser, confirms=True, options={"force": ForceOption})
def delete(session: ClientSession, change: TypedChange) -> None:
    """Delete a user with their tokens and roles. Workflows and the audit log stay.

    Example: osmo user delete ann
    """
    user = change["username"]
    if not change["force"]:
        confirm(session, f"Delete user {user} with all tokens and roles?")
    change.show(change.send("DELETE", _user_url(user)), lambda _: f"User {user} deleted.")
