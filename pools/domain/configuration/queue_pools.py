"""The pools in which the work of an observed cluster counts, by the names of its queues.

A name is that of a queue of KAI, of a ClusterQueue or, as `NAMESPACE/NAME`, of a LocalQueue of Kueue, or the namespace
of pods without a queue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pools.domain.errors import Fault
from pools.domain.names import SHORT_NAME_PATTERN
from pools.domain.structured_input.config_fields import TEXT
from pools.domain.structured_input.fields import FieldReader, shorten_value

MAX_QUEUES: Final = 5000
MAX_QUEUE_NAME: Final = 512
MAX_POOL_NAME: Final = 128
QUEUE_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$"
QUEUE_POOLS: Final[dict[str, Any]] = {"type": "object", "additionalProperties": TEXT, "maxProperties": MAX_QUEUES}

_QUEUE: Final = re.compile(QUEUE_PATTERN.replace("$", r"\Z"))
_POOL: Final = re.compile(SHORT_NAME_PATTERN.replace("$", r"\Z"))


def read_queue_pools(fields: FieldReader, key: str) -> dict[str, str]:
    """The pools by queue in the input. After a fault they are not usable."""
    nested = fields.nested(key)
    if nested is None:
        return {}
    if len(nested.body) > MAX_QUEUES:
        fields.add_fault(key, Fault.TOO_MANY, f"has {len(nested.body):,} queues; the most is {MAX_QUEUES:,}.")
        return {}
    found = {}
    for queue in nested.body:
        shown = shorten_value(queue)
        if len(queue) > MAX_QUEUE_NAME or not _QUEUE.match(queue):
            rule = f"is not the name of a queue: letters, digits, '-', '_', '.' and '/', at most {MAX_QUEUE_NAME}."
            nested.add_fault(shown, Fault.BAD_NAME, rule)
            continue
        pool = nested.field(queue).text()
        if pool is not None and (len(pool) > MAX_POOL_NAME or not _POOL.match(pool)):
            nested.add_fault(shown, Fault.BAD_VALUE, "must be the name of a pool, or POOL--SUBPOOL.")
        found[queue] = pool or ""
    return dict(sorted(found.items()))


def queue_pools_text(pools: Mapping[str, str]) -> str:
    """The pools as their form has them, one queue a line."""
    return "\n".join(f"{queue} = {pool}" for queue, pool in sorted(pools.items()))


def queue_pools_from_text(text: str) -> dict[str, str]:
    """The JSON of the lines of a form; its reader says what is wrong. Raises ValueError for a queue with two lines."""
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        queue, _, pool = (part.strip() for part in line.partition("="))
        if queue in found:
            raise ValueError
        found[queue] = pool
    return found
