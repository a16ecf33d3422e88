"""What an attempt lost: the work since its last checkpoint, or since its start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from pools.domain.values.durations import parse_duration

CHECKPOINT_LABEL = "osmo/checkpoint-every"
"""The label of a workflow whose tasks save their state so often, for the first time so long after their start."""

_MILLISECOND = timedelta(milliseconds=1)


def checkpoint_interval(labels: Mapping[str, str]) -> timedelta | None:
    """The time between two checkpoints; None without a valid label."""
    text = labels.get(CHECKPOINT_LABEL)
    every = None if text is None else parse_duration(text)
    return every or None


def lost_since(start: datetime, end: datetime, every: timedelta | None) -> datetime:
    """From when on the work of an attempt is lost."""
    if every is None or end <= start:
        return start
    return start + (end - start) // every * every


def lost_gpu_ms(gpus: int, since: datetime, end: datetime) -> int:
    """GPU-milliseconds, as the record of use counts them."""
    return gpus * max(0, (end - since) // _MILLISECOND)
