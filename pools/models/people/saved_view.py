"""Saved views of lists."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from pools.models.people.membership import User


class SavedView(models.Model):
    """A person's name for the filters of a list; :mod:`pools.domain.people.saved_views` has the rules. It is a
    preference, not a part of the ledger, so the audit trail has no entry of it."""

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    page = models.CharField(max_length=32)
    name = models.CharField(max_length=40)
    query = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["page", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "page", "name"],
                name="saved_view_name_once",
                violation_error_message="This list has a view of this name already.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.page}: {self.name}"
