"""`user create` and `token create`: people and their keys, beside a running house."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django

users = typer.Typer(help="People.", no_args_is_help=True, rich_markup_mode=None)
tokens = typer.Typer(help="Access tokens.", no_args_is_help=True, rich_markup_mode=None)


@users.command("create")
def create_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    role: Annotated[
        list[str] | None,
        typer.Option(help="osmo-admin, osmo-viewer, osmo-POOL-admin or osmo-POOL-user; may be repeated."),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(
            help="File whose first line is the password. Without one the user signs in by token.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a user with roles."""
    use_django(data_dir)
    from pools.domain.roles import SYSTEM
    from pools.services import members

    password = None if password_file is None else (password_file.read_text().splitlines() or [""])[0]
    user = members.create_user(actor=SYSTEM, username=name, password=password, roles=tuple(role or ()))
    print(f"Made user {user.username}{' with ' + ', '.join(role) if role else ', who has no role yet'}.")


@tokens.command("create")
def create_token(
    user: Annotated[str, typer.Argument(help="Whose token.")],
    name: Annotated[str, typer.Argument(help="A name to know it by.")],
    data_dir: DataDirOption = None,
) -> None:
    """Make a token and print it, alone, this once. It carries its owner's roles as they are when it is used."""
    use_django(data_dir)
    from pools.domain.roles import SYSTEM
    from pools.services import tokens as service

    print(service.create_token(actor=SYSTEM, owner=user, name=name)[1])
