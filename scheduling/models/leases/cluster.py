"""Observed state of a Kubernetes backend: heartbeat, and the state of its nodes."""

from __future__ import annotations

import uuid

from django.db import models

from pools.models import Backend, Node
from scheduling.models.change_triggers import NODE_STATES
from scheduling.models.leases.lease import LeaseColumns, complete_lease_constraint


class ClusterState(LeaseColumns):
    """The last contact with a cluster. `identity` marks every object that we create there; objects without it are
    foreign. `heartbeat_at` is when its API server last answered and its pods were known; `error` is a message about the
    current problem, or empty. The lease belongs to the one agent that works with the cluster.
    `cluster_lease` is the agent's view of the Lease object in the cluster (`held`, `elsewhere`, `unusable`, or nothing
    yet), since when, and a message about it. `unassigned` has the queues and namespaces of an observed cluster that no
    pool takes, with the number of their workloads, the GPUs of these and the pool that they name; `unread` its objects
    that cannot count, each with its problem."""

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="cluster_state")
    identity = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    heartbeat_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    cluster_lease = models.TextField(blank=True)
    cluster_lease_message = models.TextField(blank=True)
    cluster_lease_since = models.DateTimeField(null=True)
    unassigned = models.JSONField(default=list, db_default=[])
    unread = models.JSONField(default=list, db_default=[])

    class Meta:
        constraints = [complete_lease_constraint("agent_lease_is_complete")]

    def __str__(self) -> str:
        return f"cluster of backend {self.backend_id}"


class NodeState(models.Model):
    """Observed state of a node, without its size. `ready`: pods of ours may start on it. `notes` are sentences about
    what keeps them away and what its size does not say. The `other_…` amounts are held by foreign pods (GPUs, cores,
    bytes); `other_notes` are sentences about what else they hold."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="state")
    ready = models.BooleanField(default=True)
    conditions = models.JSONField(default=list)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list)
    notes = models.JSONField(default=list, db_default=[])
    other_gpus = models.PositiveIntegerField(default=0)
    other_cpu = models.PositiveIntegerField(default=0)
    other_memory_bytes = models.PositiveBigIntegerField(default=0)
    other_storage_bytes = models.PositiveBigIntegerField(default=0)
    other_notes = models.JSONField(default=list, db_default=[])

    class Meta:
        triggers = [NODE_STATES]

    def __str__(self) -> str:
        return f"state of node {self.node_id}"
