"""`osmo login`, `osmo logout`, `osmo version`."""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from osmo_admin import __version__
from osmo_admin.cli.base import login_file
from osmo_admin.cli.base.browser_login import login_with_consent, login_with_password
from osmo_admin.cli.base.client_errors import SERVER_FAILED, ClientError
from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.login_file import StoredLogin
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, OutputFormat, login_with_token
from osmo_admin.cli.base.tables import Facts

STANDARD_INPUT = "-"
CONSENT_PREFIX = "login-"  # of the names of tokens that the server makes for clients


class LoginMethod(StrEnum):
    """Method of authentication."""

    TOKEN = "token"  # noqa: S105 -- the name of a method
    DEV = "dev"
    BROWSER = "browser"
    PASSWORD = "password"  # noqa: S105 -- the name of a method


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
            help="browser (consent on a page of the server), token, password, or dev for a server in development mode. "
            "Default: chosen from the given options; browser without any.",
        ),
    ] = None,
    username: Annotated[
        str | None, typer.Option(envvar="OSMO_USERNAME", help="User name for the methods password and dev.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="OSMO_TOKEN", help="Access token; other users can read it in the process list.")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="File that holds the access token, - for standard input.")
    ] = None,
    password_file: Annotated[
        str | None,
        typer.Option(
            help="File that holds the password, - for standard input. Without it the command asks for the password."
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Show the address of the page, and open no browser.")
    ] = False,
) -> None:
    """Log in and store the login in the format of the stock client.

    Example: osmo login https://osmo.example.com
    """
    if not url.startswith(("http://", "https://")):
        raise ClientError("This is not an address. Write http://HOST:PORT or https://HOST.")
    if method is None:
        given = bool(token or token_file)
        named = LoginMethod.PASSWORD if password_file else LoginMethod.DEV
        method = LoginMethod.TOKEN if given else named if username else LoginMethod.BROWSER
    if method is LoginMethod.DEV:
        if not username:
            raise ClientError("Name the user: osmo login URL --method dev --username NAME.")
        new_login = StoredLogin(url=url.rstrip("/"), dev_username=username)
    elif method is LoginMethod.PASSWORD:
        if not username:
            raise ClientError("Name the user: osmo login URL --method password --username NAME.")
        new_login = login_with_password(url, username, _read_password(password_file), timeout=session.timeout)
    elif method is LoginMethod.BROWSER:
        new_login = login_with_consent(url, timeout=session.timeout, is_open=not no_open)
    else:
        new_login = login_with_token(url, _read_token(token, token_file), timeout=session.timeout)
    login_file.write_login(new_login)
    answer = {"url": new_login.url, "name": new_login.name, "method": method.value}
    print_answer(session, answer, lambda: f"Successfully logged in. Welcome {new_login.name}.".replace(" .", "."))


def _read_token(token: str | None, token_file: str | None) -> str:
    """The token; a file wins over the environment."""
    if token_file is not None:
        token = _read_file(token_file, "token file").strip()
    if not token:
        raise ClientError("Give an access token: --token-file FILE (or --token, or OSMO_TOKEN).")
    return token


def _read_password(password_file: str | None) -> str:
    """The password, without the end of its line; typed on the terminal if no file is named."""
    if password_file is not None:
        password = _read_file(password_file, "password file").removesuffix("\n").removesuffix("\r")
    elif sys.stdin.isatty():
        password = getpass.getpass("Password: ")
    else:
        raise ClientError("There is no terminal to ask for the password: --password-file FILE (- for standard input).")
    if not password:
        raise ClientError("The password is empty. Nothing was sent.")
    return password


def _read_file(name: str, kind: str) -> str:
    try:
        return sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"The {kind} {name} cannot be read: {error}.") from error


def logout(session: ClientSession) -> None:
    """Delete the stored login, and the token of a login with consent in the browser or with a password.

    Example: osmo logout
    """
    _revoke_own_token(session)
    removed = login_file.remove_login()
    print_answer(
        session, {"logged_out": removed}, lambda: "Successfully logged out." if removed else "You were not logged in."
    )


def _revoke_own_token(session: ClientSession) -> None:
    """Delete the token that `osmo login` got by consent; other tokens are the user's own. A server that does not answer
    keeps nobody logged in."""
    with suppress(ClientError):
        stored = login_file.read_login()
        name = login_file.read_claims(stored.token.id_token).get("osmo_token_name") if stored and stored.token else None
        if isinstance(name, str) and name.startswith(CONSENT_PREFIX):
            session.http().send_change("DELETE", url_path("api", "auth", "access_token", name))


def version(session: ClientSession) -> None:
    """Show the version of the client and, with a server, of OSMO Admin there and of OSMO's protocol that it speaks.

    Example: osmo version
    """
    major, minor, revision = __version__.split(".")[:3]
    answer: dict[str, Any] = {"client": {"major": major, "minor": minor, "revision": revision}}
    lines, facts = [f"OSMO client version:  {__version__}"], [("Client", __version__)]
    try:
        service, headers = session.http().get_with_headers("api/version")
    except ClientError as error:
        # Without a login or a server, the version of the client alone is printed.
        if error.status is None and error.exit_code != SERVER_FAILED and login_file.login_path().exists():
            raise
    else:
        answer["service"] = service
        numbers = ".".join(str(service.get(part, "?")) for part in ("major", "minor", "revision"))
        lines.append(f"OSMO service version: {numbers}" + (f".{service['hash']}" if service.get("hash") else ""))
        facts.append(("Protocol", numbers))
        if server := headers.get("X-OSMO-Admin-Version"):
            answer["osmo_admin"] = {"client": __version__, "server": server}
            facts.append(("Server", server))
            lines.append(f"OSMO Admin:           {server} on the server, {__version__} here; {numbers} is the protocol")
    as_table = session.output is OutputFormat.CSV
    print_answer(session, answer, lambda: Facts(facts) if as_table else "\n".join(lines))
