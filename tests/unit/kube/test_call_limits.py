"""The limits of our own calls to a cluster: rate, urgency, and pauses that the API server asks for."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from scheduling.kube.connection import errors
from scheduling.kube.connection.call_limits import MAX_WAIT_SECONDS, CallClass, CallLimiter, call_class
from scheduling.kube.connection.resource_kinds import EVENT, GPU_RESOURCE_QUOTA, POD, POD_GROUP, QUEUE
from scheduling.kube.connection.token_bucket import TokenBucket


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def limiter_of(clock: Clock, rate: float = 10, label: str = "") -> CallLimiter:
    return CallLimiter(label, rate, clock=clock, sleep=clock.sleep)


def wait_time(clock: Clock, limiter: CallLimiter, of: CallClass) -> float:
    began = clock.now
    limiter.wait(of)
    return clock.now - began


def test_the_rate_holds_after_the_burst() -> None:
    clock = Clock()
    limiter = limiter_of(clock)
    assert sum(wait_time(clock, limiter, CallClass.WORK) for _ in range(20)) == 0
    assert sum(wait_time(clock, limiter, CallClass.WORK) for _ in range(10)) == pytest.approx(1.0)


def test_urgent_calls_go_out_while_others_wait() -> None:
    """Each class leaves a part of the bucket to the more urgent ones."""
    clock = Clock()
    limiter = limiter_of(clock)
    immediate = {}
    for of in sorted(CallClass, reverse=True):
        immediate[of] = 0
        while limiter._bucket.try_take(_reserved(limiter, of)) == 0:
            immediate[of] += 1
    assert list(immediate) == sorted(CallClass, reverse=True)
    assert all(immediate.values()), "when the less urgent ones must wait, a more urgent one does not"


def _reserved(limiter: CallLimiter, of: CallClass) -> float:
    from scheduling.kube.connection.call_limits import _RESERVED

    return _RESERVED[of] * limiter._burst


def test_no_class_starves() -> None:
    clock = Clock()
    limiter = limiter_of(clock)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        while limiter._bucket.try_take() == 0:  # urgent calls take every token
            pass

    limiter._sleep = sleep
    sleep(0)
    assert wait_time(clock, limiter, CallClass.EVENT) == pytest.approx(MAX_WAIT_SECONDS, abs=2)


@pytest.mark.parametrize(
    ("verb", "kind", "expected"),
    [
        ("create", POD, CallClass.WORK),
        ("delete", POD_GROUP, CallClass.WORK),
        ("patch", POD, CallClass.WORK),
        ("get", None, CallClass.WORK),
        ("apply", QUEUE, CallClass.WRITE),
        ("patch", GPU_RESOURCE_QUOTA, CallClass.STATUS),
        ("list", POD, CallClass.LIST),
        ("watch", QUEUE, CallClass.LIST),
        ("create", EVENT, CallClass.EVENT),
    ],
)
def test_the_class_of_a_call(verb: str, kind: object, expected: CallClass) -> None:
    assert call_class(verb, kind) is expected  # type: ignore[arg-type]


def test_a_pause_that_the_server_asks_for_spares_more_urgent_calls() -> None:
    clock = Clock()
    limiter = limiter_of(clock, label="paused")
    limiter.pause(CallClass.LIST, 7)
    for of in (CallClass.LIST, CallClass.EVENT):
        with pytest.raises(errors.TooManyRequests) as refused:
            limiter.wait(of)
        assert refused.value.retry_after == pytest.approx(7)
    assert wait_time(clock, limiter, CallClass.STATUS) == 0
    clock.now += 7
    assert wait_time(clock, limiter, CallClass.LIST) == 0
    labels = {"backend": "paused", "urgency": "list"}
    assert REGISTRY.get_sample_value("osmo_cluster_pauses_total", labels) == 1


def test_a_bucket_says_when_a_token_comes() -> None:
    clock = Clock()
    bucket = TokenBucket(2, 1, clock)
    assert bucket.try_take() == 0
    assert bucket.try_take() == pytest.approx(0.5)
    clock.now += 0.5
    assert bucket.try_take() == 0
