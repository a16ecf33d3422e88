"""Who follows the GPU quotas of a cluster now."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from pools.models import Backend


class GpuKeeping(models.Model):
    """`holder` and `held_until` are the lease of the one keeper that works with a cluster's GPU quotas: a row claimed
    for a while, not a lock held while speaking to a cluster."""

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="gpu_keeping")
    holder = models.UUIDField(null=True)
    held_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(holder__isnull=True, held_until__isnull=True)
                | Q(holder__isnull=False, held_until__isnull=False),
                name="gpu_keeper_lease_is_whole",
                violation_error_message="A lease has a holder and an end.",
            )
        ]

    def __str__(self) -> str:
        return f"GPU quotas of backend {self.backend_id}"
