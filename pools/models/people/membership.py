"""Users, their roles and their access tokens."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import pgtrigger
from django.contrib.auth.models import AbstractUser, Group
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now, Upper
from django.utils.crypto import salted_hmac

from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import Fault
from pools.domain.people.roles import Actor
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, plain_actions_sql, raise_message

# Accounts of former versions that differ in capitals only keep their names. A lock lets one of two creations at the
# same moment wait until it sees the other.
UNLIKE_NAMES = pgtrigger.Trigger(
    name="unlike_names",
    operation=pgtrigger.Insert | pgtrigger.UpdateOf("username", "is_active"),
    when=pgtrigger.After,
    declare=[("other", "text")],
    func=f"""
        IF NEW.is_active AND (TG_OP = 'INSERT' OR NEW.username <> OLD.username OR NOT OLD.is_active) THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('pools_user ' || upper(NEW.username), 0));
            SELECT username INTO other FROM pools_user
                WHERE upper(username) = upper(NEW.username) AND is_active AND id <> NEW.id LIMIT 1;
            IF other IS NOT NULL THEN
                {
        raise_message(
            Fault.USERNAME_DIFFERS_IN_CAPITALS,
            "User % exists already, and the names differ in capitals only: choose another name, or disable it.",
            "other",
        )
    }
            END IF;
        END IF;
        RETURN NULL;
    """,
)


class User(AbstractUser):
    """A person or a program that signs in. Its permissions are its roles, which are Django groups; Django's own
    permission tables are not used."""

    groups = models.ManyToManyField(  # type: ignore[assignment]  # the stub knows only Django's own through table
        Group, through="RoleAssignment", related_name="users", blank=True
    )
    created_by = models.TextField(blank=True)
    default_pool = models.TextField(blank=True)
    email_notification = models.BooleanField(default=False)
    slack_notification = models.BooleanField(default=False)
    password_login_at = models.DateTimeField(null=True, blank=True)  # kept only where there are identity providers
    is_removed = models.BooleanField(default=False, db_default=False)  # keeps its row for its work; not merely disabled

    sign_on_epoch: int | None = None
    """Of a session that began at an identity provider: the sum of the epochs of the user's identities; not a column."""

    class Meta(AbstractUser.Meta):
        ordering = ["username"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(is_removed=False) | models.Q(is_active=False),
                name="removed_user_is_inactive",
                violation_error_message="A removed account is not enabled; create the user again.",
            )
        ]
        triggers = [
            AuditTrigger(
                subject="'user/' || COALESCE(NEW.username, OLD.username)",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.USER_CREATED}' "
                f"WHEN 'DELETE' THEN '{AuditAction.USER_DELETED}' "
                f"ELSE CASE WHEN OLD.password <> NEW.password THEN '{AuditAction.USER_PASSWORD_CHANGED}' "
                f"WHEN NEW.password_login_at IS DISTINCT FROM OLD.password_login_at "
                f"THEN '{AuditAction.USER_LOGGED_IN_BY_PASSWORD}' ELSE '{AuditAction.USER_UPDATED}' END END",
                owner="COALESCE(NEW.username, OLD.username)",
                ignore=["last_login", "is_removed"],
                hide=["password"],
            ),
            NoTruncateTrigger("The table of users"),
            UNLIKE_NAMES,
        ]
        indexes = [models.Index(Upper("username"), name="user_name_in_capitals")]

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """As Django's, which ends the sessions of a changed password; the end of a sign-on ends its sessions, too."""
        if self.sign_on_epoch is None:
            return super()._get_session_auth_hash(secret)  # type: ignore[misc, no-any-return]  # not in the stubs
        signed = f"{self.password}:{self.sign_on_epoch}"
        return salted_hmac("pools.User.sign_on", signed, secret=secret, algorithm="sha256").hexdigest()

    def as_actor(self, *, token: AccessToken | None = None) -> Actor:
        """This user as an actor, with its current roles (a token may have fewer, never more)."""
        known = token.owner_roles if token is not None else None
        held = frozenset(self.groups.values_list("name", flat=True)) if known is None else known
        if token is not None and token.roles is not None:
            held &= set(token.roles)
        return self.actor_with(held, token=token)

    def actor_with(self, held: Collection[str], *, token: AccessToken | None = None) -> Actor:
        """This user as an actor with these roles, which were read already."""
        return Actor(
            username=self.username,
            user_id=self.pk,
            roles=frozenset(held),
            token=token.name if token else None,
            token_id=token.pk if token else None,
            is_limited=token is not None and token.roles is not None,
        )


def account_start(actor: Actor) -> models.Subquery:
    """Since when the actor's account exists, as SQL. A removed account that was created again began then."""
    return models.Subquery(User.objects.filter(pk=actor.user_id or 0).values("date_joined"))


class RoleAssignment(models.Model):
    """A role of a user: when it was granted, and by which user."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    group = models.ForeignKey(Group, on_delete=models.CASCADE)
    assigned_by = models.TextField(blank=True)
    assigned_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "group"], name="role_once_per_user")]
        triggers = [
            AuditTrigger(
                subject="'user/' || (SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id))",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.ROLE_GRANTED}' "
                f"WHEN 'DELETE' THEN '{AuditAction.ROLE_REVOKED}' ELSE '{AuditAction.ROLE_UPDATED}' END",
                owner="(SELECT username FROM pools_user WHERE id = COALESCE(NEW.user_id, OLD.user_id))",
                also={"role": "(SELECT name FROM auth_group WHERE id = COALESCE(NEW.group_id, OLD.group_id))"},
            ),
            OwnedTrigger(
                OwnedKind.ROLE,
                name="(SELECT name FROM auth_group WHERE id = COALESCE(OLD.group_id, NEW.group_id))",
                unless="TG_OP = 'UPDATE' AND (NEW.user_id, NEW.group_id) = (OLD.user_id, OLD.group_id)",
            ),
            NoTruncateTrigger("The table of roles"),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.group}"


# Deferred, because a role is taken from the tokens of a user one after another.
_TOKEN_WITHIN_PARENT = pgtrigger.Trigger(
    name="token_within_parent",
    operation=pgtrigger.Insert | pgtrigger.UpdateOf("owner_id", "parent_id", "roles", "expires_at"),
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    declare=[("wrong", "text"), ("above", "text")],
    func=f"""
        SELECT child.name, parent.name INTO wrong, above
            FROM pools_accesstoken child JOIN pools_accesstoken parent ON parent.id = child.parent_id
            WHERE (child.id = NEW.id OR parent.id = NEW.id) AND (
                child.expires_at > parent.expires_at
                OR parent.roles IS NOT NULL AND (
                    child.roles IS NULL
                    OR child.owner_id = parent.owner_id AND NOT child.roles <@ parent.roles
                )
            )
            LIMIT 1;
        IF wrong IS NOT NULL THEN
            {
        raise_message(
            "token_within_parent",
            "The token % was made with the token %: it can neither have more roles nor live longer.",
            "wrong",
            "above",
        )
    }
        END IF;
        RETURN NULL;
    """,
)

_OWNER_SQL = "(SELECT username FROM pools_user WHERE id = COALESCE(NEW.owner_id, OLD.owner_id))"


class AccessTokenQuerySet(models.QuerySet["AccessToken"]):
    """Reads of tokens."""

    def valid(self, now: datetime) -> AccessTokenQuerySet:
        """The tokens that a login of an active owner accepts: neither they nor the sign-on with which their client has
        logged in have ended. :func:`pools.selectors.submission_path.find_valid_token` has the same rule in SQL."""
        return self.filter(Q(identity=None) | Q(identity__valid_until__gt=Now()), expires_at__gt=now)


class AccessToken(models.Model):
    """A secret that acts for its owner, stored only as SHA-256 digest. `roles` null: all roles that the owner has at
    the time of use; a list: only those of them. `parent` is the token that made this one: it has at least these
    roles, lives at least as long, and takes this one with it when it is deleted. `identity` is the account at a
    provider with which a client has logged in: the token is valid as long as its sign-on is. `last_used_at` is the last
    exchange for a session, to the minute; a session lasts five minutes."""

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.TextField()
    digest = models.CharField(max_length=64, unique=True)
    description = models.TextField(blank=True)
    roles = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")
    identity = models.ForeignKey(
        "pools.SignOnIdentity", on_delete=models.CASCADE, null=True, blank=True, related_name="tokens"
    )

    LOGIN_PREFIX = "login-"
    """How the names of the tokens begin that `osmo login` makes."""

    owner_roles: frozenset[str] | None = None
    """The roles of its owner, if they were read together with the token; not a column."""

    objects = AccessTokenQuerySet.as_manager()

    class Meta:
        ordering = ["owner", "name"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="token_name_once_per_owner")]
        triggers = [
            AuditTrigger(
                subject="'token/' || COALESCE(NEW.name, OLD.name)",
                action=plain_actions_sql("token"),
                owner=_OWNER_SQL,
                hide=["digest"],
                ignore=["last_used_at"],
                also={"owner": _OWNER_SQL},
            ),
            _TOKEN_WITHIN_PARENT,
            pgtrigger.Protect(name="digest_is_final", operation=pgtrigger.UpdateOf("digest")),
            NoTruncateTrigger("The table of tokens"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def ends_with_login(self) -> bool:
        """Whether a new login follows its end, because a login has made it, or a token of a sign-on has."""
        return self.identity_id is not None or self.name.startswith(self.LOGIN_PREFIX)
