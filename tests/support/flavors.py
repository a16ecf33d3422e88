"""An installation whose pool has quotas of two GPU flavors."""

from __future__ import annotations

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import CreateSubpool
from pools.domain.people.roles import Actor
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world


def make_flavored_pool(name: str = "team", *, backend: str = "sim") -> Pool:
    """A pool of 16 H100 and 32 A100 on two nodes of H100 and four of A100 with 8 GPUs each, and its subpool a with 8
    and 8 of them."""
    nodes = [{"name": f"h{i}", "gpus": 8, "labels": {"gpu": "h100"}} for i in range(2)]
    nodes += [{"name": f"a{i}", "gpus": 8, "labels": {"gpu": "a100"}} for i in range(4)]
    flavors = [{"name": flavor, "node_labels": {"gpu": flavor}} for flavor in ("h100", "a100")]
    world.apply_change(PutBackend(name=backend, body={"nodes": nodes, "flavors": flavors}))
    return add_flavored_pool(name, {"h100": 16, "a100": 32}, {"h100": 8, "a100": 8}, backend=backend)


def add_flavored_pool(name: str, quotas: dict[str, int], of_a: dict[str, int], *, backend: str = "sim") -> Pool:
    """A pool with these quotas by flavor on the same backend, and its subpool a."""
    world.make_pool(name, 0, on=world.make_backend(backend))
    body = {"resources": {"flavors": {flavor: {"guarantee": gpus} for flavor, gpus in quotas.items()}}}
    world.apply_change(PatchPool(name=name, patch=body))
    world.apply_change(CreateSubpool(parent=name, subpool_name="a", quotas=of_a))
    world.check_deferred_constraints()
    return Pool.objects.get(name=name)


def submit_gpus(
    actor: Actor, gpus: int, *flavors: str, to: str = "team--a", priority: Priority = Priority.NORMAL
) -> Workflow:
    """A workflow of one task that may use these flavors; all of its pool if none is named."""
    named = f", gpu_flavors: [{', '.join(flavors)}]" if flavors else ""
    file = f"""
workflow:
  name: job
  resources: {{default: {{gpu: {gpus}{named}}}}}
  tasks:
  - {{name: main, image: x, command: [sh]}}
"""
    receipt = submit(actor=actor, pool=to, submission=Submission(file, priority))
    assert receipt.workflow is not None
    return receipt.workflow
