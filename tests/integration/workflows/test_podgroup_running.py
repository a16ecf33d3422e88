"""PodGroups on the simulated backend, from the manifest to the end: the examples of docs/elastic-gangs.md, also with a
replica that cannot be placed (design, K6; `team` has 70 GPUs of its own and subpool a 30, on four nodes of 32)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Node, Reservation
from scheduling.models import Task
from scheduling.services.verify import verify
from tests.support.world import apply_change, workflow_file
from tests.unit.specs.test_manifest import INFERENCE, TRAINING

ReconcilePool = Callable[[], list[dict[str, Any]]]
WHOLE = {f"prefill-{number}": 8 for number in range(4)}
PENDING, RUNNING, COMPLETED, NEVER = "SCHEDULING", "RUNNING", "COMPLETED", "FAILED_CANCELED"


def manifest(text: str = INFERENCE, **annotations: object) -> str:
    """The manifest with other annotations."""
    named = ", ".join(f"osmo/{name.replace('_', '-')}: {value}" for name, value in annotations.items())
    return text.replace("{osmo/gpus-per-pod: 1}", f"{{{named}}}")


def pods(status: str) -> dict[str, int]:
    """The number of pods of each SubGroup with this status."""
    return dict(Counter(Task.objects.filter(status=status).values_list("sub_group", flat=True)))


def gang_state(alice: Any, name: str = "inference-service-1") -> tuple[str, int, bool]:
    """Status of the workflow, satisfied SubGroups, whether it holds its minimum. `verify` is clean."""
    assert verify() == []
    answer = alice.get(f"/api/workflow/{name}")
    gang = answer["groups"][0]["gang"]
    return answer["status"], gang["count"], gang["satisfied"]


def end(admin: Any, name: str = "inference-service-1") -> str:
    """Report that the gang has completed; returns its status."""
    answer = admin.post(f"/api/workflow/{name}/end", {"status": "COMPLETED"})
    assert admin.status == 200, answer
    return str(answer["status"])


def test_training_job_waits_whole_for_one_worker(alice: Any, admin: Any, reconcile_pool: ReconcilePool) -> None:
    Node.objects.update(gpus=15)  # of each node one worker's 8 fit: 4 of 8
    alice.submit("team", TRAINING)
    reconcile_pool()
    assert gang_state(alice, "training-job-1") == ("PENDING", 0, False)

    Node.objects.update(gpus=16)
    reconcile_pool()
    assert gang_state(alice, "training-job-1") == ("RUNNING", 2, True)
    assert pods(RUNNING) == {
        "decode-leaders": 1, "decode-workers": 4, "prefill-leaders": 1, "prefill-workers": 4,
    }  # fmt: skip
    assert end(admin, "training-job-1") == COMPLETED
    assert gang_state(alice, "training-job-1") == (COMPLETED, 2, True)


@pytest.mark.parametrize("lost", [0, 2])
def test_inference_service_runs_without_the_replica_that_fits_no_node(
    alice: Any, admin: Any, reconcile_pool: ReconcilePool, lost: int
) -> None:
    gpus = {f"prefill-{number}": 64 if number == lost else 1 for number in range(4)}
    alice.submit("team", manifest(gpus_per_pod=gpus).replace("'", ""))
    reconcile_pool()

    rest = {name: count for name, count in WHOLE.items() if name != f"prefill-{lost}"}
    assert gang_state(alice) == ("RUNNING", 3, True)
    assert (pods(RUNNING), pods(PENDING)) == (rest, {f"prefill-{lost}": 8})
    assert reconcile_pool() == []  # the optional replica below its minimum preempts nothing
    assert gang_state(alice) == ("RUNNING", 3, True)
    (tree,) = [group["gang"] for group in alice.get("/api/workflow/inference-service-1")["groups"]]
    assert [sub["name"] for sub in tree["sub_groups"] if sub["optional"]] == [f"prefill-{lost}"]

    assert end(admin) == COMPLETED
    assert (pods(COMPLETED), pods(NEVER)) == (rest, {f"prefill-{lost}": 8})
    assert gang_state(alice) == (COMPLETED, 3, True)


def test_inference_service_runs_without_the_replica_that_exceeds_the_quota(
    alice: Any, admin: Any, reconcile_pool: ReconcilePool
) -> None:
    alice.submit("team--a", INFERENCE)
    reconcile_pool()
    assert gang_state(alice) == ("RUNNING", 3, True)
    assert Reservation.objects.get().held_gpus == 24

    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=32), actor=admin.actor)
    reconcile_pool()
    assert gang_state(alice) == ("RUNNING", 4, True)
    assert Reservation.objects.get().held_gpus == 32
    assert end(admin) == COMPLETED


def test_pods_beyond_the_minimum_start_while_there_is_capacity(
    alice: Any, admin: Any, reconcile_pool: ReconcilePool
) -> None:
    alice.submit("team--a", workflow_file("other", gpus=4))
    alice.submit("team--a", manifest(gpus_per_pod=1, pods="{prefill-1: 12}"))
    reconcile_pool()
    # 26 of the subpool's 30 are left: three replicas and two pods more, one after the other.
    assert gang_state(alice) == ("RUNNING", 3, True)
    assert pods(RUNNING) == {"": 1, "prefill-0": 8, "prefill-1": 10, "prefill-2": 8}

    end(admin, "other-1")
    reconcile_pool()
    assert pods(RUNNING) == {"prefill-0": 8, "prefill-1": 12, "prefill-2": 8}
    assert Reservation.objects.get().held_gpus == 28
    assert gang_state(alice) == ("RUNNING", 3, True)
