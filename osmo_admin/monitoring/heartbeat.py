"""Heartbeats of the processes, for the readiness probe of the web server.

The worker, beat and clusters processes each renew a key in Redis that expires by itself. A missing key means that the
process does not run, hangs, or has lost the broker. Each process, also of the web and webhook servers, also
registers the marks of its secret keys (:func:`pools.security.sealing.key_marks`), under a name of its own.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import redis
import structlog
from celery.signals import heartbeat_sent
from django.conf import settings

from pools.security.sealing import key_marks

WORKER = "worker"
BEAT = "beat"
CLUSTERS = "clusters"
# Renewed every two seconds (worker, clusters), three (beat) or ten (web, webhook); a restart may take this long.
LIFETIME_SECONDS = 30
WEB_RENEW_SECONDS = 10.0
_REGISTER = "osmo:processes"


log = structlog.get_logger(__name__)


@cache
def redis_client() -> redis.Redis:
    """The client of this process, with short limits of time."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def renew_heartbeat(process: str) -> None:
    """Renew the heartbeat of a process. A missing broker is ignored here; others report it."""
    try:
        redis_client().set(f"osmo:alive:{process}", repr(time.time()), ex=LIFETIME_SECONDS)
        _register(process)
    except redis.RedisError:
        return


def keep_registering(process: str) -> None:
    """Register this process, which serves requests, now and then again in a thread of its own."""

    def register() -> None:
        while True:
            try:
                _register(process)
            except (redis.RedisError, OSError) as problem:  # an end of this thread would be noticed by nobody
                log.debug("not_registered", problem=str(problem))
            time.sleep(WEB_RENEW_SECONDS)

    threading.Thread(target=register, name="register", daemon=True).start()


def _register(process: str) -> None:
    name = f"{process} on {socket.gethostname()} (process {os.getpid()})"
    with redis_client().pipeline(transaction=False) as commands:
        commands.set(f"{_REGISTER}:{name}", json.dumps(key_marks()), ex=LIFETIME_SECONDS)
        commands.sadd(_REGISTER, name)
        commands.execute()
    _forget_at_exit(name)


@cache
def _forget_at_exit(name: str) -> None:
    """A process that ends in order is forgotten at once, so that the next one is not compared with it."""
    Finalize(None, _forget, args=[name], exitpriority=0)


def _forget(name: str) -> None:
    try:
        redis_client().delete(f"{_REGISTER}:{name}")
    except redis.RedisError:
        return


def registered_keys() -> dict[str, list[str]]:
    """The marks of the keys of each process that runs, by its name, as `worker on HOST (process 12)`; the present key
    of a process comes first. Raises redis.RedisError."""
    client = redis_client()
    names = sorted(each if isinstance(each, str) else each.decode() for each in client.smembers(_REGISTER))
    found = dict(zip(names, client.mget([f"{_REGISTER}:{name}" for name in names]) if names else [], strict=True))
    if ended := [name for name, marks in found.items() if marks is None]:
        client.srem(_REGISTER, *ended)
    return {name: json.loads(marks) for name, marks in found.items() if marks is not None}


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
