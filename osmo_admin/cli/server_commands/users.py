"""`user` and `token`: accounts and access tokens, while a server runs."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osmo_admin.cli.base.output import print_parts, serialize
from osmo_admin.cli.base.session import OutputFormat
from osmo_admin.cli.base.tables import list_table
from osmo_admin.cli.server_commands.options import DataDirOption, OutputOption, use_django
from osmo_admin.ops.programs.errors import OperationError
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser, SetActive, SetPassword, SetRoles
from pools.domain.columns import pick
from pools.domain.list_columns import TOKEN_COLUMNS, USER_COLUMNS

if TYPE_CHECKING:
    from pools.models import User

STANDARD_INPUT = Path("-")

user_commands = typer.Typer(help="Users.", no_args_is_help=True, rich_markup_mode=None)
token_commands = typer.Typer(help="Access tokens.", no_args_is_help=True, rich_markup_mode=None)

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(help="File whose first line is the password, - for standard input."),
]
DescriptionOption = Annotated[
    str,
    typer.Option(
        "--description", "-d", help="Reason for the change; it is recorded in the audit log.", show_default=False
    ),
]


@user_commands.command("create")
def create_user(
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    role: Annotated[
        list[str] | None,
        typer.Option(help="osmo-admin, osmo-viewer, osmo-POOL-admin or osmo-POOL-user; may be repeated."),
    ] = None,
    password_file: PasswordFileOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create a user with roles. Without a password file the user signs in with a token."""
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from pools.services.people import users

    password = None if password_file is None else _read_first_line(password_file)
    user = users.create_user(CreateUser(id=name, roles=tuple(role or ())), actor=SYSTEM, password=password)
    print(f"Created user {user.username}{' with ' + ', '.join(role) if role else ', without a role'}.")


@user_commands.command("list")
def list_users(
    output: OutputOption = OutputFormat.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """List all accounts, also disabled ones."""
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from pools.selectors.users import list_accounts

    entries = [_account_entry(user) for user in list_accounts(SYSTEM)]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print(serialize({"users": entries}, output))
    elif entries:
        keys = "name account sign_in tokens roles last_login created created_by"
        print_parts(list_table(pick(USER_COLUMNS, keys), entries), output)
    else:
        print("There is no user yet. Create one: osmo-admin user create NAME --role osmo-admin --password-file FILE")


@user_commands.command("set-password")
def set_password(
    user: UserArgument,
    password_file: PasswordFileOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Change the password of a user.

    The command asks for it on the terminal, or reads the first line of a file or of standard input. Open browser
    sessions of the user end; access tokens stay valid.
    """
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from pools.services.people import users

    users.set_password(SetPassword(username=user, password=_read_new_password(user, password_file)), actor=SYSTEM)
    print(f"The password of {user} is changed; open sessions were ended.")


@user_commands.command("roles")
def roles_of_user(
    user: UserArgument,
    roles: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROLE]...", help="All roles of the user. Without roles the current ones are shown."),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove every role.")] = False,
    description: DescriptionOption = "",
    data_dir: DataDirOption = None,
) -> None:
    """Set or show a user's roles.

    Afterwards the user has exactly the named roles, from the next request on; without roles the current ones are shown.
    """
    if roles and none:
        raise OperationError("Name roles or use --none, not both.")
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from pools.services.people.accounts import set_roles
    from pools.services.people.users import list_roles

    if roles or none:
        set_roles(SetRoles(username=user, roles=roles or ()), actor=SYSTEM, description=description)
    print(f"{user}: {', '.join(list_roles(user)) or 'no roles'}")


@user_commands.command("disable")
def disable_user(user: UserArgument, description: DescriptionOption = "", data_dir: DataDirOption = None) -> None:
    """Disable an account at once.

    Roles, tokens and history stay; running workflows continue.
    """
    _set_account_active(user, False, description, data_dir)
    print(f"The account of {user} is disabled: its password, sessions and tokens are refused.")


@user_commands.command("enable")
def enable_user(user: UserArgument, description: DescriptionOption = "", data_dir: DataDirOption = None) -> None:
    """Enable a disabled account.

    Its password, roles and tokens are valid again.
    """
    _set_account_active(user, True, description, data_dir)
    print(f"The account of {user} is enabled.")


def _set_account_active(user: str, active: bool, description: str, data_dir: Path | None) -> None:
    use_django(data_dir)
    from pools.domain.people.roles import SYSTEM
    from pools.services.people.accounts import set_active

    set_active(SetActive(username=user, active=active), actor=SYSTEM, description=description)


def _account_entry(user: User) -> dict[str, Any]:
    """One account for programs; `password` is True if the account has one, apart from tokens; `providers` are the
    identity providers and directories with which it is linked."""
    from pools.api.rendering import utc_text

    return {
        "id": user.username,
        "active": user.is_active,
        "password": user.has_usable_password(),
        "providers": sorted(identity.provider for identity in user.identities.all()),
        "roles": sorted(group.name for group in user.groups.all()),
        "tokens": user.token_count,  # type: ignore[attr-defined]  # counted by the selector
        "last_login": utc_text(user.last_login),
        "created_at": utc_text(user.date_joined),
        "created_by": user.created_by or None,
    }


def _read_new_password(user: str, file: Path | None) -> str:
    """The password from the terminal, a file or standard input; other users can read a command line."""
    if file is None and _is_terminal_input():
        password = typer.prompt(f"New password of {user}", hide_input=True, confirmation_prompt=True, err=True)
        return str(password)
    return _read_first_line(file or STANDARD_INPUT)


def _is_terminal_input() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _read_first_line(file: Path) -> str:
    """The first line of a file or of standard input. Raises OperationError if there is none."""
    try:
        text = sys.stdin.readline() if file == STANDARD_INPUT else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperationError(f"The password file {file} cannot be read: {error}.") from None
    line = (text.splitlines() or [""])[0]
    if not line:
        where = "standard input" if file == STANDARD_INPUT else str(file)
        raise OperationError(f"There is no password in {where}: its first line is empty.")
    return line


@token_commands.command("create")
def create_token(
    user: Annotated[str, typer.Argument(help="Owner of the token.")],
    name: Annotated[str, typer.Argument(help="Name of the token.")],
    expires_at: Annotated[
        str | None,
        typer.Option(
            "--expires-at",
            "--until",
            "-e",
            metavar="YYYY-MM-DD",
            help="Day on which it expires (UTC), at most a year ahead. Default: in 31 days.",
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, metavar="DAYS", help="Days until it expires, instead of a day; at most 365."),
    ] = None,
    description: Annotated[str, typer.Option("--description", "-d", help="Purpose of the token.")] = "",
    data_dir: DataDirOption = None,
) -> None:
    """Create a token and print only the token, once. It has the roles of its owner at the time of use."""
    if expires_at is not None and days is not None:
        raise OperationError("Give --expires-at or --days, not both.")
    use_django(data_dir)
    from django.utils import timezone

    from pools.domain.people.roles import SYSTEM
    from pools.domain.values.query_values import parse_datetime
    from pools.services.people import access_tokens as service

    end = None if days is None else timezone.now() + timedelta(days=days) - timedelta(seconds=1)
    if expires_at is not None and (end := parse_datetime(expires_at)) is None:
        raise OperationError("--expires-at must be a day as 2027-01-31.")
    command = CreateToken(owner=user, name=name, expires_at=end, description=description)
    print(service.create_token(command, actor=SYSTEM)[1])


@token_commands.command("list")
def list_all_tokens(
    user: Annotated[str | None, typer.Argument(metavar="[USER]", help="Only those of this user.")] = None,
    output: OutputOption = OutputFormat.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """List the access tokens of all users, the first to end above; never their secret."""
    use_django(data_dir)
    from pools.api.rendering import utc_text
    from pools.selectors.users import list_all_tokens

    entries = [
        {
            "name": token.name,
            "user": token.owner.username,
            "description": token.description,
            "expires_at": utc_text(token.expires_at),
            "last_used_at": utc_text(token.last_used_at),
        }
        for token in list_all_tokens(user)
    ]
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        print(serialize({"tokens": entries}, output))
    elif entries:
        rows = [{"token_name": entry["name"], "user_name": entry["user"], **entry} for entry in entries]
        print_parts(list_table(pick(TOKEN_COLUMNS, "name user description expires last_used"), rows), output)
    else:
        print("There is no access token.")
