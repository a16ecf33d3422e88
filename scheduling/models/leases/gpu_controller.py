"""The lease of the GPU quota controller of a cluster."""

from __future__ import annotations

from django.db import models

from pools.models import Backend
from scheduling.models.leases.lease import LeaseColumns, complete_lease_constraint


class GpuControllerLease(LeaseColumns):
    """The lease of the one controller that works with the GPU quotas of a cluster."""

    backend = models.OneToOneField(
        Backend, on_delete=models.CASCADE, primary_key=True, related_name="gpu_controller_lease"
    )

    class Meta:
        constraints = [complete_lease_constraint("gpu_controller_lease_is_complete")]

    def __str__(self) -> str:
        return f"GPU quotas of backend {self.backend_id}"
