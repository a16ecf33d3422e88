"""What a form says beside its quota while a person types, from numbers that the page has (`static/osmo/quota-form.js`).
Without the script the first text stays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from pools.domain.quota.capacity import BackendCapacity
from pools.domain.values.counting import counted
from pools.models import Pool
from pools.selectors.quotas.backend_capacity import read_capacities
from pools.selectors.quotas.pool_tree import PoolTree


@dataclass(frozen=True, slots=True)
class LiveNote:
    """The note of one field: `kind` names its rule in the script, `numbers` are what the rule needs, as JSON."""

    field: str
    kind: str
    numbers: str
    text: str


@dataclass(frozen=True, slots=True)
class Room:
    """The GPUs of an owner, and those of them that others have."""

    owner: str
    total: int
    others: int

    @property
    def text(self) -> str:
        """What is free for this quota, before a person types."""
        return f"{max(0, self.total - self.others)} of {counted(self.total, 'GPU')} of {self.owner} are free for it."


def _free(field: str, rooms: Mapping[str, Room], by: str = "") -> LiveNote:
    numbers = {"by": by, "rooms": {name: asdict(room) for name, room in rooms.items()}}
    return LiveNote(field, "free", json.dumps(numbers), "" if by else next(iter(rooms.values())).text)


def free_in_pool(tree: PoolTree, subpool: str) -> LiveNote | None:
    """What the quota of a subpool leaves of its pool; None for a pool without a limit. `subpool` is empty for a new
    one."""
    if not isinstance(tree.head.quota, int) or tree.head.quota < 0:
        return None
    others = sum(int(leaf.quota) for leaf in tree.leaves if leaf.kind == "subpool" and leaf.name != subpool)
    return _free("quota", {"": Room(tree.pool.name, tree.head.quota, others)})


def _room_of(capacity: BackendCapacity, own: int = 0) -> Room | None:
    """None where the nodes are not known, and where they have flavors: idle GPUs of one make up for none of another."""
    if capacity.gpus is None or capacity.flavors:
        return None
    return Room(capacity.backend, capacity.gpus, capacity.quota - own)


def free_in_cluster(pool: Pool) -> LiveNote | None:
    """What the quota of a pool leaves of its cluster; None while the nodes of that are not known."""
    own = 0 if pool.archived else max(0, pool.guarantee or 0)
    rooms = [_room_of(capacity, own) for capacity in read_capacities([pool.backend_id]).values()]
    return _free("guarantee", {"": room}) if (room := next(iter(rooms), None)) else None


def free_in_clusters() -> LiveNote | None:
    """The same for a new pool, by the cluster that is chosen."""
    rooms = {each.owner: each for capacity in read_capacities().values() if (each := _room_of(capacity))}
    return _free("guarantee", rooms, by="backend") if rooms else None


def total_of_subtree(below: Iterable[int]) -> LiveNote:
    """The effective quota of a cohort: what the nodes below add (-1: without a limit), and its own."""
    text = "The total of the subtree. The preview shows the whole tree."
    return LiveNote("nominal", "subtree", json.dumps(list(below)), text)
