"""`osmo login` with consent in the browser, so that no password and no token is typed into a terminal; and with a
password, where there is no browser."""

from __future__ import annotations

import platform
import sys
import time
from contextlib import suppress
from typing import Any

from osmo_admin.cli.base.client_errors import SERVER_FAILED, ClientError
from osmo_admin.cli.base.http import HttpClient
from osmo_admin.cli.base.login_file import StoredLogin
from osmo_admin.cli.base.session import login_with_token, print_warning

MAX_NAME = 64
ENDINGS = {
    "denied": "The login was refused in the browser.",
    "expired": "Nobody has consented in time. Log in again.",
}


def pause(seconds: float) -> None:
    """Wait before the next request to the server."""
    time.sleep(seconds)


def login_with_consent(url: str, *, timeout: float, is_open: bool) -> StoredLogin:
    """Show the page on which the person consents, and wait. Raises :class:`ClientError` when the login was refused or
    took too long, or the server cannot do this."""
    http = HttpClient(url=url.rstrip("/"), authorize=dict, warn=print_warning, timeout=timeout)
    try:
        started = _post(http, "api/auth/client_login", {"client_name": _client_name()})
        page, code = str(started["verification_uri_complete"]), str(started["user_code"])
        print_warning(f"Open this page and consent to the code {code}:\n\n    {page}\n")
        if is_open and sys.stderr.isatty():
            _open_browser(page)
        end = time.monotonic() + float(started["expires_in"])
        while time.monotonic() < end:
            answer = _post(http, "api/auth/client_login/token", {"device_code": started["device_code"]})
            if answer.get("status") == "approved":
                return login_with_token(url, str(answer["token"]), timeout=timeout)
            if answer.get("status") in ENDINGS:
                raise ClientError(ENDINGS[answer["status"]])
            pause(float(started["interval"]))
        raise ClientError(ENDINGS["expired"])
    except (KeyError, TypeError, ValueError) as error:
        raise ClientError(f"{url} did not answer as expected.", exit_code=SERVER_FAILED) from error
    finally:
        http.close()


def login_with_password(url: str, username: str, password: str, *, timeout: float) -> StoredLogin:
    """Log in with a name and a password, of an account of the server or of a directory. Raises :class:`ClientError`."""
    http = HttpClient(url=url.rstrip("/"), authorize=dict, warn=print_warning, timeout=timeout)
    body = {"username": username, "password": password, "client_name": _client_name()}
    try:
        token = _post(http, "api/auth/client_login/password", body)["token"]
    except (KeyError, TypeError) as error:
        raise ClientError(f"{url} did not answer as expected.", exit_code=SERVER_FAILED) from error
    finally:
        http.close()
    return login_with_token(url, str(token), timeout=timeout)


def _client_name() -> str:
    return "".join(each for each in platform.node() if each.isprintable())[:MAX_NAME]


def _post(http: HttpClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.send_change("POST", path, body=body, with_idempotency_key=False)
    if not isinstance(answer, dict):
        raise TypeError(path)
    return answer


def _open_browser(page: str) -> None:
    """Open the page if there is a browser; the address is shown anyway."""
    if not page.startswith(("https://", "http://")):
        return
    import webbrowser

    with suppress(webbrowser.Error):
        webbrowser.open(page)
