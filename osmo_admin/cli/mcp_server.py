"""The tools of `osmo mcp`. Each one is a request to the API with the login of the caller, so it sees what they see.

Only this module and `mcp_http` import `mcp`, and only `osmo mcp` imports them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from osmo_admin import __version__
from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.http import HttpClient, url_path
from scheduling.domain.lists import USUAL_BUCKET

INSTRUCTIONS = (
    "OSMO Admin shares the GPUs of clusters between pools. These tools only read. Amounts are GPUs, times are UTC. "
    "A name that the caller has no role on is answered like a name that does not exist."
)
READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Answer = dict[str, Any]
PoolNames = Annotated[list[str] | None, Field(description="Only these pools or subpools, as `vision` or `vision--a`.")]
Caller = Context[Any, Any]  # the library passes it to a tool and hides it from agents
UserNames = Annotated[list[str] | None, Field(description="Only work of these users.")]


def build_server(http_of: Callable[[Caller], HttpClient]) -> MCPServer:
    """The server. `http_of` is the connection with the login of the caller of a tool."""
    server = MCPServer("osmo", version=__version__, instructions=INSTRUCTIONS)
    tool = server.tool(annotations=READ_ONLY)

    @tool
    def pools(caller: Caller) -> Answer:
        """All pools and subpools that the caller sees: quota, use, free GPUs, status."""
        return _answer(lambda: http_of(caller).get("api/pool_quota"))

    @tool
    def queue(caller: Caller, pool: PoolNames = None, user: UserNames = None) -> Answer:
        """Work that waits, in the order in which the scheduler takes it, each with the reason why it waits."""
        return _answer(lambda: http_of(caller).get("api/queue", {"pool": pool, "user": user}))

    @tool
    def why(
        caller: Caller, workflow: Annotated[str, Field(description="The name of a workflow, such as train-12.")]
    ) -> Answer:
        """Why a workflow waits: its state, and the reason for each of its groups. Without groups it does not wait."""

        def read() -> Answer:
            http = http_of(caller)
            found = http.get(url_path("api", "workflow", workflow))
            return {"workflow": found, "waiting": http.get("api/queue", {"workflow": workflow})}

        return _answer(read)

    @tool
    def what_if(
        caller: Caller,
        changes: Annotated[
            list[dict[str, Any]],
            Field(description='Changes of a live state, such as [{"finish": "train-12"}] or [{"remove_node": "n7"}].'),
        ],
        backend: Annotated[str | None, Field(description="The cluster; needed if the caller sees several.")] = None,
    ) -> Answer:
        """The result of changes of the live state by the rules of the scheduler. Nothing is written."""
        body = {"live": True, "changes": changes} | ({"backend": backend} if backend else {})
        return _answer(
            lambda: http_of(caller).send_change("POST", "api/simulate", body=body, with_idempotency_key=False)
        )

    @tool
    def usage(
        caller: Caller,
        since: Annotated[str | None, Field(description="From this time on, UTC; default 30 days ago.")] = None,
        until: Annotated[str | None, Field(description="Up to this time, UTC; default now.")] = None,
        by: Annotated[str, Field(description="pool, subpool, cohort, user, priority, backend or workflow")] = "pool",
        bucket: Annotated[str, Field(description="hour, day or month")] = USUAL_BUCKET,
        pool: PoolNames = None,
        user: UserNames = None,
    ) -> Answer:
        """What was used, lent, idle and waited for, in GPU seconds."""
        query = {"since": since, "until": until, "by": by, "bucket": bucket, "pool": pool, "user": user}
        return _answer(lambda: http_of(caller).get("api/usage", query))

    return server


def _answer(read: Callable[[], Any]) -> Answer:
    """The answer as an object, or the refusal of the server as the error of the tool."""
    try:
        found = read()
    except ClientError as refusal:
        raise ToolError(str(refusal)) from refusal
    return found if isinstance(found, dict) else {"items": found}
