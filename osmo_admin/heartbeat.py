"""Signs of life of the background processes, left where the web server can see them.

The worker, beat and the process of the clusters each renew a key in Redis that expires by itself. No key means: not
running, hung, or cut off from the broker, and in each case nobody starts work, watches the drain or follows a cluster.
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
# Renewed every two seconds (worker, clusters) or five (beat); a restart may take this long before it counts as gone.
LIFETIME_SECONDS = 30


@cache
def _redis_client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def renew_heartbeat(process: str) -> None:
    """Say that this process is at work. A broker that is away is not this function's problem to report."""
    try:
        _redis_client().set(f"osmo:alive:{process}", repr(time.time()), ex=LIFETIME_SECONDS)
    except redis.RedisError:
        return


def heartbeat_age(process: str) -> float | None:
    """Seconds since the last sign of life, or None without one. Raises redis.RedisError."""
    left = _redis_client().get(f"osmo:alive:{process}")
    return None if left is None else max(0.0, time.time() - float(left))


def ping_redis() -> None:
    """Raises redis.RedisError when the broker does not answer within a second."""
    _redis_client().ping()


@heartbeat_sent.connect
def _renew_worker_heartbeat(**_: Any) -> None:
    """Celery's own heartbeat timer, which stops when the worker loses its broker connection."""
    renew_heartbeat(WORKER)
