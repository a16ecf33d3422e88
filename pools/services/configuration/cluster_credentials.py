"""The Kubernetes settings of a backend. The credential is read and checked before any lock, and stored encrypted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.conf import settings
from django.db.models import Q

from pools.domain.configuration.cluster_addresses import AddressRule
from pools.domain.configuration.cluster_config import (
    FILE,
    IN_CLUSTER,
    KUBECONFIG,
    NODE_POOL_KEY,
    SCHEDULER,
    ClusterSpec,
)
from pools.domain.configuration.kubeconfig import MAX_LENGTH, KubeconfigFacts, read_kubeconfig
from pools.domain.errors import Conflict, Fault, Violation
from pools.locking import lock_pool_trees
from pools.models import Backend, KubernetesSettings, Reservation
from pools.security.sealing import UnreadableSecret, fingerprint, seal, unseal
from pools.services.changes.observed_work import hand_over_observed_work
from pools.services.changes.rows import update_columns

IN_CLUSTER_SERVER = "in-cluster"
_SHOWN_POOLS = 10
_DEFAULTS = {"scheduler_name": SCHEDULER, "node_pool_key": NODE_POOL_KEY}


@dataclass(frozen=True, slots=True)
class Credential:
    """The columns of :class:`KubernetesSettings` that say how to reach the cluster."""

    columns: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def read_credential(spec: ClusterSpec, present: Backend | None) -> tuple[Credential, list[Violation]]:
    """The credential that `spec` requests, or the stored one where `spec` has none; and every fault in it."""
    row = _settings_of(present)
    access = _choose_access(spec, row)
    if access == IN_CLUSTER:
        return Credential(_columns(access, server=IN_CLUSTER_SERVER)), []
    if access == FILE:
        return _read_file_credential(spec, row)
    if access == KUBECONFIG:
        return _read_kubeconfig_credential(spec, row)
    missing = "The cluster's credential is missing: send a kubeconfig, a kubeconfig_file, or access in_cluster."
    return Credential({}), [Violation("access", Fault.MISSING, missing)]


def put_cluster(row: Backend, spec: ClusterSpec, credential: Credential) -> tuple[bool, tuple[str, ...]]:
    """Store the Kubernetes settings of a backend; returns whether any column changed, and warnings. Raises Conflict if
    another backend is on the same cluster and namespace. Called in the transaction that changes the backend, under the
    configuration lock."""
    columns = dict(credential.columns)
    for key in ("mode", "scheduler_name", "node_pool_key", "node_pool", "sync_mode", "owner_label"):
        value = getattr(spec, key)
        if value is not None:
            columns[key] = value or _DEFAULTS.get(key, "")
    if spec.queue_pools is not None:
        columns["queue_pools"] = dict(spec.queue_pools)
    _require_free_namespace(row, columns["server"])
    existing = KubernetesSettings.objects.filter(backend=row).first()
    warnings: tuple[str, ...] = ()
    if existing is not None and columns.get("mode", existing.mode) != existing.mode:
        warnings = _require_no_work(row)
    if existing is None:
        KubernetesSettings.objects.create(backend=row, **columns)
        return True, ()
    return update_columns(existing, columns), warnings


def _require_no_work(row: Backend) -> tuple[str, ...]:
    """The mode of a cluster changes while none of its pools has active work of ours: what runs there belongs to one
    scheduler. Work that was only observed leaves the record and goes on; returns the warning about it. The trees stay
    locked, so that no submission comes between."""
    pools = {pool.pk: pool.name for pool in lock_pool_trees(list(row.pools.values_list("pk", flat=True)))}
    warnings = hand_over_observed_work(row)
    held = Reservation.objects.filter(Q(pool__in=pools) | Q(pool__parent__in=pools))
    counts = Counter(pools[parent or pool] for pool, parent in held.values_list("pool_id", "pool__parent_id"))
    if counts:
        names = ", ".join(f"{name} ({number})" for name, number in sorted(counts.items())[:_SHOWN_POOLS])
        more = f" and {len(counts) - _SHOWN_POOLS} more pools" if len(counts) > _SHOWN_POOLS else ""
        message = (
            f"The mode of cluster {row.name} cannot change while its pools have active workflows: {names}{more}. Put "
            "the pools into maintenance, and change the mode when their work has ended."
        )
        numbers = (("pools", len(counts)), ("workflows", sum(counts.values())))
        raise Conflict(message, [Violation("mode", Fault.LIVE_WORK, message, numbers=numbers)])
    return warnings


def load_kubeconfig(row: KubernetesSettings) -> tuple[Any, str]:
    """The parsed kubeconfig of a cluster, from the database or the operator's folder, and the context to use.

    Raises UnreadableSecret with a message that contains no credential.
    """
    if row.access == FILE:
        folder = settings.OSMO.kubeconfig_dir
        if folder is None:
            raise UnreadableSecret("OSMO_KUBECONFIG_DIR is not set here, so kubeconfig files cannot be found.")
        try:
            text = (folder / row.kubeconfig_file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not a text file"
            raise UnreadableSecret(f"The file {row.kubeconfig_file} in OSMO_KUBECONFIG_DIR: {reason}.") from error
    else:
        text = _unseal_kubeconfig(row)
    content = _parse_yaml(text)
    if content is None:
        raise UnreadableSecret("The kubeconfig is not valid YAML.")
    return content, row.context


def address_rule() -> AddressRule:
    """The rule on the addresses in kubeconfigs that clients send."""
    return AddressRule.of(settings.OSMO.cluster_addresses)


def _settings_of(backend: Backend | None) -> KubernetesSettings | None:
    return KubernetesSettings.objects.filter(backend=backend).first() if backend is not None else None


def _choose_access(spec: ClusterSpec, row: KubernetesSettings | None) -> str | None:
    requested = KUBECONFIG if spec.kubeconfig else FILE if spec.kubeconfig_file else None
    return requested or spec.access or (row.access if row else None)


def _columns(access: str, **more: str) -> dict[str, str]:
    empty = {"sealed_kubeconfig": "", "credential_mark": "", "kubeconfig_file": "", "context": "", "server": ""}
    return empty | {"access": access} | more


def _read_file_credential(spec: ClusterSpec, row: KubernetesSettings | None) -> tuple[Credential, list[Violation]]:
    name = spec.kubeconfig_file or (row.kubeconfig_file if row else "")
    context = spec.context if spec.context is not None else (row.context if row else "")
    faults = []
    if not name:
        faults.append(Violation("kubeconfig_file", Fault.MISSING, "kubeconfig_file is missing: the name of the file."))
    if settings.OSMO.kubeconfig_dir is None:
        message = (
            "This server has no folder of kubeconfig files: set OSMO_KUBECONFIG_DIR, or send the kubeconfig itself."
        )
        faults.append(Violation("kubeconfig_file", Fault.NO_FOLDER, message))
    return Credential(_columns(FILE, kubeconfig_file=name, context=context)), faults


def _read_kubeconfig_credential(
    spec: ClusterSpec, row: KubernetesSettings | None
) -> tuple[Credential, list[Violation]]:
    stored_row = row if row is not None and row.access == KUBECONFIG else None
    context = (
        spec.context if spec.context is not None else (stored_row.context if stored_row and not spec.kubeconfig else "")
    )
    if spec.kubeconfig is None:
        if stored_row is None:
            return Credential({}), [Violation(KUBECONFIG, Fault.MISSING, "kubeconfig is missing: its text.")]
        if spec.context in {None, stored_row.context}:
            return Credential(_stored_columns(stored_row)), []
        try:
            text = _unseal_kubeconfig(stored_row)
        except UnreadableSecret as error:
            return Credential({}), [Violation(KUBECONFIG, Fault.UNREADABLE, str(error))]
    else:
        text = spec.kubeconfig
    facts, faults = _read_facts(text, context)
    columns = _columns(KUBECONFIG, context=context, server=facts.server)
    if stored_row is not None and stored_row.credential_mark == fingerprint(text):
        # sealing the same text again would show up as a change in the audit log
        columns |= {"sealed_kubeconfig": stored_row.sealed_kubeconfig, "credential_mark": stored_row.credential_mark}
    else:
        columns |= {"sealed_kubeconfig": seal(text), "credential_mark": fingerprint(text)}
    return Credential(columns, facts.warnings), faults


def _stored_columns(row: KubernetesSettings) -> dict[str, str]:
    return {key: getattr(row, key) for key in _columns("")}


def _unseal_kubeconfig(row: KubernetesSettings) -> str:
    try:
        return unseal(row.sealed_kubeconfig)
    except UnreadableSecret as error:
        message = (
            "The stored kubeconfig was sealed with another OSMO_SECRET_KEY and cannot be read. Send it again, or put "
            "the old key into OSMO_SECRET_KEY_FALLBACKS."
        )
        raise UnreadableSecret(message) from error


def _read_facts(text: str, context: str) -> tuple[KubeconfigFacts, list[Violation]]:
    if len(text) > MAX_LENGTH:
        message = f"kubeconfig has {len(text):,} characters; the most is {MAX_LENGTH:,}."
        return KubeconfigFacts("", "", ""), [Violation(KUBECONFIG, Fault.TOO_LONG, message)]
    return read_kubeconfig(_parse_yaml(text), context, addresses=address_rule())


def _parse_yaml(text: str) -> Any:
    """The content; None for a text that is not valid YAML. The parser's own message is dropped, because it would quote
    the text."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _require_free_namespace(row: Backend, server: str) -> None:
    if not server:
        return
    other = (
        Backend.objects.filter(kubernetes__server=server, namespace=row.namespace)
        .exclude(pk=row.pk)
        .values_list("name", flat=True)
        .first()
    )
    if other is not None:
        message = (
            f"Cluster {other} is at {server} and in namespace {row.namespace} already; two would write the "
            "same queues. Give this one another namespace."
        )
        raise Conflict(message, [Violation("namespace", Fault.IN_USE, message)])
