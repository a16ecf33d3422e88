"""Installs our admission webhooks in a cluster, removes them, and checks them. No lock is held during calls to a
cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pools.database.transactions import change, database_time
from pools.domain.changes.command import read_command
from pools.domain.errors import Busy, Conflict
from pools.domain.people.roles import Actor, Permission
from pools.locking import lock_backend
from pools.models import Backend, GpuQuota
from pools.permissions import require_platform
from pools.services.configuration.backends import get_backend
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.kube import webhook_configuration
from scheduling.kube.connection import errors
from scheduling.kube.webhook_configuration import InstalledWebhook, WebhookAddress, WebhookSpec
from scheduling.models import QueueGuard, UnmarkedReviews, WebhookInstallation
from scheduling.services.kubernetes.connections import (
    connect,
    connect_reader,
    kubernetes_settings,
    require_managed,
)
from scheduling.services.webhooks.authorities import join_authorities, split_authorities
from scheduling.services.webhooks.marks import current_mark
from scheduling.services.webhooks.queue_guard import list_bypasses, put_queue_guard, queue_guard_for, shard_key_of


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """The admission webhooks of a backend: the settings, the configuration in the cluster, and all problems.
    `unmarked` are the reviews that came without the mark."""

    guard: QueueGuard
    installed: InstalledWebhook | None
    bypass_attempts: int
    unmarked: int
    problems: tuple[str, ...]


def desired_webhooks(row: WebhookInstallation, guard: QueueGuard) -> WebhookSpec:
    """The webhooks that the cluster of this backend should have now."""
    namespace, _, service = row.service.partition("/")
    address = WebhookAddress(
        row.authorities, url=row.url, service=(namespace, service) if service else None, port=row.service_port
    )
    closed = guard.mode == QueueGuard.Mode.ENFORCE if row.fails_closed is None else row.fails_closed
    namespaces = tuple(GpuQuota.objects.order_by("namespace").values_list("namespace", flat=True))
    return WebhookSpec(
        backend=guard.backend.name,
        namespace=guard.backend.namespace,
        mark=current_mark(guard),
        address=address,
        fails_closed=closed,
        namespace_selector=row.namespace_selector,
        gpu_namespaces=namespaces,
        accounts=sorted({guard.identity, *guard.accounts}) if guard.identity else (),
        shard_key=shard_key_of(guard.backend),
    )


def printed_webhooks(
    *,
    actor: Actor,
    backend: str,
    address: WebhookAddress,
    fails_closed: bool | None = None,
    namespace_selector: Mapping[str, Any] | None = None,
) -> WebhookSpec:
    """The webhooks that :func:`install_webhook` would install with these options; nothing is changed."""
    require_platform(actor)
    row = _cluster_backend(backend)
    known = WebhookInstallation.objects.filter(backend=row, removed_at=None).first()
    wanted = _wanted_installation(row, known, address, fails_closed, namespace_selector)
    return desired_webhooks(wanted, queue_guard_for(row))


def install_webhook(
    *,
    actor: Actor,
    backend: str,
    address: WebhookAddress,
    mode: str | None = None,
    identity: str = "",
    strict_minimums: bool | None = None,
    fails_closed: bool | None = None,
    namespace_selector: Mapping[str, Any] | None = None,
) -> QueueGuard:
    """Install the webhooks of a backend in its cluster, or update them; from then on the running installation keeps
    them so.

    The queue guard is set first, so that our own work is never refused. A new guard begins in mode `audit`. Without
    `identity` our user name is read from the cluster; `fails_closed` None means: only in mode `enforce`. Authorities
    that the cluster trusts already stay until the webhook server shows a certificate of ours. Raises Conflict for a
    simulated backend, for a cluster that does not report our user name, and when the cluster refuses; Busy when it does
    not answer; Forbidden, BadInput, NotFound.
    """
    require_platform(actor)
    row = _cluster_backend(backend)
    known = QueueGuard.objects.filter(backend=row).first()
    with _translated_errors(backend):
        require_managed(row, kubernetes_settings(row))
        cluster = connect(row)
        found = identity or (known.identity if known else "") or webhook_configuration.read_own_username(cluster)
        if not found:
            raise Conflict(
                f"Cluster {backend} does not report our user name there, and the webhook must "
                "not refuse our own work. Set the name: --identity system:serviceaccount:NAMESPACE:NAME."
            )
        there = webhook_configuration.read_configuration(cluster, backend)
        installed = None if there is None else webhook_configuration.read_installed(there, backend)
    new_mode = mode or (known.mode if known else QueueGuard.Mode.AUDIT)
    settings = {"mode": new_mode, "identity": found, "strict_minimums": strict_minimums}
    guard = put_queue_guard(read_command(PutQueueGuard, settings, {"backend": backend}), actor=actor)
    if installed is not None:
        bundle = join_authorities(address.ca_certificate, installed.address.ca_certificate)
        address = replace(address, ca_certificate=bundle)
    installation = _store_installation(actor, row, address, fails_closed, namespace_selector)
    with _translated_errors(backend):
        webhook_configuration.install_configuration(cluster, desired_webhooks(installation, guard))
    return guard


def _store_installation(
    actor: Actor,
    backend: Backend,
    address: WebhookAddress,
    fails_closed: bool | None,
    namespace_selector: Mapping[str, Any] | None,
) -> WebhookInstallation:
    with change(actor=actor, description="the webhooks were installed"):
        lock_backend(backend.pk)
        known = WebhookInstallation.objects.filter(backend=backend).first()
        wanted = _wanted_installation(backend, known, address, fails_closed, namespace_selector)
        wanted.save()
    return wanted


def _wanted_installation(
    backend: Backend,
    known: WebhookInstallation | None,
    address: WebhookAddress,
    fails_closed: bool | None,
    namespace_selector: Mapping[str, Any] | None,
) -> WebhookInstallation:
    """The row with these options; authorities that are trusted already stay in force."""
    row = known or WebhookInstallation(backend=backend)
    row.url, row.service = address.url.rstrip("/"), "/".join(address.service or ())
    row.service_port, row.removed_at = address.port, None
    row.authorities = join_authorities(address.ca_certificate, row.authorities)
    row.fails_closed = fails_closed
    row.namespace_selector = None if namespace_selector is None else dict(namespace_selector)
    return row


def adopt_installation(actor: Actor, backend: Backend, installed: InstalledWebhook) -> WebhookInstallation:
    """Take over a configuration that somebody applied from a printed manifest, or that an older version installed. Its
    failure policy follows the mode of the guard from now on."""
    return _store_installation(actor, backend, installed.address, None, installed.namespace_selector)


def remove_webhook(*, actor: Actor, backend: str) -> bool:
    """Remove the webhooks from the cluster; False when there were none. The settings stay, except the authorities that
    the cluster trusted: the next installation begins with its own."""
    require_platform(actor)
    row = _cluster_backend(backend)
    with _translated_errors(backend):
        require_managed(row, kubernetes_settings(row))
    with change(actor=actor, description="the webhooks were removed"):
        lock_backend(row.pk)
        installed = WebhookInstallation.objects.filter(backend=row, removed_at=None)
        installed.update(removed_at=database_time(), problem="", authorities="")
    with _translated_errors(backend):
        return webhook_configuration.remove_configuration(connect(row), backend)


def read_webhook_status(actor: Actor, backend: str, *, ca_certificate: str) -> WebhookStatus:
    """The state of a backend's webhooks. `ca_certificate` is the PEM that callers must trust; empty: there is none."""
    require_platform(actor, Permission.PLATFORM_READ)
    row = _cluster_backend(backend)
    with _translated_errors(backend):
        there = webhook_configuration.read_configuration(connect_reader(row), backend)
    installed = None if there is None else webhook_configuration.read_installed(there, backend)
    guard = queue_guard_for(row)
    attempts = sum(each.attempts for each in list_bypasses(actor, backend))
    unmarked = UnmarkedReviews.objects.filter(backend=row).values_list("attempts", flat=True).first() or 0
    problems = list(_problems(row, guard, there, installed, ca_certificate))
    return WebhookStatus(guard, installed, attempts, unmarked, tuple(problems))


def _problems(
    backend: Backend,
    guard: QueueGuard,
    there: Mapping[str, Any] | None,
    installed: InstalledWebhook | None,
    ca_certificate: str,
) -> Iterator[str]:
    if there is None:
        yield "The cluster has no webhook configuration of ours: osmo-admin webhook install"
        return
    row = WebhookInstallation.objects.filter(backend=backend, removed_at=None).first()
    if row is None and installed is not None:
        row = WebhookInstallation(
            backend=backend,
            url=installed.address.url,
            service="/".join(installed.address.service or ()),
            service_port=installed.address.port,
            authorities=installed.address.ca_certificate,
            namespace_selector=installed.namespace_selector,
        )
    if row is None:
        yield "The webhook configuration in the cluster calls another address than ours: osmo-admin webhook install"
        return
    for difference in webhook_configuration.configuration_differences(there, desired_webhooks(row, guard)):
        yield f"{difference} The running installation puts it back; at once: osmo-admin webhook install"
    if row.problem:
        yield row.problem
    trusted = split_authorities(installed.address.ca_certificate if installed else "")
    if ca_certificate and not set(split_authorities(ca_certificate)) <= set(trusted):
        yield "The cluster trusts another certificate authority than ours: osmo-admin webhook install"
    if not guard.identity:
        yield "Our user name in the cluster is not known: our own work may be refused."
    if guard.mode == QueueGuard.Mode.ENFORCE and not (installed and installed.fails_closed):
        yield "While OSMO Admin does not answer, the cluster allows everything (failurePolicy Ignore)."


def _cluster_backend(name: str) -> Backend:
    row = get_backend(name)
    if row.kind != Backend.Kind.KUBERNETES:
        raise Conflict(f"Cluster {name} is simulated; only a Kubernetes cluster calls webhooks.")
    return row


@contextmanager
def _translated_errors(backend: str) -> Iterator[None]:
    """Raise errors of a cluster as our own errors."""
    try:
        yield
    except (errors.Unreachable, errors.TooManyRequests) as error:
        raise Busy(f"Cluster {backend} did not answer: {error.message}") from error
    except errors.ClusterError as error:
        raise Conflict(f"Cluster {backend} refused: {error.message}") from error
