"""The audit trail: one append-only stream of changes, written by triggers."""

from __future__ import annotations

from functools import partial

import pgtrigger
from django.db import models
from django.db.models import Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from pools.domain.people.roles import Actor, Permission
from pools.models.people.membership import account_start
from pools.models.pool import Pool
from pools.models.triggers import AppendOnlyTrigger, DerivedTrigger, NoTruncateTrigger

IS_CONFIGURATION = ~Q(action__startswith="workflow.")
"""Entries that are not of work; they are few among those of workflows, so they have an index of their own."""


TOKEN_OBJECTS = "token/"  # noqa: S105  # no secret
"""The objects of entries of access tokens begin with this."""


class TransactionIdField(models.Field):  # type: ignore[type-arg]  # not subscriptable at run time
    """PostgreSQL's 64-bit transaction id. With it a reader distinguishes entries whose order is final from entries
    before which an older, open transaction may still insert."""

    def db_type(self, connection: object) -> str:
        return "xid8"


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Reads of the audit stream."""

    def visible_to(self, actor: Actor) -> AuditQuerySet:
        """Admins and viewers see all entries, pool admins those of their pools, and all users those of their own
        changes and work, since the account exists: an earlier owner of its name was another person. A limited token
        sees, of the tokens of its owner, itself and those that it made."""
        rows = self if actor.sees_own_account else self._without_other_tokens(actor)
        if actor.can_read_all:
            return rows
        pools = Pool.objects.filter(name__in=actor.pools_with(Permission.POOL_AUDIT)).values("id")
        mine = Q(actor=actor.username) | Q(owner=actor.username)
        return rows.filter(Q(pool_id__in=pools) | (mine & Q(time__gte=account_start(actor))))

    def _without_other_tokens(self, actor: Actor) -> AuditQuerySet:
        column = partial(Coalesce, output_field=models.TextField())
        found = {key: column(KT(f"after__{key}"), KT(f"before__{key}"), Value("")) for key in ("id", "parent_id")}
        mine = Q(row_id=str(actor.token_id)) | Q(row_parent=str(actor.token_id))
        others = Q(object__startswith=TOKEN_OBJECTS, owner=actor.username) & ~mine
        return self.alias(row_id=found["id"], row_parent=found["parent_id"]).exclude(others)


class AuditEntry(models.Model):
    """One change: the row before and after, actor, time and reason. `pool_id` is the top-level pool of the row and
    `owner` the user whose work it is; both only decide about read permission."""

    time = models.DateTimeField()
    actor = models.TextField()
    action = models.TextField()
    object = models.TextField()
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    description = models.TextField(blank=True)
    request_id = models.TextField(blank=True)
    pool_id = models.BigIntegerField(null=True)
    owner = models.TextField(null=True)
    transaction = TransactionIdField()

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["object", "-id"], name="audit_object"),
            models.Index(fields=["pool_id", "-id"], name="audit_pool"),
            # Earlier configurations are read from the entries of a pool itself, which are few among those of its work.
            models.Index(fields=["pool_id", "-id"], name="audit_pool_config", condition=Q(action__startswith="pool.")),
            models.Index(fields=["-id"], name="audit_configuration", condition=IS_CONFIGURATION),
            models.Index(fields=["actor", "-id"], name="audit_actor"),
            models.Index(fields=["owner", "-id"], name="audit_owner"),
            models.Index(fields=["time"], name="audit_time"),
            models.Index(fields=["transaction", "id"], name="audit_stream"),
        ]
        triggers = [
            AppendOnlyTrigger("The audit trail"),
            DerivedTrigger(
                "audit_follows_changes",
                "Entries of the audit trail are written by the changes themselves, not by hand.",
                operation=pgtrigger.Insert,
            ),
            NoTruncateTrigger("The audit trail"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object}"

    def is_of_other_token(self, actor: Actor) -> bool:
        """Whether it is about a token of the actor's account that is neither the actor's nor made by it."""
        if actor.sees_own_account or self.owner != actor.username or not self.object.startswith(TOKEN_OBJECTS):
            return False
        row = self.after or self.before or {}
        return actor.token_id not in {row.get("id"), row.get("parent_id")}
