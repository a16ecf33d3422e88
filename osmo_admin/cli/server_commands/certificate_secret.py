"""The certificate of the webhook server in a Secret of the cluster, for the chart: made once by a job, because a
template would make another one with every render.

The Secret has `tls.crt`, `tls.key` and `ca.crt`. Its authority signs this one certificate, and its key is thrown away.
"""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from osmo_admin.ops.files.certificates import AUTHORITY_LIFETIME, RENEW_BEFORE, ensure_certificate, read_certificate
from osmo_admin.ops.programs.errors import OperationError
from scheduling.domain.cluster.naming import FIELD_MANAGER, MANAGED_BY_LABEL
from scheduling.kube.connection import errors
from scheduling.kube.connection.error_messages import error_message
from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import SECRET

FILES = ("ca.crt", "tls.crt", "tls.key")


def keep_certificate_secret(
    cluster: Cluster, namespace: str, name: str, hosts: Sequence[str], *, now: datetime | None = None
) -> bool:
    """Make the Secret, or replace its certificate if it lacks a host, cannot be read, or ends within 30 days; returns
    whether it did. A Secret that another job has made meanwhile stays. Raises OperationError if the cluster refuses."""
    now = now or datetime.now(UTC)
    try:
        there = _find(cluster, namespace, name)
        if there is not None and _serves(there.get("data") or {}, hosts, now):
            return False
        data = _new_files(hosts, now)
        if there is not None:
            cluster.merge(SECRET, name, {"data": data}, field_manager=FIELD_MANAGER, namespace=namespace)
            return True
        metadata = {"name": name, "namespace": namespace, "labels": {MANAGED_BY_LABEL: FIELD_MANAGER}}
        body = {"metadata": metadata, "type": "kubernetes.io/tls", "data": data}
        try:
            cluster.create(SECRET, body, field_manager=FIELD_MANAGER)
        except errors.AlreadyExists:
            return False
    except errors.ClusterError as error:
        message = f"Secret {name} in namespace {namespace} cannot be kept: {error_message(error)}"
        raise OperationError(message) from error
    return True


def _find(cluster: Cluster, namespace: str, name: str) -> Mapping[str, Any] | None:
    try:
        return cluster.get(SECRET, name, namespace=namespace)
    except errors.ObjectNotFound:
        return None


def _serves(data: Mapping[str, str], hosts: Sequence[str], now: datetime) -> bool:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        try:
            for name in FILES:
                (folder / name).write_bytes(base64.b64decode(data.get(name) or "", validate=True))
            found = read_certificate(folder) if all(data.get(name) for name in FILES) else None
        except (OperationError, binascii.Error):
            return False
    return found is not None and set(hosts) <= found.hosts and found.expires_at - now > RENEW_BEFORE


def _new_files(hosts: Sequence[str], now: datetime) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ensure_certificate(folder, hosts, now=now, lifetime=AUTHORITY_LIFETIME)
        return {name: base64.b64encode((folder / name).read_bytes()).decode() for name in FILES}
