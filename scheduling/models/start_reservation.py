"""Start reservations of simulated backends."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from pools.models import Backend
from scheduling.models.change_triggers import START_RESERVATIONS
from scheduling.models.workflow import Group


class StartReservation(models.Model):
    """Capacity kept for a gang that has waited long (`engine/rules/reservation.py`), written by each full
    scheduling cycle.

    `nodes` are `{node: {"flavor/resource": number}}`, chosen at the time `placed_at`; both are null while quotas or
    limits stop the gang. A row whose gang waits no more means nothing, and goes with the next full cycle.
    """

    group = models.OneToOneField(Group, on_delete=models.CASCADE, primary_key=True, related_name="start_reservation")
    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField()
    nodes = models.JSONField(null=True)
    placed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                # Nodes without a time are allowed: processes of the version before write so during an upgrade.
                condition=Q(placed_at__isnull=True) | Q(nodes__isnull=False),
                name="placed_with_its_nodes",
                violation_error_message="A start reservation without nodes has no time of their choice.",
            )
        ]
        triggers = [START_RESERVATIONS]

    def __str__(self) -> str:
        return f"start reservation of {self.group_id}"
