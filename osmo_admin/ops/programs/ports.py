"""Choice of a free port to listen on."""

from __future__ import annotations

import socket

from osmo_admin.ops.programs.errors import OperationError

DEFAULT_PORT = 8000
_PORTS_TRIED = 100


def is_port_free(host: str, port: int) -> bool:
    """True if this address can be listened on now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_port(host: str, requested: int | None) -> int:
    """`requested` if it is free, else an error; without `requested`, 8000 or the next free one."""
    if requested is not None:
        if not is_port_free(host, requested):
            raise OperationError(
                f"Port {requested} on {host} is in use or not permitted. Name another with --port, "
                "or leave --port out to get a free one."
            )
        return requested
    for port in range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED):
        if is_port_free(host, port):
            return port
    raise OperationError(
        f"No port from {DEFAULT_PORT} to {DEFAULT_PORT + _PORTS_TRIED - 1} on {host} is free. Name one with --port."
    )
