"""What people changed during the month of the demo, besides their submissions: quotas, drains, a cluster that was
offline, a node that was lost. A replay reads all of it from the audit trail and the record of use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from pools.database.transactions import change
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.people.roles import SYSTEM, Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Backend, Node, Pool
from pools.services.configuration.pools import patch_pool
from pools.services.configuration.subpools import TEMPORARY_QUOTA_ENDED, delete_subpool, resize_subpool
from scheduling.demo.installation import OPERATOR
from scheduling.demo.month_file import DAY
from scheduling.models import OfflineSpan

LOST_NODE: Final = "dgx-17"
LOST: Final = (round(22.61 * DAY), round(22.93 * DAY))
"""From when to when it was lost."""
OFFLINE_CLUSTER: Final = "hopper"
OFFLINE: Final = (round(17.75 * DAY), round(17.9 * DAY))
DRAINED: Final = {"recsys--abtest": 12.4}
"""The subpool whose drain came to an end, and the day on which it was deleted."""
TEMPORARY: Final = "vision--pose"


@dataclass(frozen=True, slots=True)
class Act:
    """One change, at this number of seconds of the month."""

    at: int
    do: Callable[[], object]


def acts(people: Mapping[str, Actor], drained: Mapping[str, int], monday: datetime, friday: datetime) -> list[Act]:
    """The changes in the order of time. `drained`: when the last work of deleted subpools ended; `monday`: when the
    month began; `friday`: until when the temporary quota of now lasts."""
    found = [
        *_ended_projects(people),
        *_quotas(people, monday, friday),
        *_drains(people, drained),
        Act(OFFLINE[0], lambda: _set_offline(people[OPERATOR], "the storage gets new disks", offline=True)),
        Act(OFFLINE[1], lambda: _set_offline(people[OPERATOR], "the storage is back", offline=False)),
    ]
    return sorted(found, key=lambda act: act.at)


def _ended_projects(people: Mapping[str, Actor]) -> Iterator[Act]:
    """Subpools without work, which are archived when they are deleted."""
    for day, parent, short in (
        (4.4, "security", "defend"), (6.6, "research", "theory"), (9.45, "speech", "legacy"),
        (10.5, "platform", "spare"), (11.6, "biology", "screen"), (15.4, "evaluation", "adhoc"),
    ):  # fmt: skip
        command = DeleteSubpool(parent=parent, subpool_name=short)
        yield _act(day, delete_subpool, command, people[f"{parent}-lead"], "the project has ended")


def _quotas(people: Mapping[str, Actor], monday: datetime, friday: datetime) -> Iterator[Act]:
    resize = ResizeSubpool(parent="vision", subpool_name="segment", quota=16)
    yield _act(2.42, resize_subpool, resize, people["vision-lead"], "the labels of the new cameras are there")
    yield _act(
        10.38, patch_pool, PatchPool(name="research", patch={"approval_above": 8}), people[OPERATOR],
        "larger steps need a second person",
    )  # fmt: skip
    limits = PatchPool(name="vision", patch={"lending_limit": 24})
    yield _act(21.61, patch_pool, limits, people[OPERATOR], "vision lends more while it labels")
    more = PatchPool(name="language", patch={"resources": {"gpu": {"guarantee": 96}}})
    yield _act(23.4, patch_pool, more, people[OPERATOR], "the nodes of the new budget are in use")
    release = monday + timedelta(days=4.75)
    yield from _temporary(
        1.6, people["speech-lead"], "speech--tts", 18, "the release is on Friday", release, ended=4.75
    )
    yield from _temporary(30.6, people["vision-lead"], TEMPORARY, 10, "the demo on Friday", friday)


def _temporary(
    day: float, actor: Actor, name: str, quota: int, why: str, until: datetime, *, ended: float | None = None
) -> Iterator[Act]:
    """A raise of a quota for some time; `ended` is the day on which it ended. A service would refuse a time that is
    over."""
    before = dict[str, int | None]()

    def begin() -> None:
        before[name] = Pool.objects.get(name=name).last_quota
        _write_pool(actor, why, name, last_quota=quota, quota_after=before[name], quota_until=until)

    def finish() -> None:
        _write_pool(SYSTEM, TEMPORARY_QUOTA_ENDED, name, last_quota=before[name], quota_after=None, quota_until=None)

    yield Act(round(day * DAY), begin)
    if ended is not None:
        yield Act(round(ended * DAY), finish)


def _drains(people: Mapping[str, Actor], drained: Mapping[str, int]) -> Iterator[Act]:
    """Subpools that were deleted while they had work: one drain is over, the others wait for long work."""
    for day, name in (
        *((day, name) for name, day in DRAINED.items()),
        (29.45, "vision--ocr"), (29.72, "research--interns"), (28.62, "simulation--scenes"),
    ):  # fmt: skip
        actor = people[f"{name.partition('--')[0]}-lead"]
        why = "the test is over" if name in DRAINED else "moving to the rest of the pool"
        yield Act(round(day * DAY), partial(_write_pool, actor, why, name, subpool_state=SubpoolState.DELETING))
    for name in DRAINED:
        archived = partial(_write_pool, SYSTEM, "reconciled", name, subpool_state=SubpoolState.ARCHIVED)
        yield Act(drained.get(name, 20 * DAY), archived)


def _write_pool(actor: Actor, why: str, name: str, **columns: object) -> None:
    """Change a row as a service did then; now it would refuse a time that is over, and archive a subpool at once, whose
    work is written after the configuration."""
    with change(actor=actor, description=why):
        row = Pool.objects.get(name=name)
        for column, value in columns.items():
            setattr(row, column, value)
        row.save(update_fields=list(columns))


def _set_offline(actor: Actor, why: str, *, offline: bool) -> None:
    with change(actor=actor, description=why):
        Backend.objects.filter(name=OFFLINE_CLUSTER).update(offline=offline)


def _act(day: float, service: Callable[..., Any], command: object, actor: Actor, why: str) -> Act:
    return Act(round(day * DAY), lambda: service(command, actor=actor, description=why))


def lose_node(monday: datetime) -> None:
    """The time in which a node was lost, as the record of use has it for the nodes of a cluster."""
    node = Node.objects.get(name=LOST_NODE)
    since, until = (monday + timedelta(seconds=at) for at in LOST)
    OfflineSpan.objects.create(backend_id=node.backend_id, node_id=node.pk, since=since, until=until)
