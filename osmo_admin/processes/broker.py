"""The connection of Celery to its broker: kombu's Redis transport, which a lost connection does not end.

After a lost connection Celery closes the transport twice. The first time it meets the dead socket and leaves channels
open; the second time such a channel tries to return the messages that it holds, over a transport that has forgotten
its address. kombu 5.7 raises AttributeError there, which no caller expects, and the worker ends. A closed transport is
an ordinary lost connection here, so the worker connects again; Redis keeps the messages, and they are delivered again
after `visibility_timeout`.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as kombu_redis
from redis.exceptions import ConnectionError as LostConnection


class RedisChannel(kombu_redis.Channel):
    """A channel whose use after the end of its transport is a lost connection."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        transport: Any = self.connection
        if transport is None or transport.client is None:
            raise LostConnection("The connection to the broker was closed.")
        parameters: dict[str, Any] = super()._connparams(asynchronous=asynchronous)  # type: ignore[misc]
        return parameters


class Transport(kombu_redis.Transport):
    """The transport of `redis://`, `rediss://` and Unix sockets."""

    Channel = RedisChannel
