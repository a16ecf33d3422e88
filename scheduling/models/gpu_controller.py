"""Who follows the GPU quotas of a cluster now."""

from __future__ import annotations

from django.db import models

from pools.models import Backend
from scheduling.models.lease import Leased, whole_lease


class GpuKeeping(Leased):
    """The lease of the one keeper that works with a cluster's GPU quotas."""

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="gpu_keeping")

    class Meta:
        constraints = [whole_lease("gpu_keeper_lease_is_whole")]

    def __str__(self) -> str:
        return f"GPU quotas of backend {self.backend_id}"
