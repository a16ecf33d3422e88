"""The columns of a lease: the exclusive right to work with one cluster for a limited time."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class LeaseColumns(models.Model):
    """`lease_holder` and `lease_expires_at` describe the lease of one worker: a row claimed for a limited time, instead
    of a lock held while a cluster is called (:mod:`scheduling.services.kubernetes.leases`)."""

    lease_holder = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


def complete_lease_constraint(name: str) -> models.CheckConstraint:
    """A lease has a holder and an expiry, or neither."""
    return models.CheckConstraint(
        condition=Q(lease_holder__isnull=True, lease_expires_at__isnull=True)
        | Q(lease_holder__isnull=False, lease_expires_at__isnull=False),
        name=name,
        violation_error_message="A lease has a holder and an expiry.",
    )
