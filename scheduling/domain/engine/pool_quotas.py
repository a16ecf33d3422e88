"""The quotas of a pool's queues in GPUs, by key (`h100/gpu`): what its subpools do not have is the remainder's.

Source: design, D4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pools.domain.values.amounts import GPU, Amount, is_gpu
from scheduling.domain.engine.facts import QueueFacts


@dataclass(frozen=True, slots=True)
class QuotaReturns:
    """A pool of which subpools return quota by themselves. `pool` and `remainder` are queues, and `guarantee` is that
    of the pool by key. `draining`: the subpools that keep what their HIGH and NORMAL work needs. `temporary`: of each
    subpool with a temporary quota its end in seconds since 1970, and the quotas that follow it by key."""

    pool: str
    remainder: str
    guarantee: Mapping[str, Amount]
    draining: tuple[str, ...] = ()
    temporary: Mapping[str, tuple[float, Mapping[str, Amount]]] = field(default_factory=dict)


def gpu_keys(queues: Iterable[QueueFacts]) -> list[str]:
    """The keys of the GPUs of which these queues have quotas."""
    return sorted({key for queue in queues for key in queue.quota or {} if is_gpu(key)} or {GPU})


def gpu_quota(queue: QueueFacts, key: str = GPU) -> Amount:
    """The GPUs of one flavor that are promised to a queue."""
    return (queue.quota or {}).get(key, 0)


def all_gpus(queue: QueueFacts) -> Amount:
    """The GPUs of all flavors that are promised to a queue."""
    return sum(gpu_quota(queue, key) for key in gpu_keys([queue]))


def with_gpu_quota(queue: QueueFacts, quota: Amount, key: str = GPU) -> QueueFacts:
    """The queue with another quota of GPUs of one flavor."""
    return replace(queue, quota={**(queue.quota or {}), key: quota})


def give_remainder(queues: dict[str, QueueFacts], pool: str, remainder: str, guarantee: Mapping[str, Amount]) -> None:
    """Give the remainder of a pool what its subpools leave of these guarantees. The pool has its guarantee, or the sum
    of its parts where that is larger."""
    parts = [queue for queue in queues.values() if queue.parent == pool and queue.name != remainder]
    for key, promised in guarantee.items():
        taken = sum(gpu_quota(part, key) for part in parts)
        left = max(0, promised - taken)
        queues[remainder] = with_gpu_quota(queues[remainder], left, key)
        queues[pool] = with_gpu_quota(queues[pool], max(promised, left + taken), key)
