"""`osmo user`: users and their roles, for administrators."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.client_errors import ClientError
from osmo_admin.cli.command_decorator import client_command, command_group
from osmo_admin.cli.commands.token import roles_text
from osmo_admin.cli.completion import complete_users
from osmo_admin.cli.effect_text import show_effect
from osmo_admin.cli.http import url_path
from osmo_admin.cli.output import confirm, print_answer
from osmo_admin.cli.session import ClientSession
from osmo_admin.cli.tables import AnswerText, build_table
from osmo_admin.cli.times import format_local_time

app = command_group("Users and their roles.")
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.", autocompletion=complete_users)]


@client_command(app, "list")
def list_(
    session: ClientSession,
    *,
    id_prefix: Annotated[str | None, typer.Option("--id-prefix", "-p", help="Only names that begin with this.")] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--roles", "-r", metavar="ROLE...", help="Only with one of these roles.")
    ] = None,
    count: Annotated[int, typer.Option("--limit", "--count", "-c", min=1, help="Maximum number of entries.")] = 100,
    start: Annotated[int, typer.Option("--start-index", min=1, help="Number of the first entry, from 1.")] = 1,
) -> None:
    """List users."""
    query = {"count": count, "start_index": start, "id_prefix": id_prefix, "roles": roles}
    answer = session.http().get("api/auth/user", query)
    print_answer(session, answer, lambda: _users_table(answer))


def _users_table(answer: dict[str, Any]) -> AnswerText:
    users = answer["users"]
    if not users:
        return "No users found."
    rows = ([user["id"], format_local_time(user.get("created_at")), user.get("created_by")] for user in users)
    table = build_table(("User", "Created At", "Created By"), rows)
    total = answer.get("total_results", len(users))
    return [table, f"{len(users)} of {total} users."] if total != len(users) else table


@client_command(app, "get")
def get(session: ClientSession, user: UserArgument) -> None:
    """Show a user and their roles."""
    answer = session.http().get(url_path("api", "auth", "user", user))
    print_answer(session, answer, lambda: _user_text(answer))


def _user_text(answer: dict[str, Any]) -> AnswerText:
    head = [
        ("User", answer["id"]),
        ("Created At", format_local_time(answer.get("created_at"))),
        ("Created By", answer.get("created_by")),
    ]
    return roles_text(answer, head)


@client_command(app, "create", writes=True)
def create(
    session: ClientSession,
    *,
    user: UserArgument,
    roles: Annotated[
        list[str] | None, typer.Option("--roles", "-r", metavar="ROLE...", help="Roles of the new user.")
    ] = None,
) -> None:
    """Create a user."""
    body = {"id": user} | ({"roles": roles} if roles else {})
    answer = session.http().send_change("POST", "api/auth/user", query=session.dry_run_query, body=body)
    if session.dry_run:
        show_effect(session, answer)
    else:
        print_answer(session, answer, lambda: f"User {answer['id']} created.")


@client_command(app, "update", writes=True)
def update(
    session: ClientSession,
    *,
    user: UserArgument,
    add: Annotated[
        list[str] | None, typer.Option("--add-roles", "-a", metavar="ROLE...", help="Roles to assign.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove-roles", "-r", metavar="ROLE...", help="Roles to remove.")
    ] = None,
) -> None:
    """Assign roles to a user or remove them."""
    if not add and not remove:
        raise ClientError("Name a change: --add-roles or --remove-roles.")
    http = session.http()
    address = url_path("api", "auth", "user", user)
    effects = [
        http.send_change("POST", f"{address}/roles", query=session.dry_run_query, body={"role_name": role})
        for role in add or []
    ]
    effects += [
        http.send_change("DELETE", f"{address}/{url_path('roles', role)}", query=session.dry_run_query)
        for role in remove or []
    ]
    if session.dry_run:
        for effect in effects:
            show_effect(session, effect)
        return
    answer = http.get(address)
    print_answer(session, answer, lambda: _user_text(answer))


@client_command(app, "delete", writes=True, confirms=True)
def delete(
    session: ClientSession,
    *,
    user: UserArgument,
    force: Annotated[bool, typer.Option("--force", "-f", help="Same as --yes, for the stock client's users.")] = False,
) -> None:
    """Delete a user with their tokens and roles. Workflows and the audit log stay."""
    if not force:
        confirm(session, f"Delete user {user} with all tokens and roles?")
    answer = session.http().send_change("DELETE", url_path("api", "auth", "user", user), query=session.dry_run_query)
    if session.dry_run:
        show_effect(session, answer)
    else:
        print_answer(session, answer, lambda: f"User {user} deleted.")
