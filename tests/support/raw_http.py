"""Raw HTTP over a socket: unfinished requests, and the bytes of an answer."""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Everything that came until the server closed the connection."""

    text: str

    @property
    def statuses(self) -> list[int]:
        """The status of each answer on the connection."""
        return [int(status) for status in re.findall(r"HTTP/1\.1 (\d{3}) ", self.text)]

    @property
    def body(self) -> str:
        """The body of the last answer."""
        return self.text.rpartition("\r\n\r\n")[2]


def make_head(method: str, path: str, **headers: str) -> bytes:
    """The head of a request; `_` in a header's name stands for `-`."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def connect(port: int) -> socket.socket:
    """A connection to a server on this machine."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.settimeout(PATIENCE)
    return connection


def read_to_end(connection: socket.socket) -> RawAnswer:
    """Read until the server closes. Raises TimeoutError if it does not."""
    received = b""
    while part := connection.recv(65536):
        received += part
    return RawAnswer(received.decode())


def exchange(port: int, request: bytes) -> RawAnswer:
    """Send the bytes; read until the server closes."""
    with connect(port) as connection:
        connection.sendall(request)
        return read_to_end(connection)


@contextmanager
def hold_connections(port: int, count: int, begin: bytes) -> Iterator[list[socket.socket]]:
    """Many open connections, each with the same unfinished request."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(count)]
        for connection in connections:
            connection.sendall(begin)
        yield connections


def are_silent(connections: list[socket.socket]) -> bool:
    """True if the server has neither answered nor closed any of them."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    return poll.poll(0) == []


def unfinished_post(path: str, **headers: str) -> bytes:
    """A POST whose body never comes to its end."""
    head: Mapping[str, str] = {"Content_Type": "application/json", "Content_Length": "100"} | headers
    return make_head("POST", path, **head) + b'{"tok'
