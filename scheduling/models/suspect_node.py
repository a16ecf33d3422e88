"""Nodes on which different work failed within minutes."""

from __future__ import annotations

import pgtrigger
from django.db import models

from pools.domain.audit_actions import AuditAction
from pools.models import Node
from pools.models.triggers import AuditTrigger, NoTruncateTrigger


class SuspectNodeQuerySet(models.QuerySet["SuspectNode"]):
    """Suspect nodes."""

    def open(self) -> SuspectNodeQuerySet:
        """Those that are suspect now."""
        return self.filter(cleared_at=None)


class SuspectNode(models.Model):
    """A node is suspect (`domain/judgement/suspect_nodes.py`) since `since`, the time of the last of `failures`
    workflows that failed there one after another. `cleared_at`: when a person said that it is in order, or when its
    drain was done; failures until then do not count again."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="suspect")
    failures = models.PositiveIntegerField()
    since = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True)

    objects = SuspectNodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(failures__gte=2),
                name="suspect_after_several",
                violation_error_message="One failure makes no node suspect.",
            )
        ]
        triggers = [
            AuditTrigger(
                subject="'suspicion/' || (SELECT name FROM pools_node WHERE id = NEW.node_id)",
                action=f"CASE WHEN NEW.cleared_at IS NULL THEN '{AuditAction.NODE_SUSPECTED}' "
                f"ELSE '{AuditAction.NODE_CLEARED}' END",
                operation=pgtrigger.Insert | pgtrigger.Update,
            ),
            NoTruncateTrigger("The table of suspect nodes"),
        ]

    def __str__(self) -> str:
        return f"suspect node {self.node_id}"
