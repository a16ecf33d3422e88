"""The configuration of a Kubernetes backend: a JSON object as the API takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from pools.domain.errors import Fault
from pools.domain.names import SHORT_NAME_PATTERN
from pools.domain.structured_input.config_fields import TEXT
from pools.domain.structured_input.fields import FieldReader, shorten_value

KUBERNETES = "kubernetes"
KUBECONFIG, FILE, IN_CLUSTER = "kubeconfig", "file", "in_cluster"
ACCESS_MODES = (KUBECONFIG, FILE, IN_CLUSTER)
MANAGE, OBSERVE = "manage", "observe"
CLUSTER_MODES = (MANAGE, OBSERVE)
APPLY, REPORT, OFF = "apply", "report", "off"
SYNC_MODES = (APPLY, REPORT, OFF)
SCHEDULER = "kai-scheduler"
NODE_POOL_KEY = "kai.scheduler/node-pool"
FILE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
ANSWER_KEYS = ("server", "credential_mark")  # keys that a GET adds

_FILE = re.compile(FILE_PATTERN)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_SCHEDULER = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


# The pools in which the work of an observed cluster counts, by the names of its queues: of a queue of KAI, of a
# ClusterQueue or, as NAMESPACE/NAME, of a LocalQueue of Kueue, or the namespace of pods without a queue.
MAX_QUEUES: Final = 5000
MAX_QUEUE_NAME: Final = 512
MAX_POOL_NAME: Final = 128
QUEUE_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$"
QUEUE_POOLS: Final[dict[str, Any]] = {"type": "object", "additionalProperties": TEXT, "maxProperties": MAX_QUEUES}

_QUEUE: Final = re.compile(QUEUE_PATTERN.replace("$", r"\Z"))
_POOL: Final = re.compile(SHORT_NAME_PATTERN.replace("$", r"\Z"))


class ClusterKeys(TypedDict, total=False):
    """The keys of a Kubernetes backend that are shown."""

    mode: str
    access: str
    kubeconfig_file: str
    context: str
    scheduler_name: str
    node_pool_key: str
    node_pool: str
    sync_mode: str
    queue_pools: dict[str, str]
    owner_label: str
    server: str
    credential_mark: str


KEYS = (*(key for key in ClusterKeys.__annotations__ if key not in ANSWER_KEYS), KUBECONFIG)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The requested configuration of a cluster. None: the key was left out, and the present value stays. `kubeconfig`
    is the text; no answer ever contains it again."""

    mode: str | None = None
    access: str | None = None
    kubeconfig: str | None = None
    kubeconfig_file: str | None = None
    context: str | None = None
    scheduler_name: str | None = None
    node_pool_key: str | None = None
    node_pool: str | None = None
    sync_mode: str | None = None
    queue_pools: Mapping[str, str] | None = None
    owner_label: str | None = None


def read_cluster(fields: FieldReader) -> ClusterSpec:
    """The configuration in the object; faults are added to `fields`. The kind of access follows from the given keys,
    unless it is named."""
    spec = ClusterSpec(
        mode=_read_choice(fields, "mode", CLUSTER_MODES),
        access=_read_choice(fields, "access", ACCESS_MODES),
        kubeconfig=_kubeconfig(fields),
        kubeconfig_file=_read_matching_text(
            fields, "kubeconfig_file", _FILE, "must be the name of a file, without a folder: letters, digits, . _ -"
        ),
        context=fields.read_text("context") if fields.is_given("context") else None,
        scheduler_name=_read_matching_text(
            fields, "scheduler_name", _SCHEDULER, "must be a scheduler's name, lower case"
        ),
        node_pool_key=_read_matching_text(fields, "node_pool_key", _LABEL_KEY, "must be the key of a Kubernetes label"),
        node_pool=_read_matching_text(fields, "node_pool", _LABEL_VALUE, "must be the value of a Kubernetes label"),
        sync_mode=_read_choice(fields, "sync_mode", SYNC_MODES),
        queue_pools=read_queue_pools(fields, "queue_pools") if fields.is_given("queue_pools") else None,
        owner_label=_read_matching_text(fields, "owner_label", _LABEL_KEY, "must be the key of a Kubernetes label"),
    )
    given = [way for way, value in ((KUBECONFIG, spec.kubeconfig), (FILE, spec.kubeconfig_file)) if value]
    if len(given) > 1:
        fields.add_fault(
            "access", Fault.BAD_VALUE, "is given twice: send a kubeconfig or the name of a file, not both."
        )
    elif given and spec.access not in {None, given[0]}:
        fields.add_fault("access", Fault.BAD_VALUE, f"must be {given[0]}, which is what was sent.")
    return spec


def _kubeconfig(fields: FieldReader) -> str | None:
    value = fields.body.get(KUBECONFIG)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        fields.add_fault(KUBECONFIG, Fault.BAD_VALUE, "must be the text of a kubeconfig.")
        return None
    return value


def _read_choice(fields: FieldReader, key: str, allowed: tuple[str, ...]) -> str | None:
    if not fields.is_given(key):
        return None
    value = fields.read_text(key)
    if value not in allowed:
        fields.add_fault(key, Fault.BAD_VALUE, f"must be one of {', '.join(allowed)}.")
    return value


def _read_matching_text(fields: FieldReader, key: str, pattern: re.Pattern[str], rule: str) -> str | None:
    if not fields.is_given(key):
        return None
    value = fields.read_text(key)
    if value and not pattern.fullmatch(value):
        fields.add_fault(key, Fault.BAD_VALUE, f"{rule}.")
    return value


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
