"""What scheduling decided: who started where, who lost its place and for whom."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q

from pools.domain.roles import Actor, Permission
from pools.models import Backend, Pool
from pools.models.triggers import NoTruncateTrigger, raise_message
from scheduling.models.workflow import Group, Workflow

MIN_RETENTION_DAYS = 1
"""Younger decisions cannot be deleted by anybody; older ones go when they are too many or too old."""

APPEND_ONLY = pgtrigger.Trigger(
    name="append_only",
    operation=pgtrigger.Update | pgtrigger.Delete,
    when=pgtrigger.Before,
    func=f"""
        IF TG_OP = 'DELETE' AND OLD.time < now() - interval '{MIN_RETENTION_DAYS} day' THEN
            RETURN OLD;
        END IF;
        {raise_message("append_only", "Decisions are history: they do not change, and young ones do not go.")}
    """,
)


class DecisionQuerySet(models.QuerySet["Decision"]):
    """Reads of decisions."""

    def visible_to(self, actor: Actor) -> DecisionQuerySet:
        """Those about one's own work and about work on pools where one has a role (D10)."""
        if actor.can_read_all:
            return self
        roots = Pool.objects.roots().filter(name__in=actor.pools_with(Permission.POOL_READ)).values("id")
        return self.filter(Q(workflow__submitted_by=actor.user_id) | Q(root_pool__in=roots))


class Decision(models.Model):
    """One deed of settling, written in the transaction that did it, or what the scheduler of a cluster was seen to do,
    written with what was seen. Append-only; kept for a bounded time.

    * `action`: `start` and `move` (to other nodes) of tasks; `reclaim` took them for work of another leaf, `preempt`
      for work of the same leaf; `give_up` is a gang that fell below its minimum and let go of the rest.
    * `pool` is the leaf's row (a shared leaf goes by its top-level pool's) and `root_pool` its tree; `workflow` and
      `group` are those that started, moved or lost something; `tasks` the names of its tasks, in the order of the spec,
      `nodes` where they stand after it (start, move) or stood before it, in the same order; `gpus` what they hold.
    * `for_workflow` is on whose behalf something was moved or taken; null for `start` and `give_up`, and for `preempt`
      on a cluster, whose scheduler does not say. It may belong to a pool that the reader does not see: `sentence` names
      it, `sentence_without_name` does not. All decisions of one deed (the victims' and the start they were for) have
      the same `time`; a deed's own order is the order of ids.
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
    sentence = models.TextField()
    sentence_without_name = models.TextField()

    objects = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(for_workflow__isnull=True, action__in=["start", "give_up", "preempt"])
                | Q(for_workflow__isnull=False, action__in=["move", "reclaim", "preempt"]),
                name="decision_names_for_whom",
                violation_error_message="What is moved or taken is so for somebody, or by a cluster; a start is not.",
            )
        ]
        indexes = [
            models.Index(fields=["backend", "-id"], name="decision_by_backend"),
            models.Index(fields=["root_pool", "-id"], name="decision_by_root"),
            models.Index(fields=["pool", "-id"], name="decision_by_pool"),
            models.Index(fields=["workflow", "-id"], name="decision_by_workflow"),
            models.Index(fields=["time"], name="decision_time"),
        ]
        triggers = [APPEND_ONLY, NoTruncateTrigger("The table of decisions")]

    def __str__(self) -> str:
        return self.sentence
