"""State of the queue sync of a cluster, and drift: fields that another client changed there."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from pools.models import Backend
from scheduling.models.leases.lease import LeaseColumns, complete_lease_constraint


class QueueSync(LeaseColumns):
    """The queues of one Kubernetes backend: observed, not configured.

    `applied_generation` is the generation that is known to be applied in the cluster (-1: none yet), compared with
    :func:`pools.selectors.change_tokens.read_generation`. `synced`, `reason`, `message` and `since` are a condition as
    in Kubernetes. `retry_at` is the time of the next attempt after a failure. `closed_queues` are the desired queues
    that work cannot use, as the last run left the cluster: `{name: sentence}` for those of others and those that do not
    exist.
    The lease belongs to the one worker that syncs.
    """

    class Synced(models.TextChoices):
        TRUE = "True"
        FALSE = "False"
        UNKNOWN = "Unknown"

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="queue_sync")
    applied_generation = models.BigIntegerField(default=-1)
    synced = models.TextField(choices=Synced.choices, default=Synced.UNKNOWN)
    reason = models.TextField(default="NeverTried")
    message = models.TextField(default="The queues of this cluster were not synced yet.")
    since = models.DateTimeField(db_default=Now())
    attempted_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    objects_observed = models.PositiveIntegerField(default=0)
    untouched = models.JSONField(default=list)
    closed_queues = models.JSONField(default=dict, db_default={})

    connection_test = models.JSONField(null=True)
    connection_test_requested_at = models.DateTimeField(null=True)
    connection_tested_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [complete_lease_constraint("sync_lease_is_complete")]

    def __str__(self) -> str:
        return f"queues of backend {self.backend_id}: {self.reason}"


class QueueDrift(models.Model):
    """A field of one of our queues that another client changed. The drift is open until our value is in the cluster
    again (`reapplied_at`); closed rows remain for a while as history.

    `author` is the field manager that the API server recorded for the write.
    """

    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="queue_drift")
    queue = models.TextField()
    field = models.TextField()
    theirs = models.JSONField(null=True)
    ours = models.JSONField(null=True)
    author = models.TextField()
    seen_at = models.DateTimeField(db_default=Now())
    reapplied_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-seen_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["backend", "queue", "field"], condition=Q(reapplied_at__isnull=True), name="drift_open_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.field}: {self.theirs} instead of {self.ours}, by {self.author}"
