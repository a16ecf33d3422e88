"""The kinds that the house reads or writes."""

from __future__ import annotations

from scheduling.kube.port import Kind

QUEUE = Kind("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False)
POD_GROUP = Kind("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
TOPOLOGY = Kind("kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
POD = Kind("", "v1", "pods", "Pod")
SECRET = Kind("", "v1", "secrets", "Secret")
SERVICE = Kind("", "v1", "services", "Service")
VALIDATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
GPU_RESOURCE_QUOTA = Kind("tensor-fusion.ai", "v1", "gpuresourcequotas", "GPUResourceQuota")
