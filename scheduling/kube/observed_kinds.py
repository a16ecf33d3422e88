"""The kinds of other schedulers that are only read, of observed clusters. Of a kind with two versions either may be
served, or both."""

from __future__ import annotations

from scheduling.kube.connection.port import ResourceKind

_KUEUE, _VERSIONS = "kueue.x-k8s.io", ("v1beta2", "v1beta1")
WORKLOADS = tuple(ResourceKind(_KUEUE, version, "workloads", "Workload") for version in _VERSIONS)
LOCAL_QUEUES = tuple(ResourceKind(_KUEUE, version, "localqueues", "LocalQueue") for version in _VERSIONS)
