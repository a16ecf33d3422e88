"""Installs our admission webhooks in a cluster, removes them, and checks them. No lock is held during calls to a
cluster."""

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
    """The admission webhooks of a backend: the settings, the configuration in the cluster, and all problems."""

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
    """Install the webhooks of a backend in its cluster, or update them.

    The queue guard is set first, so that our own work is never refused. A new guard begins in mode `audit`. Without
    `identity` our user name is read from the cluster; `fails_closed` None means: only in mode `enforce`. Raises
    Conflict for a simulated backend, for a cluster that does not report our user name, and when the cluster refuses;
    Busy when it does not answer; Forbidden, BadInput, NotFound.
    """
    require_platform(actor)
    row = _cluster_backend(backend)
    known = QueueGuard.objects.filter(backend=row).first()
    with _translated_errors(backend):
        cluster = connect(row)
        found = identity or (known.identity if known else "") or webhook_configuration.read_own_username(cluster)
        if not found:
            raise Conflict(
                f"The cluster of backend {backend} does not report our user name there, and the webhook must "
                "not refuse our own work. Set the name: --identity system:serviceaccount:NAMESPACE:NAME."
            )
        new_mode = mode or (known.mode if known else QueueGuard.Mode.AUDIT)
        guard = put_queue_guard(actor=actor, backend=backend, body={"mode": new_mode, "identity": found})
        closed = guard.mode == QueueGuard.Mode.ENFORCE if fails_closed is None else fails_closed
        webhook_configuration.install_configuration(
            cluster, WebhookSpec(backend, address, closed, namespace_selector, webhook_token(backend))
        )
    return guard


def remove_webhook(*, actor: Actor, backend: str) -> bool:
    """Remove the webhooks from the cluster; False when there were none. The settings stay."""
    require_platform(actor)
    row = _cluster_backend(backend)
    with _translated_errors(backend):
        return webhook_configuration.remove_configuration(connect(row), backend)


def read_webhook_status(actor: Actor, backend: str, *, ca_certificate: str) -> WebhookStatus:
    """The state of a backend's webhooks. `ca_certificate` is the PEM that callers must trust; empty: there is none."""
    require_platform(actor, Permission.PLATFORM_READ)
    row = _cluster_backend(backend)
    with _translated_errors(backend):
        installed = webhook_configuration.read_installed_webhook(connect(row), backend)
    guard = queue_guard_for(row)
    attempts = sum(each.attempts for each in list_bypasses(actor, backend))
    return WebhookStatus(guard, installed, attempts, tuple(_problems(guard, installed, ca_certificate)))


def _problems(guard: QueueGuard, installed: InstalledWebhook | None, ca_certificate: str) -> list[str]:
    if installed is None:
        return ["The cluster has no webhook configuration of ours: osmo-admin webhook install"]
    found = []
    if ca_certificate and installed.ca_certificates != {ca_certificate}:
        found.append("The cluster trusts another certificate authority than ours: osmo-admin webhook install")
    if not guard.identity:
        found.append("Our user name in the cluster is not known: our own work may be refused.")
    if guard.mode == QueueGuard.Mode.ENFORCE and not installed.fails_closed:
        found.append("While OSMO Admin does not answer, the cluster allows everything (failurePolicy Ignore).")
    return found


def _cluster_backend(name: str) -> Backend:
    row = get_backend(name)
    if row.kind != Backend.Kind.KUBERNETES:
        raise Conflict(f"Backend {name} is simulated; only a Kubernetes cluster calls webhooks.")
    return row


@contextmanager
def _translated_errors(backend: str) -> Iterator[None]:
    """Raise errors of a cluster as our own errors."""
    try:
        yield
    except (errors.Unreachable, errors.TooManyRequests) as error:
        raise Busy(f"The cluster of backend {backend} did not answer: {error.message}") from error
    except errors.ClusterError as error:
        raise Conflict(f"The cluster of backend {backend} refused: {error.message}") from error
