"""One run of the client: the server, the user, and the format of the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from osmo_admin.cli.base import login_file
from osmo_admin.cli.base.client_errors import REFUSED, REFUSED_SUBMISSION, SERVER_FAILED, ClientError
from osmo_admin.cli.base.http import HttpClient, url_path
from osmo_admin.cli.base.login_file import StoredLogin, TokenLogin
from pools.domain.errors import Fault

FORBIDDEN = 403
UNKNOWN_NAME_STATUSES = (FORBIDDEN, 404)
UNKNOWN_NAME_CODES = (Fault.UNKNOWN_NAME, Fault.UNKNOWN_POOL, Fault.UNKNOWN_ROLE)
NOT_LOGGED_IN_MESSAGE = "You are not logged in. Log in first: osmo login URL."


class OutputFormat(StrEnum):
    """Format of the answer: for people (`text` is the stock client's name for `table`) or for programs.

    `wide` is a table that is not cut to the width of the terminal.
    """

    TABLE = "table"
    WIDE = "wide"
    CSV = "csv"
    JSON = "json"
    YAML = "yaml"
    TEXT = "text"


@dataclass(slots=True)
class ClientSession:
    """The settings from options and environment, and the connection, which is opened on first use."""

    url: str | None = None
    token: str | None = None
    username: str | None = None
    timeout: float = 60.0
    retries: int | None = None
    output: OutputFormat = OutputFormat.TABLE
    dry_run: bool = False
    yes: bool = False
    watch: bool = False
    has_ended: bool = False  # set by a command: a watch of it has nothing more to show
    has_nothing: bool = False  # the answer was an empty list
    find_hint: Callable[[bool], str | None] = lambda _: None
    """What to type in place of a name that nobody knows; only with True also where its like is listed."""
    require_known_names: Callable[[], None] = lambda: None
    """Raises :class:`ClientError` for a given name that nobody knows."""
    _http: HttpClient | None = field(default=None, init=False)

    @property
    def is_machine_readable(self) -> bool:
        """True if the answer goes to a program and must stay unchanged."""
        return self.output in (OutputFormat.JSON, OutputFormat.YAML)

    @property
    def dry_run_query(self) -> dict[str, Any]:
        """The query that requests the effect instead of the change."""
        return {"dry_run": True} if self.dry_run else {}

    def http(self) -> HttpClient:
        """The connection of this run. Raises :class:`ClientError` without a login."""
        if self._http is None:
            login, stored = self._find_login()
            self._http = self._connect(login, stored=stored)
        return self._http

    def add_hint(self, error: ClientError) -> None:
        """Say which name was meant where the error may be that of an unknown one."""
        is_unknown = any(detail.get("code") in UNKNOWN_NAME_CODES for detail in error.details)
        is_refusal = error.exit_code in (REFUSED, REFUSED_SUBMISSION)
        may_be_unknown = is_refusal and (is_unknown or error.status in UNKNOWN_NAME_STATUSES)
        if not may_be_unknown or error.hint is not None:
            return
        # Who is forbidden to do something may see what it would be done to.
        if (hint := self.find_hint(error.status != FORBIDDEN)) and hint not in error.message:
            error.hint = hint

    def hint_at_nothing(self) -> None:
        """Say which name was meant where the list is empty."""
        if self.has_nothing and not self.is_machine_readable and (hint := self.find_hint(True)):
            print_warning(hint)

    def http_of_token(self, token: str, caller: str | None) -> HttpClient:
        """A connection with the access token of somebody else, at the address `caller`. Raises :class:`ClientError` if
        the server refuses it."""
        login = login_with_token(self.server_url(), token, timeout=self.timeout, caller=caller)
        return self._connect(login, stored=False, caller=caller)

    def server_url(self) -> str:
        """The address of the server. Raises :class:`ClientError` without one."""
        url = self.url or ((stored := login_file.read_login()) and stored.url)
        if not url:
            raise ClientError(NOT_LOGGED_IN_MESSAGE)
        return url.rstrip("/")

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._http is not None:
            self._http.close()

    def _find_login(self) -> tuple[StoredLogin, bool]:
        """The login, and whether it comes from the file; a refreshed one is then stored there again."""
        stored = login_file.read_login() if self.url is None or not (self.token or self.username) else None
        url = self.url.rstrip("/") if self.url else (stored.url if stored else None)
        if url is None:
            raise ClientError(NOT_LOGGED_IN_MESSAGE)
        if self.token:
            return login_with_token(url, self.token, timeout=self.timeout), False
        if self.username:
            return StoredLogin(url=url, dev_username=self.username), False
        if stored is None:
            raise ClientError(NOT_LOGGED_IN_MESSAGE)
        if stored.url != url:
            # A credential is only sent to the server that issued it.
            raise ClientError(f"You are logged in to {stored.url}, not to {url}. Log in there: osmo login {url}.")
        return stored, True

    def _connect(self, login: StoredLogin, *, stored: bool, caller: str | None = None) -> HttpClient:
        def renew() -> bool:
            if login.token is None:
                return False
            refresh_login(login, timeout=self.timeout, caller=caller)
            if stored:
                login_file.write_login(login)
            return True

        def authorize() -> dict[str, str]:
            if login.token is None:
                return {"x-osmo-user": login.dev_username or ""}
            if login_file.is_expired(login.token.id_token):
                renew()
            return {"Authorization": f"Bearer {login.token.id_token}"}

        http = HttpClient(
            url=login.url, authorize=authorize, warn=print_warning, timeout=self.timeout, forwarded_for=caller,
            renew=renew,
        )  # fmt: skip
        if self.retries is not None:
            http.retries = self.retries
        return http


def print_warning(message: str) -> None:
    """Print a remark for people on standard error, apart from the answer."""
    print(message, file=sys.stderr)


def login_with_token(url: str, token: str, *, timeout: float = 60.0, caller: str | None = None) -> StoredLogin:
    """Exchange an access token for a session; a gateway names the address of its `caller`. Raises
    :class:`ClientError` if the server refuses it."""
    url = url.rstrip("/")
    login = StoredLogin(
        url=url,
        token=TokenLogin(
            id_token="", refresh_token=token, refresh_url=f"{url}/{url_path('api', 'auth', 'jwt', 'access_token')}"
        ),
        osmo_token=True,
    )
    refresh_login(login, timeout=timeout, caller=caller)
    return login


def refresh_login(login: StoredLogin, *, timeout: float = 60.0, caller: str | None = None) -> None:
    """Put a new JWT into `login`. Raises :class:`ClientError` without an access token, or if the server refuses it."""
    token = login.token
    if token is None or not login.osmo_token or not token.refresh_token or not token.refresh_url:
        raise ClientError(f"Your session at {login.url} has ended. Log in again: osmo login {login.url}.")
    server, _, endpoint = token.refresh_url.rpartition("/api/")
    http = HttpClient(url=server, authorize=dict, warn=print_warning, timeout=timeout, forwarded_for=caller)
    try:
        answer = http.send_change(
            "POST", f"api/{endpoint}", body={"token": token.refresh_token}, with_idempotency_key=False
        )
    except ClientError as error:
        if error.status is not None and error.status < 500:
            error.hint = error.hint or f"Log in again: osmo login {login.url}."
        raise
    finally:
        http.close()
    if not isinstance(answer, dict) or not isinstance(answer.get("token"), str):
        raise ClientError(f"{login.url} did not answer with a session.", exit_code=SERVER_FAILED)
    login_file.read_claims(answer["token"])
    token.id_token = answer["token"]
