"""The objects that we create in a Kubernetes cluster, and how we read the objects of a cluster: plain JSON in and out.

`naming` has names and labels, `pod_group` and `pod` the manifests of a gang; `pod_status` reads a pod, `unschedulable`
the reason why a PodGroup waits, `node` a node.
"""
