"""What the house asks of a Kubernetes cluster and how it reads what comes back: plain JSON in, plain JSON out.

`naming` names and labels, `pod_group` and `pod` are the manifests of a gang, `report` reads a pod, `refusal` a
PodGroup's reason to wait, `machine` a node.
"""
