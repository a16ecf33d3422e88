"""Putting our webhooks into a cluster, taking them out, and telling whether they are right. No lock is held while a
cluster is spoken to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pools.domain.errors import Busy, Conflict
from pools.domain.roles import Action, Actor
from pools.models import Backend
from pools.permissions import require_house
from pools.services.backends import get_backend
from scheduling.kube import errors, webhook
from scheduling.kube.connections import connect
from scheduling.kube.webhook import Address, Installed, Wish
from scheduling.models import QueueGuard
from scheduling.services.gpu_quota.admission import mark_of
from scheduling.services.webhooks.queue_guard import bypasses, guard_of, put_guard


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a backend is guarded: how it is set, what its cluster has, and everything that is wrong."""

    guard: QueueGuard
    installed: Installed | None
    tries: int
    faults: tuple[str, ...]


def install_webhook(
    *,
    actor: Actor,
    backend: str,
    address: Address,
    mode: str | None = None,
    identity: str = "",
    fails_closed: bool | None = None,
    namespaces: Mapping[str, Any] | None = None,
) -> QueueGuard:
    """Put the webhooks of a backend into its cluster, or bring them up to date.

    The guard is set first, so that what we dispatch ourselves is never refused. A new one begins in `audit`.
    `identity` is asked of the cluster when not given; `fails_closed` None: only where the mode is `enforce`.
    Raises Conflict for a simulated backend, for a cluster that does not tell who we are, and where it refuses; Busy
    when it does not answer; Forbidden, BadInput, NotFound.
    """
    require_house(actor)
    row = _cluster_backend(backend)
    known = QueueGuard.objects.filter(backend=row).first()
    with _told(backend):
        cluster = connect(row)
        found = identity or (known.identity if known else "") or webhook.who_we_are(cluster)
        if not found:
            raise Conflict(
                f"The cluster of backend {backend} does not tell under which name it knows us, and the webhook must "
                "not refuse our own work. Name it: --identity system:serviceaccount:NAMESPACE:NAME."
            )
        wanted = mode or (known.mode if known else QueueGuard.Mode.AUDIT)
        guard = put_guard(actor=actor, backend=backend, body={"mode": wanted, "identity": found})
        closed = guard.mode == QueueGuard.Mode.ENFORCE if fails_closed is None else fails_closed
        webhook.install(cluster, Wish(backend, address, closed, namespaces, mark_of(backend)))
    return guard


def remove_webhook(*, actor: Actor, backend: str) -> bool:
    """Take the webhooks out of the cluster; False when there were none. The guard's settings stay."""
    require_house(actor)
    row = _cluster_backend(backend)
    with _told(backend):
        return webhook.remove(connect(row), backend)


def webhook_standing(actor: Actor, backend: str, *, authority: str) -> Standing:
    """How it stands. `authority` is the PEM that callers must trust, empty when this house has none."""
    require_house(actor, Action.HOUSE_READ)
    row = _cluster_backend(backend)
    with _told(backend):
        there = webhook.installed(connect(row), backend)
    guard = guard_of(row)
    tries = sum(each.tries for each in bypasses(actor, backend))
    return Standing(guard, there, tries, tuple(_faults(guard, there, authority)))


def _faults(guard: QueueGuard, there: Installed | None, authority: str) -> list[str]:
    if there is None:
        return ["The cluster has no webhook configuration of ours: osmo-admin webhook install"]
    found = []
    if authority and there.trusts != {authority}:
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
    except (errors.Unreachable, errors.TooMany) as error:
        raise Busy(f"The cluster of backend {backend} did not answer: {error.message}") from error
    except errors.ClusterError as error:
        raise Conflict(f"The cluster of backend {backend} refused: {error.message}") from error
