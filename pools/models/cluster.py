"""Connection settings of a Kubernetes backend, and the settings of its scheduler."""

from __future__ import annotations

import pgtrigger
from django.db import models

from pools.domain.audit_actions import AuditAction
from pools.domain.configuration import cluster_config
from pools.domain.configuration.cluster_config import QUEUE_PATTERN
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.names import SHORT_NAME_PATTERN
from pools.models.backend import Backend
from pools.models.change_tokens import MoveTokensTrigger, TokenKind, plan_of_backends
from pools.models.ownership import OwnedTrigger
from pools.models.triggers import AuditTrigger, NoTruncateTrigger, raise_message

ONE_BACKEND_PER_NAMESPACE = pgtrigger.Trigger(
    name="one_backend_per_namespace",
    operation=pgtrigger.Insert | pgtrigger.Update,
    when=pgtrigger.After,
    declare=[("other", "text"), ("own_namespace", "text")],
    func=f"""
        SELECT namespace INTO own_namespace FROM pools_backend WHERE id = NEW.backend_id;
        SELECT backend.name INTO other
            FROM pools_kubernetessettings settings JOIN pools_backend backend ON backend.id = settings.backend_id
            WHERE settings.backend_id <> NEW.backend_id AND settings.server = NEW.server AND NEW.server <> ''
                AND backend.namespace = own_namespace
            LIMIT 1;
        IF other IS NOT NULL THEN
            {
        raise_message("one_backend_per_namespace", "Backend % is on the same cluster and namespace already.", "other")
    }
        END IF;
        RETURN NULL;
    """,
)

MODE_WITHOUT_WORK = pgtrigger.Trigger(
    name="mode_without_work",
    operation=pgtrigger.UpdateOf("mode"),
    when=pgtrigger.After,
    timing=pgtrigger.Deferred,
    condition=pgtrigger.Condition("NEW.mode IS DISTINCT FROM OLD.mode"),
    declare=[("busy", "text")],
    func=f"""
        SELECT root.name INTO busy FROM pools_reservation held
            JOIN pools_pool leaf ON leaf.id = held.pool_id
            JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
            WHERE root.backend_id = NEW.backend_id LIMIT 1;
        IF busy IS NOT NULL THEN
            {raise_message("mode_without_work", "The mode of a cluster changes without work; pool % has some.", "busy")}
        END IF;
        RETURN NULL;
    """,
)

CHECK_QUEUE_POOLS = pgtrigger.Trigger(
    name="check_queue_pools",
    operation=pgtrigger.Insert | pgtrigger.UpdateOf("queue_pools"),
    when=pgtrigger.Before,
    func=f"""
        IF jsonb_typeof(NEW.queue_pools) <> 'object' THEN
            {raise_message("cluster_queue_pools", "The pools of a cluster's queues are by their names.")}
        END IF;
        IF EXISTS (
            SELECT FROM jsonb_each(NEW.queue_pools) each
            WHERE each.key !~ '{QUEUE_PATTERN}' OR jsonb_typeof(each.value) <> 'string'
                OR NOT (each.value #>> '{{}}') ~ '{SHORT_NAME_PATTERN}'
        ) THEN
            {raise_message("cluster_queue_pools", "Each queue of a cluster that is named has the name of a pool.")}
        END IF;
        RETURN NEW;
    """,
)

MOVE_TOKENS = MoveTokensTrigger(
    plan_of_backends("NEW.backend_id", TokenKind.QUOTAS), operation=pgtrigger.Insert | pgtrigger.Update
)


class KubernetesSettings(models.Model):
    """The Kubernetes side of a backend. Its credential is a sealed kubeconfig (:mod:`pools.security.sealing`), a file
    that the operator keeps on the server, or the service account of the pod in which OSMO Admin runs.

    `credential_mark` distinguishes kubeconfigs in the audit trail, where their content never appears. `server` is the
    address in the kubeconfig, empty for a kubeconfig file. `node_pool_key` and `node_pool` are the label by which a KAI
    shard selects its nodes, queues and PodGroups; an empty `node_pool` means the shard without a label value.

    A cluster in `mode` observe is read and never written: its own scheduler decides. `queue_pools` has the leaf in
    which the work of a queue there counts, by the name of the queue, `owner_label` the label that names
    the owner of work.
    """

    class ClusterMode(models.TextChoices):
        MANAGE = cluster_config.MANAGE
        OBSERVE = cluster_config.OBSERVE

    class Access(models.TextChoices):
        KUBECONFIG = cluster_config.KUBECONFIG
        FILE = cluster_config.FILE
        IN_CLUSTER = cluster_config.IN_CLUSTER

    class Sync(models.TextChoices):
        APPLY = cluster_config.APPLY
        REPORT = cluster_config.REPORT
        OFF = cluster_config.OFF

    backend = models.OneToOneField(Backend, on_delete=models.CASCADE, primary_key=True, related_name="kubernetes")
    mode = models.TextField(choices=ClusterMode.choices, default=ClusterMode.MANAGE, db_default=ClusterMode.MANAGE)
    access = models.TextField(choices=Access.choices)
    sealed_kubeconfig = models.TextField(blank=True)
    credential_mark = models.TextField(blank=True)
    kubeconfig_file = models.TextField(blank=True)
    context = models.TextField(blank=True)
    server = models.TextField(blank=True)
    scheduler_name = models.TextField(default=cluster_config.SCHEDULER)
    node_pool_key = models.TextField(default=cluster_config.NODE_POOL_KEY)
    node_pool = models.TextField(blank=True)
    sync_mode = models.TextField(choices=Sync.choices, default=Sync.APPLY)
    queue_pools = models.JSONField(default=dict, db_default={})
    owner_label = models.TextField(blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(access=cluster_config.KUBECONFIG, kubeconfig_file="")
                & ~models.Q(sealed_kubeconfig="")
                | models.Q(access=cluster_config.FILE, sealed_kubeconfig="")
                & models.Q(kubeconfig_file__regex=rf"^{cluster_config.FILE_PATTERN}$")
                | models.Q(access=cluster_config.IN_CLUSTER, sealed_kubeconfig="", kubeconfig_file=""),
                name="cluster_has_one_credential",
                violation_error_message="A cluster is reached by a kubeconfig, by a file's name, or from inside it.",
            ),
            models.CheckConstraint(
                condition=models.Q(mode__in=cluster_config.CLUSTER_MODES),
                name="cluster_mode_known",
                violation_error_message="A cluster is managed or observed.",
            ),
        ]
        triggers = [
            ONE_BACKEND_PER_NAMESPACE,
            MODE_WITHOUT_WORK,
            CHECK_QUEUE_POOLS,
            MOVE_TOKENS,
            AuditTrigger(
                subject="'backend/' || COALESCE((SELECT name FROM pools_backend"
                " WHERE id = COALESCE(NEW.backend_id, OLD.backend_id)), '?')",
                action=f"CASE TG_OP WHEN 'INSERT' THEN '{AuditAction.BACKEND_CONNECTED}' "
                f"WHEN 'UPDATE' THEN '{AuditAction.BACKEND_UPDATED}' ELSE '{AuditAction.BACKEND_DISCONNECTED}' END",
                hide=["sealed_kubeconfig"],
            ),
            # The credential is a secret, so no file has it: admins replace it.
            OwnedTrigger(
                OwnedKind.BACKEND,
                name="(SELECT name FROM pools_backend WHERE id = COALESCE(OLD.backend_id, NEW.backend_id))",
                unless="TG_OP = 'UPDATE' AND to_jsonb(NEW) - ARRAY['sealed_kubeconfig', 'credential_mark', 'server']"
                " = to_jsonb(OLD) - ARRAY['sealed_kubeconfig', 'credential_mark', 'server']",
            ),
            NoTruncateTrigger("The table of clusters"),
        ]

    def __str__(self) -> str:
        return f"{self.access} {self.server}".strip()

    @property
    def is_observed(self) -> bool:
        """Whether the cluster is read and never written."""
        return self.mode == self.ClusterMode.OBSERVE

    @property
    def sync_in_force(self) -> str:
        """How the queues are synced: not at all in an observed cluster."""
        return self.Sync.OFF if self.is_observed else self.sync_mode
