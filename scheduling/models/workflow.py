"""Workflows, their groups and their tasks."""

from __future__ import annotations

import uuid

import pgtrigger
from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db import models
from django.db.models import F, Func, Q, Value

from pools.domain.audit_actions import AuditAction
from pools.domain.people.roles import Actor, Permission
from pools.models import Pool
from pools.models.people.membership import account_start
from pools.models.triggers import AuditTrigger, NeverDeletedTrigger, NoTruncateTrigger, raise_message
from scheduling.domain.judgement.suspect_nodes import NODE_FAILURES
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus, WorkflowStatus
from scheduling.models.change_triggers import GROUPS, TASKS, WORKFLOWS
from scheduling.models.usage_triggers import RECORD_LATE, RECORD_WAIT
from scheduling.models.work_triggers import RESERVED_WHILE_ACTIVE, STATUS_MACHINE


class WorkflowName(models.Model):
    """The highest number assigned to a workflow name. Submissions with equal names wait for the lock of this row, so
    their numbers are dense and never collide."""

    name = models.TextField(primary_key=True)
    last_number = models.PositiveIntegerField()

    class Meta:
        triggers = [
            pgtrigger.Trigger(
                name="only_grows",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition("NEW.last_number < OLD.last_number OR NEW.name <> OLD.name"),
                func=raise_message("workflow_numbers_grow", "The numbers of workflows named % only grow.", "OLD.name"),
            ),
            NeverDeletedTrigger("Numbers of workflow names"),
            NoTruncateTrigger("The table of workflow names"),
        ]

    def __str__(self) -> str:
        return f"{self.name}-{self.last_number}"


class WorkflowQuerySet(models.QuerySet["Workflow"]):
    """Reads of workflows."""

    def visible_to(self, actor: Actor) -> WorkflowQuerySet:
        """The actor's own workflows since the account exists, and all workflows on pools on which the actor has a role;
        all for platform readers (design, D10)."""
        if actor.can_read_all:
            return self
        roots = Pool.objects.roots().filter(name__in=actor.pools_with(Permission.POOL_READ)).values("id")
        mine = Q(submitted_by=actor.user_id, submit_time__gte=account_start(actor))
        # As `= ANY (ARRAY (…))`: with `IN (…)` no index helps together with another condition, and a count reads all
        # rows.
        on_them = Func(
            F("root_pool"), ArraySubquery(roots), template="(%(expressions)s))", arg_joiner=" = ANY (",
            output_field=models.BooleanField(),
        )  # fmt: skip
        return self.filter(mine | Q(on_them))

    def active(self) -> WorkflowQuerySet:
        """Workflows that have not ended."""
        return self.filter(status__in=ACTIVE_WORKFLOW_STATUSES)


class Workflow(models.Model):
    """One submission: groups that run one after another where they depend on each other, on one leaf of a pool.

    `name` is the workflow id of users (`hello-1`); `pool` is the row of the leaf and `root_pool` its tree. A refused
    file leaves no row behind.
    """

    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.TextField(unique=True)
    spec_name = models.TextField()
    # Without indexes of their own: those of the lists below begin with the same columns.
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="workflows", db_index=False)
    root_pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    submitted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workflows", db_index=False
    )
    priority = models.TextField(choices=[(p, p) for p in Priority], default=Priority.NORMAL)
    status = models.TextField(choices=[(s, s) for s in WorkflowStatus], default=WorkflowStatus.PENDING)
    failure_message = models.TextField(blank=True)
    submit_time = models.DateTimeField()
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    exec_timeout = models.DurationField(null=True)
    queue_timeout = models.DurationField(null=True)
    simulated_runtime = models.DurationField(null=True)
    labels = models.JSONField(default=dict)
    env_vars = models.JSONField(default=dict)
    tags = models.JSONField(default=list)
    spec = models.TextField()
    template_spec = models.TextField(blank=True)
    warnings = models.JSONField(default=list)
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="restarts")
    cancelled_by = models.TextField(blank=True)
    app_uuid = models.TextField(blank=True)
    app_version = models.TextField(blank=True)

    loaded_groups: list[Group]
    """Its groups in their order, if `get_full_workflow` has read it; not a column."""

    objects = WorkflowQuerySet.as_manager()

    class Meta:
        ordering = ["-submit_time", "-name"]
        indexes = [
            models.Index(fields=["-submit_time", "-name"], name="workflow_newest"),
            models.Index(fields=["submitted_by", "-submit_time"], name="workflow_by_user"),
            models.Index(fields=["root_pool", "-submit_time"], name="workflow_by_root"),
            models.Index(fields=["pool", "-submit_time"], name="workflow_by_pool"),
            models.Index(
                fields=["pool"], name="workflow_live", condition=Q(status__in=sorted(ACTIVE_WORKFLOW_STATUSES))
            ),
            models.Index(
                fields=["submitted_by"],
                name="workflow_live_by_user",
                condition=Q(status__in=sorted(ACTIVE_WORKFLOW_STATUSES)),
            ),
        ]
        triggers = [
            AuditTrigger(
                subject="'workflow/' || COALESCE(NEW.name, OLD.name)",
                action=f"CASE WHEN TG_OP = 'INSERT' THEN '{AuditAction.WORKFLOW_SUBMITTED}' WHEN TG_OP = 'DELETE' THEN "
                f"'{AuditAction.WORKFLOW_DELETED}' WHEN NEW.status = OLD.status THEN '{AuditAction.WORKFLOW_UPDATED}' "
                f"WHEN NEW.status = 'FAILED_CANCELED' THEN '{AuditAction.WORKFLOW_CANCELED}' "
                f"WHEN NEW.status = 'RUNNING' THEN '{AuditAction.WORKFLOW_STARTED}' "
                f"WHEN NEW.status = 'PENDING' THEN '{AuditAction.WORKFLOW_WAITING}' "
                f"ELSE '{AuditAction.WORKFLOW_ENDED}' END",
                pool_id="COALESCE(NEW.root_pool_id, OLD.root_pool_id)",
                owner="(SELECT username FROM pools_user WHERE id = COALESCE(NEW.submitted_by_id, OLD.submitted_by_id))",
                hide=["spec", "template_spec", "env_vars"],  # which often have passwords
                also={"pool": "(SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id))"},
            ),
            NeverDeletedTrigger("Workflows"),
            NoTruncateTrigger("The table of workflows"),
            STATUS_MACHINE,
            RESERVED_WHILE_ACTIVE,
            *WORKFLOWS,
        ]

    def __str__(self) -> str:
        return self.name


class Group(models.Model):
    """A gang: its tasks start together or not at all. `upstream` are the names of the groups it waits for.

    `ready_at` is when it began to wait for GPUs, `ends_at` when its simulated work is done, and `due_at` the earliest
    time at which it ends by itself (work done, or a timeout; :mod:`scheduling.domain.deadlines`), so that the search
    for due gangs reads only due gangs. `gang` is its tree as
    :func:`scheduling.domain.gang.tree_to_json` writes it and :func:`~scheduling.domain.gang.tree_from_json` reads it;
    null: all its tasks together or none. `gpus` is the smallest number with which it runs: those of all its tasks, or
    of an elastic gang the cheapest choice that holds its minimums. `passed_flavors` are the GPU flavors before the one
    in which it was sent to its cluster, each with why it did not get that: `[["h100", "no node had room for it"]]`.
    """

    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="groups", db_index=False)
    name = models.TextField()
    position = models.PositiveIntegerField()
    upstream = models.JSONField(default=list)
    status = models.TextField(choices=[(s, s) for s in TaskStatus], default=TaskStatus.SCHEDULING)
    gpus = models.PositiveIntegerField(default=0)
    gang = models.JSONField(null=True)
    failure_message = models.TextField(blank=True)
    waiting_reason = models.JSONField(null=True)
    passed_flavors = models.JSONField(default=list, db_default=Value([], models.JSONField()))
    ready_at = models.DateTimeField(null=True)
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)

    loaded_tasks: list[Task]
    """Its tasks in their order, if `get_full_workflow` has read it; not a column."""

    class Meta:
        ordering = ["workflow", "position"]
        constraints = [models.UniqueConstraint(fields=["workflow", "name"], name="group_name_once_per_workflow")]
        indexes = [
            models.Index(fields=["gpus"], name="group_waiting", condition=Q(status=TaskStatus.SCHEDULING)),
            models.Index(fields=["due_at"], name="group_due", condition=Q(due_at__isnull=False)),
        ]
        triggers = [
            *GROUPS,
            RECORD_WAIT,
            NeverDeletedTrigger("Groups of workflows"),
            NoTruncateTrigger("The table of groups"),
        ]

    def __str__(self) -> str:
        return self.name


class Task(models.Model):
    """One attempt of one task: a pod. A new attempt is a new row with the next `retry_id`; the old row stays.

    `gpu_flavors` are those that it may use (none: all of its pool), `flavor` the one that it counts in while it has a
    node; empty in a pool without flavors.
    `sub_group` names the leaf of the gang's tree that counts it; empty if the tree has only one leaf.
    `exit_actions` is `{"RESCHEDULE": [[first code, last code], …]}`, the pool's defaults included. `dispatched_at` is
    when its pod was first known to be in the cluster; if the pod is missing later, it is never created again.
    `pod_gone_at` is when the pod of an ended attempt was gone or had stopped: until then it holds its node.
    `admitted_at` is when dispatch admission allowed the attempt, where a tree of cohorts requires it; from then on the
    attempt counts in the tree as if it ran.
    """

    uuid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    name = models.TextField()
    retry_id = models.PositiveIntegerField(default=0)
    position = models.PositiveIntegerField()
    lead = models.BooleanField(default=False)
    sub_group = models.TextField(default="", blank=True)
    status = models.TextField(choices=[(s, s) for s in TaskStatus], default=TaskStatus.SCHEDULING)
    gpu_count = models.PositiveIntegerField(default=0)
    cpu_count = models.PositiveIntegerField(default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    storage_bytes = models.PositiveBigIntegerField(default=0)
    platform = models.TextField(default="default")
    nodes_excluded = models.JSONField(default=list)
    gpu_flavors = models.JSONField(default=list, db_default=Value([], models.JSONField()))
    flavor = models.TextField(blank=True, default="", db_default="")
    exit_actions = models.JSONField(default=dict)
    node_name = models.TextField(blank=True)
    pod_ip = models.TextField(blank=True, default="")
    admitted_at = models.DateTimeField(null=True)
    dispatched_at = models.DateTimeField(null=True)
    pod_gone_at = models.DateTimeField(null=True)
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    failure_message = models.TextField(blank=True)

    class Meta:
        ordering = ["group", "position", "retry_id"]
        constraints = [
            models.UniqueConstraint(fields=["group", "name", "retry_id"], name="task_attempt_once"),
        ]
        indexes = [
            models.Index(
                fields=["node_name"],
                include=["gpu_count"],  # so that the GPUs in use are summed from the index alone
                name="task_on_node",
                condition=Q(status=TaskStatus.RUNNING),
            ),
            models.Index(
                fields=["node_name"], name="task_with_pod", condition=Q(dispatched_at__isnull=False, pod_gone_at=None)
            ),
            models.Index(fields=["-start_time"], name="task_newest"),
            models.Index(fields=["end_time"], name="task_ended", condition=Q(start_time__isnull=False)),
            models.Index(fields=["end_time"], name="task_failed", condition=Q(status__in=NODE_FAILURES)),
        ]
        triggers = [
            RECORD_LATE,
            *TASKS,
            NeverDeletedTrigger("Tasks of workflows"),
            NoTruncateTrigger("The table of tasks"),
        ]

    def __str__(self) -> str:
        return f"{self.name} attempt {self.retry_id}"
