"""A Kubernetes backend, its agent, and the effects of scheduler and kubelet on pods, which tests cause themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from pools.models import Backend, KubernetesSettings, Pool
from scheduling.domain.cluster.naming import TASK_UUID
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.priorities import Priority
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import Cluster
from scheduling.models import Group, Task, Workflow
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world
from tests.support.foreign_objects import FOREIGN_LABEL

Answer = TypeVar("Answer")
KUBELET = "kubelet"
PATIENCE = 60.0
"""Seconds for which a call of a test is repeated while the API server asks for pauses, as it does after its start."""


def after_pauses(call: Callable[[], Answer]) -> Answer:
    """The answer of `call`, which is repeated after each pause that the API server asks for: kubelets do so too."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except errors.TooManyRequests as pause:
            if time.monotonic() > end:
                raise
            time.sleep(pause.retry_after or 0.1)


def kubernetes_backend(namespace: str, name: str = "lab") -> Backend:
    """A backend of type kubernetes; tests supply its connection."""
    row = Backend.objects.create(name=name, namespace=namespace, kind=Backend.Kind.KUBERNETES)
    KubernetesSettings.objects.create(backend=row, access=KubernetesSettings.Access.IN_CLUSTER, server=f"test:{name}")
    return row


@dataclass
class AgentHarness:
    """One pool on one cluster, and the agent between them, run by the test."""

    cluster: Cluster
    backend: Backend
    pool: Pool
    agent: ClusterAgent

    @classmethod
    def make(
        cls, cluster: Cluster, namespace: str, *, name: str = "lab", pool: str = "team", **subpools: int
    ) -> AgentHarness:
        """A pool of 100 GPUs with these subpools."""
        backend = kubernetes_backend(namespace, name)
        row = world.make_pool(pool, 100, on=backend, **subpools)
        return cls(
            cluster,
            backend,
            row,
            ClusterAgent(backend.pk, connect=lambda _: cluster, intervals=AgentIntervals(recount=0)),
        )

    def new_agent(self) -> ClusterAgent:
        """Another agent of the same backend."""
        return ClusterAgent(self.backend.pk, connect=lambda _: self.cluster, intervals=AgentIntervals(recount=0))

    def run_agent(self, times: int = 3) -> None:
        """Run rounds of the agent until the consequences of the first round are done: at most so many, and on the fake
        cluster none after one that changed nothing there and asked for no other."""
        for _ in range(times):
            before = getattr(self.cluster, "changes", None)
            self.agent.relist_and_reconcile()
            after = getattr(self.cluster, "changes", None)
            if before == after is not None and not self.agent._wake.is_set():
                return

    def submit(
        self, file: str | None = None, *, gpus: int = 1, to: str = "", priority: Priority = Priority.NORMAL
    ) -> Workflow:
        """A workflow of `root-admin`, of one task unless `file` says otherwise."""
        submission = Submission(file=file or world.workflow_file(gpus=gpus), priority=priority)
        receipt = submit(actor=world.admin_actor(), pool=to or self.pool.name, submission=submission)
        assert receipt.workflow is not None
        return receipt.workflow

    # --- the state of the cluster -------------------------------------------------------------------------------------
    def list_pods(self, of: Workflow | None = None) -> list[Object]:
        """Pods of the namespace, by task name and attempt, without foreign objects."""
        labels = f"!{FOREIGN_LABEL}" if of is None else f"osmo.workflow_uuid={of.pk}"
        place = self.backend.namespace
        found = after_pauses(lambda: self.cluster.list(resource_kinds.POD, namespace=place, labels=labels)).items
        return sorted(found, key=lambda pod: (_label(pod, "osmo.task_name"), _label(pod, "osmo.retry_id")))

    def list_pod_groups(self) -> list[Object]:
        """PodGroups of the namespace."""
        place, labels = self.backend.namespace, f"!{FOREIGN_LABEL}"
        return after_pauses(lambda: self.cluster.list(resource_kinds.POD_GROUP, namespace=place, labels=labels)).items

    def find_pod(self, workflow: Workflow, name: str, retry: int = 0) -> Object:
        """The pod of one attempt."""
        (found,) = [
            pod
            for pod in self.list_pods(workflow)
            if (_label(pod, "osmo.task_name"), _label(pod, "osmo.retry_id")) == (name, str(retry))
        ]
        return found

    # --- effects of scheduler and kubelet -----------------------------------------------------------------------------
    def set_pod_status(self, pod: Object, **status: Any) -> None:
        """The status of a pod, as the kubelet reports it."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        after_pauses(
            lambda: self.cluster.merge(
                resource_kinds.POD, name, {"status": status}, field_manager=KUBELET, namespace=namespace, status=True
            )
        )

    def run_pods(self, *pods: Object) -> None:
        """The kubelet starts these pods."""
        for pod in pods:
            started = {"running": {"startedAt": _now()}}
            self.set_pod_status(pod, phase="Running", podIP="10.0.0.7", containerStatuses=[_container(pod, started)])

    def start_work(self, of: Workflow | None = None) -> None:
        """Dispatch; the kubelet starts all pods (of this workflow), and that is seen."""
        self.run_agent()
        self.run_pods(*self.list_pods(of))
        self.run_agent()

    def bind_pod(self, pod: Object, node: str) -> None:
        """The scheduler gives a pod its node: on the fake cluster, where anybody may write it."""
        self.cluster.merge(
            resource_kinds.POD, pod["metadata"]["name"], {"spec": {"nodeName": node}}, field_manager="kai",
            namespace=self.backend.namespace,
        )  # fmt: skip

    def finish_pods(self, *pods: Object, code: int = 0, reason: str = "") -> None:
        """The pods' own containers end."""
        for pod in pods:
            over = {"terminated": {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error")}}
            self.set_pod_status(pod, phase="Failed" if code else "Succeeded", containerStatuses=[_container(pod, over)])

    def set_container_waiting(self, pod: Object, reason: str, message: str = "") -> None:
        """The container waits."""
        waiting = {"waiting": {"reason": reason, "message": message}}
        self.set_pod_status(pod, phase="Pending", containerStatuses=[_container(pod, waiting)])

    def evict_pods(
        self, *pods: Object, reason: str = "PreemptionByScheduler", message: str = "needed elsewhere"
    ) -> None:
        """The scheduler (or another client) marks the pods and deletes them; the kubelet has not removed them yet."""
        for pod in pods:
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
            self.set_pod_status(pod, conditions=[condition | {"lastTransitionTime": _now()}])
            self.delete_pod(pod)

    def delete_pod(self, pod: Object) -> None:
        """A foreign client deletes a pod."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        after_pauses(lambda: self.cluster.delete(resource_kinds.POD, name, namespace=namespace, grace_seconds=0))

    def force_delete_pod(self, pod: Object) -> None:
        """A foreign client removes our finalizer and deletes the pod."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self.cluster.merge(
            resource_kinds.POD, name, {"metadata": {"finalizers": []}}, field_manager="somebody", namespace=namespace
        )
        try:
            self.delete_pod(pod)
        except errors.ObjectNotFound:
            return

    def mark_unschedulable(self, pod_group: Object, reason: str, message: str, **details: Any) -> None:
        """KAI reports why a PodGroup waits."""
        explanation = {"reason": reason, "message": message} | (
            {"details": {"queueDetails": details}} if details else {}
        )
        condition = {
            "type": "UnschedulableOnNodePool",
            "status": "True",
            "reason": reason,
            "message": message,
            "nodePool": "default",
            "transitionID": "1",
            "lastTransitionTime": _now(),
            "reasons": [explanation],
        }
        self.cluster.merge(
            resource_kinds.POD_GROUP,
            pod_group["metadata"]["name"],
            {"status": {"schedulingConditions": [condition]}},
            field_manager="kai-scheduler",
            namespace=self.backend.namespace,
            status=True,
        )


def task_statuses(workflow: Workflow) -> list[tuple[str, int, str, int | None]]:
    """Every attempt of a workflow: (task, retry, status, exit code)."""
    tasks = Task.objects.filter(group__workflow=workflow).order_by("group__position", "position", "retry_id")
    return [(task.name, task.retry_id, task.status, task.exit_code) for task in tasks]


def find_group(workflow: Workflow, name: str | None = None) -> Group:
    """The group of this name, or the only one."""
    groups = Group.objects.filter(workflow=workflow)
    return groups.get(name=name) if name else groups.get()


def gang_file(
    *tasks: str,
    name: str = "job",
    gpus: int = 1,
    task_fields: str = "",
    ignore_nonlead: bool = True,
    workflow_lines: Sequence[str] = (),
) -> str:
    """A workflow file of one group of these tasks, the first of them the lead. `task_fields` goes into each task,
    `workflow_lines` are further lines of the workflow."""
    lines = ["workflow:", f"  name: {name}", *[f"  {line}" for line in workflow_lines], "  groups:", "  - name: gang"]
    lines += [f"    ignoreNonleadStatus: {str(ignore_nonlead).lower()}", "    tasks:"]
    fields = f", {task_fields}" if task_fields else ""
    for place, task in enumerate(tasks):
        lead = ", lead: true" if place == 0 else ""
        lines.append(f"    - {{name: {task}, image: ubuntu, command: [sh], resource: r{lead}{fields}}}")
    lines += ["  resources:", f"    r: {{gpu: {gpus}}}"]
    return "\n".join(lines) + "\n"


def task_uuid_of(pod: Object) -> UUID:
    """The id of a pod's attempt."""
    return UUID(_label(pod, TASK_UUID))


def _label(pod: Object, key: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(key, ""))


def _container(pod: Object, state: Object) -> Object:
    name = pod["spec"]["containers"][0]["name"]
    return {"name": name, "state": state, "image": "ubuntu", "imageID": "", "ready": False, "restartCount": 0}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
