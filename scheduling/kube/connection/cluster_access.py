"""The access to a cluster: from a pod inside it, or by a kubeconfig, which must not refer to files of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.configuration.cluster_addresses import AddressRule


@dataclass(frozen=True, slots=True)
class InClusterAccess:
    """OSMO Admin runs in the cluster; Kubernetes gives its pod a token and renews it."""


@dataclass(frozen=True, slots=True)
class KubeconfigAccess:
    """A parsed kubeconfig; `context` names one of its contexts, empty means the current one. `addresses` is the rule on
    the addresses of a kubeconfig that a client sent; None for a kubeconfig of the operator."""

    content: Mapping[str, Any]
    context: str = ""
    addresses: AddressRule | None = None


ClusterAccess = InClusterAccess | KubeconfigAccess
