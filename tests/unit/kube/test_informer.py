"""An informer follows a cluster through every failure of the cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduling.kube.connection import errors
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.port import WatchEvent, WatchEventType
from scheduling.kube.connection.resource_kinds import POD
from scheduling.kube.informer import Informer, InformerTiming
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import wait_for

QUICK = InformerTiming(watch_seconds=0.2, relist_seconds=600, first_pause=0.01, max_pause=0.05)


class FailingCluster:
    """A fake cluster whose calls fail on request: `failures` are raised by the next calls, one each."""

    def __init__(self) -> None:
        self.fake = FakeCluster(namespaces=["n"])
        self.failures: list[Exception] = []
        self.lists = 0
        self.watches = 0
        self._break: Exception | None = None

    def list(self, *args: Any, **kwargs: Any) -> Any:
        self._fail()
        self.lists += 1
        return self.fake.list(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Iterator[WatchEvent]:
        self._fail()
        self.watches += 1
        for event in self.fake.watch(*args, **kwargs):
            if self._break is not None:
                failure, self._break = self._break, None
                raise failure
            yield event

    def break_watch(self, failure: Exception) -> None:
        """The present watch fails with its next event, which gets lost."""
        self._break = failure
        create_pod(self, f"lost-{self.watches}")

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def create_pod(flaky: FailingCluster, name: str, **labels: str) -> None:
    body = {"metadata": {"name": name, "namespace": "n", "labels": labels or {"ours": "yes"}}, "spec": {}}
    flaky.fake.create(POD, body, field_manager="us")


@contextmanager
def running_informer(flaky: FailingCluster, pace: InformerTiming = QUICK) -> Iterator[tuple[Informer[str], list[str]]]:
    changed: list[str] = []
    informer = Informer(
        POD,
        connect=lambda: flaky,
        key_of=_name,
        on_change=changed.append,
        namespace="n",
        labels="ours=yes",
        timing=pace,  # type: ignore[arg-type, return-value]
    )
    stop = threading.Event()
    thread = threading.Thread(target=informer.run, args=[stop], daemon=True)
    thread.start()
    try:
        yield informer, changed
    finally:
        stop.set()
        if pace.watch_seconds > 1:
            create_pod(flaky, "last")  # a watch ends at its next event
        thread.join(30)
        assert not thread.is_alive()


def names(informer: Informer[str]) -> set[str]:
    return set(informer.objects())


def wait_for_names(informer: Informer[str], *wanted: str) -> None:
    wait_for(
        lambda: informer.has_synced and names(informer) == set(wanted), description=f"{wanted} are in the informer"
    )


def test_it_lists_then_follows() -> None:
    flaky = FailingCluster()
    create_pod(flaky, "a")
    create_pod(flaky, "other", ours="no")
    with running_informer(flaky) as (informer, changed):
        wait_for_names(informer, "a")
        create_pod(flaky, "b")
        wait_for_names(informer, "a", "b")
        flaky.fake.merge(POD, "a", {"status": {"phase": "Running"}}, field_manager="us", namespace="n", status=True)
        wait_for(lambda: (informer.get("a") or {}).get("status"))
        flaky.fake.delete(POD, "a", namespace="n")
        wait_for_names(informer, "b")
    assert changed == ["a", "b", "a", "a"]
    assert flaky.lists == 1
    assert all("managedFields" not in item["metadata"] for item in informer.objects().values())


def test_a_watch_that_ends_goes_on_from_its_place() -> None:
    flaky = FailingCluster()
    with running_informer(flaky, InformerTiming(watch_seconds=0.05, relist_seconds=600)) as (informer, _):
        wait_for(lambda: flaky.watches > 3)
        create_pod(flaky, "a")
        wait_for_names(informer, "a")
    assert flaky.lists == 1


@pytest.mark.parametrize("failure", [errors.Unreachable("it broke"), errors.ServerError("etcd", status=500)])
def test_one_broken_connection_costs_no_list(failure: Exception) -> None:
    flaky = FailingCluster()
    with running_informer(flaky) as (informer, _):
        wait_for(lambda: flaky.watches)
        flaky.failures.append(failure)
        create_pod(flaky, "a")
        wait_for_names(informer, "a")
        wait_for(lambda: not flaky.failures and flaky.watches > 2)
    assert flaky.lists == 1


def test_one_broken_connection_is_no_error() -> None:
    """The watch is resumed, and its end may be minutes away: the cluster would count as failed until then."""
    flaky = FailingCluster()
    with running_informer(flaky, InformerTiming(watch_seconds=30, first_pause=0.01)) as (informer, _):
        wait_for(lambda: flaky.watches)
        flaky.break_watch(errors.Unreachable("it broke"))
        wait_for_names(informer, "lost-1")
        assert (flaky.watches, flaky.lists, informer.error) == (2, 1, None)


def test_a_silent_watch_is_listed_anew_and_no_error() -> None:
    """Not every API server sends bookmarks of a kind without events."""
    flaky = FailingCluster()
    with running_informer(flaky, InformerTiming(watch_seconds=30, first_pause=30)) as (informer, _):
        wait_for(lambda: flaky.watches)
        flaky.break_watch(errors.SilentWatch("no answer in time"))
        wait_for(lambda: flaky.watches == 2)
        assert (flaky.lists, informer.error) == (2, None)


def test_an_event_ends_an_error() -> None:
    flaky = FailingCluster()
    with running_informer(flaky, InformerTiming(watch_seconds=30, first_pause=0.01)) as (informer, _):
        wait_for(lambda: flaky.watches)
        informer.error = errors.Unreachable("before")
        create_pod(flaky, "a")
        wait_for_names(informer, "a")
        wait_for(lambda: informer.error is None)


@pytest.mark.parametrize(
    "failures",
    [
        [errors.ResourceVersionExpired("too old", status=410)],
        [errors.Unreachable("away"), errors.Unreachable("still away")],
        [errors.Unauthorized("token expired", status=401)],
        [errors.KindMissing("no such kind", status=404)],
        [errors.TooManyRequests("slowly", status=429, retry_after=0.01)],
        [errors.ServerError("etcd", status=500), errors.ServerError("etcd", status=500)],
    ],
)
def test_after_anything_else_it_lists_anew(failures: list[Exception]) -> None:
    flaky = FailingCluster()
    create_pod(flaky, "old")
    with running_informer(flaky) as (informer, changed):
        wait_for_names(informer, "old")
        flaky.failures += failures
        wait_for(lambda: not flaky.failures)
        flaky.fake.expire_history()
        flaky.fake.delete(POD, "old", namespace="n")
        create_pod(flaky, "new")
        flaky.fake.expire_history()
        wait_for_names(informer, "new")
        wait_for(lambda: informer.error is None)
    assert {"old", "new"} <= set(changed)
    assert flaky.lists >= 2


def test_the_informer_reports_its_failure() -> None:
    flaky = FailingCluster()
    flaky.failures += [errors.AccessDenied("pods is forbidden", status=403)] * 1000
    with running_informer(flaky) as (informer, _):
        wait_for(lambda: informer.error is not None)
        assert str(informer.error) == "pods is forbidden"
        assert not informer.has_synced
        flaky.failures.clear()
        wait_for(lambda: informer.has_synced and informer.error is None)


def test_without_a_connection_it_waits() -> None:
    flaky = FailingCluster()
    connections: list[Any] = [None]
    informer = Informer(POD, connect=lambda: connections[-1], key_of=_name, on_change=lambda _: None, timing=QUICK)
    stop = threading.Event()
    thread = threading.Thread(target=informer.run, args=[stop], daemon=True)
    thread.start()
    wait_for(lambda: isinstance(informer.error, errors.Unreachable))
    connections.append(flaky)
    wait_for(lambda: informer.has_synced)
    stop.set()
    thread.join(30)


class SilentWatchCluster(FailingCluster):
    """A cluster whose watches send only signs of life."""

    def watch(self, *args: Any, **kwargs: Any) -> Iterator[WatchEvent]:
        for event in super().watch(*args, **kwargs):
            if event.type is WatchEventType.BOOKMARK:
                yield event


def test_changes_without_an_event_are_found_by_the_next_list() -> None:
    deaf = SilentWatchCluster()
    with running_informer(deaf, InformerTiming(watch_seconds=0.05, relist_seconds=0.1)) as (informer, changed):
        wait_for(lambda: deaf.watches)
        create_pod(deaf, "a")
        wait_for_names(informer, "a")
        deaf.fake.delete(POD, "a", namespace="n")
        wait_for_names(informer)
    assert changed == ["a", "a"]


def test_the_last_states_of_deleted_objects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads and forgets them while another kind cannot be listed."""
    monkeypatch.setattr("scheduling.kube.informer.MAX_DELETED", 3)
    informer = Informer(
        POD, connect=FailingCluster, key_of=_name, on_change=lambda _: None, keeps_deleted=lambda _: True
    )
    for number in range(5):
        item = {"metadata": {"name": f"p{number}", "uid": f"u{number}", "resourceVersion": "1"}}
        informer._apply_event(item, is_deleted=True)
    assert list(informer.deleted()) == ["u2", "u3", "u4"]
    informer.forget_deleted(["u3"])
    assert list(informer.deleted()) == ["u2", "u4"]


def test_objects_are_found_by_their_index() -> None:
    flaky = FailingCluster()
    changed: list[str] = []
    informer = Informer(
        POD,
        connect=lambda: flaky,
        key_of=lambda item: item["metadata"]["labels"].get("of", ""),
        on_change=changed.append,  # type: ignore[arg-type, return-value]
    )
    for name in ("b", "a"):
        create_pod(flaky, name, of="x")
    informer.relist()
    assert [item["metadata"]["name"] for item in informer.by_key("x")] == ["a", "b"]
    flaky.fake.merge(POD, "a", {"metadata": {"labels": {"of": "y"}}}, field_manager="us", namespace="n")
    flaky.fake.delete(POD, "b", namespace="n")
    changed.clear()
    informer.relist()
    assert (informer.keys(), set(changed)) == ({"y"}, {"x", "y"})
    assert informer.by_key("x") == []


def test_pauses_grow_and_differ() -> None:
    backoff = Backoff(1, 10)
    pauses = [backoff.next_pause() for _ in range(6)]
    for pause, longest in zip(pauses, [1, 2, 4, 8, 10, 10], strict=True):
        assert longest / 2 <= pause <= longest
    assert backoff.next_pause(at_least=99) == 99
    backoff.reset()
    assert backoff.next_pause() <= 1
    assert len({Backoff(1, 10).next_pause() for _ in range(20)}) > 1


@pytest.mark.parametrize("failure", [KeyError("metadata"), RecursionError("deep")])
def test_it_goes_on_after_an_error_that_nobody_foresaw(failure: Exception) -> None:
    """The end of its thread would be noticed by nobody: the agent would work with old pods from then on."""
    flaky = FailingCluster()
    flaky.failures = [failure]
    with running_informer(flaky) as (informer, _):
        wait_for_names(informer)
        flaky.break_watch(failure)
        create_pod(flaky, "later")
        wait_for_names(informer, "lost-1", "later")
    assert informer.error is None


def test_watches_that_end_at_once_are_followed_by_lists_with_pauses() -> None:
    """A proxy that ends every watch brings no event: lists do, and they are not repeated without a pause."""

    class BriefCluster(FailingCluster):
        def watch(self, *args: Any, **kwargs: Any) -> Iterator[WatchEvent]:
            self.watches += 1
            return iter(())

    cluster, began = BriefCluster(), time.monotonic()
    timing = InformerTiming(watch_seconds=240, relist_seconds=600, first_pause=0.02, max_pause=0.2)
    with running_informer(cluster, timing) as (informer, _):
        wait_for(lambda: informer.has_synced)
        create_pod(cluster, "new")
        wait_for(lambda: informer.get("new") is not None)
        threading.Event().wait(0.6)
        assert informer.error is None
    assert cluster.watches <= 6 + (time.monotonic() - began) / 0.1
