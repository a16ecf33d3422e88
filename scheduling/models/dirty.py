"""What is known of a simulated backend's rest: until when everything was looked at, and what has moved since."""

from __future__ import annotations

from django.db import models

from pools.models import Backend


class BackendSchedulingState(models.Model):
    """A settling looked at everything on this backend and came to rest.

    `snapshot` is PostgreSQL's of the moment it last looked: work submitted in a transaction that the snapshot does not
    see is new. `looked_at` is when everything was looked at and `seconds` how long that took; since then new work may
    have been looked at alone, which `owes` the rest a look of its own. `waits_outside`: something waits for what moves
    without telling us (a GPU quota of a namespace, a cohort's pools on another backend).
    """

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="+")
    snapshot = models.TextField()
    looked_at = models.DateTimeField()
    seconds = models.FloatField()
    owes = models.BooleanField(default=False)
    waits_outside = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.backend_id} at rest since {self.looked_at}"


class BackendDirtyMark(models.Model):
    """Something moved on a simulated backend, other than that work was submitted: written in the transaction that moved
    it, taken away by the settling that came to rest after having seen it."""

    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"move {self.pk} on {self.backend_id}"
