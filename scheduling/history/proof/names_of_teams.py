"""The team of a history as a queue of a configuration that was imported from the same scheduler."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pools.domain.names import queue_name, split_name
from scheduling.moving_in.names import valid_name

LONGEST = 63


@dataclass(slots=True)
class TeamNames(Mapping[str, str]):
    """Teams → queues, as `--map` gives them, and otherwise by the names that an import makes: the pool of that name, or
    the only subpool of that name. A name of which there are several, or none, stays, and is then a fault. OSMO's own
    queues name the `namespace` of the cluster and the pool."""

    given: Mapping[str, str]
    queues: Collection[str]
    namespace: str = ""
    _subpools: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for queue in self.queues:
            if subpool := split_name(queue).subpool:
                self._subpools.setdefault(subpool, []).append(queue)

    def __getitem__(self, team: str) -> str:
        if team in self.given:
            return self.given[team]
        pool = team.removeprefix(queue_name(self.namespace, "", None))
        for name in (team, valid_name(team, LONGEST), valid_name(pool, LONGEST)):
            if name in self.queues:
                return name
            if len(below := self._subpools.get(name, [])) == 1:
                return below[0]
        raise KeyError(team)

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)
