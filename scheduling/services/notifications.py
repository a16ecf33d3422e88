"""Hints that a backend should be settled, or its cluster's queues synced, soon. They only make it quick; the beat finds
what a lost hint left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

SETTLE_ONE = "scheduling.settle"
SYNC_ONE = "scheduling.sync_queues"
SYNC_BY_HAND = "scheduling.sync_queues_by_hand"
TEST_ONE = "scheduling.test_connection"
_MOVED = "osmo:moved"  # the channel on which agents of clusters are woken
_LISTEN = 0.5  # seconds; shorter than the time after which a silent connection counts as broken
_QUEUED_FOR = 5  # seconds after which a hint that nobody took may be given again
_PAUSE = 5.0  # seconds without hints after a broker that did not answer: requests must not wait for it again and again


@dataclass
class _Silence:
    """Until when (monotonic seconds) this process does not ask the broker."""

    until: float = 0.0


_silence = _Silence()


def ask_to_settle(backend_id: int) -> None:
    """Queue a settling unless one is queued already. A broker that is away costs speed, never work."""
    _ask(SETTLE_ONE, backend_id)


def taken(backend_id: int) -> None:
    """A settling begins: later changes need another hint."""
    _taken(SETTLE_ONE, backend_id)


def is_asked(backend_id: int) -> bool:
    """A hint to settle was given since the last one was taken."""
    return _is_asked(SETTLE_ONE, backend_id)


def ask_to_sync(backend_id: int) -> None:
    """Queue a sync of a cluster's queues unless one is queued already."""
    _ask(SYNC_ONE, backend_id)


def ask_to_test(backend_id: int) -> None:
    """Queue a test of a cluster's connection unless one is queued already."""
    _ask(TEST_ONE, backend_id)


def taken_to_test(backend_id: int) -> None:
    """A test begins: whoever asks from now on gets another one."""
    _taken(TEST_ONE, backend_id)


def ask_to_reapply(backend_id: int, queues: list[str] | None) -> None:
    """Queue a sync that somebody asks for by hand; `queues` None is all of them. Such a wish is never merged."""
    _send(SYNC_BY_HAND, [backend_id, queues])


def taken_to_sync(backend_id: int) -> None:
    """A sync begins: later changes need another hint."""
    _taken(SYNC_ONE, backend_id)


def is_asked_to_sync(backend_id: int) -> bool:
    """A hint to sync was given since the last one was taken."""
    return _is_asked(SYNC_ONE, backend_id)


def _ask(task: str, backend_id: int) -> None:
    if time.monotonic() < _silence.until:
        return
    try:
        if not _broker().set(_key(task, backend_id), 1, nx=True, ex=_QUEUED_FOR):
            return
    except redis.RedisError as error:
        _fall_silent(error)
        return
    _send(task, [backend_id])


def _send(task: str, arguments: list[Any]) -> None:
    try:
        current_app.send_task(task, arguments, retry=False)
    except (redis.RedisError, OperationalError) as error:
        _fall_silent(error)


def _fall_silent(error: Exception) -> None:
    _silence.until = time.monotonic() + _PAUSE
    logger.warning("broker is away, the beat will see to what was asked: %s", error)


def _taken(task: str, backend_id: int) -> None:
    try:
        _broker().delete(_key(task, backend_id))
    except redis.RedisError as error:
        logger.warning("could not take the hint of backend %s: %s", backend_id, error)


def _is_asked(task: str, backend_id: int) -> bool:
    try:
        return bool(_broker().exists(_key(task, backend_id)))
    except redis.RedisError:
        return False


@cache
def _broker() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def _key(task: str, backend_id: int) -> str:
    return f"osmo:hint:{task}:{backend_id}"


def tell_agent(backend_id: int) -> None:
    """Wake the agent of a cluster, in whichever process it works. It looks by itself if nobody hears this."""
    try:
        _broker().publish(_MOVED, backend_id)
    except redis.RedisError as error:
        logger.warning("could not wake the agent of backend %s: %s", backend_id, error)


def heard_moves(wake: Callable[[int], None], stop: threading.Event) -> None:
    """Call `wake` with each backend that an agent is told about, until told to stop. A broker that is away is waited
    for."""
    while not stop.is_set():
        try:
            with _broker().pubsub(ignore_subscribe_messages=True) as told:  # type: ignore[no-untyped-call]
                told.subscribe(_MOVED)
                while not stop.is_set():
                    message = told.get_message(timeout=_LISTEN)
                    if message is not None:
                        wake(int(message["data"]))
        except (redis.RedisError, ValueError) as error:
            logger.info("hears no hints for agents: %s", error)
            stop.wait(_PAUSE)
