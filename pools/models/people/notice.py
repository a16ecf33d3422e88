"""Notices: who wants which, how they travel, and those that wait, failed or arrived."""

from __future__ import annotations

import uuid
from datetime import datetime

import pgtrigger
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from pools.domain.audit_actions import AuditAction
from pools.domain.people.notices import Channel, NoticeStatus
from pools.domain.people.quiet_hours import HOURS_PATTERN, HOW, ZONE_PATTERN, is_quiet
from pools.domain.people.roles import Actor, Permission
from pools.models.people.membership import User
from pools.models.pool import Pool
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, plain_actions_sql

_USER_SQL = "(SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id))"
_POOL_SQL = "(SELECT name FROM pools_pool WHERE id = COALESCE(NEW.pool_id, OLD.pool_id))"


class NoticeTargetQuerySet(models.QuerySet["NoticeTarget"]):
    """Reads of targets."""

    def visible_to(self, actor: Actor) -> NoticeTargetQuerySet:
        """The actor's own targets and those of pools whose admin the actor is; platform readers see all."""
        if actor.can_read_all:
            return self
        roots = Pool.objects.roots().filter(name__in=actor.pools_with(Permission.POOL_PARTITION)).values("id")
        return self.filter(Q(user_id=actor.user_id) | Q(pool_id__in=roots))

    def quiet_at(self, moment: datetime) -> set[str]:
        """The quiet hours of targets that contain this moment. One query."""
        chosen = self.exclude(quiet_hours="").order_by().values_list("quiet_hours", flat=True).distinct()
        return {text for text in chosen if is_quiet(text, moment)}


class NoticeTarget(models.Model):
    """Where notices go: of a person (`user`), of a pool, or of the installation (neither). `kinds` are the chosen
    subjects, `pools` limits them to these pools by name. Nothing is sent in `quiet_hours`
    (:mod:`pools.domain.people.quiet_hours`); empty: at any time.

    `sealed_address` and `sealed_secret` are secrets (:mod:`pools.security.sealing`); `shown_address` is the part of the
    address that may be seen. `is_profile`: the target of a switch of the profile; the switch decides whether it is on,
    and the account has the address. After a failure nothing is sent before `retry_at`; `failures` counts those since
    the last success. `off_reason` says why the installation switched it off itself.
    """

    name = models.TextField()
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="notice_targets")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    channel = models.TextField(choices=[(each, each) for each in Channel])
    sealed_address = models.TextField(blank=True)
    shown_address = models.TextField(blank=True)
    sealed_secret = models.TextField(blank=True)
    kinds = models.JSONField(default=list)
    pools = models.JSONField(default=list)
    quiet_hours = models.TextField(blank=True, default="", db_default="")
    is_enabled = models.BooleanField(default=True)
    is_profile = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    failures = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    off_reason = models.TextField(blank=True)

    objects = NoticeTargetQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) | Q(pool__isnull=True),
                name="notice_target_has_one_owner",
                violation_error_message="A target of notices belongs to a person, a pool or the installation.",
            ),
            models.CheckConstraint(
                condition=Q(quiet_hours="") | Q(quiet_hours__regex=rf"^{HOURS_PATTERN}( {ZONE_PATTERN})?$"),
                name="notice_target_quiet_hours",
                violation_error_message=HOW,
            ),
            models.UniqueConstraint(
                fields=["user", "pool", "name"], nulls_distinct=False, name="notice_target_name_once"
            ),
        ]
        triggers = [
            AuditTrigger(
                subject=f"'notice_target/' || COALESCE({_USER_SQL} || '/', {_POOL_SQL} || '/', '')"
                " || COALESCE(NEW.name, OLD.name)",
                action=plain_actions_sql("notice_target"),
                pool_id="COALESCE(NEW.pool_id, OLD.pool_id)",
                owner=_USER_SQL,
                ignore=["failures", "retry_at"],
                hide=["sealed_address", "sealed_secret"],
            ),
            NoTruncateTrigger("The table of targets of notices"),
        ]

    def __str__(self) -> str:
        return self.name


class Notice(models.Model):
    """One notice to one target; the order of ids is the order in which the events were committed. `message_id` stays
    the same in every attempt, so that a receiver can tell a repetition. `entry` is the entry of the audit trail, null
    for a test. `title`, `text` and `data` are what is sent."""

    message_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    target = models.ForeignKey(NoticeTarget, on_delete=models.CASCADE, related_name="notices", db_index=False)
    entry = models.BigIntegerField(null=True)
    kind = models.TextField()  # a NoticeKind; choices here would be a migration for each new kind
    subject = models.TextField()
    title = models.TextField()
    text = models.TextField()
    data = models.JSONField(default=dict)
    status = models.TextField(
        choices=[(each, each.capitalize()) for each in NoticeStatus], default=NoticeStatus.WAITING
    )
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())
    attempted_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["target", "entry"], name="notice_once_per_target")]
        indexes = [
            models.Index(fields=["target", "id"], name="notice_waiting", condition=Q(status="waiting")),
            models.Index(fields=["target", "-id"], name="notice_by_target"),
            models.Index(fields=["status", "created_at"], name="notice_by_status"),
        ]
        triggers = [
            AuditTrigger(
                subject="'notice/' || NEW.message_id",
                action=f"'{AuditAction.NOTICE_REPLAYED}'",
                pool_id="(SELECT pool_id FROM pools_noticetarget WHERE id = NEW.target_id)",
                owner="(SELECT username FROM pools_noticetarget target JOIN pools_user account"
                " ON account.id = target.user_id WHERE target.id = NEW.target_id)",
                hide=["text", "data"],
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.status <> 'waiting' AND NEW.status = 'waiting'"),
            ),
            NoTruncateTrigger("The table of notices"),
        ]

    def __str__(self) -> str:
        return self.title


class NoticeCondition(models.Model):
    """A state of which somebody gets a notice, as long as it lasts: late background jobs, silent clusters, long waits,
    quotas that are nearly used, overdue drains. Its beginning and its end are entries of the audit trail, from which
    notices are made. `pool` and `owner` decide who may see it."""

    kind = models.TextField()  # a NoticeKind; choices here would be a migration for each new kind
    subject = models.TextField()
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, related_name="+")
    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    message = models.TextField()
    since = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["kind", "subject"], name="notice_condition_once")]
        triggers = [
            AuditTrigger(
                subject="'condition/' || COALESCE(NEW.kind, OLD.kind) || '/' || COALESCE(NEW.subject, OLD.subject)",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.CONDITION_BEGAN}' "
                f"WHEN 'DELETE' THEN '{AuditAction.CONDITION_ENDED}' ELSE '{AuditAction.CONDITION_UPDATED}' END",
                pool_id="COALESCE(NEW.pool_id, OLD.pool_id)",
                owner="(SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))",
            ),
            NoTruncateTrigger("The table of conditions"),
        ]

    def __str__(self) -> str:
        return self.message


class NoticeProgress(models.Model):
    """One row: the position in the audit trail up to which notices were made, until when a process sends, and the
    numbers of notices that arrived or became dead letters and of attempts that failed, which outlive the notices."""

    transaction = models.TextField()
    entry = models.BigIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)
    delivered = models.BigIntegerField(default=0)
    dead = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)
