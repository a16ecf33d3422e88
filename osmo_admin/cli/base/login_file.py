"""The login file, in the format of the stock client, so that each client can use the login of the other.

`login.yaml` holds `url` and exactly one of `dev_login: {username}` or `token_login: {id_token, refresh_token,
refresh_url, username, client_id}`; `osmo_token: true` says that `refresh_token` is an access token to be
exchanged for a new `id_token` at `refresh_url`. `name` is for display.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmo_admin.cli.base.client_errors import ClientError

FILE_NAME = "login.yaml"
EXPIRY_MARGIN = 3  # seconds; a token this close to its end counts as expired


@dataclass(slots=True)
class TokenLogin:
    """`id_token` is the short-lived JWT; `refresh_token` the access token (or an identity provider's refresh token)."""

    id_token: str
    refresh_token: str | None = None
    refresh_url: str | None = None
    username: str | None = None
    client_id: str | None = None


@dataclass(slots=True)
class StoredLogin:
    """The user and the server: with `dev_username` (a header, development only) or with `token`."""

    url: str
    dev_username: str | None = None
    token: TokenLogin | None = None
    osmo_token: bool = False

    @property
    def name(self) -> str:
        """The name for the greeting: the developer's user name, or the optional `name` claim of the JWT."""
        if self.token is not None:
            return str(read_claims(self.token.id_token).get("name", ""))
        return self.dev_username or ""

    def as_dict(self) -> dict[str, Any]:
        """The content of the file, with every key of the stock client."""
        token = self.token
        return {
            "dev_login": {"username": self.dev_username} if self.dev_username is not None else None,
            "name": self.name,
            "osmo_token": self.osmo_token,
            "token_login": None
            if token is None
            else {
                "client_id": token.client_id,
                "id_token": token.id_token,
                "refresh_token": token.refresh_token,
                "refresh_url": token.refresh_url,
                "username": token.username,
            },
            "url": self.url,
        }


def config_directory() -> Path:
    """The folder of the stock client: `$OSMO_CONFIG_FILE_DIR`, else `$XDG_CONFIG_HOME/osmo`, else `~/.config/osmo`."""
    if override := os.environ.get("OSMO_CONFIG_FILE_DIR"):
        return Path(override).expanduser()
    if config_home := os.environ.get("XDG_CONFIG_HOME"):
        return Path(config_home).expanduser() / "osmo"
    return Path("~/.config/osmo").expanduser()


def login_path() -> Path:
    """The path of the login file."""
    return config_directory() / FILE_NAME


def read_login() -> StoredLogin | None:
    """The stored login, or None. Raises :class:`ClientError` if the file is not a valid login."""
    import yaml

    try:
        content = yaml.safe_load(login_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _unreadable_error(str(error).splitlines()[0]) from error
    return None if content is None else _parse_login(content)


def _parse_login(content: Any) -> StoredLogin:
    if not isinstance(content, dict) or not isinstance(content.get("url"), str):
        raise _unreadable_error("it has no url")
    dev, token = content.get("dev_login"), content.get("token_login")
    if (dev is None) == (token is None):
        raise _unreadable_error("it must hold exactly one of dev_login and token_login")
    url = content["url"].rstrip("/")
    if dev is not None:
        if not isinstance(dev, dict) or not isinstance(dev.get("username"), str):
            raise _unreadable_error("dev_login has no username")
        return StoredLogin(url=url, dev_username=dev["username"])
    if not isinstance(token, dict) or not isinstance(token.get("id_token"), str):
        raise _unreadable_error("token_login has no id_token")
    known = {key: token.get(key) for key in ("refresh_token", "refresh_url", "username", "client_id")}
    return StoredLogin(
        url=url,
        token=TokenLogin(id_token=token["id_token"], **known),
        osmo_token=bool(content.get("osmo_token")),
    )


def _unreadable_error(reason: str) -> ClientError:
    return ClientError(f"The login file {login_path()} cannot be used: {reason}. Log in again: osmo login URL.")


def write_login(login: StoredLogin) -> None:
    """Store a login, readable by its owner only. Another reader sees the old file or the new one, never a part."""
    import yaml

    folder = config_directory()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp sets the mode 0600 before anything is written
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".login-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                yaml.safe_dump(login.as_dict(), file, allow_unicode=True)
            Path(temporary).replace(login_path())
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ClientError(f"The login cannot be stored in {login_path()}: {error.strerror}.") from error


def remove_login() -> bool:
    """Delete the login file. False if there was none."""
    try:
        login_path().unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ClientError(f"The login file {login_path()} cannot be removed: {error.strerror}.") from error
    return True


def read_claims(token: str) -> dict[str, Any]:
    """The payload of a JWT; only the server checks the signature. Raises :class:`ClientError` if it is not a JWT."""
    try:
        _, payload, _ = token.split(".")
        body = json.loads(base64.urlsafe_b64decode(payload + "=="))
    except ValueError as error:
        raise ClientError("The stored session is not a token. Log in again: osmo login URL.") from error
    if not isinstance(body, dict):
        raise ClientError("The stored session is not a token. Log in again: osmo login URL.")
    return body


def is_expired(token: str, *, now: float | None = None) -> bool:
    """True if the JWT's `exp` less a margin is in the past; a token without a numeric `exp` counts as expired."""
    end = read_claims(token).get("exp")
    return not isinstance(end, int | float) or end - EXPIRY_MARGIN < (time.time() if now is None else now)
