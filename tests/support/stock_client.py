"""The protocol of the stock `osmo` client 6.4.0: its headers, its format of queries, and its rules for answers and exit
codes (design, O0, O1). The client itself is not published as a package."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.test import Client

HEADERS = {"x-osmo-client-version": "6.4.0", "User-Agent": "osmo-cli/6.4.0"}
SUBMISSION_ERRORS = {"USAGE", "RESOURCE"}


class ClientExit(Exception):  # the end of a program, with or without success
    """The command would end like this: exit code, and what it prints."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"exit {code}: {text}")
        self.code, self.text = code, text


class StockClient:
    """One command line logged in with a token (or, in dev mode, by name)."""

    def __init__(self, *, token: str = "", dev_user: str = "") -> None:
        self._client = Client(raise_request_exception=False)
        self._login = {"x-osmo-user": dev_user} if dev_user else {}
        if token:
            answer = self.call("POST", "api/auth/jwt/access_token", body={"token": token})
            claims = read_jwt(answer["token"])
            assert isinstance(claims["exp"], int | float)
            assert isinstance(answer["expires_at"], int)
            self._login = {"Authorization": f"Bearer {answer['token']}"}

    def call(self, method: str, path: str, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """One request; its JSON. Raises ClientExit where the client would end."""
        response = self._send(method, path, query or {}, body)
        text = response.content.decode()
        if response.status_code >= 500:
            raise ClientExit(10, text)
        if response.status_code >= 400:
            raise _client_exit(response.status_code, text)
        assert response.status_code == 200, "the client prints a complaint for 201, 202 and 204"
        try:
            return json.loads(text)
        except ValueError as error:
            raise ClientExit(10, f"no JSON: {text!r}") from error

    def stream(self, path: str, query: dict[str, Any] | None = None) -> str:
        """Logs, events and spec come as plain text."""
        response = self._send("GET", path, query or {}, None)
        assert response.status_code == 200, response.content
        assert response.headers["Content-Type"].startswith("text/plain")
        return response.content.decode()

    def _send(self, method: str, path: str, query: dict[str, Any], body: Any) -> HttpResponse:
        # Booleans as Python writes them, lists as repeated keys; None and empty lists are left out.
        pairs = [
            (key, str(each))
            for key, value in query.items()
            if value is not None
            for each in (value if isinstance(value, list) else [value])
        ]
        response: HttpResponse = self._client.generic(  # type: ignore[assignment]
            method,
            f"/{path}",
            b"" if body is None else json.dumps(body).encode(),
            content_type="application/json",  # also where there is no body
            query_params=_as_query(pairs),
            headers={**HEADERS, **self._login},
        )
        return response


def _as_query(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    for key, value in pairs:
        query.setdefault(key, []).append(value)
    return query


def _client_exit(status: int, text: str) -> ClientExit:
    body = json.loads(text)
    if not isinstance(body, dict) or "error_code" not in body:
        return ClientExit(2, text)
    message = body["message"]  # with an error_code and without this, the client prints a traceback
    if body["error_code"] in SUBMISSION_ERRORS:
        return ClientExit(1, f"Workflow {body.get('workflow_id')} submit failed:\n{message}")
    return ClientExit(75 if status == 429 else 2, f"{message}\nError code: {status}")


def read_jwt(token: str) -> dict[str, Any]:
    """The payload, which the client reads without checking the signature."""
    _, payload, _ = token.split(".")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def read_time(text: str) -> datetime:
    """The only forms of a time that the client can parse; anything else ends it with `Invalid time format`."""
    for separator in ("T", " "):
        for rest in ("%H:%M:%S.%f", "%H:%M:%S", "%H:%M"):
            try:
                return datetime.strptime(text, f"%Y-%m-%d{separator}{rest}")  # it is naive
            except ValueError:
                continue
    raise ClientExit(2, f"Invalid time format: {text}")
