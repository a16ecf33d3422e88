"""Who follows the GPU quotas of a cluster now."""

from __future__ import annotations

from django.db import models

from pools.models import Backend
from scheduling.models.lease import LeaseColumns, complete_lease_constraint


class GpuControllerLease(LeaseColumns):
    """The lease of the one keeper that works with a cluster's GPU quotas."""

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="gpu_keeping")

    class Meta:
        constraints = [complete_lease_constraint("gpu_keeper_lease_is_whole")]

    def __str__(self) -> str:
        return f"GPU quotas of backend {self.backend_id}"
