"""Heartbeats of the background processes, for the readiness probe of the web server.

The worker, beat and clusters processes each renew a key in Redis that expires by itself. A missing key means that the
process does not run, hangs, or has lost the broker.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import redis
from celery.signals import heartbeat_sent
from django.conf import settings

WORKER = "worker"
BEAT = "beat"
CLUSTERS = "clusters"
# Renewed every two seconds (worker, clusters) or five (beat); a restart may take this long.
LIFETIME_SECONDS = 30


@cache
def redis_client() -> redis.Redis:
    """The client of this process, with short limits of time."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def renew_heartbeat(process: str) -> None:
    """Renew the heartbeat of a process. A missing broker is ignored here; others report it."""
    try:
        redis_client().set(f"osmo:alive:{process}", repr(time.time()), ex=LIFETIME_SECONDS)
    except redis.RedisError:
        return


def heartbeat_age(process: str) -> float | None:
    """Seconds since the last heartbeat, or None without one. Raises redis.RedisError."""
    timestamp = redis_client().get(f"osmo:alive:{process}")
    return None if timestamp is None else max(0.0, time.time() - float(timestamp))


def ping_redis() -> None:
    """Raises redis.RedisError if the broker does not answer within a second."""
    redis_client().ping()


def write_to_redis() -> None:
    """Raises redis.RedisError if the broker does not answer within a second, or takes no writes."""
    redis_client().set("osmo:write-check", "", ex=LIFETIME_SECONDS)


@heartbeat_sent.connect
def _renew_worker_heartbeat(**_: Any) -> None:
    """Celery's heartbeat timer stops when the worker loses its connection to the broker."""
    renew_heartbeat(WORKER)
