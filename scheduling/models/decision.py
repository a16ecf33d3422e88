"""Decisions of the schedulers: starts, moves and preemptions, with their beneficiary."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import pgtrigger
from django.db import models
from django.db.models import Max, Q

from pools.domain.audit_actions import AuditAction
from pools.domain.people.roles import Actor, Permission
from pools.models import Backend, Pool
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, raise_message
from scheduling.models.work_counters import COUNT_DECISIONS
from scheduling.models.workflow import Group, Workflow

MIN_RETENTION_DAYS = 1
"""Younger decisions cannot be deleted; older ones are deleted when they are too many or too old."""

APPEND_ONLY = pgtrigger.Trigger(
    name="append_only",
    operation=pgtrigger.Update | pgtrigger.Delete,
    when=pgtrigger.Before,
    func=f"""
        IF TG_OP = 'DELETE' AND OLD.time < now() - interval '{MIN_RETENTION_DAYS} day' THEN
            RETURN OLD;
        END IF;
        {raise_message("append_only", "Decisions are history: they cannot be changed, nor deleted while recent.")}
    """,
)


_WORKFLOW_SQL = "scheduling_workflow workflow WHERE workflow.uuid = NEW.workflow_id"

AUDIT_PREEMPTIONS = AuditTrigger(
    subject=f"'preemption/' || (SELECT name FROM {_WORKFLOW_SQL})",
    action=f"'{AuditAction.WORKFLOW_PREEMPTED}'",
    pool_id="NEW.root_pool_id",
    owner=f"(SELECT username FROM pools_user WHERE id = (SELECT submitted_by_id FROM {_WORKFLOW_SQL}))",
    ignore=["message", "for_workflow_id"],
    operation=pgtrigger.Insert,
    condition=pgtrigger.Condition("NEW.action IN ('preempt', 'reclaim')"),
)
"""The owner of preempted work gets a notice from the audit trail. Readers of the entry may not know the beneficiary."""


class DecisionQuerySet(models.QuerySet["Decision"]):
    """Reads of decisions."""

    def visible_to(self, actor: Actor) -> DecisionQuerySet:
        """Decisions about the actor's own work and about work on pools on which the actor has a role (design, D10)."""
        if actor.can_read_all:
            return self
        roots = Pool.objects.roots().filter(name__in=actor.pools_with(Permission.POOL_READ)).values("id")
        return self.filter(Q(workflow__submitted_by=actor.user_id) | Q(root_pool__in=roots))

    def last_moves(self, workflows: Collection[UUID]) -> dict[UUID, datetime]:
        """When tasks of these workflows moved to other nodes for the last time, by group: their work began again."""
        moves = self.filter(action=Decision.Action.MOVE, workflow__in=workflows).order_by()
        return dict(moves.values_list("group_id").annotate(Max("time")))


class Decision(models.Model):
    """One step of a plan, written in the transaction that applied it, or an observed decision of a cluster's
    scheduler, written with the observation. Append-only; kept for a bounded time.

    * `action`: `start` and `move` (to other nodes) of tasks; `reclaim` preempts tasks for work of another leaf,
      `preempt` for work of the same leaf; `give_up` is a gang that fell below its minimum and released the rest.
    * `pool` is the row of the leaf (for a shared leaf its top-level pool) and `root_pool` its tree; `workflow` and
      `group` are those that started, moved or lost tasks; `tasks` the names of these tasks, in the order of the spec,
      `nodes` their nodes after it (start, move) or before it, in the same order; `gpus` the GPUs of these tasks.
    * `for_workflow` is the beneficiary of a move or preemption; null for `start` and `give_up`, and for `preempt` on a
      cluster, whose scheduler does not report it. It may belong to a pool that the reader does not see: `message` names
      it, `message_without_beneficiary` does not. All decisions of one plan unit (a start and its victims) have the same
      `time`; their order is the order of ids.
    """

    class Action(models.TextChoices):
        START = "start"
        MOVE = "move"
        RECLAIM = "reclaim"
        PREEMPT = "preempt"
        GIVE_UP = "give_up"

    time = models.DateTimeField()
    action = models.TextField(choices=Action.choices)
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="+", db_index=False)
    root_pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="decisions", db_index=False)
    group = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+", db_index=False)
    tasks = models.JSONField(default=list)
    nodes = models.JSONField(default=list)
    gpus = models.PositiveIntegerField(default=0)
    for_workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, null=True, related_name="+")
    message = models.TextField()
    message_without_beneficiary = models.TextField()

    objects = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(for_workflow__isnull=True, action__in=["start", "give_up", "preempt"])
                | Q(for_workflow__isnull=False, action__in=["move", "reclaim", "preempt"]),
                name="decision_names_for_whom",
                violation_error_message="A move or a reclaim has a beneficiary; a start or a give-up has none.",
            )
        ]
        indexes = [
            models.Index(fields=["backend", "-id"], name="decision_by_backend"),
            models.Index(fields=["root_pool", "-id"], name="decision_by_root"),
            models.Index(fields=["pool", "-id"], name="decision_by_pool"),
            models.Index(fields=["workflow", "-id"], name="decision_by_workflow"),
            models.Index(fields=["time"], name="decision_time"),
        ]
        triggers = [APPEND_ONLY, NoTruncateTrigger("The table of decisions"), COUNT_DECISIONS, AUDIT_PREEMPTIONS]

    def __str__(self) -> str:
        return self.message
