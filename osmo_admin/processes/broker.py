"""The connection of Celery to its broker: kombu's Redis transport, which a lost connection does not end.

After a lost connection Celery closes the transport twice. The first time it meets the dead socket and leaves channels
open; the second time such a channel tries to return the messages that it holds, over a transport that has forgotten
its address. kombu 5.7 raises AttributeError there, which no caller expects, and the worker ends. A closed transport is
an ordinary lost connection here, so the worker connects again; Redis keeps the messages, and they are delivered again
after `visibility_timeout`.

An acknowledgement that the broker refuses, while its password is changed for example, is logged by Celery and not
repeated; kombu 5.7 counts its message as unfinished for ever. A worker with as many of them as it may hold takes no
further message, and does not notice that its connection has ended. Here the message no longer counts; Redis keeps it,
and it is delivered again after `visibility_timeout`, as after a lost connection.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from redis.exceptions import ConnectionError as LostConnection


class RedisQoS(kombu_redis.QoS):
    """The messages that a worker holds, of which one that cannot be acknowledged takes no place."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message. Raises what the connection raises."""
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Refuse a message, or put it back. Raises what the connection raises."""
        try:
            super().reject(delivery_tag, requeue=requeue)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise


class RedisChannel(kombu_redis.Channel):
    """A channel whose use after the end of its transport is a lost connection."""

    QoS = RedisQoS

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        transport: Any = self.connection
        if transport is None or transport.client is None:
            raise LostConnection("The connection to the broker was closed.")
        parameters: dict[str, Any] = super()._connparams(asynchronous=asynchronous)  # type: ignore[misc]
        return parameters


class Transport(kombu_redis.Transport):
    """The transport of `redis://`, `rediss://` and Unix sockets."""

    Channel = RedisChannel
