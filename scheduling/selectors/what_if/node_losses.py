"""What a what-if about nodes needs to know of the live state besides its facts: labels, and which work restarts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from django.db.models import Count

from pools.models import Backend, Node
from scheduling.domain.cluster.naming import PLATFORM
from scheduling.domain.engine.facts import ClusterFacts, GangFacts
from scheduling.domain.statuses import EXIT_CODES, TaskStatus
from scheduling.domain.workflow_spec import exit_action
from scheduling.models import Task, WorkflowConfig
from scheduling.selectors.queue.live_facts import LiveFacts

LOST_CODE = EXIT_CODES[TaskStatus.FAILED_BACKEND_ERROR]
RUNNING = (TaskStatus.INITIALIZING, TaskStatus.RUNNING)


def with_node_losses(backend: Backend, live: LiveFacts) -> ClusterFacts:
    """The facts with the labels of the nodes, and with the gangs that would not restart after the loss of a node: those
    whose exit actions do not reschedule, and those that have had all their retries. Four queries at most."""
    labels = {
        name: {**configured, **(observed or {}), PLATFORM: platform}
        for name, platform, configured, observed in Node.objects.filter(backend=backend).values_list(
            "name", "platform", "labels", "state__labels"
        )
    }
    restarting, leads = _ends_of_groups({ref.group for ref in live.gangs.values()})
    facts = live.facts

    def with_end(gang: GangFacts) -> GangFacts:
        group = live.gangs[gang.name].group
        return replace(gang, restarts=group in restarting, lead=leads.get(group, ""))

    return replace(
        facts,
        nodes=None
        if facts.nodes is None
        else tuple(replace(node, labels=labels.get(node.name, {})) for node in facts.nodes),
        gangs=tuple(map(with_end, facts.gangs)),
    )


def _ends_of_groups(groups: Iterable[UUID]) -> tuple[set[UUID], dict[UUID, str]]:
    """The groups whose lead, else first, task is rescheduled after the loss of its node and may be retried, and the
    leads by group."""
    decided: dict[UUID, bool] = {}
    leads: dict[UUID, str] = {}
    rows = Task.objects.filter(group__in=list(groups), status__in=RUNNING).order_by("-lead", "position", "name")
    for group, name, lead, actions in rows.values_list("group", "name", "lead", "exit_actions"):
        decided.setdefault(group, exit_action(LOST_CODE, actions) == "RESCHEDULE")
        if lead:
            leads[group] = name
    found = {group for group, restarts in decided.items() if restarts}
    most = WorkflowConfig.objects.filter(pk=1).values_list("max_retry_per_task", flat=True).first() or 0
    if not found or not most:
        return set(), leads
    retries = Task.objects.filter(group__in=found, status=TaskStatus.RESCHEDULED).order_by()
    counts = retries.values_list("group", "name").annotate(Count("pk"))
    return found - {group for group, _, count in counts if count >= most}, leads
