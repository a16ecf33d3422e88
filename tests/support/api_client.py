"""The API client of the tests: a user with an access token, as the stock client has it, or nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.test import Client

from pools.domain.people.roles import Actor
from pools.models import AccessToken, User
from pools.security.tokens import issue_jwt


@dataclass
class ApiAnswer:
    """A response: its status, its text and its headers. An event stream is not read."""

    status: int
    text: str
    headers: Any

    @property
    def is_json(self) -> bool:
        """Whether it has JSON in it."""
        return bool(self.text) and self.headers.get("Content-Type", "").startswith("application/json")

    @cached_property
    def body(self) -> Any:
        """The JSON; None for an answer of another type."""
        return json.loads(self.text) if self.is_json else None

    @property
    def codes(self) -> set[tuple[str, str]]:
        """(path, code) of every fault."""
        return {(fault["path"], fault["code"]) for fault in self.body["details"]}


@dataclass(eq=False)
class ApiClient:
    """Somebody who calls the API. `token` is what the calls are made with; None: nobody in particular."""

    token: AccessToken | None = None
    headers: dict[str, str] = field(default_factory=dict)
    last: ApiAnswer = field(init=False)

    @property
    def user(self) -> User:
        """The owner of the token."""
        assert self.token is not None
        return self.token.owner

    @property
    def actor(self) -> Actor:
        """The owner of the token as an actor of the services."""
        return self.user.as_actor()

    @property
    def status(self) -> int:
        """HTTP status of the last answer."""
        return self.last.status

    def __call__(
        self, method: str, path: str, body: Any = None, *, query: Any = (), yaml: str | None = None, **headers: str
    ) -> ApiAnswer:
        """One call with a body of JSON, or of `yaml` as it is. More keyword arguments are headers (`if_match="*"`)."""
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.token is not None:
            sent = {"Authorization": f"Bearer {issue_jwt(self.token)[0]}", **sent}
        address = f"{path}?{urlencode(query, doseq=True)}" if query else path
        kind = "application/json" if yaml is None else "application/yaml"
        data = yaml or ("" if body is None else json.dumps(body))
        response = Client().generic(method, address, data, content_type=kind, headers=sent)
        is_endless = response.headers.get("Content-Type") == "text/event-stream"
        text = "" if is_endless else response.getvalue().decode()
        self.last = ApiAnswer(response.status_code, text, response.headers)
        return self.last

    def get(self, path: str, **query: Any) -> Any:
        """The JSON (or else the text) of an answer to GET; lists repeat their key of the query."""
        answer = self("GET", path, query=query)
        return answer.body if answer.is_json else answer.text

    def post(self, path: str, body: Any = None, *, query: str = "", **headers: str) -> Any:
        """The JSON (or else the text) of an answer to POST."""
        answer = self("POST", f"{path}?{query}" if query else path, body, **headers)
        return answer.body if answer.is_json else answer.text

    def submit(self, pool: str, file: str, *, query: str = "", **headers: str) -> Any:
        """Submit a file as the stock client does."""
        body = {"file": file, "set_variables": [], "set_string_variables": [], "uploaded_templated_spec": None}
        return self.post(f"/api/pool/{pool}/workflow", body, query=query, **headers)


Callers = Callable[..., ApiClient]
"""Makes a user with these roles (or takes the one there is) and calls as that user: `caller("ann", "osmo-viewer")`."""
