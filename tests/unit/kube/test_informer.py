"""A mirror keeps up with a cluster whatever the cluster does to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduling.kube import errors
from scheduling.kube.backoff import Backoff
from scheduling.kube.fake import FakeCluster
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.kube.port import WatchEvent, WatchEventType
from scheduling.kube.resource_kinds import POD
from tests.support.kube_server import wait_for

QUICK = InformerTiming(watch_seconds=0.2, relist_seconds=600, first_pause=0.01, max_pause=0.05)


class FailingCluster:
    """A twin whose calls fail as told: `failures` are raised by the next calls, one each."""

    def __init__(self) -> None:
        self.twin = FakeCluster(namespaces=["n"])
        self.failures: list[Exception] = []
        self.lists = 0
        self.watches = 0

    def list(self, *args: Any, **kwargs: Any) -> Any:
        self._fail()
        self.lists += 1
        return self.twin.list(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Iterator[WatchEvent]:
        self._fail()
        self.watches += 1
        return self.twin.watch(*args, **kwargs)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def create_pod(shaky: FailingCluster, name: str, **labels: str) -> None:
    body = {"metadata": {"name": name, "namespace": "n", "labels": labels or {"ours": "yes"}}, "spec": {}}
    shaky.twin.create(POD, body, field_manager="us")


@contextmanager
def running_informer(shaky: FailingCluster, pace: InformerTiming = QUICK) -> Iterator[tuple[Informer[str], list[str]]]:
    changed: list[str] = []
    mirror = Informer(
        POD,
        connect=lambda: shaky,
        key_of=_name,
        on_change=changed.append,
        namespace="n",
        labels="ours=yes",
        timing=pace,  # type: ignore[arg-type, return-value]
    )
    stop = threading.Event()
    thread = threading.Thread(target=mirror.run, args=[stop], daemon=True)
    thread.start()
    try:
        yield mirror, changed
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def names(mirror: Informer[str]) -> set[str]:
    return set(mirror.objects())


def wait_for_names(mirror: Informer[str], *wanted: str) -> None:
    wait_for(lambda: mirror.has_synced and names(mirror) == set(wanted), description=f"{wanted} are mirrored")


def test_it_lists_then_follows() -> None:
    shaky = FailingCluster()
    create_pod(shaky, "a")
    create_pod(shaky, "other", ours="no")
    with running_informer(shaky) as (mirror, changed):
        wait_for_names(mirror, "a")
        create_pod(shaky, "b")
        wait_for_names(mirror, "a", "b")
        shaky.twin.merge(POD, "a", {"status": {"phase": "Running"}}, field_manager="us", namespace="n", status=True)
        wait_for(lambda: (mirror.get("a") or {}).get("status"))
        shaky.twin.delete(POD, "a", namespace="n")
        wait_for_names(mirror, "b")
    assert changed == ["a", "b", "a", "a"]
    assert shaky.lists == 1
    assert all("managedFields" not in item["metadata"] for item in mirror.objects().values())


def test_a_watch_that_ends_goes_on_from_its_place() -> None:
    shaky = FailingCluster()
    with running_informer(shaky, InformerTiming(watch_seconds=0.05, relist_seconds=600)) as (mirror, _):
        wait_for(lambda: shaky.watches > 3)
        create_pod(shaky, "a")
        wait_for_names(mirror, "a")
    assert shaky.lists == 1


def test_one_broken_connection_costs_no_list() -> None:
    shaky = FailingCluster()
    with running_informer(shaky) as (mirror, _):
        wait_for(lambda: shaky.watches)
        shaky.failures.append(errors.Unreachable("it broke"))
        create_pod(shaky, "a")
        wait_for_names(mirror, "a")
        wait_for(lambda: not shaky.failures and shaky.watches > 2)
    assert shaky.lists == 1


@pytest.mark.parametrize(
    "failures",
    [
        [errors.ResourceVersionExpired("too old", status=410)],
        [errors.Unreachable("away"), errors.Unreachable("still away")],
        [errors.Unauthorized("token expired", status=401)],
        [errors.KindMissing("no such kind", status=404)],
        [errors.TooManyRequests("slowly", status=429, retry_after=0.01)],
        [errors.ServerError("etcd", status=500)],
    ],
)
def test_after_anything_else_it_lists_anew(failures: list[Exception]) -> None:
    shaky = FailingCluster()
    create_pod(shaky, "old")
    with running_informer(shaky) as (mirror, changed):
        wait_for_names(mirror, "old")
        shaky.failures += failures
        wait_for(lambda: not shaky.failures)
        shaky.twin.expire_history()
        shaky.twin.delete(POD, "old", namespace="n")
        create_pod(shaky, "new")
        shaky.twin.expire_history()
        wait_for_names(mirror, "new")
        wait_for(lambda: mirror.error is None)
    assert {"old", "new"} <= set(changed)
    assert shaky.lists >= 2


def test_it_says_what_is_wrong_meanwhile() -> None:
    shaky = FailingCluster()
    shaky.failures += [errors.AccessDenied("pods is forbidden", status=403)] * 1000
    with running_informer(shaky) as (mirror, _):
        wait_for(lambda: mirror.error is not None)
        assert str(mirror.error) == "pods is forbidden"
        assert not mirror.has_synced
        shaky.failures.clear()
        wait_for(lambda: mirror.has_synced and mirror.error is None)


def test_without_a_connection_it_waits() -> None:
    shaky = FailingCluster()
    connections: list[Any] = [None]
    mirror = Informer(POD, connect=lambda: connections[-1], key_of=_name, on_change=lambda _: None, timing=QUICK)
    stop = threading.Event()
    thread = threading.Thread(target=mirror.run, args=[stop], daemon=True)
    thread.start()
    wait_for(lambda: isinstance(mirror.error, errors.Unreachable))
    connections.append(shaky)
    wait_for(lambda: mirror.has_synced)
    stop.set()
    thread.join(30)


class SilentWatchCluster(FailingCluster):
    """A cluster whose watches say only that they live."""

    def watch(self, *args: Any, **kwargs: Any) -> Iterator[WatchEvent]:
        for event in super().watch(*args, **kwargs):
            if event.type is WatchEventType.BOOKMARK:
                yield event


def test_what_no_event_told_is_found_in_the_end() -> None:
    deaf = SilentWatchCluster()
    with running_informer(deaf, InformerTiming(watch_seconds=0.05, relist_seconds=0.1)) as (mirror, changed):
        wait_for(lambda: deaf.watches)
        create_pod(deaf, "a")
        wait_for_names(mirror, "a")
        deaf.twin.delete(POD, "a", namespace="n")
        wait_for_names(mirror)
    assert changed == ["a", "a"]


def test_objects_are_found_by_what_they_belong_to() -> None:
    shaky = FailingCluster()
    changed: list[str] = []
    mirror = Informer(
        POD,
        connect=lambda: shaky,
        key_of=lambda item: item["metadata"]["labels"].get("of", ""),
        on_change=changed.append,  # type: ignore[arg-type, return-value]
    )
    for name in ("b", "a"):
        create_pod(shaky, name, of="x")
    mirror.relist()
    assert [item["metadata"]["name"] for item in mirror.by_key("x")] == ["a", "b"]
    shaky.twin.merge(POD, "a", {"metadata": {"labels": {"of": "y"}}}, field_manager="us", namespace="n")
    shaky.twin.delete(POD, "b", namespace="n")
    changed.clear()
    mirror.relist()
    assert (mirror.keys(), set(changed)) == ({"y"}, {"x", "y"})
    assert mirror.by_key("x") == []


def test_pauses_grow_and_differ() -> None:
    backoff = Backoff(1, 10)
    pauses = [backoff.next_pause() for _ in range(6)]
    for pause, longest in zip(pauses, [1, 2, 4, 8, 10, 10], strict=True):
        assert longest / 2 <= pause <= longest
    assert backoff.next_pause(at_least=99) == 99
    backoff.reset()
    assert backoff.next_pause() <= 1
    assert len({Backoff(1, 10).next_pause() for _ in range(20)}) > 1
