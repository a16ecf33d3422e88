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

RECONCILE_TASK = "scheduling.settle"
QUEUE_SYNC_TASK = "scheduling.sync_queues"
MANUAL_QUEUE_SYNC_TASK = "scheduling.sync_queues_by_hand"
CONNECTION_TEST_TASK = "scheduling.test_connection"
_WAKE_CHANNEL = "osmo:moved"  # the channel on which agents of clusters are woken
_LISTEN_TIMEOUT = 0.5  # seconds; shorter than the time after which a silent connection counts as broken
_REQUEST_LIFETIME = 5  # seconds after which a hint that nobody took may be given again
_BROKER_PAUSE = (
    5.0  # seconds without hints after a broker that did not answer: requests must not wait for it again and again
)


@dataclass
class _BrokerPause:
    """Until when (monotonic seconds) this process does not ask the broker."""

    until: float = 0.0


_broker_pause = _BrokerPause()


def enqueue_reconcile(backend_id: int) -> None:
    """Queue a settling unless one is queued already. A broker that is away costs speed, never work."""
    _enqueue(RECONCILE_TASK, backend_id)


def reconcile_started(backend_id: int) -> None:
    """A settling begins: later changes need another hint."""
    _forget_request(RECONCILE_TASK, backend_id)


def is_reconcile_requested(backend_id: int) -> bool:
    """A hint to settle was given since the last one was taken."""
    return _is_requested(RECONCILE_TASK, backend_id)


def enqueue_queue_sync(backend_id: int) -> None:
    """Queue a sync of a cluster's queues unless one is queued already."""
    _enqueue(QUEUE_SYNC_TASK, backend_id)


def enqueue_connection_test(backend_id: int) -> None:
    """Queue a test of a cluster's connection unless one is queued already."""
    _enqueue(CONNECTION_TEST_TASK, backend_id)


def connection_test_started(backend_id: int) -> None:
    """A test begins: whoever asks from now on gets another one."""
    _forget_request(CONNECTION_TEST_TASK, backend_id)


def enqueue_manual_queue_sync(backend_id: int, queues: list[str] | None) -> None:
    """Queue a sync that somebody asks for by hand; `queues` None is all of them. Such a wish is never merged."""
    _send(MANUAL_QUEUE_SYNC_TASK, [backend_id, queues])


def queue_sync_started(backend_id: int) -> None:
    """A sync begins: later changes need another hint."""
    _forget_request(QUEUE_SYNC_TASK, backend_id)


def is_queue_sync_requested(backend_id: int) -> bool:
    """A hint to sync was given since the last one was taken."""
    return _is_requested(QUEUE_SYNC_TASK, backend_id)


def _enqueue(task: str, backend_id: int) -> None:
    if time.monotonic() < _broker_pause.until:
        return
    try:
        if not _broker().set(_key(task, backend_id), 1, nx=True, ex=_REQUEST_LIFETIME):
            return
    except redis.RedisError as error:
        _pause_broker(error)
        return
    _send(task, [backend_id])


def _send(task: str, arguments: list[Any]) -> None:
    try:
        current_app.send_task(task, arguments, retry=False)
    except (redis.RedisError, OperationalError) as error:
        _pause_broker(error)


def _pause_broker(error: Exception) -> None:
    _broker_pause.until = time.monotonic() + _BROKER_PAUSE
    logger.warning("broker is away, the beat will see to what was asked: %s", error)


def _forget_request(task: str, backend_id: int) -> None:
    try:
        _broker().delete(_key(task, backend_id))
    except redis.RedisError as error:
        logger.warning("could not take the hint of backend %s: %s", backend_id, error)


def _is_requested(task: str, backend_id: int) -> bool:
    try:
        return bool(_broker().exists(_key(task, backend_id)))
    except redis.RedisError:
        return False


@cache
def _broker() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)


def _key(task: str, backend_id: int) -> str:
    return f"osmo:hint:{task}:{backend_id}"


def wake_agent(backend_id: int) -> None:
    """Wake the agent of a cluster, in whichever process it works. It looks by itself if nobody hears this."""
    try:
        _broker().publish(_WAKE_CHANNEL, backend_id)
    except redis.RedisError as error:
        logger.warning("could not wake the agent of backend %s: %s", backend_id, error)


def listen_for_wakeups(wake: Callable[[int], None], stop: threading.Event) -> None:
    """Call `wake` with each backend that an agent is told about, until told to stop. A broker that is away is waited
    for."""
    while not stop.is_set():
        try:
            with _broker().pubsub(ignore_subscribe_messages=True) as told:  # type: ignore[no-untyped-call]
                told.subscribe(_WAKE_CHANNEL)
                while not stop.is_set():
                    message = told.get_message(timeout=_LISTEN_TIMEOUT)
                    if message is not None:
                        wake(int(message["data"]))
        except (redis.RedisError, ValueError) as error:
            logger.info("hears no hints for agents: %s", error)
            stop.wait(_BROKER_PAUSE)
