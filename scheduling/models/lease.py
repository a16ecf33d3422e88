"""A claim on the work for one cluster: the columns of whoever speaks to it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class LeaseColumns(models.Model):
    """`holder` and `held_until` are the lease of the one worker that is at it: a row claimed for a while, not a lock
    held while speaking to a cluster (:mod:`scheduling.services.kubernetes.leases`)."""

    holder = models.UUIDField(null=True)
    held_until = models.DateTimeField(null=True)

    class Meta:
        abstract = True


def complete_lease_constraint(name: str) -> models.CheckConstraint:
    """A lease has a holder and an end, or neither."""
    return models.CheckConstraint(
        condition=Q(holder__isnull=True, held_until__isnull=True) | Q(holder__isnull=False, held_until__isnull=False),
        name=name,
        violation_error_message="A lease has a holder and an end.",
    )
