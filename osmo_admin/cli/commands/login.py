"""`osmo login`, `osmo logout`, `osmo version`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from osmo_admin import __version__
from osmo_admin.cli import login_file
from osmo_admin.cli.client_errors import SERVER_FAILED, ClientError
from osmo_admin.cli.command_decorator import client_command
from osmo_admin.cli.login_file import StoredLogin
from osmo_admin.cli.output import print_answer
from osmo_admin.cli.session import ClientSession, login_with_token

STANDARD_INPUT = "-"


class LoginMethod(StrEnum):
    """Method of authentication."""

    TOKEN = "token"  # noqa: S105 -- the name of a method
    DEV = "dev"


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file at the top level."""
    client_command(app, "login")(login)
    client_command(app, "logout")(logout)
    client_command(app, "version")(version)


def login(
    session: ClientSession,
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the server, as http://127.0.0.1:8000.")],
    method: Annotated[
        LoginMethod | None,
        typer.Option(
            case_sensitive=False,
            help="token, or dev for a server in development mode. Default: chosen from the given options.",
        ),
    ] = None,
    username: Annotated[str | None, typer.Option(envvar="OSMO_USERNAME", help="User name for the method dev.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="OSMO_TOKEN", help="Access token; other users can read it in the process list.")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="File that holds the access token, - for standard input.")
    ] = None,
) -> None:
    """Log in and store the login in the format of the stock client."""
    if not url.startswith(("http://", "https://")):
        raise ClientError(f"{url!r} is not an address. Write http://HOST:PORT or https://HOST.")
    if method is None:
        method = LoginMethod.DEV if username and not (token or token_file) else LoginMethod.TOKEN
    if method is LoginMethod.DEV:
        if not username:
            raise ClientError("Name the user: osmo login URL --method dev --username NAME.")
        new_login = StoredLogin(url=url.rstrip("/"), dev_username=username)
    else:
        new_login = login_with_token(url, _read_token(token, token_file), timeout=session.timeout)
    login_file.write_login(new_login)
    answer = {"url": new_login.url, "name": new_login.name, "method": method.value}
    print_answer(session, answer, lambda: f"Successfully logged in. Welcome {new_login.name}.".replace(" .", "."))


def _read_token(token: str | None, token_file: str | None) -> str:
    """The token; a file wins over the environment."""
    if token_file is not None:
        try:
            text = sys.stdin.read() if token_file == STANDARD_INPUT else Path(token_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ClientError(f"The token file {token_file} cannot be read: {error}.") from error
        token = text.strip()
    if not token:
        raise ClientError("Give an access token: --token-file FILE (or --token, or OSMO_TOKEN).")
    return token


def logout(session: ClientSession) -> None:
    """Delete the stored login."""
    removed = login_file.remove_login()
    print_answer(
        session, {"logged_out": removed}, lambda: "Successfully logged out." if removed else "You were not logged in."
    )


def version(session: ClientSession) -> None:
    """Show the version of the client and, after a login, of the server."""
    major, minor, revision = __version__.split(".")[:3]
    answer = {"client": {"major": major, "minor": minor, "revision": revision}}
    lines = [f"OSMO client version:  {__version__}"]
    try:
        service = session.http().get("api/version", version_header=False)
    except ClientError as error:
        # Without a login or a server, the version of the client alone is printed.
        if error.status is None and error.exit_code != SERVER_FAILED and login_file.login_path().exists():
            raise
    else:
        answer["service"] = service
        numbers = ".".join(str(service.get(part, "?")) for part in ("major", "minor", "revision"))
        lines.append(f"OSMO service version: {numbers}" + (f".{service['hash']}" if service.get("hash") else ""))
    print_answer(session, answer, lambda: "\n".join(lines))
