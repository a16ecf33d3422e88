"""The inbox: news of the installation as people find it in the product, and what each person has read.

One row is one piece of news, for all who may see it: who that is, is decided when it is read.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from pools.domain.people.roles import Actor, Permission
from pools.models.people.membership import User
from pools.models.pool import Pool
from pools.models.triggers import NoTruncateTrigger


class InboxNoticeQuerySet(models.QuerySet["InboxNotice"]):
    """Reads of the inbox."""

    def visible_to(self, actor: Actor) -> InboxNoticeQuerySet:
        """News of the actor's own work and requests, of the pools that the actor administers now, and for platform
        readers those of the installation. News of another person are never among them."""
        mine = Q(owner_id=actor.user_id) if actor.user_id is not None else Q(pk__in=())
        if actor.can_read_all:
            return self.filter(mine | Q(owner__isnull=True))
        roots = Pool.objects.roots().filter(name__in=actor.pools_with(Permission.POOL_PARTITION)).values("id")
        return self.filter(mine | Q(owner__isnull=True, pool_id__in=roots))

    def with_read(self, actor: Actor) -> InboxNoticeQuerySet:
        """With `is_read` of the actor."""
        return self.annotate(**{"is_read": _is_read_by(actor)})  # noqa: PIE804  (types read a keyword as a new attribute)

    def unread_by(self, actor: Actor) -> InboxNoticeQuerySet:
        """Those that the actor has not marked."""
        return self.filter(~_is_read_by(actor))


def _is_read_by(actor: Actor) -> Exists:
    return Exists(InboxRead._default_manager.filter(notice=OuterRef("pk"), person=actor.user_id))


class InboxNotice(models.Model):
    """One piece of news. With an `owner` it is for that person; with a `pool` alone for those who administer the pool;
    with neither for those who read the platform. `entry` is the entry of the audit trail that it tells of. `page` is
    the address of its object, empty without one."""

    entry = models.BigIntegerField()
    kind = models.TextField()  # a NoticeKind; choices here would be a migration for each new kind
    subject = models.TextField()
    title = models.TextField()
    text = models.TextField()
    page = models.TextField(blank=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    created_at = models.DateTimeField(db_default=Now())

    is_read: bool
    """Set by `with_read`; not a column."""

    objects = InboxNoticeQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["entry", "owner"],
                nulls_distinct=False,
                name="inbox_news_once",
                violation_error_message="This news is in the inbox already.",
            )
        ]
        indexes = [
            models.Index(fields=["owner", "-id"], name="inbox_by_owner"),
            models.Index(fields=["pool", "-id"], name="inbox_by_pool"),
            models.Index(fields=["created_at"], name="inbox_by_age"),
        ]
        triggers = [NoTruncateTrigger("The table of the inbox")]

    def __str__(self) -> str:
        return self.title


class InboxRead(models.Model):
    """That a person has read a piece of news."""

    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    notice = models.ForeignKey(InboxNotice, on_delete=models.CASCADE, related_name="reads")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "notice"],
                name="inbox_read_once",
                violation_error_message="This person has read this news already.",
            )
        ]
        triggers = [NoTruncateTrigger("The table of what was read")]

    def __str__(self) -> str:
        return f"{self.person_id} {self.notice_id}"
