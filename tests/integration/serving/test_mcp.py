"""`osmo mcp` with the client of the protocol's own library, on a served installation."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from osmo_admin.ops.programs.processes import start_child, stop_children
from tests.support import coroutines
from tests.support.services import ROOT
from tests.support.stack import Stack, find_free_port

FILE = "workflow:\n  name: {name}\n  tasks:\n  - {{name: t, image: i, command: [c], resource: r}}\n"
FILE += "  resources:\n    r: {{gpu: 8}}\n"


def server_of(stack: Stack, token: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-c", "from osmo_admin.cli.client import main; main()", "mcp"],
        env={"OSMO_URL": stack.base_url, "OSMO_TOKEN": token},
        cwd=str(ROOT),
    )


async def ask(stack: Stack, token: str, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The tools, and the result of each call."""
    async with Client(server_of(stack, token)) as client:
        tools = (await client.list_tools()).tools
        return tools, [await client.call_tool(name, arguments) for name, arguments in calls]


def test_an_agent_reads_with_the_roles_of_its_caller(stack: Stack) -> None:
    admin, pool, hidden = stack.admin_client, stack.unique_name(), stack.unique_name()
    body = {"nodes": [{"name": "n1", "gpus": 8}], "namespace": pool, "auto_end": False, "offline": True}
    assert admin.put(f"/api/configs/backend/{pool}", json={"configs": body}).status_code == 200
    for name in (pool, hidden):
        config = {"backend": pool, "resources": {"gpu": {"guarantee": 8}}}
        assert admin.put(f"/api/configs/pool/{name}", json={"configs": config}).status_code == 200
    user = stack.unique_name("user")
    token = stack.access_token(user, f"osmo-{pool}-user")
    sent = stack.client_for(user, f"osmo-{pool}-user").post(
        f"/api/pool/{pool}/workflow", json={"file": FILE.format(name=f"{pool}-job")}
    )
    assert sent.status_code == 200, sent.text
    workflow = sent.json()["name"]

    tools, found = coroutines.run(
        ask(
            stack,
            token,
            ("pools", {}),
            ("queue", {"pool": [pool]}),
            ("why", {"workflow": workflow}),
            ("usage", {"by": "pool"}),
            ("what_if", {"changes": []}),
            ("why", {"workflow": f"{hidden}-1"}),
        )
    )
    assert {tool.name for tool in tools} == {"pools", "queue", "why", "what_if", "usage"}
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    pools, queue, why, usage, what_if, refused = found
    assert not any(result.is_error for result in (pools, queue, why, usage))
    assert pool in str(pools.structured_content)
    assert hidden not in str(pools.structured_content)
    assert workflow in str(queue.structured_content)
    assert why.structured_content["workflow"]["name"] == workflow
    assert workflow in str(why.structured_content["waiting"])
    assert usage.structured_content["since"] < usage.structured_content["until"]
    assert refused.is_error
    assert what_if.is_error, "what-if needs the role of an admin of the pool"

    _, (answer,) = coroutines.run(
        ask(stack, stack.access_token("admin"), ("what_if", {"changes": [], "backend": pool}))
    )
    assert not answer.is_error, answer.content
    assert f"{pool}" in str(answer.structured_content)


@pytest.fixture
def address(stack: Stack, tmp_path: Path) -> Iterator[str]:
    """`osmo mcp` over HTTP, which has no login of its own."""
    port = find_free_port()
    command = [sys.executable, "-c", "from osmo_admin.cli.client import main; main()"]
    env = {**os.environ, "OSMO_URL": stack.base_url, "HOME": str(tmp_path)}
    child = start_child(
        "mcp", [*command, "mcp", "--listen", f"127.0.0.1:{port}"], log=tmp_path / "mcp.log", env=env, cwd=ROOT
    )
    try:
        stack.wait_until(lambda: is_open(port), what="osmo mcp listens")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        stop_children([child], grace=5)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def ask_over_http(address: str, token: str, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "pools",
            "queue",
            "why",
            "what_if",
            "usage",
        }
        return [await client.call_tool(name, arguments) for name, arguments in calls]


def test_over_http_each_caller_has_their_own_roles(stack: Stack, address: str) -> None:
    admin, names = stack.admin_client, [stack.unique_name(), stack.unique_name()]
    for name in names:
        body = {"nodes": [{"name": "n1", "gpus": 8}], "namespace": name, "offline": True}
        assert admin.put(f"/api/configs/backend/{name}", json={"configs": body}).status_code == 200
        config = {"backend": name, "resources": {"gpu": {"guarantee": 8}}}
        assert admin.put(f"/api/configs/pool/{name}", json={"configs": config}).status_code == 200
    tokens = [stack.access_token(stack.unique_name("user"), f"osmo-{name}-user") for name in names]
    for _ in range(2):  # the second time with the connections of the first
        for token, own, other in zip(tokens, names, reversed(names), strict=True):
            pools, queue = coroutines.run(ask_over_http(address, token, ("pools", {}), ("queue", {"pool": [own]})))
            assert not pools.is_error
            assert not queue.is_error
            assert own in str(pools.structured_content)
            assert other not in str(pools.structured_content)

    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {tokens[0]}"}):
        refused = httpx.post(address, json=request, headers=headers)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer"), refused.text


def test_over_http_a_deleted_token_answers_nothing_more(stack: Stack, address: str) -> None:
    user = stack.client_for(stack.unique_name("user"))
    token = user.post("/api/auth/access_token/agent", json={}).json()
    (before,) = coroutines.run(ask_over_http(address, token, ("pools", {})))
    assert not before.is_error
    assert user.delete("/api/auth/access_token/agent").status_code == 200
    (after,) = coroutines.run(ask_over_http(address, token, ("pools", {})))
    assert after.is_error
