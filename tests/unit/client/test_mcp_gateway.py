"""`osmo mcp --listen` passes on the address of its caller, and keeps the callers apart."""

from __future__ import annotations

import time
from typing import Any

import pytest

from osmo_admin.cli import mcp_http
from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.session import ClientSession
from tests.support import coroutines
from tests.unit.client.stub_server import make_jwt


def test_each_request_names_the_caller(stub: Any) -> None:
    jwt = make_jwt(exp=time.time() + 300, name="ann")
    stub.on("POST", "/api/auth/jwt/access_token", {"token": jwt, "expires_at": 1})
    stub.on("GET", "/api/version", {})
    http = ClientSession(url=stub.url).http_of_token("secret", "203.0.113.9")
    http.get("api/version")
    headers = [{name.lower(): value for name, value in each.headers.items()} for each in stub.requests]
    assert [each["x-forwarded-for"] for each in headers] == ["203.0.113.9"] * 2
    http.close()


def test_callers_of_one_token_at_two_addresses_are_kept_apart() -> None:
    calls: list[tuple[str, str | None]] = []

    def connect(token: str, address: str | None) -> Any:
        calls.append((token, address))
        if token == "wrong":
            raise ClientError("no", status=401)
        return object()

    async def request(token: str, peer: str, forwarded: str = "") -> int:
        statuses: list[int] = []

        async def receive() -> Any:
            raise AssertionError

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        async def app(scope: Any, receive: Any, send: Any) -> None:
            statuses.append(200)

        headers = [(b"authorization", f"Bearer {token}".encode()), (b"x-forwarded-for", forwarded.encode())]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "client": (peer, 1)}
        await mcp_http.LoginRequired(app, callers)(scope, receive, send)  # type: ignore[arg-type]
        return statuses[0]

    callers = mcp_http.Callers(connect)

    async def run() -> list[int]:
        return [
            await request("a", "203.0.113.9"),
            await request("a", "203.0.113.9", forwarded="198.51.100.1"),  # a header of the caller is not believed
            await request("a", "203.0.113.10"),
            await request("wrong", "203.0.113.9"),
        ]

    assert coroutines.run(run()) == [200, 200, 200, 401]
    assert calls == [("a", "203.0.113.9"), ("a", "203.0.113.10"), ("wrong", "203.0.113.9")]


@pytest.mark.parametrize(
    ("proxies", "expected"), [([], (False, [])), (["10.0.9.0/24"], (True, ["10.0.9.0/24"]))], ids=["none", "one"]
)
def test_no_proxy_is_believed_that_was_not_named(
    monkeypatch: pytest.MonkeyPatch, proxies: list[str], expected: tuple[bool, list[str]]
) -> None:
    """uvicorn would believe every process of this machine."""
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(mcp_http.uvicorn, "run", lambda app, **options: started.append(options))
    mcp_http.serve(lambda token, address: None, "127.0.0.1", 1, proxies=proxies)  # type: ignore[arg-type, return-value]
    assert (started[0]["proxy_headers"], started[0]["forwarded_allow_ips"]) == expected


def test_a_wrong_network_is_named(osmo: Any, stub: Any) -> None:
    result = osmo.bare("--url", stub.url, "mcp", "--listen", "127.0.0.1:1", "--proxies", "here")
    assert result.exit_code != 0 and "This is neither an address nor a network" in result.stderr
