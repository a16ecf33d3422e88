"""The effect of changes on a backend in its current state (design, A5).

A snapshot of the live state, the changes of a scenario, and the engine; nothing is written. A reader of the whole
installation sees everything. The admin of a pool sees this pool; other queues and work are shown with their numbers and
without their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pools.database.transactions import one_snapshot
from pools.domain.configuration.platforms import default_platform, platforms_of
from pools.domain.errors import BadInput, Fault, Forbidden, NotFound, Violation
from pools.domain.names import SHARED_QUEUE, canonical_name, queue_name, with_pool_names
from pools.domain.people.roles import Actor, Permission
from pools.domain.shortage.degraded import DegradedRule
from pools.models import Backend, Node, Pool
from scheduling.domain.engine.facts import ClusterFacts, NodeBar, TaskState
from scheduling.domain.start_words import start_about_sentence
from scheduling.models import Workflow
from scheduling.scenario.answer import ScenarioAnswer, answer_scenario
from scheduling.scenario.live_state import LiveNames, build_live_scenario
from scheduling.scenario.loss import LostWorkAnswer, NodeLossAnswer, StartAgainAnswer
from scheduling.scenario.node_changes import has_node_changes, is_node_change, removed_backend
from scheduling.scenario.parse import Scenario
from scheduling.scenario.redact import redact_facts
from scheduling.selectors.cluster.node_map import visible_nodes
from scheduling.selectors.queue.dispatch_holds import DispatchHolds, held_by, read_dispatch_holds, with_holds
from scheduling.selectors.queue.kept_starts import GangStart
from scheduling.selectors.queue.live_facts import LiveFacts, SharedObjects, read_live_facts
from scheduling.selectors.what_if.node_losses import with_node_losses

StartsAgain = Callable[[Backend, ClusterFacts, Collection[str]], Mapping[str, GangStart]]
"""Forecasts the starts of gangs that wait in the facts after a loss of nodes
(:func:`scheduling.history.starts.after_loss.starts_after_loss`)."""


def answer_live_question(
    actor: Actor, question: Mapping[str, Any], starts_again: StartsAgain | None = None
) -> ScenarioAnswer:
    """The answer to `{"live": true, "changes": [...], "backend": optional}`: that of a scenario, with `live` and
    `backend`. `starts_again` adds the forecasts of the work that loses its nodes and waits.

    Raises `ScenarioError` for a question that cannot be read, `BadInput` without a backend where there are several,
    `Forbidden` for an actor without the admin role of a pool, `NotFound` for a backend that the actor may not see.
    """
    backend = find_backend(actor, question)
    with one_snapshot():
        live = read_live_facts(backend)
        if has_node_changes(question):
            live = replace(live, facts=with_node_losses(backend, live))
        rows = Pool.objects.roots().filter(pk__in=live.roots.values()).prefetch_related("subpools")
        roots = {pool.pk: pool for pool in rows}
        holds = read_dispatch_holds(backend, live)
        facts = live.facts if actor.can_read_all else _redacted_facts(actor, live, roots)
        scenario_names = _scenario_names(actor, backend, roots.values(), {queue.name for queue in facts.queues})
    scenario = build_live_scenario(facts, question, scenario_names)
    answer = answer_scenario(_with_holds(scenario, facts, live, holds))
    _name_pools(answer, backend.namespace)
    waiting = [work for work in _lost_work(answer) if work["position"] is not None and work["workload"] in live.gangs]
    if starts_again is not None and waiting:
        whole = scenario.facts if actor.can_read_all else _whole_facts(live, question, scenario_names)
        starts = starts_again(backend, whole, [work["workload"] for work in waiting])
        for work in waiting:
            work["start"] = _start_again(starts.get(work["workload"]))
    return {"live": True, "backend": backend.name, **answer}


def _name_pools(answer: ScenarioAnswer, namespace: str) -> None:
    """The sentences in the words of the queue's list and pages; keys and the fields of reasons keep the queues."""
    for work in answer["workloads"].values():
        work["unblock"] = [with_pool_names(line, namespace) for line in work["unblock"]]
        if work["reason"] is not None:
            work["reason"]["message"] = with_pool_names(work["reason"]["message"], namespace)
    for row in (*answer["steps"], *answer["violations"]):
        row["message"] = with_pool_names(row["message"], namespace)


def _whole_facts(live: LiveFacts, question: Mapping[str, Any], names: LiveNames) -> ClusterFacts:
    """All work after the changes for a reader of a part, because a forecast is of all work there is. Only the loss of
    nodes counts: names in other changes may be those of work that this reader may not know."""
    losses = [change for change in question["changes"] if is_node_change(change)]
    return build_live_scenario(live.facts, {**question, "changes": losses}, names).facts


def _lost_work(answer: ScenarioAnswer) -> Sequence[LostWorkAnswer]:
    return answer["loss"]["workloads"] if "loss" in answer else ()


def _start_again(start: GangStart | None) -> StartAgainAnswer | None:
    if start is None:
        return None
    p10, p50, p90 = (None if at is None else at.isoformat() for at in (start.p10, start.p50, start.p90))
    return {
        "text": start_about_sentence(start, datetime.now(UTC)), "p10": p10, "p50": p50, "p90": p90
    }  # fmt: skip


def read_loss_of(
    actor: Actor, backend: str, changes: Sequence[Mapping[str, Any]], starts_again: StartsAgain
) -> NodeLossAnswer:
    """What these changes of nodes would do, with the queues by the names of their pools. Raises as
    `answer_live_question`."""
    question = {"live": True, "backend": backend, "changes": list(changes)}
    loss = answer_live_question(actor, question, starts_again)["loss"]
    prefix = queue_name(Backend.objects.get(name=backend).namespace, "", None)
    for rows in (loss["workloads"], loss["displaced"], loss["guarantees"], loss["queues"]):
        for row in rows:
            row["queue"] = row["queue"].removeprefix(prefix).removesuffix(f"--{SHARED_QUEUE}")
    return loss


def _with_holds(scenario: Scenario, before: ClusterFacts, live: LiveFacts, holds: DispatchHolds) -> Scenario:
    """The scenario in which held work does not start. `before`: the facts without the changes; a gang that the changes
    end holds nothing any more."""
    if not holds.holders:
        return scenario
    known = {gang.name for gang in before.gangs}
    left = {
        gang.name for gang in scenario.facts.gangs if any(task.state is not TaskState.FINISHED for task in gang.tasks)
    }
    held = holds.held_names(live, [gang for gang in scenario.facts.gangs if gang.name not in known])
    held = held_by(held, lambda first: first in left or first not in known)
    loss = scenario.loss
    if loss is not None:
        loss = replace(loss, baseline=with_holds(loss.baseline, held))
    return replace(scenario, facts=with_holds(scenario.facts, held), loss=loss)


def find_backend(actor: Actor, question: Mapping[str, Any]) -> Backend:
    """The backend that the question names, or the only possible one. Raises `BadInput`, `Forbidden`, `NotFound`."""
    administered = Pool.objects.roots().filter(archived=False)
    if not actor.can_read_all:
        names = actor.pools_with(Permission.POOL_PARTITION)
        if not names:
            needed = "osmo-admin, osmo-viewer or osmo-{pool}-admin"
            raise Forbidden(f"The live state is for the roles {needed}; {actor.username} has none of them.")
        administered = administered.filter(name__in=names)
    with_pools = Backend.objects.filter(pools__in=administered).distinct()
    choice = Backend.objects.all() if actor.can_read_all else with_pools
    name = question.get("backend", removed_backend(question))
    if name is None:
        found = list(with_pools.order_by("name") or choice.order_by("name"))
        if len(found) == 1:
            return found[0]
        choices = ", ".join(backend.name for backend in found)
        message = f"Several clusters are possible: name one of them as the backend ({choices})."
        message = message if found else "There is no cluster yet: an osmo-admin adds one as a backend."
        raise BadInput.of([Violation("backend", Fault.BAD_VALUE, message)])
    backend = choice.filter(name=name).first() if isinstance(name, str) else None
    if backend is None:
        raise NotFound("There is no such cluster, or you administer no pool on it.")
    return backend


def _redacted_facts(actor: Actor, live: LiveFacts, roots: Mapping[int, Pool]) -> ClusterFacts:
    visible = {pk for pk, pool in roots.items() if pool.name in actor.pools_with(Permission.POOL_READ)}
    containers = {queue for queue, root in live.roots.items() if root in visible}
    own = set(Workflow.objects.active().filter(submitted_by=actor.user_id).values_list("pk", flat=True))
    return redact_facts(
        live.facts,
        queues={queue.name for queue in live.facts.queues if queue.name in containers or queue.parent in containers},
        cohorts=set(_cohorts_above_containers(live.facts, containers)),
        gangs={name for name, row in live.gangs.items() if row.root in visible or row.workflow in own},
    )


def _cohorts_above_containers(facts: ClusterFacts, containers: Collection[str]) -> Iterator[str]:
    """The cohorts above these containers."""
    parents = {cohort.name: cohort.parent for cohort in facts.cohorts}
    for queue in facts.queues:
        above: str | None = queue.parent if queue.name in containers else None
        passed: set[str] = set()
        while above is not None and above in parents and above not in passed:
            yield above
            passed.add(above)
            above = parents[above]


def _scenario_names(actor: Actor, backend: Backend, roots: Collection[Pool], queues: Collection[str]) -> LiveNames:
    """The visible pools and subpools by the names that users write, and the nodes of each pool's work."""
    nodes = list(Node.objects.filter(backend=backend))
    all_nodes, shapes = frozenset(node.name for node in nodes), SharedObjects(nodes)
    known: dict[str, str] = {}
    submits_to: dict[str, str] = {}
    allowed: dict[str, frozenset[str] | None] = {}
    bars: dict[str, tuple[NodeBar, ...]] = {}
    flavors: dict[str, Sequence[str]] = {}
    usable: dict[str, frozenset[str]] = {}
    for root in roots:
        container = queue_name(backend.namespace, root.name, None)
        if container not in queues:
            continue
        default = default_platform(root.config)
        platforms = platforms_of(root.config) if default is None else [default]
        barring = shapes.bars(platforms)
        barred = frozenset[str]().union(*(bar.nodes for bar in barring))
        known[root.name] = container
        usable[container] = frozenset(platforms_of(root.config))
        for short in (SHARED_QUEUE, *(part.subpool_name or "" for part in root.subpools.all())):
            leaf = queue_name(backend.namespace, root.name, short)
            known[canonical_name(root.name, short)] = submits_to[canonical_name(root.name, short)] = leaf
            allowed[leaf], bars[leaf] = all_nodes - barred if barred else None, barring
            flavors[leaf] = root.gpu_flavors
        submits_to[root.name] = queue_name(backend.namespace, root.name, SHARED_QUEUE)
    seen = None if actor.can_read_all else frozenset(visible_nodes(actor, backend))
    return LiveNames(
        known, submits_to, allowed, bars, backend.name, seen, DegradedRule(backend.degraded), usable, flavors
    )
