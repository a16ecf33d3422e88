"""Keeps the webhook configuration of a cluster as it was installed: what was deleted or changed there is put
back, and it follows the mode of the guard, the mark, the namespaces with a GPU quota and the authority of the
webhook server's certificate. What cannot be put right is a condition on the backend's webhook page.

Runs in the loop of the GPU quota controller, under its lease. Every call to the cluster is outside of transactions.
"""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path

from django.db.models import F
from django.utils import timezone

from pools.database.transactions import change, database_time
from pools.domain.people.roles import SYSTEM
from pools.models import Backend
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.kube import webhook_configuration
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import Cluster
from scheduling.models import QueueGuard, WebhookInstallation
from scheduling.services.webhooks.authorities import (
    AUTHORITY_FILE,
    join_authorities,
    shows_certificate_of,
    split_authorities,
)
from scheduling.services.webhooks.installation import adopt_installation, desired_webhooks
from scheduling.services.webhooks.queue_guard import put_queue_guard, queue_guard_for

logger = logging.getLogger(__name__)

AFTER_REMOVAL = timedelta(minutes=1)
"""A configuration that is there so soon after its removal was written by a check that ran at the same time."""


def keep_webhooks(backend: Backend, cluster: Cluster) -> None:
    """Check the webhook configuration of one cluster, and put back what differs. Never raises ClusterError."""
    try:
        problem = _put_back(backend, cluster)
    except ClusterError as error:
        problem = f"The webhook configuration cannot be checked or put back: {error_message(error)}"
    WebhookInstallation.objects.filter(backend=backend).update(problem=problem, checked_at=timezone.now())


def _put_back(backend: Backend, cluster: Cluster) -> str:
    """Put back what differs; returns a problem that is left, or nothing."""
    row = WebhookInstallation.objects.filter(backend=backend).first()
    there = webhook_configuration.read_configuration(cluster, backend.name)
    if row is None or row.removed_at is not None:
        if there is None:
            return ""
        if row is not None and row.removed_at is not None and database_time() - row.removed_at < AFTER_REMOVAL:
            webhook_configuration.remove_configuration(cluster, backend.name)
            return ""
        installed = webhook_configuration.read_installed(there, backend.name)
        if installed is None:
            return ""
        row = adopt_installation(SYSTEM, backend, installed)
    _follow_authority(row)
    _allow_own_account(backend, cluster)
    spec = desired_webhooks(row, queue_guard_for(backend))
    if there is None:
        differences = ["The webhook configuration was missing in the cluster."]
    else:
        differences = webhook_configuration.configuration_differences(there, spec)
    if differences:
        webhook_configuration.install_configuration(cluster, spec)
        repair = " ".join(differences)
        logger.warning("backend %s: the webhook configuration was put back: %s", backend.name, repair)
        with change(actor=SYSTEM, description="the webhook configuration in the cluster differed"):
            WebhookInstallation.objects.filter(backend=backend).update(
                repair=repair, repairs=F("repairs") + 1, repaired_at=timezone.now()
            )
    return ""


def _allow_own_account(backend: Backend, cluster: Cluster) -> None:
    """Allow the account by which we work in the cluster, if another credential gave us another one than that of the
    installation: our own changes must never be refused."""
    guard = queue_guard_for(backend)
    if guard.mode != QueueGuard.Mode.ENFORCE or not guard.identity:
        return
    name = webhook_configuration.read_own_username(cluster)
    if name and name not in {guard.identity, *guard.accounts}:
        accounts = [*guard.accounts, name]
        why = "OSMO Admin works in the cluster by this account now"
        put_queue_guard(PutQueueGuard(backend=backend.name, accounts=accounts), actor=SYSTEM, description=why)


def _follow_authority(row: WebhookInstallation) -> None:
    """Trust the authority of our webhook server; forget the ones before it once the server shows its certificate."""
    path = os.environ.get(AUTHORITY_FILE, "")
    try:
        current = Path(path).read_text() if path else ""
    except OSError:
        current = ""
    known = split_authorities(row.authorities)
    if not split_authorities(current):
        return
    bundle = join_authorities(current, row.authorities)
    if len(known) > 1 and row.url and shows_certificate_of(row.url, current):
        bundle = join_authorities(current)
    if bundle != row.authorities:
        row.authorities = bundle
        with change(actor=SYSTEM, description="the certificate authority of the webhook server changed"):
            WebhookInstallation.objects.filter(pk=row.pk).update(authorities=bundle)
