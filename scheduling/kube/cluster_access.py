"""How a cluster is reached and as whom: from inside it, or by a kubeconfig that may not reach into our own machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class InClusterAccess:
    """We run in the cluster; Kubernetes gives our pod a token and renews it."""


@dataclass(frozen=True, slots=True)
class KubeconfigAccess:
    """A kubeconfig, read; `context` names one of its contexts, empty is its current one."""

    content: Mapping[str, Any]
    context: str = ""


ClusterAccess = InClusterAccess | KubeconfigAccess
