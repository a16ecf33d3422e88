"""The manifests of gangs whose objects are still missing in their cluster. Reads rows only; makes no calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import Prefetch

from pools.database.one_by_one import left_out_on_error
from pools.domain.configuration.flavors import Flavor, flavors_of
from pools.domain.structured_input.faults import join_words
from pools.models import Backend, KubernetesSettings, Node, Pool
from scheduling.domain.cluster.devices import NodeLabels, avoid_shared_gpus
from scheduling.domain.cluster.naming import DispatchTarget, GangOrigin
from scheduling.domain.cluster.pods.flavor_nodes import flavor_terms
from scheduling.domain.cluster.pods.pod import PodAttempt, gang_context
from scheduling.domain.cluster.pods.pod_group import GangShape, pod_group_manifest
from scheduling.domain.cluster.pods.topology import TopologyLevels, TopologyTree, topology_tree
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.priorities import Priority
from scheduling.domain.queues.desired import topology_name
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES
from scheduling.domain.workflow_spec import GroupSpec, TaskSpec
from scheduling.kube.gang_objects import GangManifest
from scheduling.models import Group, Task, Workflow
from scheduling.selectors.queue.admitted_specs import UnreadableSpec, find_group_spec, read_admitted_specs
from scheduling.selectors.queue.cluster_gangs import STATUSES_IN_CLUSTER
from scheduling.selectors.work.workflows import queue_names_of


@dataclass(frozen=True, slots=True)
class ImpossibleGang:
    """A gang for which no manifest can be written, with the reason."""

    group_id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """A backend with the settings of its cluster, and the installation's id, which labels all our objects there."""

    backend: Backend
    settings: KubernetesSettings
    installation_id: str

    @property
    def shard_selector(self) -> str:
        """A label selector for the nodes of our KAI shard: those with its name, and for the shard without a name those
        without the label."""
        settings = self.settings
        return f"{settings.node_pool_key}={settings.node_pool}" if settings.node_pool else f"!{settings.node_pool_key}"

    def target(self, queue: str) -> DispatchTarget:
        """The target of the gangs in one leaf queue."""
        settings = self.settings
        shard = (settings.node_pool_key, settings.node_pool) if settings.node_pool else None
        return DispatchTarget(
            self.installation_id,
            self.backend.namespace,
            queue,
            settings.scheduler_name,
            shard,
            settings.node_pool_key,
        )


def pending_manifests(
    context: ClusterContext, groups: Collection[UUID], find_pod_group: Callable[[UUID], Object | None]
) -> Iterator[GangManifest | ImpossibleGang]:
    """A manifest for each of these gangs that is still open, with the pods that were not created yet. `find_pod_group`
    finds the known PodGroup of a gang."""
    gangs = list(_open_gangs(context.backend, groups))
    specs = read_admitted_specs({gang.workflow_id for gang in gangs})
    avoided = _avoided_nodes(context.backend) if gangs else []
    for gang in gangs:
        spec = specs.get(gang.workflow_id)
        if isinstance(spec, UnreadableSpec):
            yield ImpossibleGang(gang.pk, str(spec))
            continue
        group_spec = find_group_spec(spec, gang.name) if spec is not None else None
        if group_spec is None or {task.name for task in gang.tasks.all()} - {task.name for task in group_spec.tasks}:
            yield ImpossibleGang(gang.pk, f"The workflow file does not define all tasks of {gang.name}.")
            continue
        labels = gang.workflow.root_pool.topology_labels
        is_new = all(task.dispatched_at is None for task in gang.tasks.all())
        if is_new and (lost := group_spec.required_topology_keys - labels.keys()):
            yield ImpossibleGang(
                gang.pk,
                f"{gang.name} requires the topology key {join_words(sorted(lost))}, which pool "
                f"{gang.workflow.root_pool.name} no longer has. It has {join_words(labels) or 'none'}.",
            )
            continue
        manifest = None
        with left_out_on_error("the objects of a gang", gang.pk):
            manifest = _gang_manifest(context, gang, group_spec, find_pod_group(gang.pk), avoided)
        if manifest is not None:
            yield manifest


def _open_gangs(backend: Backend, groups: Collection[UUID]) -> Iterator[Group]:
    rows = Group.objects.filter(
        pk__in=groups,
        status__in=STATUSES_IN_CLUSTER,
        workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
        workflow__root_pool__backend=backend,
    )
    open_tasks = Task.objects.filter(status__in=UNFINISHED_TASK_STATUSES).order_by("position", "name")
    yield from (
        rows.select_related("workflow__pool__parent", "workflow__root_pool__backend", "workflow__submitted_by")
        .defer("workflow__spec", "workflow__template_spec")
        .prefetch_related(Prefetch("tasks", open_tasks))
        .order_by("workflow__submit_time", "position")
    )


def _gang_manifest(
    context: ClusterContext,
    gang: Group,
    group_spec: GroupSpec,
    current_pod_group: Object | None,
    avoided: Sequence[Object],
) -> GangManifest:
    workflow = gang.workflow
    target = context.target(queue_names_of(workflow)[1])
    origin = _origin(workflow, gang)
    specs = {spec.name: spec for spec in group_spec.tasks}
    topology = _topology(context.backend, workflow.root_pool, gang, group_spec)
    flavors = flavors_of(context.backend.flavors)
    attempts = [_attempt(task, specs[task.name], topology, flavors) for task in gang.tasks.all()]
    shape = GangShape(len(attempts), gang.gang, topology)
    # Every task of the gang has a host name, also a task that has ended or was created before.
    pod_context = gang_context(target, origin, _all_tasks(group_spec), workflow.env_vars, avoided)
    new = {task.pk for task in gang.tasks.all() if task.dispatched_at is None}
    return GangManifest(
        gang.pk,
        pod_context,
        pod_group_manifest(target, origin, shape),
        tuple(attempt for attempt in attempts if attempt.uuid in new),
        current_pod_group,
        tuple(attempt for attempt in attempts if attempt.uuid not in new),
    )


def _avoided_nodes(backend: Backend) -> list[Object]:
    """The match expressions by which pods with GPUs avoid the nodes whose parts of GPUs do not count. The labels of
    nodes are read only where there is such a node."""
    shared = set(Node.objects.filter(backend=backend, gpus=0, advertised_gpus__gt=0).values_list("pk", flat=True))
    if not shared:
        return []
    rows = Node.objects.filter(backend=backend).values_list("pk", "name", "state__labels")
    return avoid_shared_gpus(NodeLabels(name, labels or {}, pk in shared) for pk, name, labels in rows)


def _origin(workflow: Workflow, gang: Group) -> GangOrigin:
    return GangOrigin(
        workflow=workflow.name,
        workflow_uuid=workflow.pk,
        group=gang.name,
        group_uuid=gang.pk,
        submitted_by=workflow.submitted_by.username,
        pool=workflow.pool.name,
        priority=Priority(workflow.priority),
    )


def _attempt(task: Task, spec: TaskSpec, topology: TopologyTree | None, flavors: Sequence[Flavor]) -> PodAttempt:
    return PodAttempt(
        uuid=task.pk,
        retry=task.retry_id,
        position=task.position,
        spec=spec if spec.lead == task.lead else replace(spec, lead=task.lead),
        gpus=task.gpu_count,
        cpu=task.cpu_count,
        memory_bytes=task.memory_bytes,
        storage_bytes=task.storage_bytes,
        platform=task.platform,
        nodes_excluded=tuple(task.nodes_excluded),
        sub_group=task.sub_group or (topology.sub_group_of.get(task.name, "") if topology else ""),
        flavor_terms=flavor_terms(flavors, task.flavor) if task.flavor else ((),),
    )


def _all_tasks(group_spec: GroupSpec) -> Sequence[PodAttempt]:
    return [PodAttempt(UUID(int=0), 0, position, spec) for position, spec in enumerate(group_spec.tasks)]


def _topology(backend: Backend, root: Pool, gang: Group, group_spec: GroupSpec) -> TopologyTree | None:
    """The subgroups by topology of a gang whose tasks start together. A gang with a tree of its own has none."""
    labels = root.topology_labels
    requests: Mapping[str, Sequence[Any]] = {task.name: task.topology for task in group_spec.tasks}
    if gang.gang is not None or not labels or not any(requests.values()):
        return None
    return topology_tree(requests, TopologyLevels(topology_name(backend.namespace, root.name), labels))
