"""Lists of resources as Slurm writes them: `billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from scheduling.domain.slurm.times import NO_LIMITS, BadSlurmValue

_GPU: Final = "gres/gpu"
_COUNT: Final = re.compile(r"(\d{1,18})(?:\.0{1,6})?([kKmMgGtTpP]?)", re.ASCII)
_PART_OF_A_GPU: Final = re.compile(r"(?:^|[_-])\d+g\.\d+gb", re.ASCII | re.IGNORECASE)
_SCALE: Final = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}


@dataclass(frozen=True, slots=True)
class AllocatedGpus:
    """GPUs of a job. `are_parts`: some are parts of GPUs (MIG), each counted as one; `is_counted`: the list has a
    number of GPUs at all, which may be 0. `kind`: the type of all of them; empty if there is none, or several."""

    gpus: int = 0
    are_parts: bool = False
    is_counted: bool = False
    kind: str = ""


def is_part_of_a_gpu(kind: str) -> bool:
    """Whether a type of GPU is a part of one (MIG): `1g.5gb`, `a100_3g.20gb`, `nvidia_a100-sxm4-40gb_1g.5gb`."""
    return _PART_OF_A_GPU.search(kind) is not None


@lru_cache(maxsize=4096)
def read_gpus(text: str) -> AllocatedGpus:
    """The GPUs of a list. A total counts alone; without one the types are added, because each is a part of the job.
    Raises BadSlurmValue."""
    amounts = _gpu_amounts(text)
    if not amounts:
        return AllocatedGpus()
    types = {key.removeprefix(f"{_GPU}:"): amount for key, amount in amounts.items() if key != _GPU}
    are_parts = any(amount and is_part_of_a_gpu(name) for name, amount in types.items())
    gpus = amounts.get(_GPU, sum(types.values()))
    kind = next((name for name, amount in types.items() if amount == gpus), "") if gpus and not are_parts else ""
    return AllocatedGpus(gpus, are_parts, is_counted=True, kind=kind)


def _gpu_amounts(text: str) -> Mapping[str, int]:
    """The amounts of all keys of GPUs; other resources only have to be KEY=VALUE."""
    found: dict[str, int] = {}
    if text.strip().lower() in NO_LIMITS:
        return found
    for part in text.split(","):
        name, mark, amount = part.strip().partition("=")
        if not mark:
            raise BadSlurmValue("is not a list such as cpu=8,gres/gpu=4")
        key = name.strip().lower()
        if key == _GPU or key.startswith(f"{_GPU}:"):
            match = _COUNT.fullmatch(amount.strip())
            if match is None or key in found:
                raise BadSlurmValue("has a number of GPUs that is not a whole number, or is given twice")
            found[key] = int(match[1]) * _SCALE[match[2].lower()]
    return found
