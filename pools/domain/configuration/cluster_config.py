"""The configuration of a Kubernetes backend: a JSON object as the API takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from pools.domain.configuration.queue_pools import read_queue_pools
from pools.domain.errors import Fault
from pools.domain.structured_input.fields import FieldReader

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
