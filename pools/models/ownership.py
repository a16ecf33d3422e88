"""The objects of the configuration that Git owns, and the rule that only its files change them."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now

from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.domain.errors import Fault
from pools.models.triggers import AuditTrigger, NoTruncateTrigger

SOURCE_SETTING = "osmo.source"
"""The setting of a transaction that names the source whose files it applies."""


class OwnedTrigger(pgtrigger.Trigger):
    """Refuse changes of an object that Git owns, unless the transaction applies the files of its source.

    `name` is an SQL expression over `OLD` and `NEW` with the name of the object, null if there is none; `unless` is an
    SQL condition under which the change does not concern the configuration. `DETAIL` of the refusal is the owner as
    JSON.
    """

    def __init__(self, kind: OwnedKind, *, name: str, unless: str, only_subpools: bool = False) -> None:
        more = "AND subpools" if only_subpools else ""
        super().__init__(
            name="subpools_owned_by_git" if only_subpools else Fault.OWNED_BY_GIT.value,
            operation=pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
            when=pgtrigger.After,
            declare=[("subject", "text"), ("owner", "pools_configurationowner%ROWTYPE")],
            func=f"""
                IF {unless} THEN RETURN NULL; END IF;
                subject := {name};
                SELECT * INTO owner FROM pools_configurationowner
                    WHERE kind = '{kind}' AND name = subject {more};
                IF NOT FOUND OR owner.source = COALESCE(current_setting('{SOURCE_SETTING}', true), '') THEN
                    RETURN NULL;
                END IF;
                RAISE EXCEPTION '%/% is owned by Git (%), so it is read-only here. Change it in that file, or release '
                    'it on the server with: osmo-admin release %/%', owner.kind, owner.name,
                    concat_ws(', ', owner.source, NULLIF(owner.path, ''),
                        'commit ' || NULLIF(left(owner.commit, 12), '')),
                    owner.kind, owner.name
                    USING ERRCODE = 'check_violation', CONSTRAINT = '{Fault.OWNED_BY_GIT}', TABLE = TG_TABLE_NAME,
                    DETAIL = jsonb_build_object('owner', 'git', 'source', owner.source, 'path', owner.path,
                        'commit', owner.commit)::text;
            """,
        )


class ConfigurationOwner(models.Model):
    """An object that Git owns (:class:`pools.domain.configuration.ownership.GitOwner`). An object without a row is the
    admins'."""

    kind = models.TextField(choices=[(str(kind), str(kind)) for kind in OwnedKind])
    name = models.TextField()
    source = models.TextField()
    path = models.TextField(blank=True)
    commit = models.TextField(blank=True)
    subpools = models.BooleanField(default=False)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["kind", "name"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="one_owner"),
            models.CheckConstraint(
                condition=~models.Q(source=""),
                name="owner_has_source",
                violation_error_message="An object that Git owns has a source.",
            ),
        ]
        triggers = [
            AuditTrigger(
                subject="'owner/' || COALESCE(NEW.kind, OLD.kind) || '/' || COALESCE(NEW.name, OLD.name)",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.OWNER_TAKEN}' "
                f"WHEN 'DELETE' THEN '{AuditAction.OWNER_RELEASED}' ELSE '{AuditAction.OWNER_UPDATED}' END",
                pool_id=f"""CASE WHEN COALESCE(NEW.kind, OLD.kind) = '{OwnedKind.POOL}' THEN
                    (SELECT id FROM pools_pool WHERE name = COALESCE(NEW.name, OLD.name)) END""",
            ),
            NoTruncateTrigger("The table of owners"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}: {self.owner}"

    @property
    def owner(self) -> GitOwner:
        """The owner."""
        return GitOwner(self.source, self.path, self.commit, self.subpools)
