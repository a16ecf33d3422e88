"""Rules whose violation does not keep a scenario from running; they are reported in `violations`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pools.domain.errors import Fault, RuleName, Violation
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.values.amounts import UNLIMITED, Amount, amounts_text
from scheduling.domain.engine.facts import CohortFacts, QueueFacts, WhenCanBorrow, WhenCanPreempt
from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.engine.rules.world import World
from scheduling.domain.reason_codes import ReasonCode
from scheduling.scenario.parse import Scenario

SWITCHES = {"when_can_borrow": WhenCanBorrow.BORROW, "when_can_preempt": WhenCanPreempt.NEXT}
"""The switches of a queue at the top, and their defaults."""


def find_rule_violations(
    scenario: Scenario, world: World, reasons: Mapping[str, Reason], debts: Mapping[str, Mapping[str, Amount]]
) -> list[Violation]:
    """All broken rules: of the configured tree, of gangs that can never start, and of limits after the run."""
    return [
        *scenario.rule_violations,
        *_tree(scenario, world),
        *_find_overfull_nodes(world),
        *_find_impossible_gangs(scenario, reasons),
        *_debts(scenario, debts),
    ]


def _tree(scenario: Scenario, world: World) -> Iterator[Violation]:
    paths = scenario.paths
    everything: list[CohortFacts | QueueFacts] = [*scenario.facts.cohorts, *scenario.facts.queues]
    for node in everything:
        if node.parent is None:
            for key in LIMIT_KEYS:
                if any(amount != UNLIMITED for amount in getattr(node, key).values()):
                    message = f"'{node.name}' has no parent, so its {key.replace('_', ' ')} has no effect."
                    yield Violation(f"{paths[node.name]}.{key}", Fault.LIMIT_WITHOUT_PARENT, message)
    for queue in world.queues:
        fact = queue.fact
        if queue.children and fact.quota is not None:
            over = {}
            for r, key in enumerate(world.keys):
                below = sum(child.quota[r] for child in queue.children)
                if below > queue.quota[r]:
                    over[key] = below
            if over:
                quota = amounts_text({key: (fact.quota or {}).get(key, 0) for key in over})
                message = f"The queues below '{fact.name}' have a quota of {amounts_text(over)}, it has {quota}."
                yield Violation(f"{paths[fact.name]}.quota", Fault.CHILDREN_ABOVE_PARENT, message)
        if queue.parent is not None:
            for key, default in SWITCHES.items():
                if getattr(fact, key) != default:
                    message = f"'{fact.name}' is below a queue; the {key} of '{queue.path[-1].fact.name}' counts."
                    yield Violation(f"{paths[fact.name]}.{key}", Fault.NO_EFFECT, message)
        if not queue.children:
            above = {
                key: amount
                for key, amount in fact.lending_limit.items()
                if amount != UNLIMITED and amount > (fact.quota or {}).get(key, 0)
            }
            if above and fact.parent is not None:
                message = f"'{fact.name}' would lend {amounts_text(above)}, more than its quota."
                yield Violation(f"{paths[fact.name]}.lending_limit", Fault.LENDING_ABOVE_QUOTA, message)
    for holder in ("usage", "demand"):
        for name in getattr(scenario.facts, holder):
            if world.queue_of[name].children:
                message = f"'{name}' has queues below it, so it runs nothing itself."
                yield Violation(f"{holder}.{name}", RuleName(ReasonCode.QUEUE_HAS_CHILDREN), message)


def _find_overfull_nodes(world: World) -> Iterator[Violation]:
    for node, free in enumerate(world.nodes.free if world.nodes is not None else ()):
        # The numbers after the resources are the sets of nodes that tasks may be limited to.
        over = {key: -have for key, have in zip(world.keys, free, strict=False) if have < 0}
        if over and world.nodes is not None:
            too_much = world.amounts_text(over, relevant=over)
            message = f"The tasks on node '{world.nodes.names[node]}' need more than the node has: {too_much} too much."
            yield Violation("nodes", Fault.NODE_OVERFULL, message)


_NEVER_STARTS = {ReasonCode.NOT_READY, ReasonCode.QUEUE_HAS_CHILDREN, ReasonCode.NO_SUCH_QUEUE}


def _find_impossible_gangs(scenario: Scenario, reasons: Mapping[str, Reason]) -> Iterator[Violation]:
    for name, path in scenario.gang_paths.items():
        reason = reasons.get(name)
        if reason is not None and (reason.is_permanent or reason.code in _NEVER_STARTS):
            yield Violation(path, RuleName(reason.code), f"'{name}' can never start. {reason.message}")


def _debts(scenario: Scenario, debts: Mapping[str, Mapping[str, Amount]]) -> Iterator[Violation]:
    for name, amounts in debts.items():
        if amounts:
            message = f"'{name}' is over its limits by {amounts_text(amounts)}."
            yield Violation(scenario.paths[name], Fault.DEBT, message)
