"""A watch on the API server while quotas change: after every single event the quotas fit their parents."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable

from pools.domain.changes.pools import DeletePool, PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.errors import DomainError
from pools.models import Pool
from scheduling.kube.connection.port import WatchEvent, WatchEventType
from scheduling.kube.connection.resource_kinds import QUEUE
from tests.integration.kube.conftest import SyncHarness
from tests.support.world import apply_change

END = "zz-end"
CHANGES = 60


class QueueEventRecorder:
    """Collects every event of our queues, from now until the marker event."""

    def __init__(self, lab: SyncHarness) -> None:
        self._lab = lab
        self._labels = f"osmo.namespace={lab.ns}"
        self._since = lab.cluster.cluster.list(QUEUE, labels=self._labels).resource_version
        self.events: list[WatchEvent] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        since = self._since
        while True:  # ends with the marker, or with the test's own time limit
            for event in self._lab.cluster.cluster.watch(
                QUEUE, resource_version=since, timeout_seconds=30, labels=self._labels
            ):
                since = event.resource_version
                if event.type is WatchEventType.BOOKMARK:
                    continue
                if event.object["metadata"]["name"] == f"{self._lab.ns}-{END}":
                    return
                self.events.append(event)

    def all(self) -> list[WatchEvent]:
        """The recorded events."""
        name = f"{self._lab.ns}-{END}"
        marker = {"metadata": {"name": name, "labels": {"osmo.namespace": self._lab.ns}}}
        self._lab.cluster.cluster.create(QUEUE, marker, field_manager="tests")
        self._lab.cluster.cluster.delete(QUEUE, name)
        self._thread.join(150)
        assert not self._thread.is_alive(), "the marker event was not received"
        return self.events


def find_quota_violations(events: Iterable[WatchEvent]) -> list[str]:
    """Replay the events; returns a message for each event after which a quota was wrong."""
    tree: dict[str, tuple[float, str | None]] = {}
    found = []
    for number, event in enumerate(events):
        name = event.object["metadata"]["name"]
        spec = event.object["spec"]
        if event.type is WatchEventType.DELETED:
            tree.pop(name)
        else:
            tree[name] = (spec["resources"]["gpu"]["quota"], spec.get("parentQueue"))
        for queue, (quota, parent) in tree.items():
            below = sum(share for share, above in tree.values() if above == queue)
            if quota != -1 and below > quota:
                found.append(f"{number}: {queue} allocates {below} of {quota} after {event.type} {name}")
            if parent is not None and parent not in tree:
                found.append(f"{number}: {queue} has lost {parent} after {event.type} {name}")
    return found


def _changes(dice: random.Random) -> Iterable[Callable[[], object]]:
    """Ordinary changes of a pool admin; a change that a rule forbids is skipped."""
    names = ["p0", "p1", "p2"]
    shorts = ["a", "b", "c", "d"]
    for _ in range(CHANGES):
        name, short, quota = dice.choice(names), dice.choice(shorts), dice.randrange(0, 40)
        yield dice.choice(
            [
                lambda n=name, q=quota: apply_change(
                    PutPool(name=n, body={"backend": "lab", "resources": {"gpu": {"guarantee": 2 * q}}})
                ),
                lambda n=name, s=short, q=quota: apply_change(CreateSubpool(parent=n, subpool_name=s, quota=q)),
                lambda n=name, s=short, q=quota: apply_change(ResizeSubpool(parent=n, subpool_name=s, quota=q)),
                lambda n=name, s=short, q=quota: apply_change(ResizeSubpool(parent=n, subpool_name=s, quota=q)),
                lambda n=name, s=short: apply_change(DeleteSubpool(parent=n, subpool_name=s)),
                lambda n=name: apply_change(DeletePool(name=n)),
            ]
        )


def test_leaves_never_add_up_to_more_than_their_pool(lab: SyncHarness) -> None:
    watcher = QueueEventRecorder(lab)
    dice = random.Random(7)
    done = 0
    for number, change in enumerate(_changes(dice)):
        try:
            change()
            done += 1
        except DomainError:
            continue
        if number % 3 == 0:  # so that one run has several changes to apply
            assert lab.sync().synced == "True"
    assert lab.sync().synced == "True"
    events = watcher.all()
    assert done > CHANGES / 4
    assert len(events) > CHANGES / 4
    assert find_quota_violations(events) == []
    assert {name.split("---")[0] for name in lab.queues() if "---" in name} == set(
        Pool.objects.roots().filter(archived=False, backend=lab.backend).values_list("name", flat=True)
    )


def test_the_recorder_finds_a_wrong_order(lab: SyncHarness) -> None:
    """The proof that the test above can fail: growing before shrinking is noticed."""
    apply_change(PutPool(name="team", body={"backend": "lab", "resources": {"gpu": {"guarantee": 10}}}))
    watcher = QueueEventRecorder(lab)
    lab.sync()
    lab.edit("team---shared", {"spec": {"resources": {"gpu": {"quota": 11}}}})
    lab.sync()
    assert [line.split(":")[1].strip() for line in find_quota_violations(watcher.all())] == [
        f"{lab.name('team')} allocates 11 of 10 after MODIFIED {lab.name('team---shared')}"
    ]
