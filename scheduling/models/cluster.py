"""What we know of a Kubernetes backend beside its configuration: whether it answers, and what its machines say."""

from __future__ import annotations

import uuid

from django.db import models

from pools.models import Backend, Node
from scheduling.models.lease import LeaseColumns, complete_lease_constraint


class ClusterState(LeaseColumns):
    """How a cluster was met last. `identity` stands on everything that the house makes there: what does not carry it
    was made by somebody else. `heartbeat_at` is when its API server last answered and its pods were known; `fault` is
    what is wrong since, in a sentence, empty when nothing is. The lease is that of the one agent that works with it."""

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="cluster_state")
    identity = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    heartbeat_at = models.DateTimeField(null=True)
    fault = models.TextField(blank=True)

    class Meta:
        constraints = [complete_lease_constraint("agent_lease_is_whole")]

    def __str__(self) -> str:
        return f"cluster of backend {self.backend_id}"


class NodeState(models.Model):
    """What a cluster says of a node beside its size. `ready`: it takes new pods. The `other_…` amounts are held by pods
    that are not this house's (GPUs, cores, bytes)."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="state")
    ready = models.BooleanField(default=True)
    conditions = models.JSONField(default=list)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list)
    other_gpus = models.PositiveIntegerField(default=0)
    other_cpu = models.PositiveIntegerField(default=0)
    other_memory_bytes = models.PositiveBigIntegerField(default=0)
    other_storage_bytes = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"state of node {self.node_id}"
