"""Putting our webhooks into a cluster, taking them out, and telling whether they are right. No lock is held while a
cluster is spoken to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pools.domain.errors import Busy, Conflict
from pools.domain.roles import Actor, Permission
from pools.models import Backend
from pools.permissions import require_platform
from pools.services.backends import get_backend
from scheduling.kube import errors, webhook_configuration
from scheduling.kube.webhook_configuration import InstalledWebhook, WebhookAddress, WebhookSpec
from scheduling.models import QueueGuard
from scheduling.services.gpu_quota.admission import webhook_token
from scheduling.services.kubernetes.connections import connect
from scheduling.services.webhooks.queue_guard import list_bypasses, put_queue_guard, queue_guard_for


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """Whether a backend is guarded: how it is set, what its cluster has, and everything that is wrong."""

    guard: QueueGuard
    installed: InstalledWebhook | None
    bypass_attempts: int
    problems: tuple[str, ...]


def install_webhook(
    *,
    actor: Actor,
    backend: str,
    address: WebhookAddress,
    mode: str | None = None,
    identity: str = "",
    fails_closed: bool | None = None,
    namespace_selector: Mapping[str, Any] | None = None,
) -> QueueGuard:
    """Put the webhooks of a backend into its cluster, or bring them up to date.

    The guard is set first, so that what we dispatch ourselves is never refused. A new one begins in `audit`.
    `identity` is asked of the cluster when not given; `fails_closed` None: only where the mode is `enforce`.
    Raises Conflict for a simulated backend, for a cluster that does not tell who we are, and where it refuses; Busy
    when it does not answer; Forbidden, BadInput, NotFound.
    """
    require_platform(actor)
    row = _cluster_backend(backend)
    known = QueueGuard.objects.filter(backend=row).first()
    with _told(backend):
        cluster = connect(row)
        found = identity or (known.identity if known else "") or webhook_configuration.read_own_username(cluster)
        if not found:
            raise Conflict(
                f"The cluster of backend {backend} does not tell under which name it knows us, and the webhook must "
                "not refuse our own work. Name it: --identity system:serviceaccount:NAMESPACE:NAME."
            )
        wanted = mode or (known.mode if known else QueueGuard.Mode.AUDIT)
        guard = put_queue_guard(actor=actor, backend=backend, body={"mode": wanted, "identity": found})
        closed = guard.mode == QueueGuard.Mode.ENFORCE if fails_closed is None else fails_closed
        webhook_configuration.install_configuration(
            cluster, WebhookSpec(backend, address, closed, namespace_selector, webhook_token(backend))
        )
    return guard


def remove_webhook(*, actor: Actor, backend: str) -> bool:
    """Take the webhooks out of the cluster; False when there were none. The guard's settings stay."""
    require_platform(actor)
    row = _cluster_backend(backend)
    with _told(backend):
        return webhook_configuration.remove_configuration(connect(row), backend)


def read_webhook_status(actor: Actor, backend: str, *, ca_certificate: str) -> WebhookStatus:
    """How it stands. `ca_certificate` is the PEM that callers must trust, empty when this house has none."""
    require_platform(actor, Permission.PLATFORM_READ)
    row = _cluster_backend(backend)
    with _told(backend):
        there = webhook_configuration.read_installed_webhook(connect(row), backend)
    guard = queue_guard_for(row)
    attempts = sum(each.attempts for each in list_bypasses(actor, backend))
    return WebhookStatus(guard, there, attempts, tuple(_faults(guard, there, ca_certificate)))


def _faults(guard: QueueGuard, there: InstalledWebhook | None, authority: str) -> list[str]:
    if there is None:
        return ["The cluster has no webhook configuration of ours: osmo-admin webhook install"]
    found = []
    if authority and there.ca_certificates != {authority}:
        found.append("The cluster trusts another authority than the one of this house: osmo-admin webhook install")
    if not guard.identity:
        found.append("It is not known under which name the cluster knows us: our own work may be refused.")
    if guard.mode == QueueGuard.Mode.ENFORCE and not there.fails_closed:
        found.append("While the house does not answer, everybody passes (failurePolicy Ignore).")
    return found


def _cluster_backend(name: str) -> Backend:
    row = get_backend(name)
    if row.kind != Backend.Kind.KUBERNETES:
        raise Conflict(f"Backend {name} is simulated; only a Kubernetes cluster asks webhooks.")
    return row


@contextmanager
def _told(backend: str) -> Iterator[None]:
    """What a cluster says instead, in the house's own errors."""
    try:
        yield
    except (errors.Unreachable, errors.TooManyRequests) as error:
        raise Busy(f"The cluster of backend {backend} did not answer: {error.message}") from error
    except errors.ClusterError as error:
        raise Conflict(f"The cluster of backend {backend} refused: {error.message}") from error
