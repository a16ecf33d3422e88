"""The reason of a gang that may use several flavors: one line for each, the nearest first; one of them is enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pools.domain.values.amounts import Number, flavor_of, is_gpu
from scheduling.domain.engine.facts import TaskFacts
from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.engine.reasons.remedies import Remedy
from scheduling.domain.engine.state.records import GangState


def choice_names(gang: GangState) -> tuple[str, ...]:
    """The names of the choices of a gang for people, in order: their flavors, or where these do not tell them apart,
    what they request. Empty for a gang without alternatives."""
    if not gang.choices:
        return ()
    flavors = [_flavors(each.fact.tasks) for each in gang.choices]
    if len(set(flavors)) == len(flavors) and all(flavors):
        return tuple(flavors)
    return tuple(f"choice {n}" for n in range(1, len(flavors) + 1))


def _flavors(tasks: Sequence[TaskFacts]) -> str:
    return " and ".join(dict.fromkeys(flavor_of(key) for task in tasks for key in task.request if is_gpu(key)))


def reasons_by_name(reasons: Mapping[GangState, Reason]) -> dict[str, Reason]:
    """The reason of each gang from those of its choices. Gangs whose choices wait for the same reasons share one."""
    found: dict[str, Reason] = {}
    known: dict[tuple[object, ...], Reason] = {}
    for gang, reason in reasons.items():
        name = gang.fact.name
        if not gang.choices:
            found[name] = reason
        elif name not in found:
            names = choice_names(gang)
            lines = [(names[each.choice], reasons[each]) for each in gang.choices if each in reasons]
            key = tuple((label, id(line)) for label, line in lines)
            if key not in known:
                known[key] = combined_reason(lines)
            found[name] = known[key]
    return found


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    reason: Reason

    @property
    def distance(self) -> tuple[bool, Number]:
        """Small where little is missing for a start: the GPUs, or else the largest amount."""
        missing = [
            sum(n for key, n in amounts.items() if is_gpu(key))
            for amounts in (self.reason.missing or {}, *(blocker.missing for blocker in self.reason.blockers))
        ]
        return self.reason.is_permanent, max(missing, default=0)


def combined_reason(lines: Sequence[tuple[str, Reason]]) -> Reason:
    """One reason from those of the choices, with the numbers of the nearest. Where all say the same, it is that."""
    first = lines[0][1]
    if all(reason.message == first.message for _name, reason in lines):
        return first
    nearest = sorted((_Line(name, reason) for name, reason in lines), key=lambda line: line.distance)
    message = "; ".join(f"{line.name}: {_clause(line.reason.message)}" for line in nearest)
    possible = [line for line in nearest if line.reason.is_permanent == nearest[0].reason.is_permanent]
    remedies = tuple(remedy for line in possible for remedy in _remedies(line.name, line.reason))
    return replace(
        nearest[0].reason,
        message=f"{message}.",
        remedies=remedies,
        needs_all_remedies=len(remedies) == 1,
    )


def _clause(message: str) -> str:
    return f"{message[:1].lower()}{message[1:].removesuffix('.')}"


def _remedies(name: str, reason: Reason) -> Iterator[Remedy]:
    """The remedies of one choice; those that are needed together are one."""
    if reason.needs_all_remedies and len(reason.remedies) > 1:
        first, *others = reason.remedies
        yield replace(first, choice=name, together=tuple(others))
    else:
        yield from (replace(remedy, choice=name) for remedy in reason.remedies)
