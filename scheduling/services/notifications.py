"""Requests for background work that should start soon: reconcile a simulated backend, sync the queues of a cluster,
wake the agent of a cluster. Requests only save time: the periodic tasks also find the work of a lost request."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

import redis
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

from pools.database.prepared import Row, read_rows
from pools.models import Backend
from scheduling.services.simulated.dirty import Scope

logger = logging.getLogger(__name__)

RECONCILE_TASK = "scheduling.settle"
FOLLOW_LEDGER_TASK = "scheduling.follow_ledger"
QUEUE_SYNC_TASK = "scheduling.sync_queues"
MANUAL_QUEUE_SYNC_TASK = "scheduling.sync_queues_by_hand"
CONNECTION_TEST_TASK = "scheduling.test_connection"
HISTORY_REPLAY_TASK = "scheduling.replay_history"
_WAKE_CHANNEL = "osmo:moved"  # the channel on which agents of clusters are woken
_ANSWERS_CHANNEL = "osmo:cluster-answers"  # the channel on which the end of a cluster's outage is announced
_LISTEN_TIMEOUT = 0.5  # seconds; shorter than the time after which a silent connection counts as broken
# A request is a key until a task takes it, so that a run sees at its end that another one was requested. Its task is
# sent again after a moment: the first one may have vanished with its worker or its broker. A second does no harm.
_REQUEST_LIFETIME = 60  # seconds
_SEND_INTERVAL = 1  # seconds between two tasks of the same request
_RECONCILE_INTERVAL = 200  # milliseconds between the beginnings of two reconciliations of a backend
_POSTPONE_FACTOR = 4  # the pause after a reconciliation that started nothing, as a multiple of its duration
_LONGEST_PAUSE = 1000  # milliseconds
_PERIODIC_KEY = f"{RECONCILE_TASK}-{Scope.TICK}"
_PERIODIC_LIFETIME = 20  # seconds after which a periodic reconciliation is queued again; its message may be lost
_BROKER_PAUSE = 5.0  # seconds without requests after a broker did not answer, so that web requests do not wait for it


class Broker:
    """The connection of this process to the Redis broker. After an error it makes no requests for a pause.

    One instance, :data:`broker`, belongs to the process; every function of this module uses it.
    """

    def __init__(self) -> None:
        self._client: redis.Redis | None = None
        self._paused_until = 0.0  # monotonic seconds

    @property
    def client(self) -> redis.Redis:
        """The connection, made on first use."""
        if self._client is None:
            self._client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)
        return self._client

    @property
    def is_paused(self) -> bool:
        """Whether a request failed recently."""
        return time.monotonic() < self._paused_until

    def pause(self, error: Exception) -> None:
        """Make no requests for a while."""
        self._paused_until = time.monotonic() + _BROKER_PAUSE
        logger.warning("the broker does not answer; periodic tasks will do the requested work: %s", error)

    def reset(self) -> None:
        """Forget the connection and the pause."""
        self._client, self._paused_until = None, 0.0


broker = Broker()


def backends_changed(backend_ids: Collection[int]) -> None:
    """Request work on these backends: a reconciliation of a simulated backend, the agent and the queue sync of a
    cluster."""
    if not backend_ids or broker.is_paused:
        return
    for backend_id, kind in _kinds(backend_ids):
        if kind == Backend.Kind.SIMULATED:
            enqueue_reconcile(backend_id)
        else:
            _enqueue(FOLLOW_LEDGER_TASK, backend_id)
            wake_agent(backend_id)


def _kinds(backend_ids: Collection[int]) -> list[Row]:
    """(id, kind) of these backends; a prepared statement, because every submission runs it."""
    return read_rows("SELECT id, kind FROM pools_backend WHERE id = ANY(%s) ORDER BY id", [list(backend_ids)])


def enqueue_reconcile(backend_id: int) -> None:
    """Queue a reconciliation unless one is queued already. Without a broker the work starts later, but is never
    lost."""
    _enqueue(RECONCILE_TASK, backend_id)


def enqueue_periodic_reconcile(backend_id: int) -> None:
    """Queue a reconciliation in the scope of the periodic task, unless such a one waits in the queue: however slow the
    workers are, the queue does not grow with every tick."""
    if broker.is_paused:
        return
    try:
        if not broker.client.set(_sent_key(_PERIODIC_KEY, backend_id), 1, nx=True, ex=_PERIODIC_LIFETIME):
            return
    except redis.RedisError as error:
        broker.pause(error)
        return
    _send(RECONCILE_TASK, [backend_id, Scope.TICK])


def periodic_reconcile_started(backend_id: int) -> None:
    """A reconciliation in the scope of the periodic task begins: the next tick may queue another one."""
    try:
        broker.client.delete(_sent_key(_PERIODIC_KEY, backend_id))
    except redis.RedisError as error:
        logger.warning("could not delete the request for backend %s: %s", backend_id, error)


def reconcile_started(backend_id: int) -> None:
    """A reconciliation begins: later changes need another request."""
    _forget_request(RECONCILE_TASK, backend_id)


def await_reconcile_turn(backend_id: int) -> None:
    """Wait until the last reconciliation of this backend has begun `_RECONCILE_INTERVAL` ago, in whichever process, so
    that a stream of submissions shares its reads and plans. The first one of a pause begins at once, and without a
    broker nobody waits."""
    key = _turn_key(backend_id)
    try:
        while not broker.client.set(key, 1, nx=True, px=_RECONCILE_INTERVAL):
            time.sleep(max(1, broker.client.pttl(key)) / 1000)  # -2 if it has just expired
    except redis.RedisError as error:
        logger.warning("could not wait for a turn on backend %s: %s", backend_id, error)


def postpone_reconcile(backend_id: int, seconds: float) -> None:
    """The next reconciliation of this backend begins after a pause, because the last one took `seconds` and had
    nothing to do. A stream of submissions to a full backend would keep the worker and the database busy with reading
    all running work. The pause ends after `_LONGEST_PAUSE`, so free capacity is used after that time at the latest."""
    pause = min(_LONGEST_PAUSE, round(_POSTPONE_FACTOR * seconds * 1000))
    if pause <= _RECONCILE_INTERVAL:
        return
    try:
        broker.client.set(_turn_key(backend_id), 1, px=pause)
    except redis.RedisError as error:
        logger.warning("could not postpone the next turn of backend %s: %s", backend_id, error)


def is_reconcile_postponed(backend_id: int, scope: Scope) -> bool:
    """Whether the next turn of this backend is farther away than a turn of a stream. Its task comes again then, so that
    no process of the worker waits for it."""
    try:
        pause = broker.client.pttl(_turn_key(backend_id))
        if pause <= _RECONCILE_INTERVAL:
            return False
        is_first = broker.client.set(f"osmo:hint-later:{RECONCILE_TASK}:{backend_id}:{scope}", 1, nx=True, px=pause)
    except redis.RedisError as error:
        logger.warning("could not see the next turn of backend %s: %s", backend_id, error)
        return False
    if is_first:
        _send(RECONCILE_TASK, [backend_id, scope], countdown=pause / 1000)
    return True


def is_reconcile_requested(backend_id: int) -> bool:
    """Whether a reconciliation was requested since the last one began."""
    return _is_requested(RECONCILE_TASK, backend_id)


def follow_started(backend_id: int) -> None:
    """The queues of a cluster are compared with the ledger: later changes need another request."""
    _forget_request(FOLLOW_LEDGER_TASK, backend_id)


def enqueue_queue_sync(backend_id: int) -> None:
    """Queue a sync of a cluster's queues unless one is queued already."""
    _enqueue(QUEUE_SYNC_TASK, backend_id)


def enqueue_connection_test(backend_id: int) -> None:
    """Queue a test of a cluster's connection unless one is queued already."""
    _enqueue(CONNECTION_TEST_TASK, backend_id)


def connection_test_started(backend_id: int) -> None:
    """A test begins: a later request gets another test."""
    _forget_request(CONNECTION_TEST_TASK, backend_id)


def enqueue_history_replay(replay_id: UUID) -> None:
    """Queue a replay. A second message does no harm, because one process takes it."""
    _send(HISTORY_REPLAY_TASK, [str(replay_id)])


def enqueue_manual_queue_sync(backend_id: int, queues: list[str] | None) -> None:
    """Queue a sync that a person requested; `queues` None is all of them. Such requests are never merged."""
    _send(MANUAL_QUEUE_SYNC_TASK, [backend_id, queues])


def queue_sync_started(backend_id: int) -> None:
    """A sync begins: later changes need another request."""
    _forget_request(QUEUE_SYNC_TASK, backend_id)


def is_queue_sync_requested(backend_id: int) -> bool:
    """Whether a sync was requested since the last one began."""
    return _is_requested(QUEUE_SYNC_TASK, backend_id)


def wake_agent(backend_id: int) -> None:
    """Wake the agent of a cluster, in whichever process it runs. An agent that misses the message finds the change with
    its next regular comparison."""
    _publish(_WAKE_CHANNEL, backend_id)


def cluster_answers(backend_id: int) -> None:
    """The cluster answers after an outage: loops of all processes that wait in a pause after a failure there try again.
    A loop that misses the message waits for the end of its pause."""
    _publish(_ANSWERS_CHANNEL, backend_id)


def _publish(channel: str, backend_id: int) -> None:
    if broker.is_paused:
        return
    try:
        broker.client.publish(channel, backend_id)
    except redis.RedisError as error:
        broker.pause(error)


def listen_for_wakeups(wake: Callable[[int], None], answers: Callable[[int], None], stop: threading.Event) -> None:
    """Call `wake` with each backend whose agent is woken, and `answers` with each backend whose outage has ended, until
    `stop` is set. While the broker does not answer, the connection is tried again."""
    while not stop.is_set():
        try:
            with broker.client.pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
                channel.subscribe(_WAKE_CHANNEL, _ANSWERS_CHANNEL)
                while not stop.is_set():
                    message = channel.get_message(timeout=_LISTEN_TIMEOUT)
                    if message is not None:
                        is_wakeup = message["channel"] == _WAKE_CHANNEL.encode()
                        (wake if is_wakeup else answers)(int(message["data"]))
        except (redis.RedisError, ValueError) as error:
            logger.info("cannot listen for requests to agents: %s", error)
            stop.wait(_BROKER_PAUSE)


def _enqueue(task: str, backend_id: int) -> None:
    if broker.is_paused:
        return
    try:
        with broker.client.pipeline(transaction=False) as pipeline:
            pipeline.set(_key(task, backend_id), 1, ex=_REQUEST_LIFETIME)
            pipeline.set(_sent_key(task, backend_id), 1, nx=True, ex=_SEND_INTERVAL)
            is_new = pipeline.execute()[1]
        if not is_new:
            return
    except redis.RedisError as error:
        broker.pause(error)
        return
    _send(task, [backend_id])


def _send(task: str, arguments: list[Any], *, countdown: float | None = None) -> None:
    try:
        current_app.send_task(task, arguments, retry=False, countdown=countdown)
    except (redis.RedisError, OperationalError) as error:
        broker.pause(error)


def _forget_request(task: str, backend_id: int) -> None:
    try:
        broker.client.delete(_key(task, backend_id), _sent_key(task, backend_id))
    except redis.RedisError as error:
        logger.warning("could not delete the request for backend %s: %s", backend_id, error)


def _is_requested(task: str, backend_id: int) -> bool:
    try:
        return bool(broker.client.exists(_key(task, backend_id)))
    except redis.RedisError:
        return False


def _key(task: str, backend_id: int) -> str:
    return f"osmo:hint:{task}:{backend_id}"


def _turn_key(backend_id: int) -> str:
    return f"osmo:hint-turn:{RECONCILE_TASK}:{backend_id}"


def _sent_key(task: str, backend_id: int) -> str:
    return f"osmo:hint-sent:{task}:{backend_id}"
