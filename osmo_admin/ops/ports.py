"""Finding a port that can be listened on."""

from __future__ import annotations

import socket

from osmo_admin.ops.errors import OperationError

DEFAULT_PORT = 8000
_NEIGHBOURS = 100


def is_free(host: str, port: int) -> bool:
    """Can this address be listened on now?"""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose(host: str, wanted: int | None) -> int:
    """`wanted` when it is free, an error when it is not; without a wish 8000 or the next free one above."""
    if wanted is not None:
        if not is_free(host, wanted):
            raise OperationError(
                f"Port {wanted} on {host} is taken or may not be used. Name another with --port, "
                "or leave --port out to get a free one."
            )
        return wanted
    for port in range(DEFAULT_PORT, DEFAULT_PORT + _NEIGHBOURS):
        if is_free(host, port):
            return port
    raise OperationError(
        f"No port from {DEFAULT_PORT} to {DEFAULT_PORT + _NEIGHBOURS - 1} on {host} is free. Name one with --port."
    )
