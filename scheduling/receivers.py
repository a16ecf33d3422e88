"""Receivers of the ledger's signals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import connections
from django.dispatch import receiver
from django_celery_beat.models import PeriodicTask

from pools.database.transactions import Changes
from pools.domain.people.roles import Actor
from pools.models import Backend, Pool
from pools.selectors.change_tokens import OwnChange
from pools.signals import (
    ImpactReader,
    changes_committed,
    effect_confirmed,
    impact_requested,
    node_labels_requested,
    observation_ends,
    overfull_nodes_requested,
    usable_gpus_requested,
    workflows_on_nodes_requested,
)
from scheduling.domain.statuses import TaskStatus
from scheduling.models import NodeState, Task, WorkflowConfig
from scheduling.selectors.cluster.nodes import read_node_usage, usable_and_excess_gpus
from scheduling.selectors.queue.gpu_headroom import backends_of_namespaces
from scheduling.selectors.what_if.impact import read_impact
from scheduling.services.kubernetes.observing.record import end_observation
from scheduling.services.notifications import backends_changed
from scheduling.services.periodic_tasks import ensure_periodic_tasks
from scheduling.services.simulated.shown_effects import save_shown_effects


@receiver(changes_committed)
def notify_backends(changes: Changes, **_: Any) -> None:
    """Work may start on the backends that changed, and on those whose pools use a GPU namespace with new headroom."""
    backends_changed(changes.backend_ids | backends_of_namespaces(changes.namespaces))


@receiver(observation_ends)
def hand_over_observed_work(backend: Backend, root: Pool | None = None, **_: Any) -> int:
    """The cluster, or one pool of it, is managed from now on: what was seen of another scheduler leaves the record."""
    return end_observation(backend, root)


@receiver(workflows_on_nodes_requested)
def workflows_on_nodes(backend: Backend, nodes: Collection[str], **_: Any) -> list[str]:
    """The names of the workflows that run on these nodes."""
    running = Task.objects.filter(
        status=TaskStatus.RUNNING, node_name__in=nodes, group__workflow__root_pool__backend=backend
    )
    return list(running.order_by().values_list("group__workflow__name", flat=True).distinct())


@receiver(overfull_nodes_requested)
def overfull_nodes(backend: Backend, nodes: Collection[str], **_: Any) -> list[str]:
    """What running work holds on these nodes beyond their sizes."""
    uses = read_node_usage(backend=backend.pk)
    return [f"{use.name} ({use.overfull})" for use in uses if use.name in nodes and use.overfull]


@receiver(node_labels_requested)
def observed_labels(backend: Backend, **_: Any) -> dict[int, dict[str, str]]:
    """The labels of the nodes of a cluster, as it reported them last."""
    return dict(NodeState.objects.filter(node__backend=backend).values_list("node_id", "labels"))


@receiver(usable_gpus_requested)
def usable_gpus(**_: Any) -> dict[int, tuple[dict[str, dict[str, int]], int]]:
    """The GPUs that each backend can use, by flavor and platform, and those that work holds on nodes beyond their
    sizes."""
    return usable_and_excess_gpus()


@receiver(impact_requested)
def impact_of_change(
    actor: Actor, backend_ids: Collection[int], tokens: Mapping[str, str] | None, **_: Any
) -> ImpactReader:
    """The work that the next cycle would reclaim, start or leave waiting after the change of a dry run."""
    return read_impact(actor, backend_ids, tokens)


@receiver(effect_confirmed)
def shown_effect_confirmed(
    actor: Actor, title: str, memos: Sequence[Mapping[str, Any]], tokens: OwnChange, **_: Any
) -> None:
    """Write down what the preview of the change showed, to compare it with what the next cycle does."""
    save_shown_effects(actor, title, memos, tokens)


def ensure_periodic_tasks_exist(using: str, **_: Any) -> None:
    """After `migrate`: the periodic tasks have their rows. Going backwards, the tables may be gone already."""
    tables = set(connections[using].introspection.table_names())
    if {WorkflowConfig._meta.db_table, PeriodicTask._meta.db_table} <= tables:
        ensure_periodic_tasks()
