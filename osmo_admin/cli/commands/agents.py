"""`osmo mcp`: the tools for agents, over the Model Context Protocol."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.session import ClientSession

MISSING = "This needs the extra mcp: pip install 'osmo-admin[mcp]'."


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    client_command(app, "mcp")(mcp)


def mcp(
    session: ClientSession,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve over HTTP, at /mcp, with the access token of each caller."),
    ] = None,
    proxies: Annotated[
        str,
        typer.Option(
            metavar="NETWORKS",
            help="Proxies in front of --listen whose X-Forwarded-For is believed: addresses or networks, with commas.",
        ),
    ] = "",
) -> None:
    """Serve read-only tools for an agent on standard input and output, with the roles of this login.

    Tools: pools, queue, why, what_if, usage.

    Example: osmo mcp --listen 127.0.0.1:8100
    """
    try:
        from osmo_admin.cli.mcp_http import serve
        from osmo_admin.cli.mcp_server import build_server
    except ModuleNotFoundError as missing:
        raise ClientError(MISSING) from missing
    if listen is None:
        http = session.http()
        build_server(lambda _caller: http).run("stdio")
        return
    host, _, port = listen.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ClientError("This is not an address to listen on. Write HOST:PORT, such as 127.0.0.1:8100.")
    session.server_url()
    trusted = [text.strip() for text in proxies.split(",") if text.strip()]
    for text in trusted:
        try:
            ip_network(text, strict=False)
        except ValueError:
            raise ClientError("This is neither an address nor a network. Write --proxies 10.0.9.0/24.") from None
    serve(session.http_of_token, host.strip("[]"), int(port), proxies=trusted)
