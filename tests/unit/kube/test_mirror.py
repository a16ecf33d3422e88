"""A mirror keeps up with a cluster whatever the cluster does to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduling.kube import errors
from scheduling.kube.backoff import Backoff
from scheduling.kube.fake import Twin
from scheduling.kube.informer import Mirror, Pace
from scheduling.kube.kinds import POD
from scheduling.kube.port import Event, EventType
from tests.support.kube import eventually

QUICK = Pace(window=0.2, relist=600, first_pause=0.01, longest_pause=0.05)


class Shaky:
    """A twin whose calls fail as told: `failures` are raised by the next calls, one each."""

    def __init__(self) -> None:
        self.twin = Twin(namespaces=["n"])
        self.failures: list[Exception] = []
        self.lists = 0
        self.watches = 0

    def list(self, *args: Any, **kwargs: Any) -> Any:
        self._fail()
        self.lists += 1
        return self.twin.list(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Iterator[Event]:
        self._fail()
        self.watches += 1
        return self.twin.watch(*args, **kwargs)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def make(shaky: Shaky, name: str, **labels: str) -> None:
    body = {"metadata": {"name": name, "namespace": "n", "labels": labels or {"ours": "yes"}}, "spec": {}}
    shaky.twin.create(POD, body, owner="us")


@contextmanager
def following(shaky: Shaky, pace: Pace = QUICK) -> Iterator[tuple[Mirror[str], list[str]]]:
    changed: list[str] = []
    mirror = Mirror(
        POD,
        connect=lambda: shaky,
        key=_name,
        changed=changed.append,
        namespace="n",
        labels="ours=yes",
        pace=pace,  # type: ignore[arg-type, return-value]
    )
    stop = threading.Event()
    thread = threading.Thread(target=mirror.follow, args=[stop], daemon=True)
    thread.start()
    try:
        yield mirror, changed
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def names(mirror: Mirror[str]) -> set[str]:
    return set(mirror.objects())


def becomes(mirror: Mirror[str], *wanted: str) -> None:
    eventually(lambda: mirror.is_ready and names(mirror) == set(wanted), what=f"{wanted} are mirrored")


def test_it_lists_then_follows() -> None:
    shaky = Shaky()
    make(shaky, "a")
    make(shaky, "other", ours="no")
    with following(shaky) as (mirror, changed):
        becomes(mirror, "a")
        make(shaky, "b")
        becomes(mirror, "a", "b")
        shaky.twin.merge(POD, "a", {"status": {"phase": "Running"}}, owner="us", namespace="n", status=True)
        eventually(lambda: (mirror.get("a") or {}).get("status"))
        shaky.twin.delete(POD, "a", namespace="n")
        becomes(mirror, "b")
    assert changed == ["a", "b", "a", "a"]
    assert shaky.lists == 1
    assert all("managedFields" not in item["metadata"] for item in mirror.objects().values())


def test_a_watch_that_ends_goes_on_from_its_place() -> None:
    shaky = Shaky()
    with following(shaky, Pace(window=0.05, relist=600)) as (mirror, _):
        eventually(lambda: shaky.watches > 3)
        make(shaky, "a")
        becomes(mirror, "a")
    assert shaky.lists == 1


def test_one_broken_connection_costs_no_list() -> None:
    shaky = Shaky()
    with following(shaky) as (mirror, _):
        eventually(lambda: shaky.watches)
        shaky.failures.append(errors.Unreachable("it broke"))
        make(shaky, "a")
        becomes(mirror, "a")
        eventually(lambda: not shaky.failures and shaky.watches > 2)
    assert shaky.lists == 1


@pytest.mark.parametrize(
    "failures",
    [
        [errors.Gone("too old", status=410)],
        [errors.Unreachable("away"), errors.Unreachable("still away")],
        [errors.Unauthorized("token expired", status=401)],
        [errors.KindMissing("no such kind", status=404)],
        [errors.TooMany("slowly", status=429, retry_after=0.01)],
        [errors.ServerFault("etcd", status=500)],
    ],
)
def test_after_anything_else_it_lists_anew(failures: list[Exception]) -> None:
    shaky = Shaky()
    make(shaky, "old")
    with following(shaky) as (mirror, changed):
        becomes(mirror, "old")
        shaky.failures += failures
        eventually(lambda: not shaky.failures)
        shaky.twin.forget_history()
        shaky.twin.delete(POD, "old", namespace="n")
        make(shaky, "new")
        shaky.twin.forget_history()
        becomes(mirror, "new")
        eventually(lambda: mirror.fault is None)
    assert {"old", "new"} <= set(changed)
    assert shaky.lists >= 2


def test_it_says_what_is_wrong_meanwhile() -> None:
    shaky = Shaky()
    shaky.failures += [errors.Forbidden("pods is forbidden", status=403)] * 1000
    with following(shaky) as (mirror, _):
        eventually(lambda: mirror.fault is not None)
        assert str(mirror.fault) == "pods is forbidden"
        assert not mirror.is_ready
        shaky.failures.clear()
        eventually(lambda: mirror.is_ready and mirror.fault is None)


def test_without_a_connection_it_waits() -> None:
    shaky = Shaky()
    connections: list[Any] = [None]
    mirror = Mirror(POD, connect=lambda: connections[-1], key=_name, changed=lambda _: None, pace=QUICK)
    stop = threading.Event()
    thread = threading.Thread(target=mirror.follow, args=[stop], daemon=True)
    thread.start()
    eventually(lambda: isinstance(mirror.fault, errors.Unreachable))
    connections.append(shaky)
    eventually(lambda: mirror.is_ready)
    stop.set()
    thread.join(30)


class Deaf(Shaky):
    """A cluster whose watches say only that they live."""

    def watch(self, *args: Any, **kwargs: Any) -> Iterator[Event]:
        for event in super().watch(*args, **kwargs):
            if event.type is EventType.BOOKMARK:
                yield event


def test_what_no_event_told_is_found_in_the_end() -> None:
    deaf = Deaf()
    with following(deaf, Pace(window=0.05, relist=0.1)) as (mirror, changed):
        eventually(lambda: deaf.watches)
        make(deaf, "a")
        becomes(mirror, "a")
        deaf.twin.delete(POD, "a", namespace="n")
        becomes(mirror)
    assert changed == ["a", "a"]


def test_objects_are_found_by_what_they_belong_to() -> None:
    shaky = Shaky()
    changed: list[str] = []
    mirror = Mirror(
        POD,
        connect=lambda: shaky,
        key=lambda item: item["metadata"]["labels"].get("of", ""),
        changed=changed.append,  # type: ignore[arg-type, return-value]
    )
    for name in ("b", "a"):
        make(shaky, name, of="x")
    mirror.refresh()
    assert [item["metadata"]["name"] for item in mirror.of("x")] == ["a", "b"]
    shaky.twin.merge(POD, "a", {"metadata": {"labels": {"of": "y"}}}, owner="us", namespace="n")
    shaky.twin.delete(POD, "b", namespace="n")
    changed.clear()
    mirror.refresh()
    assert (mirror.keys(), set(changed)) == ({"y"}, {"x", "y"})
    assert mirror.of("x") == []


def test_pauses_grow_and_differ() -> None:
    backoff = Backoff(1, 10)
    pauses = [backoff.pause() for _ in range(6)]
    for pause, longest in zip(pauses, [1, 2, 4, 8, 10, 10], strict=True):
        assert longest / 2 <= pause <= longest
    assert backoff.pause(at_least=99) == 99
    backoff.reset()
    assert backoff.pause() <= 1
    assert len({Backoff(1, 10).pause() for _ in range(20)}) > 1
