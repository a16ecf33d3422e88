"""Backends and their nodes."""

from __future__ import annotations

import pgtrigger
from django.core.validators import RegexValidator
from django.db import models

from pools.domain.configuration.backend_config import DEFAULT_AGEING, DEFAULT_RESERVE_AFTER, VictimRule
from pools.domain.configuration.flavors import FLAVOR_NAME_PATTERN
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.shortage.degraded import DegradedRule
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models.change_tokens import MoveTokensTrigger, backend_subject, plan_of_backends
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, plain_actions_sql, raise_message

NAMESPACE_VALIDATOR = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z", "Use lower-case letters, digits and hyphens."
)

CHECK_FLAVORS = pgtrigger.Trigger(
    name="check_flavors",
    operation=pgtrigger.Insert | pgtrigger.UpdateOf("flavors"),
    when=pgtrigger.Before,
    func=f"""
        IF NEW.flavors = '[]' THEN RETURN NEW; END IF;
        IF jsonb_typeof(NEW.flavors) <> 'array' OR EXISTS (
            SELECT FROM jsonb_array_elements(NEW.flavors) flavor
            WHERE jsonb_typeof(flavor) <> 'object'
                OR NOT COALESCE(flavor ->> 'name' ~ '{FLAVOR_NAME_PATTERN}', false)
                OR flavor ->> 'name' = '{DEFAULT_FLAVOR}'
                OR COALESCE(jsonb_typeof(flavor -> 'node_labels'), '') <> 'object' OR flavor -> 'node_labels' = '{{}}'
        ) THEN
            {raise_message("backend_flavors", "Each flavor of a cluster has a name and labels of its nodes.")}
        END IF;
        IF (SELECT count(*) <> count(DISTINCT flavor ->> 'name') FROM jsonb_array_elements(NEW.flavors) flavor) THEN
            {raise_message("backend_flavors", "Each flavor of a cluster has its own name.")}
        END IF;
        RETURN NEW;
    """,
)

_KNOWN_FLAVOR = f"""
    SELECT node.name, node.flavor, backend.name AS backend INTO wrong
        FROM pools_node node JOIN pools_backend backend ON backend.id = node.backend_id
        WHERE {{condition}} AND node.flavor <> '{DEFAULT_FLAVOR}'
            AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', node.flavor))
        LIMIT 1;
    IF wrong.name IS NOT NULL THEN
        {
    raise_message(
        "node_flavor_known",
        "The node % has the flavor %, which cluster % does not name.",
        "wrong.name",
        "wrong.flavor",
        "wrong.backend",
    )
}
    END IF;
    RETURN NULL;
"""


def _check_node_flavors(operation: pgtrigger.Operation, condition: str, if_: pgtrigger.Condition) -> pgtrigger.Trigger:
    """Deferred, because the flavors of a backend change before those of its nodes."""
    return pgtrigger.Trigger(
        name="node_flavors_known",
        operation=operation,
        when=pgtrigger.After,
        timing=pgtrigger.Deferred,
        condition=if_,
        declare=[("wrong", "record")],
        func=_KNOWN_FLAVOR.format(condition=condition),
    )


FLAVORS_IN_USE = pgtrigger.Trigger(
    name="flavors_in_use",
    operation=pgtrigger.UpdateOf("flavors"),
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    condition=pgtrigger.Condition("NEW.flavors IS DISTINCT FROM OLD.flavors"),
    declare=[("wrong", "record")],
    func=f"""
        SELECT each ->> 'flavor' AS flavor, pool.name AS pool, backend.name AS backend INTO wrong
            FROM pools_pool pool JOIN pools_backend backend ON backend.id = pool.backend_id,
                jsonb_array_elements(pool.flavors) each
            WHERE pool.backend_id = NEW.id AND NOT pool.archived AND each ->> 'flavor' <> '{DEFAULT_FLAVOR}'
                AND NOT backend.flavors @> jsonb_build_array(jsonb_build_object('name', each ->> 'flavor'))
            LIMIT 1;
        IF wrong.flavor IS NOT NULL THEN
            {
        raise_message(
            "flavor_in_use",
            "Cluster % keeps the flavor %, because pool % has a quota of it.",
            "wrong.backend",
            "wrong.flavor",
            "wrong.pool",
        )
    }
        END IF;
        RETURN NULL;
    """,
)


class Backend(models.Model):
    """A cluster that runs workflows: `kubernetes` with KAI, or `simulated`, whose nodes are rows of the ledger.

    `namespace` is the `{ns}` in every queue name. `auto_end` ends simulated work when its run
    time is over; without it the work ends only by a report through the API. `reserve_after` and `ageing`, in seconds,
    are the policy against endless waiting (null: never); `victims` says which work is preempted first (a `VictimRule`),
    `degraded` how the pools share fewer GPUs than their quotas (a `DegradedRule`). `flavors` are the kinds of its
    hardware (:mod:`pools.domain.configuration.flavors`), the first ones first.

    No work starts while the backend is `offline`. An admin sets a simulated backend offline. A Kubernetes backend is
    `offline` while an admin requests it (`offline_requested`) or while its cluster does not answer.
    """

    class Kind(models.TextChoices):
        SIMULATED = "simulated"
        KUBERNETES = "kubernetes"

    name = models.TextField(unique=True)
    kind = models.TextField(choices=Kind.choices, default=Kind.SIMULATED)
    namespace = models.TextField(default="default", validators=[NAMESPACE_VALIDATOR])
    description = models.TextField(blank=True)
    auto_end = models.BooleanField(default=True)
    reserve_after = models.PositiveIntegerField(null=True, default=DEFAULT_RESERVE_AFTER)
    ageing = models.PositiveIntegerField(null=True, default=DEFAULT_AGEING)
    victims = models.TextField(default=VictimRule.YOUNGEST.value)
    degraded = models.TextField(default=DegradedRule.PROPORTIONAL.value, db_default=DegradedRule.PROPORTIONAL.value)
    flavors = models.JSONField(default=list, db_default=[])
    offline = models.BooleanField(default=False)
    offline_requested = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(name__regex=r"^[a-z]([a-z0-9-]*[a-z0-9])?$"),
                name="backend_name_rule",
                violation_error_message="A backend name has lower-case letters, digits and hyphens, a letter first.",
            ),
            models.CheckConstraint(
                condition=models.Q(namespace__regex=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
                name="backend_namespace_rule",
                violation_error_message="A namespace has at most 63 lower-case letters, digits and hyphens.",
            ),
            models.CheckConstraint(
                condition=models.Q(offline_requested=False) | models.Q(offline=True),
                name="offline_request_is_offline",
                violation_error_message="A backend that is requested offline is offline, though its cluster answers.",
            ),
            models.CheckConstraint(
                condition=models.Q(victims__in=[rule.value for rule in VictimRule]),
                name="backend_victims_rule",
                violation_error_message=f"The rule for victims is one of {', '.join(VictimRule)}.",
            ),
            models.CheckConstraint(
                condition=models.Q(degraded__in=[rule.value for rule in DegradedRule]),
                name="backend_degraded_rule",
                violation_error_message=f"The rule for too few GPUs is one of {', '.join(DegradedRule)}.",
            ),
        ]
        triggers = [
            AuditTrigger(
                subject="'backend/' || COALESCE(NEW.name, OLD.name)",
                action=plain_actions_sql("backend"),
                ignore=["version"],
            ),
            # Whether a backend is offline is a state of its operation, which admins and its agent set.
            OwnedTrigger(
                OwnedKind.BACKEND,
                name="COALESCE(OLD.name, NEW.name)",
                unless="TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['version', 'offline', 'offline_requested']"
                " = to_jsonb(OLD) - ARRAY['version', 'offline', 'offline_requested']",
            ),
            CHECK_FLAVORS,
            FLAVORS_IN_USE,
            _check_node_flavors(
                pgtrigger.UpdateOf("flavors"),
                "node.backend_id = NEW.id",
                pgtrigger.Condition("NEW.flavors IS DISTINCT FROM OLD.flavors"),
            ),
            MoveTokensTrigger(plan_of_backends("NEW.id"), operation=pgtrigger.Insert | pgtrigger.Update),
            pgtrigger.Trigger(
                name="delete_tokens",
                operation=pgtrigger.Delete,
                when=pgtrigger.After,
                func=f"DELETE FROM pools_changetoken WHERE subject = {backend_subject('OLD.id')}; RETURN NULL;",
            ),
            NoTruncateTrigger("The table of backends"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def desired_offline(self) -> bool:
        """The state that an admin requested, independent of whether the cluster answers."""
        return self.offline_requested if self.kind == self.Kind.KUBERNETES else self.offline


class Node(models.Model):
    """A node of a backend. It serves every pool of the backend that has a platform of its `platform`.

    `taint` names the taints of a cluster's node by which none of our pods starts there, or says that a simulated node
    is drained. The first does not count as capacity; the other does, because it comes back. `gpu_pods_only`: a taint
    keeps our pods without GPUs away. `labels` are those of a simulated node; those of a cluster are observed. `flavor`
    follows from the labels and the flavors of the backend. A node that shares its GPUs (time slicing, MPS, MIG) has
    `advertised_gpus`, the parts that it offers, and, where its labels say them, `physical_gpus`; `gpus` are those that
    count."""

    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="nodes")
    name = models.TextField()
    gpus = models.PositiveIntegerField()
    cpu = models.PositiveIntegerField(default=128)
    memory_bytes = models.PositiveBigIntegerField(default=2**40)
    storage_bytes = models.PositiveBigIntegerField(default=4 * 2**40)
    platform = models.TextField(default="default")
    labels = models.JSONField(default=dict, db_default={})
    flavor = models.TextField(default=DEFAULT_FLAVOR, db_default=DEFAULT_FLAVOR)
    taint = models.TextField(blank=True, default="", db_default="")
    gpu_pods_only = models.BooleanField(default=False, db_default=False)
    physical_gpus = models.PositiveIntegerField(null=True)
    advertised_gpus = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["backend", "name"]
        constraints = [
            models.UniqueConstraint(fields=["backend", "name"], name="node_unique_in_backend"),
            models.CheckConstraint(
                condition=models.Q(physical_gpus=None) | models.Q(advertised_gpus__isnull=False),
                name="node_shares_what_it_advertises",
                violation_error_message="Only a node that shares its GPUs says how many it has besides.",
            ),
        ]
        triggers = [
            AuditTrigger(subject="'node/' || COALESCE(NEW.name, OLD.name)", action=plain_actions_sql("node")),
            # The nodes of a Kubernetes backend come from its cluster.
            OwnedTrigger(
                OwnedKind.BACKEND,
                name="(SELECT name FROM pools_backend WHERE id = COALESCE(OLD.backend_id, NEW.backend_id)"
                " AND kind = 'simulated')",
                # A drain is a state of the operation, which admins set.
                unless="TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'taint' = to_jsonb(OLD) - 'taint'",
            ),
            _check_node_flavors(
                pgtrigger.Insert | pgtrigger.UpdateOf("flavor", "backend_id"),
                "node.id = NEW.id",
                pgtrigger.Condition(f"NEW.flavor <> '{DEFAULT_FLAVOR}'"),
            ),
            MoveTokensTrigger(plan_of_backends("NEW.backend_id, OLD.backend_id")),
            NoTruncateTrigger("The table of nodes"),
        ]

    def __str__(self) -> str:
        return self.name
