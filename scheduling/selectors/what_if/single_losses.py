"""*What if it breaks*: every single node of a cluster, the worst first, as far as one reader may know it.

What a node takes with it at once is read off for every node. What happens then takes a scheduling cycle each; nodes
that are alike share one, and the worst come first until a bound of work is reached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pools.database.transactions import one_snapshot
from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor
from pools.domain.shortage.degraded import FlavorGpus, HeldPromise, by_missing, hold_by_flavor
from pools.domain.values.amounts import DEFAULT_FLAVOR, gpus_in
from pools.models import Backend, Pool
from pools.selectors.quotas.degraded import read_cluster_promises
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.outcome import GangResult, gang_result
from scheduling.domain.judgement.single_losses import LostPart, alike_nodes, lost_parts, without_nodes
from scheduling.garbage_collector import garbage_collector
from scheduling.selectors.cluster.node_map import visible_nodes
from scheduling.selectors.cluster.nodes import read_node_usage
from scheduling.selectors.queue.dispatch_holds import read_dispatch_holds, with_holds
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts
from scheduling.selectors.what_if.node_losses import with_node_losses

MAX_GANGS_SCHEDULED = 15_000
"""Gangs in all cycles of one table together: about a second."""


@dataclass(frozen=True, slots=True)
class LossOutcome:
    """What the next cycle makes of the work that lost its place: workflows that run again at once, and those that wait;
    `displaced`: work elsewhere that would run without the loss and waits."""

    again: int
    waiting: int
    displaced: int


@dataclass(frozen=True, slots=True)
class SingleLoss:
    """The loss of one node of `nodes`, which are alike. `gpus` are those of one such node. Of the reader's pools:
    `workflows` lose `lost` GPUs at once, `guaranteed` of them HIGH and NORMAL work; `ended` of them do not restart.
    `short` are the pools that cannot have their quota then, and `missing` the GPUs that are newly missing for it.
    `outcome` is None where no cycle was run. `flavor` is that of the nodes, empty where it has no name; with
    `is_of_parts` it counts parts of shared GPUs."""

    nodes: Sequence[str]
    gpus: int
    workflows: int
    lost: int
    guaranteed: int
    ended: int
    missing: int
    short: Sequence[HeldPromise]
    outcome: LossOutcome | None = None
    flavor: str = ""
    is_of_parts: bool = False

    @property
    def severity(self) -> tuple[int, ...]:
        """How bad it is: first quotas that do not hold, then guaranteed work, then other work."""
        return self.missing, self.guaranteed, self.lost, self.ended, self.gpus


@dataclass(frozen=True, slots=True)
class SingleLosses:
    """The table of a cluster. `is_whole`: the reader sees all pools."""

    backend: str
    is_whole: bool
    nodes: int
    losses: Sequence[SingleLoss]


def read_single_losses(actor: Actor, backend: str) -> SingleLosses:
    """The table, with the numbers of the pools that the actor may see. Raises NotFound for a cluster without one."""
    row = Backend.objects.filter(name=backend).first()
    roots = Pool.objects.visible_to(actor).roots().filter(backend=row, archived=False)
    if row is None or not (actor.can_read_all or roots.exists()):
        raise NotFound(f"There is no cluster {backend} that you can see.")
    with one_snapshot():
        live = read_live_facts(row)
        live = _held(row, live)
        facts = with_node_losses(row, live)
        shown = set(visible_nodes(actor, row))
        pools = None if actor.can_read_all else set(roots.values_list("name", "pk"))
        ids = None if pools is None else {pk for _, pk in pools}
        usage = {use.name: use for use in read_node_usage(backend=row.pk)}
        promises = read_cluster_promises(row.pk)
    lost = lost_parts(facts)
    given = {name: (use.flavor or DEFAULT_FLAVOR, use.platform, use.usable_gpus) for name, use in usage.items()}
    before = hold_by_flavor(promises.promises, promises.usable, promises.rule)
    names = None if pools is None else {name for name, _ in pools}
    found = []
    for group in alike_nodes(facts, lost, given):
        nodes = [name for name in group if name in shown]
        if not nodes:
            continue
        mine = [part for part in lost.get(nodes[0], ()) if ids is None or live.gangs[part.gang.name].root in ids]
        after = hold_by_flavor(promises.promises, _less(promises.usable, *given[nodes[0]]), promises.rule)
        loss = _loss(nodes, facts, mine, _seen(before, names), _seen(after, names))
        flavor = usage[nodes[0]].flavor or ""
        found.append(replace(loss, flavor=flavor, is_of_parts=flavor in facts.parts))
    found.sort(key=lambda each: ([-part for part in each.severity], each.nodes[0]))
    visible = {name for name, ref in live.gangs.items() if ids is None or ref.root in ids}
    return SingleLosses(row.name, actor.can_read_all, len(shown), _with_outcomes(facts, found, lost, visible))


def _less(usable: FlavorGpus, flavor: str, platform: str, gpus: int) -> FlavorGpus:
    of_platforms = usable.get(flavor, {})
    return {**usable, flavor: {**of_platforms, platform: of_platforms.get(platform, 0) - gpus}}


def _held(backend: Backend, live: LiveFacts) -> LiveFacts:
    held = read_dispatch_holds(backend, live).held_names(live)
    return replace(live, facts=with_holds(live.facts, held)) if held else live


def _seen(promises: Iterable[HeldPromise], pools: Collection[str] | None) -> list[HeldPromise]:
    return [each for each in promises if pools is None or each.pool in pools]


def _loss(
    nodes: Sequence[str],
    facts: ClusterFacts,
    parts: Sequence[LostPart],
    before: Sequence[HeldPromise],
    after: Sequence[HeldPromise],
) -> SingleLoss:
    size = next(int(gpus_in(node.resources)) for node in facts.nodes or () if node.name == nodes[0])
    return SingleLoss(
        nodes=nodes,
        gpus=size,
        workflows=len(parts),
        lost=int(sum(part.gpus for part in parts)),
        guaranteed=int(sum(part.gpus for part in parts if not part.gang.preemptible)),
        ended=sum(not part.restarts for part in parts),
        missing=sum(now.missing for now in after) - sum(was.missing for was in before),
        short=by_missing(each for each in after if each.missing),
    )


def _with_outcomes(
    facts: ClusterFacts, losses: Sequence[SingleLoss], lost: Mapping[str, Sequence[LostPart]], visible: Collection[str]
) -> list[SingleLoss]:
    """The losses, the worst with what the next cycle does, as many as the bound allows."""
    affordable = max(1, MAX_GANGS_SCHEDULED // max(1, len(facts.gangs)) - 1)
    with garbage_collector.paused():
        before = run_cycle(facts)
        running = {
            name for name, gang in before.world.gang_of.items() if gang_result(gang) is GangResult.RUNNING
        } & set(visible)
        found = []
        for n, loss in enumerate(losses):
            outcome = None
            if n < affordable:
                after = run_cycle(without_nodes(facts, loss.nodes[:1])).world.gang_of
                mine = {part.gang.name for part in lost.get(loss.nodes[0], ()) if part.gang.name in visible}
                results = {name: gang_result(after[name]) for name in mine}
                outcome = LossOutcome(
                    again=sum(result is GangResult.RUNNING for result in results.values()),
                    waiting=sum(result in _WAITS for result in results.values()),
                    displaced=sum(gang_result(after[name]) in _WAITS for name in running - mine),
                )
            found.append(replace(loss, outcome=outcome))
    return found


_WAITS = frozenset({GangResult.PENDING, GangResult.PREEMPTED})
