"""Small workflow files to begin with, which a person chooses on the page of a submission."""

from __future__ import annotations

from typing import Final

ONE_TASK: Final = """\
workflow:
  name: hello
  resources:
    default:
      gpu: 1
      cpu: 4
      memory: 16Gi
      storage: 10Gi
  tasks:
  - name: train
    image: ubuntu:24.04
    command: [bash, -c]
    args: ["echo hello"]
"""

_TWO_NODES: Final = """\
workflow:
  name: two-nodes
  resources:
    worker:
      gpu: 8
      cpu: 32
      memory: 256Gi
      storage: 100Gi
  groups:
  - name: train
    tasks:
    - name: leader
      lead: true
      image: ubuntu:24.04
      resource: worker
      command: [bash, -c]
      args: ["echo rank 0"]
    - name: worker
      image: ubuntu:24.04
      resource: worker
      command: [bash, -c]
      args: ["echo rank 1"]
"""

_STEPS: Final = """\
workflow:
  name: "{{ name }}"
  resources:
    default:
      gpu: 1
      cpu: 4
      memory: 16Gi
      storage: 10Gi
  tasks:
  - name: prepare
    image: ubuntu:24.04
    command: [bash, -c]
    args: ["echo prepare"]
  - name: train
    image: ubuntu:24.04
    command: [bash, -c]
    args: ["echo learning rate {{ rate }}"]
    inputs:
    - task: prepare
default-values:
  name: steps
  rate: 0.001
"""

_POD_GROUP: Final = """\
kind: PodGroup
metadata:
  name: workers
  annotations: {osmo/gpus-per-pod: 1}
spec:
  minMember: 4
"""

EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "one_task": ("One task on 1 GPU", ONE_TASK),
    "two_nodes": ("Two tasks that start together, 16 GPUs", _TWO_NODES),
    "steps": ("Two steps, with variables", _STEPS),
    "pod_group": ("A PodGroup of 4 pods", _POD_GROUP),
}
"""By the value of the choice: its words, and the file."""
