"""Finding a port that can be listened on."""

from __future__ import annotations

import socket

from osmo_admin.ops.errors import OperationError

DEFAULT_PORT = 8000
_PORTS_TRIED = 100


def is_port_free(host: str, port: int) -> bool:
    """Can this address be listened on now?"""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_port(host: str, requested: int | None) -> int:
    """`requested` when it is free, an error when it is not; without a wish 8000 or the next free one above."""
    if requested is not None:
        if not is_port_free(host, requested):
            raise OperationError(
                f"Port {requested} on {host} is taken or may not be used. Name another with --port, "
                "or leave --port out to get a free one."
            )
        return requested
    for port in range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED):
        if is_port_free(host, port):
            return port
    raise OperationError(
        f"No port from {DEFAULT_PORT} to {DEFAULT_PORT + _PORTS_TRIED - 1} on {host} is free. Name one with --port."
    )
