"""Remedies for a waiting gang: for each blocker one message, and the gangs whose end would suffice.

A remedy keeps the names of gangs apart from its text, so that each reader sees only the names that they may know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pools.domain.values.amounts import amount_text, is_gpu
from scheduling.domain.engine.reasons.blockers import Blocker, UnlentQuota, limit_text
from scheduling.domain.engine.reasons.node_bars import nodes_text
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import RUNNING, GangState, QueueState

MAX_NAMED_GANGS = 3
"""The most gangs that a message names."""

NameResolver = Callable[[str], str | None]
"""The name of a gang for one reader, or None if the reader may not know it."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """`text` is the message up to the list of `gangs`. Higher lending limits of all nodes in `unlent` help instead, or,
    with `lends`, give only this part. `takes`: the gangs that lose their place to the start then. `choice`: the flavor
    that it is for, of a gang that may use several. `together`: other remedies that are needed with it."""

    text: str
    gangs: tuple[str, ...] = ()
    unlent: tuple[UnlentQuota, ...] = ()
    lends: str = ""
    takes: tuple[str, ...] = ()
    choice: str = ""
    together: tuple[Remedy, ...] = ()

    def message(self, name_of: NameResolver = str, queue_of: NameResolver = str) -> str:
        """The message for one reader. Gangs and pools that the reader may not know are counted."""
        text, inside = self.text + self._lending_text(queue_of), _names_text(self.gangs, name_of)
        taken = _names_text(self.takes, name_of)
        more = f" It then takes the place of {taken}." if taken else ""
        line = (f"{text} ({inside})." if inside else f"{text}.") + more
        if not self.choice:
            return line
        others = [each.message(name_of, queue_of) for each in self.together]
        count = "" if not others else ", both of these" if len(others) == 1 else f", all {len(others) + 1} of these"
        return f"{self.choice}{count}: {' '.join([line, *others])}"

    def _lending_text(self, queue_of: NameResolver) -> str:
        if not self.unlent:
            return ""
        known = [(queue_of(each.node), each) for each in self.unlent]
        named = [f"{name} by {each.rise}{each.keeps}" for name, each in known if name is not None]
        hidden = len(known) - len(named)
        more = [f"{hidden} other owner{'s' if hidden > 1 else ''}"] if hidden else []
        limits = f"the lending limit{'s' if len(known) > 1 else ''} of {' and '.join([*named, *more])}"
        return f". To raise {limits} gives only {self.lends}" if self.lends else f", or raise {limits}"


def _names_text(gangs: Iterable[str], name_of: NameResolver) -> str:
    names: dict[str, None] = {}
    others = 0
    for gang in gangs:
        name = name_of(gang)
        if name is None:
            others += 1
        else:
            names[name] = None
    listed = ", ".join([*names][:MAX_NAMED_GANGS]) + (", …" if len(names) > MAX_NAMED_GANGS else "")
    hidden = f"{others} of other users" if others else ""
    return " and ".join(part for part in (listed, hidden) if part)


class Remedies:
    """The remedies in one state. Gangs with the same blockers share their lists of names."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holders: dict[tuple[int, bool], tuple[str, ...]] | None = None
        self._gangs_on_node: dict[str, tuple[str, ...]] = {}

    def find(self, blocker: Blocker, gang: GangState) -> Iterator[Remedy]:
        """The remedies for one blocker of the gang."""
        if blocker.is_permanent:
            levers = [
                bar.lever if bar.together else f"let it use {nodes_text(bar.nodes)}: {bar.lever}"
                for bar in blocker.barred.bars
            ]
            if levers:
                lines = levers if blocker.barred.needs_all else [", or ".join(levers)]
                yield from (Remedy(f"{line[0].upper()}{line[1:]}") for line in lines)
            elif blocker.limit == "nodes":
                requested = self._world.amounts_text(blocker.requested, relevant=blocker.missing)
                yield Remedy(f"Never on these nodes: it needs {requested} in a shape they do not have")
            else:
                yield Remedy(
                    f"Never with these settings: the {limit_text(blocker.limit)} of {blocker.node} must grow first"
                )
            return
        if blocker.limit == "nodes":
            for short in blocker.node_shortages:
                freed = self._world.amounts_text(lacking := self._world.named_amounts(short.missing), relevant=lacking)
                yield Remedy(f"{freed} more must be free on {short.node}", self._gangs_on(short.node))
            return
        grow = f"Raise the {limit_text(blocker.limit)} of {blocker.node} by {self._world.amounts_text(blocker.missing)}"
        queue = self._world.queue_of.get(blocker.node or "")
        if queue is None:
            # Work on quota that its owner does not lend returns nothing to others when it ends.
            end = f"end work under {blocker.node} that uses as much shared quota"
            missing = sum(blocker.missing.values())
            is_enough = blocker.lendable >= missing
            lends = f"{amount_text(blocker.lendable)} of {self._world.amounts_text(blocker.missing)}"
            yield Remedy(f"{grow}, or {end}", unlent=blocker.unlent, lends="" if is_enough else lends)
            return
        which = "HIGH or NORMAL work" if blocker.limit == "quota" else "work"
        holders = self._holding(queue, blocker, but=gang)
        grow = self._later_text(queue, blocker) or grow
        yield Remedy(f"{grow}, or end as much {which} in {queue.fact.name}", holders)

    def _later_text(self, queue: QueueState, blocker: Blocker) -> str:
        """The begin of the remedy for a quota that grows by itself to what is missing; else empty."""
        later, now = queue.fact.later_quota, queue.fact.quota or {}
        grown = {key: later.get(key, 0) for key in blocker.missing}
        if blocker.limit != "quota" or any(grown[key] < now.get(key, 0) + n for key, n in blocker.missing.items()):
            return ""
        size, missing = self._world.amounts_text(grown), self._world.amounts_text(blocker.missing)
        return (
            f"The quota of {blocker.node} grows to {size} by itself, when subpools return theirs. "
            f"To start earlier, raise this quota by {missing}"
        )

    def _gangs_on(self, node: str) -> tuple[str, ...]:
        nodes = self._world.nodes
        if nodes is None:
            return ()
        if node not in self._gangs_on_node:
            here = self._world.on_node[nodes.names.index(node)]
            self._gangs_on_node[node] = tuple(sorted({gang.fact.name for gang, _i in here}))
        return self._gangs_on_node[node]

    def _holding(self, queue: QueueState, blocker: Blocker, but: GangState) -> tuple[str, ...]:
        if self._holders is None:
            self._holders = self._all_holders()
        held = self._holders.get((queue.index, blocker.limit != "quota"), ())
        kinds = set(filter(is_gpu, blocker.missing)) if queue.kinds > 1 else set()
        if kinds:
            held = tuple(name for name in held if kinds & self._held_keys(name))
        if RUNNING not in but.status:
            return held
        return tuple(name for name in held if name != but.fact.name)

    def _held_keys(self, name: str) -> set[str]:
        return {self._world.keys[r] for r, _amount in self._world.gang_of[name].running_request}

    def _all_holders(self) -> dict[tuple[int, bool], tuple[str, ...]]:
        """By queue, the gangs that run there or below: all (True), or the non-preemptible ones (False)."""
        found: dict[tuple[int, bool], list[str]] = {}
        for gang in self._world.gangs:
            if gang.queue is None or RUNNING not in gang.status:
                continue
            for above in gang.queue.path:
                for everything in (True,) if gang.preemptible else (True, False):
                    found.setdefault((above.index, everything), []).append(gang.fact.name)
        return {key: tuple(names) for key, names in found.items()}
