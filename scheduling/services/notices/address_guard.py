"""A rule on the addresses to which this process connects, checked at each connection.

The check of a name before a request would be of no use: the name server may answer the request itself with another
address, and a receiver may redirect. So an audit hook of Python checks the rule, with the address to which a
socket is about to connect, for every library that a notice passes through.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pools.domain.configuration.cluster_addresses import AddressRule


class RefusedAddress(OSError):
    """The rule refuses this address."""


class _Guard:
    def __init__(self, rule: AddressRule) -> None:
        self.rule = rule
        self.refusal = ""


_guard: ContextVar[_Guard | None] = ContextVar("osmo_address_guard", default=None)
_is_installed = False


@contextmanager
def guard_addresses(rule: AddressRule) -> Iterator[_Guard]:
    """Inside, each connection of this thread follows `rule`; `refusal` of the result names the last address that was
    refused, however the library reports it."""
    global _is_installed  # noqa: PLW0603  # a hook cannot be removed, so it is added once
    if not _is_installed:
        sys.addaudithook(_check)
        _is_installed = True
    guard = _Guard(rule)
    mark = _guard.set(guard)
    try:
        yield guard
    finally:
        _guard.reset(mark)


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"socket.connect", "socket.sendto"} or (guard := _guard.get()) is None:
        return
    address = arguments[1]
    host = str(address[0]) if isinstance(address, tuple) and address else repr(address)
    fault = guard.rule.find_fault(host) if _is_number(host) else "is not an address of the internet"
    if fault is not None:
        # Not the address itself: names inside the network are not resolved for people.
        guard.refusal = f"The address of the receiver {fault}."
        raise RefusedAddress(guard.refusal)


def _is_number(host: str) -> bool:
    """Whether this is an address and no name, which the system would resolve after the check."""
    return ":" in host or (host.replace(".", "").isdigit() and host.count(".") == 3)
