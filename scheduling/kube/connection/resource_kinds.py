"""The kinds of objects that OSMO Admin reads or writes."""

from __future__ import annotations

from scheduling.kube.connection.port import ResourceKind

QUEUE = ResourceKind("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False)
POD_GROUP = ResourceKind("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
TOPOLOGY = ResourceKind("kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False)
PRIORITY_CLASS = ResourceKind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
NAMESPACE = ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = ResourceKind("", "v1", "nodes", "Node", namespaced=False)
DEVICE_LIST = ResourceKind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_CLAIM = ResourceKind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
POD = ResourceKind("", "v1", "pods", "Pod")
POD_LOG = ResourceKind("", "v1", "pods/log", "Pod")  # a right; the port reads it by the pod
SECRET = ResourceKind("", "v1", "secrets", "Secret")
EVENT = ResourceKind("", "v1", "events", "Event")
SERVICE = ResourceKind("", "v1", "services", "Service")
LEASE = ResourceKind("coordination.k8s.io", "v1", "leases", "Lease")
VALIDATING_WEBHOOK = ResourceKind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
GPU_RESOURCE_QUOTA = ResourceKind("tensor-fusion.ai", "v1", "gpuresourcequotas", "GPUResourceQuota")
